"use strict";
// The robot in 3D: forward kinematics, meshes, lines and an orbiting camera on WebGL 2. No library, no network.
// Text is only ever set as textContent: names come from files that nobody checked.

function html(tag, attributes = {}, parent = null, text) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}

function bytes(text) {
  const raw = atob(text), out = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k += 1) out[k] = raw.charCodeAt(k);
  return out.buffer;
}
const floats = (text) => new Float32Array(bytes(text));
const integers = (text) => new Int32Array(bytes(text));

// --- 4x4 matrices, row by row as in the data

const mul = (a, b) => {
  const out = new Float64Array(16);
  for (let i = 0; i < 4; i += 1) {
    for (let j = 0; j < 4; j += 1) {
      let sum = 0;
      for (let k = 0; k < 4; k += 1) sum += a[4 * i + k] * b[4 * k + j];
      out[4 * i + j] = sum;
    }
  }
  return out;
};
const identity = () => Float64Array.from([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
const point = (T, p) => [0, 1, 2].map((i) => T[4 * i] * p[0] + T[4 * i + 1] * p[1] + T[4 * i + 2] * p[2] + T[4 * i + 3]);
const columns = (T) => Float32Array.from({ length: 16 }, (_, k) => T[4 * (k % 4) + Math.floor(k / 4)]);
const minus = (a, b) => a.map((x, k) => x - b[k]);
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const size = (a) => Math.hypot(...a);
const unit = (a) => a.map((x) => x / (size(a) || 1));

// T_j = T_parent zero_j Rot(z, q_j) or Trans(z, q_j), with q = G q_active + offset; [0] is the base link.
function frames(robot, active) {
  const out = [identity()];
  robot.joints.forEach((joint, j) => {
    let q = robot.offset[j];
    robot.G[j].forEach((g, k) => { q += g * active[k]; });
    const move = identity();
    if (joint.prismatic) move[11] = q;
    else {
      move[0] = move[5] = Math.cos(q);
      move[4] = Math.sin(q);
      move[1] = -move[4];
    }
    out.push(mul(mul(joint.parent ? out[joint.parent] : robot.base, joint.zero), move));
  });
  return out;
}

// --- shapes as triangles: {position, normal, index}

const CREASE = Math.cos(40 * Math.PI / 180);

function meshOf(data) {
  const raw = new Uint16Array(bytes(data.vertices)), corner = new Uint32Array(bytes(data.triangles));
  const at = (v) => [0, 1, 2].map((k) => data.low[k] + data.step[k] * raw[3 * v + k]);
  const count = corner.length / 3, flat = [], around = new Map();
  for (let f = 0; f < count; f += 1) {
    const [a, b, c] = [0, 1, 2].map((k) => at(corner[3 * f + k]));
    flat.push(cross(minus(b, a), minus(c, a)));
    for (let k = 0; k < 3; k += 1) {
      const v = corner[3 * f + k];
      if (!around.has(v)) around.set(v, []);
      around.get(v).push(f);
    }
  }
  // Each corner takes the mean normal of the faces around it that are not beyond a crease.
  const position = new Float32Array(9 * count), normal = new Float32Array(9 * count);
  for (let f = 0; f < count; f += 1) {
    const own = unit(flat[f]);
    for (let k = 0; k < 3; k += 1) {
      const v = corner[3 * f + k], sum = [0, 0, 0];
      for (const g of around.get(v)) {
        const other = flat[g], length = size(other);
        if (length && dot(own, other) > CREASE * length) for (let i = 0; i < 3; i += 1) sum[i] += other[i];
      }
      position.set(at(v), 9 * f + 3 * k);
      normal.set(size(sum) ? unit(sum) : own, 9 * f + 3 * k);
    }
  }
  return { position, normal };
}

function lathe(profile, around = 32) {
  // profile: [radius, z, normal's radius, normal's z] from one end to the other
  const position = [], normal = [];
  for (let k = 0; k + 1 < profile.length; k += 1) {
    for (let i = 0; i < around; i += 1) {
      const corner = (p, s) => {
        const angle = 2 * Math.PI * s / around, c = Math.cos(angle), n = Math.sin(angle);
        return [[p[0] * c, p[0] * n, p[1]], [p[2] * c, p[2] * n, p[3]]];
      };
      const [a, b, c, d] = [corner(profile[k], i), corner(profile[k], i + 1), corner(profile[k + 1], i + 1), corner(profile[k + 1], i)];
      for (const [p, n] of [a, b, c, a, c, d]) { position.push(...p); normal.push(...n); }
    }
  }
  return { position: Float32Array.from(position), normal: Float32Array.from(normal) };
}

function capsuleShape(radius, length) {
  const profile = [];
  for (let k = 0; k <= 16; k += 1) {
    const angle = Math.PI * (k / 16 - 0.5), c = Math.cos(angle), s = Math.sin(angle);
    profile.push([radius * c, radius * s + (k < 8 ? -length / 2 : length / 2), c, s]);
    if (k === 8) profile.splice(8, 0, [radius, -length / 2, 1, 0]);
  }
  return lathe(profile);
}

function shapeOf(body, meshes) {
  const [a, b, c] = body.size;
  if (body.kind === "mesh") return meshOf(meshes[body.mesh]);
  if (body.kind === "sphere") return capsuleShape(a, 0);
  if (body.kind === "capsule") return capsuleShape(a, b);
  if (body.kind === "cylinder") {
    const h = b / 2;
    return lathe([[0, -h, 0, -1], [a, -h, 0, -1], [a, -h, 1, 0], [a, h, 1, 0], [a, h, 0, 1], [0, h, 0, 1]]);
  }
  const position = [], normal = [];
  for (const [axis, side] of [[0, 1], [0, -1], [1, 1], [1, -1], [2, 1], [2, -1]]) {
    const n = [0, 0, 0], u = [0, 0, 0], v = [0, 0, 0];
    n[axis] = side; u[(axis + 1) % 3] = side; v[(axis + 2) % 3] = 1;
    const at = (s, t) => [0, 1, 2].map((k) => (n[k] + s * u[k] + t * v[k]) * [a, b, c][k] / 2);
    for (const p of [at(-1, -1), at(1, -1), at(1, 1), at(-1, -1), at(1, 1), at(-1, 1)]) { position.push(...p); normal.push(...n); }
  }
  return { position: Float32Array.from(position), normal: Float32Array.from(normal) };
}

// The pose whose z axis goes from a to b, with its origin in the middle.
function between(a, b) {
  const way = minus(b, a), z = size(way) ? unit(way) : [0, 0, 1];
  const x = unit(cross(z, Math.abs(z[2]) < 0.9 ? [0, 0, 1] : [1, 0, 0])), y = cross(z, x);
  const m = a.map((v, k) => (v + b[k]) / 2);
  return Float64Array.from([x[0], y[0], z[0], m[0], x[1], y[1], z[1], m[1], x[2], y[2], z[2], m[2], 0, 0, 0, 1]);
}

const SOLID = [`#version 300 es
uniform mat4 model, view, projection;
in vec3 position, normal;
out vec3 n, p;
void main() {
  vec4 seen = view * model * vec4(position, 1.0);
  p = seen.xyz;
  n = mat3(view) * mat3(model) * normal;
  gl_Position = projection * seen;
}`, `#version 300 es
precision highp float;
uniform vec4 colour;
uniform vec3 sky;
in vec3 n, p;
out vec4 result;
void main() {
  vec3 m = normalize(n), eye = normalize(-p);
  if (dot(m, eye) < 0.0) m = -m;
  vec3 lamp = normalize(eye + vec3(0.35, 0.5, 0.1));
  float diffuse = max(dot(m, lamp), 0.0), above = 0.5 + 0.5 * dot(m, sky);
  float shine = pow(max(dot(m, normalize(lamp + eye)), 0.0), 40.0);
  result = vec4((0.05 + 0.95 * colour.rgb) * (0.3 + 0.3 * above + 0.62 * diffuse) + 0.12 * shine, colour.a);
}`];
const LINE = [`#version 300 es
uniform mat4 view, projection;
in vec3 position;
in vec4 tint;
out vec4 shade;
void main() { shade = tint; gl_Position = projection * view * vec4(position, 1.0); }`, `#version 300 es
precision highp float;
in vec4 shade;
out vec4 result;
void main() { result = shade; }`];

class Viewer {
  constructor(box, robot) {
    this.robot = robot;
    this.show = { path: true, collision: false, nearest: true, surroundings: true };
    this.canvas = html("canvas", { class: "view", tabindex: "0", "aria-label": "robot in 3D: drag to turn, wheel to zoom" }, box);
    this.gl = this.canvas.getContext("webgl2", { antialias: true, alpha: true, preserveDrawingBuffer: true });
    this.q = robot.active.map(() => 0);
    this.ghost = null;
    this.nearest = null;
    this.pathLines = null;
    this.lines = new Map();
    this.obstacles = [];
    this.pickObstacle = this.moveObstacle = null; // told which obstacle was clicked, and where one was moved
    this.drawn = 0;
    if (!this.gl) {
      html("p", { class: "nogl" }, box, "This browser has no WebGL 2: the robot is not drawn, everything else works.");
      return;
    }
    this.solid = this.program(SOLID, ["position", "normal"]);
    this.flat = this.program(LINE, ["position", "tint"]);
    this.bodies = robot.bodies.map((body) => ({ body, buffer: this.buffer(shapeOf(body, robot.meshes)) }));
    this.capsules = robot.capsules.map((c) => ({
      joint: c.joint, pose: between(c.a, c.b), buffer: this.buffer(capsuleShape(c.radius, size(minus(c.b, c.a)))),
    }));
    this.ball = this.buffer(capsuleShape(1, 0));
    this.extent();
    this.home();
    this.listen();
    new ResizeObserver(() => this.request()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.surround(); this.request(); });
    this.surround();
    this.request();
  }

  // --- what is shown

  pose(q) { this.q = q; this.request(); }

  set(name, on) { this.show[name] = on; this.request(); }

  path(points) {
    // points: lists of places, one for each tip
    this.setLines("path", points.flatMap((list, k) => {
      const colour = [[0.85, 0.28, 0.06, 0.9], [0.11, 0.49, 0.84, 0.9], [0.5, 0.2, 0.65, 0.9], [0.1, 0.55, 0.3, 0.9]][k % 4];
      return list.slice(1).map((p, i) => [list[i], p, colour]);
    }));
  }

  setObstacles(entries, chosen = -1) {
    if (!this.gl) return;
    this.obstacles.forEach((one) => one.parts.forEach(({ buffer }) => this.gl.deleteVertexArray(buffer.array)));
    this.obstacles = entries.map((entry, k) => ({
      entry, chosen: k === chosen, pose: poseOf(entry),
      parts: partsOf(entry).map((part) => { const shape = shapeOf(part, []); return { pose: part.pose, shape, buffer: this.buffer(shape) }; }),
    }));
    this.request();
  }

  // --- size of the scene and camera

  extent() {
    const T = frames(this.robot, this.q);
    let low = [0, 0, 0], high = [0, 0, 0];
    const take = (p) => p.forEach((x, k) => { low[k] = Math.min(low[k], x); high[k] = Math.max(high[k], x); });
    for (const { body, buffer } of this.bodies) {
      const pose = mul(T[body.joint], body.pose);
      for (let k = 0; k < 8; k += 1) take(point(pose, buffer.corners[k]));
    }
    T.slice(1).forEach((t) => take(point(t, [0, 0, 0])));
    this.low = low; this.high = high;
    this.reach = Math.max(size(minus(high, low)) / 2, 0.05);
  }

  fit(points) {
    // also what the motion reaches
    for (const p of points) p.forEach((x, k) => { this.low[k] = Math.min(this.low[k], x); this.high[k] = Math.max(this.high[k], x); });
    this.reach = Math.max(size(minus(this.high, this.low)) / 2, 0.05);
    if (this.gl) { this.home(); this.surround(); this.request(); }
  }

  home() {
    this.centre = this.low.map((x, k) => (x + this.high[k]) / 2);
    this.azimuth = -0.9; this.height = 0.42; this.distance = 2.5 * this.reach;
  }

  axes() {
    // z against gravity, so that an arm on a wall or a ceiling is drawn as it hangs
    const z = unit(this.robot.up), x = unit(cross(Math.abs(z[1]) < 0.9 ? [0, 1, 0] : [1, 0, 0], z));
    return [x, cross(z, x), z];
  }

  camera() {
    const [x, y, z] = this.axes(), c = Math.cos(this.height);
    const out = [0, 1, 2].map((k) => c * Math.cos(this.azimuth) * x[k] + c * Math.sin(this.azimuth) * y[k] + Math.sin(this.height) * z[k]);
    const right = unit(cross(z, out)), up = cross(out, right);
    const eye = this.centre.map((p, k) => p + this.distance * out[k]);
    const view = Float64Array.from([...right, -dot(right, eye), ...up, -dot(up, eye), ...out, -dot(out, eye), 0, 0, 0, 1]);
    return { view, right, up, out, eye, sky: [dot(right, z), dot(up, z), dot(out, z)] };
  }

  // The ray of a pointer: from the eye in a direction.
  ray(e) {
    const { right, up, out, eye } = this.camera(), frame = this.canvas.getBoundingClientRect();
    const f = 1.9 * Math.min(1, frame.width / frame.height);
    const x = (2 * (e.clientX - frame.left) / frame.width - 1) * frame.width / frame.height / f, y = (1 - 2 * (e.clientY - frame.top) / frame.height) / f;
    return [eye, unit([0, 1, 2].map((k) => x * right[k] + y * up[k] - out[k]))];
  }

  // The obstacle that a ray meets first, and where; null if it meets none.
  hit([eye, way]) {
    let best = null;
    this.obstacles.forEach(({ pose, parts }, k) => {
      for (const part of parts) {
        const T = mul(pose, part.pose), p = part.shape.position;
        for (let i = 0; i < p.length; i += 9) {
          const [a, b, c] = [0, 3, 6].map((j) => point(T, [p[i + j], p[i + j + 1], p[i + j + 2]]));
          const u = minus(b, a), v = minus(c, a), h = cross(way, v), det = dot(u, h);
          if (Math.abs(det) < 1e-12) continue;
          const s = minus(eye, a), r = dot(s, h) / det, q = cross(s, u), t = dot(way, q) / det, far = dot(v, q) / det;
          if (r >= 0 && t >= 0 && r + t <= 1 && far > 0 && (!best || far < best.far)) best = { k, far, at: eye.map((x, j) => x + far * way[j]) };
        }
      }
    });
    return best;
  }

  // Begin to move an obstacle that the pointer is on: in the plane of the floor, with Shift up and down.
  grab(e) {
    const found = this.pickObstacle && this.hit(this.ray(e));
    if (!found) return false;
    this.pickObstacle(found.k);
    this.grabbed = { k: found.k, from: found.at, at: [...this.obstacles[found.k].entry.at], y: e.clientY };
    return true;
  }

  drag(e) {
    const { k, from, at } = this.grabbed, [eye, way] = this.ray(e), z = this.axes()[2];
    let step;
    if (e.shiftKey) {
      const scale = size(minus(from, eye)) / (1.9 * this.canvas.clientHeight / 2) / Math.max(0.2, Math.cos(this.height));
      step = z.map((x) => x * scale * (this.grabbed.y - e.clientY));
    } else {
      const slope = dot(way, z), far = dot(minus(from, eye), z) / slope;
      if (Math.abs(slope) < 0.05 || far <= 0 || far > 20 * this.distance) return;
      step = eye.map((x, j) => x + far * way[j] - from[j]);
    }
    this.moveObstacle(k, at.map((x, j) => Math.round(1000 * (x + step[j])) / 1000));
  }

  listen() {
    const held = new Map();
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (e) => {
      canvas.setPointerCapture(e.pointerId);
      if (e.button || held.size || !this.grab(e)) held.set(e.pointerId, e);
    });
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (e) => { held.delete(e.pointerId); this.grabbed = null; });
    canvas.addEventListener("pointermove", (e) => {
      if (this.grabbed) { this.drag(e); return; }
      const last = held.get(e.pointerId);
      if (!last) return;
      const dx = e.clientX - last.clientX, dy = e.clientY - last.clientY;
      if (held.size > 1) {
        const other = [...held.values()].find((one) => one.pointerId !== e.pointerId);
        const gap = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
        this.zoom(gap(last) / gap(e));
      } else if (e.shiftKey || last.buttons & 6) this.pan(dx, dy);
      else {
        this.azimuth -= 0.008 * dx;
        this.height = Math.min(1.55, Math.max(-1.55, this.height + 0.008 * dy));
      }
      held.set(e.pointerId, e);
      this.request();
    });
    canvas.addEventListener("contextmenu", (e) => e.preventDefault());
    canvas.addEventListener("wheel", (e) => { e.preventDefault(); this.zoom(Math.exp(0.001 * e.deltaY)); this.request(); }, { passive: false });
    canvas.addEventListener("dblclick", () => { this.home(); this.request(); });
  }

  zoom(factor) { this.distance = Math.min(50 * this.reach, Math.max(0.15 * this.reach, this.distance * factor)); }

  pan(dx, dy) {
    const { right, up } = this.camera(), scale = this.distance / this.canvas.clientHeight;
    this.centre = this.centre.map((p, k) => p + scale * (up[k] * dy - right[k] * dx));
  }

  // --- floor, box, grid

  surround() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches, ink = dark ? 0.75 : 0.3;
    const faint = [ink, ink, ink, dark ? 0.2 : 0.22], { floor, box } = this.robot;
    const step = 10 ** Math.floor(Math.log10(this.reach)), n = Math.min(20, Math.max(4, Math.ceil(1.6 * this.reach / step)));
    const z = floor === null ? Math.min(0, this.low[2]) : floor;
    const tone = floor === null ? faint : [0.1, 0.45, 0.8, 0.55];
    const grid = [];
    for (let k = -n; k <= n; k += 1) {
      grid.push([[k * step, -n * step, z], [k * step, n * step, z], k ? tone : [...tone.slice(0, 3), 0.6]]);
      grid.push([[-n * step, k * step, z], [n * step, k * step, z], k ? tone : [...tone.slice(0, 3), 0.6]]);
    }
    this.setLines("grid", grid);
    if (!box) return;
    const far = 4 * this.reach, edge = box.map((x, k) => (x === null ? (k % 2 ? far : -far) : x)), lines = [];
    for (const [i, j, k] of [[0, 1, 2], [1, 2, 0], [2, 0, 1]]) {
      for (const a of [0, 1]) {
        for (const b of [0, 1]) {
          if (box[2 * j + a] === null || box[2 * k + b] === null) continue;
          const from = [0, 0, 0], to = [0, 0, 0];
          from[i] = edge[2 * i]; to[i] = edge[2 * i + 1];
          from[j] = to[j] = edge[2 * j + a]; from[k] = to[k] = edge[2 * k + b];
          lines.push([from, to, [0.1, 0.45, 0.8, 0.9]]);
        }
      }
    }
    this.setLines("box", lines);
  }

  // --- WebGL

  program(sources, attributes) {
    const gl = this.gl, program = gl.createProgram();
    sources.forEach((source, k) => {
      const shader = gl.createShader(k ? gl.FRAGMENT_SHADER : gl.VERTEX_SHADER);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(program, shader);
    });
    attributes.forEach((name, k) => gl.bindAttribLocation(program, k, name));
    gl.linkProgram(program);
    const at = new Map();
    return { program, place: (name) => {
      if (!at.has(name)) at.set(name, gl.getUniformLocation(program, name));
      return at.get(name);
    } };
  }

  buffer({ position, normal }) {
    const gl = this.gl, array = gl.createVertexArray();
    gl.bindVertexArray(array);
    [position, normal].forEach((data, k) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
      gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
      gl.enableVertexAttribArray(k);
      gl.vertexAttribPointer(k, 3, gl.FLOAT, false, 0, 0);
    });
    gl.bindVertexArray(null);
    const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
    for (let i = 0; i < position.length; i += 1) {
      low[i % 3] = Math.min(low[i % 3], position[i]);
      high[i % 3] = Math.max(high[i % 3], position[i]);
    }
    const corners = Array.from({ length: 8 }, (_, k) => [0, 1, 2].map((i) => ((k >> i) & 1 ? high[i] : low[i])));
    return { array, count: position.length / 3, corners };
  }

  setLines(name, list) {
    // list: [from, to, colour]
    if (!this.gl) return;
    const gl = this.gl, data = new Float32Array(14 * list.length);
    list.forEach(([from, to, colour], k) => { data.set([...from, ...colour, ...to, ...colour], 14 * k); });
    let entry = this.lines.get(name);
    if (!entry) {
      entry = { array: gl.createVertexArray(), store: gl.createBuffer() };
      this.lines.set(name, entry);
      gl.bindVertexArray(entry.array);
      gl.bindBuffer(gl.ARRAY_BUFFER, entry.store);
      for (const [k, n, offset] of [[0, 3, 0], [1, 4, 12]]) {
        gl.enableVertexAttribArray(k);
        gl.vertexAttribPointer(k, n, gl.FLOAT, false, 28, offset);
      }
      gl.bindVertexArray(null);
    }
    entry.count = 2 * list.length;
    gl.bindBuffer(gl.ARRAY_BUFFER, entry.store);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.DYNAMIC_DRAW);
  }

  request() {
    if (!this.gl || this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.draw(); });
  }

  draw() {
    const gl = this.gl, canvas = this.canvas, ratio = Math.min(devicePixelRatio || 1, 2);
    const width = Math.max(1, Math.round(canvas.clientWidth * ratio)), height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.enable(gl.DEPTH_TEST);
    gl.enable(gl.BLEND);
    gl.blendFuncSeparate(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA, gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    const near = 0.02 * this.distance, far = this.distance + 12 * this.reach, narrow = Math.min(1, width / height);
    const f = 1.9 * narrow, a = (far + near) / (near - far), b = 2 * far * near / (near - far);
    const projection = Float64Array.from([f * height / width, 0, 0, 0, 0, f, 0, 0, 0, 0, a, b, 0, 0, -1, 0]);
    const { view, sky } = this.camera();
    for (const { program, place } of [this.solid, this.flat]) {
      gl.useProgram(program);
      gl.uniformMatrix4fv(place("view"), false, columns(view));
      gl.uniformMatrix4fv(place("projection"), false, columns(projection));
    }
    const wanted = { grid: true, box: this.show.surroundings, path: this.show.path, nearest: this.show.nearest };
    for (const [name, entry] of this.lines) {
      if (!wanted[name] || !entry.count) continue;
      gl.bindVertexArray(entry.array);
      gl.drawArrays(gl.LINES, 0, entry.count);
    }
    gl.useProgram(this.solid.program);
    gl.uniform3fv(this.solid.place("sky"), sky);
    const T = frames(this.robot, this.q);
    const dim = this.show.collision ? 0.45 : 1;
    this.draws(this.bodies.filter(({ body }) => body.colour[3] * dim >= 1), T, 1);
    if (this.show.nearest && this.nearest) this.pair();
    gl.depthMask(!(dim < 1));
    this.draws(this.bodies.filter(({ body }) => body.colour[3] * dim < 1), T, dim);
    for (const { pose, parts, chosen } of this.obstacles) {
      for (const part of parts) this.one(part.buffer, mul(pose, part.pose), chosen ? [0.9, 0.32, 0.05, 0.8 * dim] : [0.93, 0.58, 0.16, 0.6 * dim]);
    }
    gl.depthMask(true);
    if (this.show.collision) {
      gl.depthMask(false);
      for (const { joint, pose, buffer } of this.capsules) this.one(buffer, mul(T[joint], pose), [0.1, 0.6, 0.35, 0.3]);
      gl.depthMask(true);
    }
    if (this.ghost) {
      // depth first, then colour, so that a ghost is one veil and not its many surfaces
      const G = frames(this.robot, this.ghost);
      gl.enable(gl.POLYGON_OFFSET_FILL);
      gl.polygonOffset(1, 4); // where ghost and robot coincide, the robot is seen
      gl.colorMask(false, false, false, false);
      this.draws(this.bodies, G, 0.25);
      gl.colorMask(true, true, true, true);
      gl.depthFunc(gl.LEQUAL);
      this.draws(this.bodies, G, 0.32, [0.16, 0.5, 0.9]);
      gl.depthFunc(gl.LESS);
      gl.disable(gl.POLYGON_OFFSET_FILL);
    }
    this.drawn += 1;
  }

  draws(bodies, T, alpha, colour) {
    for (const { body, buffer } of bodies) {
      this.one(buffer, mul(T[body.joint], body.pose), [...(colour || body.colour.slice(0, 3)), alpha * (colour ? 1 : body.colour[3])]);
    }
  }

  one(buffer, pose, colour) {
    const gl = this.gl;
    gl.uniformMatrix4fv(this.solid.place("model"), false, columns(pose));
    gl.uniform4fv(this.solid.place("colour"), colour);
    gl.bindVertexArray(buffer.array);
    gl.drawArrays(gl.TRIANGLES, 0, buffer.count);
  }

  pair() {
    const { p, r, near } = this.nearest, colour = near ? [0.85, 0.1, 0.1, 1] : [0.85, 0.45, 0, 1];
    const s = 0.012 * this.reach;
    for (const at of [p, r]) {
      this.one(this.ball, Float64Array.from([s, 0, 0, at[0], 0, s, 0, at[1], 0, 0, s, at[2], 0, 0, 0, 1]), colour);
    }
    const T = between(p, r), length = Math.max(size(minus(r, p)) / 2, 1e-6), w = 0.35 * s;
    for (const i of [0, 1, 2]) { T[4 * i] *= w; T[4 * i + 1] *= w; T[4 * i + 2] *= length; }
    this.one(this.ball, T, colour);
  }
}
