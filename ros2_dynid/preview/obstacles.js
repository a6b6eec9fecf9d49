"use strict";
// Obstacles in the scene: entries as in a file of obstacles, chosen by a click, moved by the pointer or by figures.

const OBSTACLE_KINDS = {
  box: { size: [0.4, 0.4, 0.4], fields: ["length x", "length y", "length z"] },
  cylinder: { size: [0.1, 0.6], fields: ["radius", "height"] },
  sphere: { size: [0.15], fields: ["radius"] },
  plane: { size: [], fields: [] },
  capsule: { size: [0.1, 0.5], fields: ["radius", "length"] },
  capsules: { size: [], fields: [] },
};
const PLATE = [3, 3, 0.004]; // metres: what is drawn of a plane
const kindOf = (entry) => Object.keys(OBSTACLE_KINDS).find((kind) => kind in entry);

function poseOf({ at, rpy }) {
  const [cr, cp, cy] = rpy.map(Math.cos), [sr, sp, sy] = rpy.map(Math.sin);
  return Float64Array.from([
    cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr, at[0],
    sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr, at[1],
    -sp, cp * sr, cp * cr, at[2], 0, 0, 0, 1]);
}

// The bodies of an entry in its own frame: {kind, size, pose}.
function partsOf(entry) {
  const kind = kindOf(entry);
  if (kind === "plane") return [{ kind: "box", size: PLATE, pose: identity() }];
  if (kind !== "capsules") return [{ kind, size: entry[kind], pose: identity() }];
  return entry.capsules.map(([x, y, z, X, Y, Z, radius]) => {
    const a = [x, y, z], b = [X, Y, Z];
    return { kind: "capsule", size: [radius, size(minus(b, a))], pose: between(a, b) };
  });
}

const obstaclesText = (entries) => (entries.length ? `obstacles:\n${entries.map((entry) => `  - ${JSON.stringify(entry)}\n`).join("")}` : "obstacles: []\n");

class ObstacleEditor {
  constructor(box, viewer, entries, actions) {
    // actions: [label, id, do(text)] of buttons
    this.viewer = viewer;
    this.changed = false;
    this.said = html("p", { class: "soft", id: "obstacles-said", style: "margin:0 0 .4rem;font-size:.82rem" }, box);
    let row = html("div", { class: "row" }, box);
    this.list = html("select", { id: "obstacle", "aria-label": "obstacle" }, row);
    this.list.addEventListener("change", () => this.choose(Number(this.list.value)));
    for (const kind of ["box", "cylinder", "sphere", "plane"]) {
      html("button", { id: `add-${kind}` }, row, `+ ${kind}`).addEventListener("click", () => this.add(kind));
    }
    this.form = html("div", { class: "obstacle" }, box);
    row = html("div", { class: "row" }, box);
    for (const [label, id, act] of actions) {
      html("button", { id }, row, label).addEventListener("click", () => act(obstaclesText(this.entries)));
    }
    this.show(entries);
    viewer.pickObstacle = (k) => this.choose(k);
    viewer.moveObstacle = (k, at) => { this.entries[k].at = at; this.touch(); this.fill(); };
  }

  show(entries) {
    // Take entries anew, unless some are being edited.
    if (this.changed) return;
    this.entries = entries.map((entry) => JSON.parse(JSON.stringify(entry)));
    this.choose(-1);
    this.draw();
  }

  used() { this.changed = false; this.draw(); }

  touch() { this.changed = true; this.draw(); }

  draw() {
    this.viewer.setObstacles(this.entries, this.chosen);
    this.said.textContent = this.changed ? this.unused() : this.entries.length ? "Click an obstacle to choose it; drag it to move it, with Shift up and down." : "There are no obstacles.";
  }

  unused() { return "Changed here: not yet in use."; }

  add(kind) {
    const names = new Set(this.entries.map((entry) => entry.name));
    let number = 1;
    while (names.has(`${kind} ${number}`)) number += 1;
    const reach = this.viewer.reach || 1, size_ = OBSTACLE_KINDS[kind].size;
    const at = kind === "plane" ? [0, 0, 0] : [reach, 0, kind === "sphere" ? size_[0] : size_[size_.length - 1] / 2];
    this.entries.push({ name: `${kind} ${number}`, [kind]: [...size_], at: at.map((x) => Math.round(1000 * x) / 1000), rpy: [0, 0, 0] });
    this.chosen = this.entries.length - 1;
    this.touch();
    this.choose(this.chosen);
  }

  choose(k) {
    this.chosen = k;
    this.list.replaceChildren();
    if (k < 0) html("option", { value: -1 }, this.list, "choose");
    this.entries.forEach((entry, j) => html("option", { value: j }, this.list, entry.name));
    this.list.value = String(k);
    this.list.hidden = !this.entries.length;
    this.fill();
    this.draw();
  }

  fill() {
    const focus = document.activeElement && this.form.contains(document.activeElement) ? document.activeElement.id : "";
    this.form.replaceChildren();
    const entry = this.entries[this.chosen];
    if (!entry) return;
    const kind = kindOf(entry), figures = [
      ...OBSTACLE_KINDS[kind].fields.map((label, k) => [label, "m", () => entry[kind][k], (x) => { if (x > 0) entry[kind][k] = x; }]),
      ...[0, 1, 2].map((k) => ["xyz"[k], "m", () => entry.at[k], (x) => { entry.at[k] = x; }]),
      ...[0, 1, 2].map((k) => [`turn ${"xyz"[k]}`, "°", () => Number((entry.rpy[k] * 180 / Math.PI).toFixed(4)), (x) => { entry.rpy[k] = x * Math.PI / 180; }]),
    ];
    const row = html("div", { class: "row" }, this.form), name = html("input", { type: "text", id: "obstacle-name", "aria-label": "name of the obstacle" }, row);
    name.value = entry.name;
    name.addEventListener("change", () => { entry.name = name.value.trim() || kind; this.touch(); this.choose(this.chosen); });
    html("button", { id: "delete-obstacle" }, row, "Delete").addEventListener("click", () => {
      this.entries.splice(this.chosen, 1);
      this.touch();
      this.choose(Math.min(this.chosen, this.entries.length - 1));
    });
    const grid = html("div", { class: "figures" }, this.form);
    figures.forEach(([label, unit_, get, put], k) => {
      const field = html("label", {}, grid, `${label} `), input = html("input", { type: "number", step: "any", id: `figure-${k}` }, field);
      field.append(unit_);
      input.value = get();
      input.addEventListener("change", () => {
        const x = Number(input.value);
        if (input.value !== "" && Math.abs(x) < 1000) put(x);
        input.value = get();
        this.touch();
      });
    });
    if (focus) { const again = document.getElementById(focus); if (again) again.focus(); }
  }
}

function download(name, text) {
  const link = html("a", { download: name, href: URL.createObjectURL(new Blob([text], { type: "application/yaml" })) }, document.body);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
