"use strict";
// Draws the page from the JSON in #data. Text is only ever set as textContent: names come from files that nobody checked.
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 54, right: 8, top: 8, bottom: 32 };
const redraws = new Set();

function svg(tag, attributes, parent, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}

function html(tag, attributes = {}, parent = null, text) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}

function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(digits - 2) : String(+value.toPrecision(digits));
}

function ticks(low, high, count = 5) {
  const step = 10 ** Math.floor(Math.log10((high - low) / count || 1));
  const nice = [1, 2, 5, 10].map((k) => k * step).find((s) => (high - low) / s <= count + 1) || step;
  const marks = [];
  for (let k = Math.ceil(low / nice); k * nice <= high + nice * 1e-9; k += 1) marks.push(+(k * nice).toPrecision(12));
  return marks;
}

function extent(lists, fallback = [0, 1]) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) for (const v of list) if (v !== null && v < low) low = v;
  for (const list of lists) for (const v of list) if (v !== null && v > high) high = v;
  if (!(low < Infinity)) return fallback;
  const pad = (high - low || Math.abs(high) || 1) * 0.04;
  return [low - pad, high + pad];
}

function figure(parent, title, keys, wide) {
  const box = html("figure", wide ? { class: "wide" } : {}, parent);
  const caption = html("figcaption", {}, box);
  html("b", {}, caption, title);
  for (const [key, label] of keys) {
    const span = html("span", {}, caption);
    html("i", { class: `key ${key}` }, span);
    span.append(label);
  }
  return box;
}

// An SVG as wide as its box, one unit a pixel, so that text keeps its size; drawn again when the window changes.
function picture(box, height, label, draw) {
  const root = svg("svg", { class: "chart", role: "img", "aria-label": label }, box);
  const redraw = () => {
    if (!root.isConnected) { redraws.delete(redraw); return; }
    const width = Math.max(240, Math.round(root.getBoundingClientRect().width));
    root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    root.replaceChildren();
    draw(root, width);
  };
  redraws.add(redraw);
  redraw();
  // A neighbour that comes later makes this one narrower.
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (Math.round(root.getBoundingClientRect().width) !== root.viewBox.baseVal.width) redraw();
  })).observe(root);
  return { root, redraw };
}

function axes(root, width, height, x, y, xlabel, ylabel) {
  const px = (v) => MARGIN.left + ((v - x[0]) / (x[1] - x[0])) * (width - MARGIN.left - MARGIN.right);
  const py = (v) => height - MARGIN.bottom - ((v - y[0]) / (y[1] - y[0])) * (height - MARGIN.top - MARGIN.bottom);
  for (const v of ticks(...x, width / 90)) {
    svg("line", { class: "grid", x1: px(v), x2: px(v), y1: MARGIN.top, y2: height - MARGIN.bottom }, root);
    svg("text", { x: px(v), y: height - MARGIN.bottom + 13, "text-anchor": "middle" }, root, number(v));
  }
  for (const v of ticks(...y, 4)) {
    svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: py(v), y2: py(v) }, root);
    svg("text", { x: MARGIN.left - 5, y: py(v) + 4, "text-anchor": "end" }, root, number(v, 3));
  }
  svg("text", { x: width - MARGIN.right, y: height - 3, "text-anchor": "end" }, root, xlabel);
  svg("text", { x: 11, y: height / 2, "text-anchor": "middle", transform: `rotate(-90 11 ${height / 2})` }, root, ylabel);
  return { px, py };
}

// Lines over x. Drag to zoom, double-click to see all; charts of one group zoom together.
function lines(box, { x, series, xlabel, ylabel, height = 190, group = [] }) {
  const full = [x[0], x[x.length - 1] > x[0] ? x[x.length - 1] : x[0] + 1];
  let range = full, scale = 1;
  const { root, redraw } = picture(box, height, ylabel, (node, width) => {
    let from = Math.max(0, x.findIndex((v) => v >= range[0]) - 1), to = x.length;
    while (to > from + 1 && x[to - 2] > range[1]) to--;
    const y = extent(series.map((s) => s.y.slice(from, to)));
    const { px, py } = axes(node, width, height, range, y, xlabel, ylabel);
    scale = (width - MARGIN.left - MARGIN.right) / (range[1] - range[0]);
    const id = `clip${(lines.count = (lines.count || 0) + 1)}`;
    svg("rect", { x: MARGIN.left, y: 0, width: width - MARGIN.left - MARGIN.right, height }, svg("clipPath", { id }, node));
    for (const s of series) {
      let path = "", pen = "M";
      for (let k = from; k < to; k++) {
        if (s.y[k] === null) { pen = "M"; continue; }
        path += `${pen}${px(x[k]).toFixed(1)} ${py(s.y[k]).toFixed(1)}`;
        pen = "L";
      }
      svg("path", { class: `series ${s.kind}`, d: path, "clip-path": `url(#${id})` }, node);
    }
  });
  group.push((to) => { range = to || full; redraw(); });
  const place = (event) => {
    const at = range[0] + (event.clientX - root.getBoundingClientRect().left - MARGIN.left) / scale;
    return Math.min(range[1], Math.max(range[0], at));
  };
  let start = null, mark = null;
  const end = () => { start = null; if (mark) mark.remove(); mark = null; };
  root.addEventListener("pointerdown", (event) => { start = place(event); root.setPointerCapture(event.pointerId); });
  root.addEventListener("pointermove", (event) => {
    if (start === null) return;
    const now = place(event);
    if (mark) mark.remove();
    mark = svg("rect", { class: "select", x: MARGIN.left + (Math.min(start, now) - range[0]) * scale, y: MARGIN.top,
      width: Math.abs(now - start) * scale, height: height - MARGIN.top - MARGIN.bottom }, root);
  });
  root.addEventListener("pointerup", (event) => {
    const now = place(event), pair = start === null ? [0, 0] : [Math.min(start, now), Math.max(start, now)];
    end();
    if (pair[1] - pair[0] > (range[1] - range[0]) * 0.01) group.forEach((zoom) => zoom(pair));
  });
  root.addEventListener("pointercancel", end);
  root.addEventListener("dblclick", () => group.forEach((zoom) => zoom(null)));
}

function bars(box, { heights, labels, xlabel, ylabel, log = false, weak = () => false, height = 190 }) {
  const value = (v) => (log ? Math.log10(Math.max(v, 1e-300)) : v);
  picture(box, height, ylabel, (root, width) => {
    const shown = heights.map(value), y = log ? extent([shown]) : [0, Math.max(...shown, 1e-12) * 1.05];
    const { px, py } = axes(root, width, height, [0, heights.length], y, xlabel, log ? `log10 ${ylabel}` : ylabel);
    heights.forEach((v, k) => {
      const top = py(value(v));
      const bar = svg("rect", { class: weak(k) ? "bar weak" : "bar", x: px(k + 0.08), y: top,
        width: px(k + 0.92) - px(k + 0.08), height: Math.max(0, height - MARGIN.bottom - top) }, root);
      svg("title", {}, bar, `${labels ? labels[k] : k + 1}: ${number(v)}`);
    });
  });
}

function histogram(box, { edges, counts, xlabel, sigma, height = 190 }) {
  const total = counts.reduce((a, b) => a + b, 0) || 1, step = edges[1] - edges[0] || 1, last = edges[edges.length - 1];
  const bell = (v) => (total * step * Math.exp(-0.5 * (v / sigma) ** 2)) / (sigma * Math.sqrt(2 * Math.PI));
  const curve = Array.from({ length: 101 }, (_, k) => edges[0] + ((last - edges[0]) * k) / 100);
  picture(box, height, "histogram", (root, width) => {
    const top = Math.max(...counts, sigma ? bell(0) : 0) * 1.05 || 1;
    const { px, py } = axes(root, width, height, [edges[0], last], [0, top], xlabel, "rows");
    counts.forEach((count, k) => svg("rect", { class: "bar", x: px(edges[k]), y: py(count),
      width: Math.max(0.5, px(edges[k + 1]) - px(edges[k]) - 0.5), height: py(0) - py(count) }, root));
    if (sigma) path(root, curve.map((v) => [px(v), py(bell(v))]));
  });
}

// shade: a number for each dot, drawn from blue (small) to red (large); more: further curves; band: half width of curve
function scatter(box, { x, y, curve = { x: [], y: [] }, shade = [], band = [], more = [], xlabel, ylabel, height = 190 }) {
  picture(box, height, ylabel, (root, width) => {
    const { px, py } = axes(root, width, height, extent([x, curve.x]), extent([y, curve.y]), xlabel, ylabel);
    const dots = svg("g", { class: "dots" }, root), top = Math.max(...shade.map((v) => v || 0), 1e-300);
    x.forEach((v, k) => {
      if (v === null || y[k] === null) return;
      const colour = shade.length ? { style: `fill: hsl(${Math.round(220 * (1 - (shade[k] || 0) / top))} 70% 50%)` } : {};
      svg("circle", { cx: px(v).toFixed(1), cy: py(y[k]).toFixed(1), r: 1.6, ...colour }, dots);
    });
    [-1, 1].forEach((side) => {
      if (band.length) path(root, curve.x.map((v, k) => [px(v), py(curve.y[k] + side * (band[k] || 0))]), "series band");
    });
    more.forEach((line) => path(root, line.x.map((v, k) => [px(v), py(line.y[k])]), "series prior"));
    if (curve.x.length) path(root, curve.x.map((v, k) => [px(v), py(curve.y[k])]));
  });
}

function path(root, points, kind = "series predicted") {
  svg("path", { class: kind, d: "M" + points.map(([u, v]) => `${u.toFixed(1)} ${v.toFixed(1)}`).join("L") }, root);
}

// A table that sorts by a click on a header and filters by a search field above it.
function table(parent, columns, rows, { search = false, kept = () => true } = {}) {
  let order = null, down = false, filter = "";
  if (search) {
    const input = html("input", { type: "search", placeholder: "filter…", "aria-label": "filter", class: "controls" }, parent);
    input.addEventListener("input", () => { filter = input.value.toLowerCase(); fill(); });
  }
  const node = html("table", {}, html("div", { class: "scroll" }, parent));
  const head = html("tr", {}, html("thead", {}, node)), body = html("tbody", {}, node);
  const headers = columns.map((column, k) => {
    const th = html("th", { scope: "col", class: column.text ? "text" : "" }, head);
    html("button", { type: "button" }, th, column.title).addEventListener("click", () => {
      down = order === k ? !down : false;
      order = k;
      headers.forEach((other, i) => i === k
        ? other.setAttribute("aria-sort", down ? "descending" : "ascending") : other.removeAttribute("aria-sort"));
      fill();
    });
    return th;
  });
  function fill() {
    let shown = rows.filter((row) => kept(row) && columns.some((c) => String(row[c.key]).toLowerCase().includes(filter)));
    if (order !== null) {
      const { key } = columns[order], last = down ? -Infinity : Infinity;
      const rank = (v) => (typeof v === "number" ? v : last);
      shown = [...shown].sort((a, b) => (typeof a[key] === "string" || typeof b[key] === "string"
        ? String(a[key]).localeCompare(String(b[key]), undefined, { numeric: true }) : rank(a[key]) - rank(b[key])) * (down ? -1 : 1));
    }
    body.replaceChildren();
    for (const row of shown) {
      const tr = html("tr", {}, body);
      for (const column of columns) {
        const value = row[column.key], td = html("td", {}, tr);
        if (column.text) td.className = "text";
        if (column.level) td.className = column.level(row);
        const text = typeof value === "number" ? number(value, column.digits) : value ?? "–";
        const link = column.link && column.link(row);
        if (link) html("a", { href: link }, td, text);
        else td.textContent = text;
        const tip = column.tip && column.tip(row);
        if (tip) html("abbr", { title: tip, tabindex: 0 }, (td.replaceChildren(), td), text);
        if (column.meter && typeof value === "number") {
          const meter = html("span", { class: "meter" }, td);
          const share = Math.min(1, value / 100);
          html("i", { class: value < 10 ? "good" : value < 30 ? "warn" : "bad", style: `width:${share * 100}%` }, meter);
        }
      }
    }
  }
  fill();
  return fill;
}

const at = (id) => document.getElementById(id);

function errors() {
  if (!data.errors || !data.errors.length) return;
  const held = data.errors.some((row) => row.held_rms !== null && row.held_rms !== undefined);
  const level = (key) => (row) => (row[key] >= 15 ? "warn" : "");
  table(at("errors"), [
    { key: "joint", title: "joint" }, { key: "percent", title: "fit [%]", digits: 3, level: level("percent") },
    { key: "rms", title: "fit, rms", digits: 3 },
    ...(held ? [{ key: "held_percent", title: `${data.held} [%]`, digits: 3, level: level("held_percent") },
      { key: "held_rms", title: `${data.held}, rms`, digits: 3 }] : []),
    { key: "unit", title: "unit of rms" },
  ], data.errors);
}

function torques() {
  const sets = Object.keys(data.torque || {});
  if (!sets.length) return;
  const controls = html("p", { class: "controls soft" }, at("torque"), "Drag to zoom, double-click to see all. ");
  const choice = html("select", { "aria-label": "data set" }, controls);
  sets.forEach((name) => html("option", { value: name }, choice, data.torque[name].title));
  const room = html("div", { class: "charts" }, at("torque"));
  function show() {
    room.replaceChildren();
    const set = data.torque[choice.value];
    set.joints.forEach((joint) => {
      const group = [];
      const kinds = [["measured", "measured"], ["predicted", "identified model"], ["prior", "a priori model"]];
      const present = kinds.filter(([kind]) => joint[kind]);
      lines(figure(room, joint.name, [...present, ["band", "95 % band"]], true), { x: set.t, group, height: 210, xlabel: "time [s]", ylabel: joint.unit,
        series: [{ kind: "band", y: joint.lower }, { kind: "band", y: joint.upper },
          ...present.map(([kind]) => ({ kind, y: joint[kind] }))] });
      const residual = joint.measured.map((v, k) => (v === null || joint.predicted[k] === null ? null : v - joint.predicted[k]));
      lines(figure(room, `${joint.name}: residual`, [["residual", `rms ${number(joint.rms, 3)} ${joint.unit}`]]),
        { x: set.t, group, xlabel: "time [s]", ylabel: joint.unit, series: [{ kind: "residual", y: residual }] });
      histogram(figure(room, `${joint.name}: histogram of the residual`, [["predicted", "normal distribution"]]),
        { ...joint.histogram, xlabel: joint.unit });
    });
  }
  choice.addEventListener("change", show);
  show();
}

function parameters() {
  const columns = [
    { key: "name", title: "parameter", tip: (row) => row.meaning }, { key: "value", title: "value" }, { key: "std", title: "std", digits: 2 },
    { key: "percent", title: "relative std [%]", digits: 3, meter: true }, { key: "unit", title: "unit" },
    { key: "served", title: "consistent (served)" }, { key: "prior", title: "a priori" }, { key: "essential", title: "essential" },
    { key: "expression", title: "expression", text: true },
  ];
  const used = columns.filter((c) => data.base.some((row) => row[c.key] !== null && row[c.key] !== undefined));
  table(at("parameters"), used, data.base, { search: true });
}

function excitation() {
  const room = html("div", { class: "charts" }, at("excitation"));
  if (data.singular_values && data.singular_values.length) {
    bars(figure(room, `singular values, cond ${number(data.cond)}`, []),
      { heights: data.singular_values, log: true, xlabel: "number", ylabel: "singular value" });
  }
  const spread = data.base.filter((row) => typeof row.percent === "number");
  if (spread.length) {
    bars(figure(room, "relative standard deviation, 30 % and more in red", []),
      { heights: spread.map((r) => r.percent), labels: spread.map((r) => r.name), log: true,
        weak: (k) => spread[k].percent >= 30, xlabel: "parameter", ylabel: "%" });
  }
  if (data.coverage && data.coverage.length) {
    table(at("excitation"), [
      { key: "joint", title: "joint" }, { key: "from", title: "from" }, { key: "to", title: "to" },
      { key: "range", title: "of its range [%]", digits: 3 }, { key: "speed", title: "top speed" },
      { key: "speed_use", title: "of its limit [%]", digits: 3 }, { key: "acceleration", title: "top acceleration" },
      { key: "effort", title: "top effort" }, { key: "effort_use", title: "of its limit [%]", digits: 3 },
      { key: "unit", title: "unit" },
    ], data.coverage);
  }
}

function friction() {
  (data.friction || []).forEach((joint) => {
    html("h3", {}, at("friction"), joint.name);
    const room = html("div", { class: "charts row" }, at("friction"));
    const lines = [joint.light, joint.heavy].filter((line) => line);
    const keys = [["measured", "measured less the rest of the model, red where the gear carries much"], ["predicted", "identified friction"]];
    scatter(figure(room, joint.name, lines.length ? [...keys, ["prior", "at a small and a large load"]] : keys),
      { ...joint, shade: joint.load, more: lines, xlabel: `speed [${joint.speed_unit}]`, ylabel: joint.unit });
    const against = joint.y.map((v, k) => (v === null ? null : v * Math.sign(joint.x[k])));
    scatter(figure(room, `${joint.name}: against the load`, [["measured", "friction against the motion"]]),
      { x: joint.load, y: against, xlabel: `load on the gear [${joint.unit}]`, ylabel: joint.unit });
    scatter(figure(room, `${joint.name}: what is left, by position`, [["measured", "residual; periodic waves indicate gear ripple"]]),
      { x: joint.position, y: joint.residual, xlabel: `position [${joint.position_unit}]`, ylabel: joint.unit });
    if (!(joint.temperature || []).length) return;
    scatter(figure(room, `${joint.name}: against the temperature`, [["measured", "friction against the motion"]]),
      { x: joint.temperature, y: against, xlabel: "temperature [\u00b0C]", ylabel: joint.unit });
    scatter(figure(room, `${joint.name}: what is left, by temperature`, [["measured", "residual against the motion"]]),
      { x: joint.temperature, y: joint.residual.map((v, k) => (v === null ? null : v * Math.sign(joint.x[k]))),
        xlabel: "temperature [\u00b0C]", ylabel: joint.unit });
  });
}

function consistency() {
  if (!data.consistency || !data.consistency.length) return;
  table(at("consistency"), [
    { key: "link", title: "link" }, { key: "set", title: "parameters" }, { key: "mass", title: "mass [kg]" },
    { key: "smallest", title: "smallest principal moment [kg.m^2]" },
    { key: "pseudo", title: "smallest eigenvalue of the pseudo-inertia" },
    { key: "verdict", title: "a body can have it", level: (row) => (row.verdict === "yes" ? "good" : "bad") },
  ], data.consistency);
}

function comparison() {
  table(at("comparison"), [
    { key: "name", title: "parameter" },
    ...data.models.flatMap((model, k) => [
      { key: `value${k}`, title: model }, { key: `std${k}`, title: "std", digits: 2 },
      ...(k ? [{ key: `z${k}`, title: "change / std", digits: 3,
        level: (row) => (row[`changed${k}`] === "yes" ? "bad" : "") }] : []),
    ]),
    { key: "unit", title: "unit" },
  ], data.comparison, { search: true });
}

if (data.comparison) comparison();
else if (!data.fleet) [errors, torques, parameters, excitation, friction, consistency].forEach((draw) => draw());
let pending = 0;
window.addEventListener("resize", () => { clearTimeout(pending); pending = setTimeout(() => redraws.forEach((f) => f()), 100); });
window.addEventListener("beforeprint", () => redraws.forEach((f) => f()));
document.documentElement.dataset.drawn = "yes"; // tests wait for this
