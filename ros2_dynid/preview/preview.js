"use strict";
// Plays a scene: the 3D view, distances, bars of limit use and curves follow one time.

const data = JSON.parse(document.getElementById("data").textContent);
const { robot, motion } = data;
const count = motion.count, n = robot.active.length;
const samples = Object.fromEntries(["q", "dq", "ddq", "tau", "path"].map((name) => [name, floats(motion[name])]));
const KINDS = [
  ["q", "position", "Position", "rad, m"], ["dq", "velocity", "Velocity", "rad/s, m/s"],
  ["ddq", "acceleration", "Acceleration", "rad/s², m/s²"], ["tau", "effort", "Torque, a priori", "N·m, N"],
];
const near = motion.nearest && Object.fromEntries(
  Object.entries({ distance: floats, first: integers, second: integers, p: floats, r: floats }).map(([key, read]) => [key, read(motion.nearest[key])]));

const app = document.getElementById("app");
const stage = html("section", { class: "stage" }, app), box = html("div", { class: "box" }, stage);
const title = html("div", { class: "title" }, box);
html("h1", {}, title, robot.name);
html("span", { class: "soft" }, title, `${motion.kind} motion, ${short(motion.duration, 4)} s`);
const viewer = new Viewer(box, robot);

// --- the motion at a time

const place = (t) => Math.min(count - 1, Math.max(0, t / motion.duration * (count - 1)));
function value(name, t, k, width = n) {
  const at = place(t), low = Math.floor(at), high = Math.min(count - 1, low + 1), f = at - low, a = samples[name];
  return a[low * width + k] * (1 - f) + a[high * width + k] * f;
}
const poseAt = (t) => robot.active.map((_, k) => value("q", t, k));

// --- what is shown

const tips = robot.tips.map((_, tip) => Array.from({ length: count }, (_, k) => [0, 1, 2].map((i) => samples.path[3 * (k * robot.tips.length + tip) + i])));
viewer.path(tips);
if (viewer.gl) viewer.fit(tips.flat());
const shown = html("div", { class: "shown" }, box);
for (const [key, label, there] of [
  ["path", "tip path", true], ["collision", "collision shapes", robot.capsules.length], ["nearest", "closest pair", near],
  ["surroundings", "box", robot.box],
]) {
  if (!there) continue;
  const toggle = html("label", { class: "toggle" }, shown), tick = html("input", { type: "checkbox", id: `show-${key}` }, toggle);
  tick.checked = viewer.show[key];
  tick.addEventListener("change", () => viewer.set(key, tick.checked));
  toggle.append(label);
}

// --- play, pause, scrub, speed

const transport = html("div", { class: "transport" }, stage);
const play = html("button", { class: "play", id: "play", "aria-label": "play", title: "play or pause (space)" }, transport, "▶");
const scrub = html("input", { type: "range", id: "scrub", min: 0, max: motion.duration, step: motion.duration / 2000, value: 0, "aria-label": "time" }, transport);
const clock = html("span", { class: "time", id: "clock" }, transport);
const speed = html("select", { id: "speed", "aria-label": "speed" }, transport);
for (const x of [0.1, 0.25, 0.5, 1, 2, 4]) html("option", { value: x }, speed, `${x}×`);
speed.value = "1";
let now = 0, playing = false, last = 0;

function step(time) {
  if (!playing) return;
  now += Math.min(0.25, (time - last) / 1000) * Number(speed.value);
  last = time;
  if (now >= motion.duration) now = 0;
  show();
  requestAnimationFrame(step);
}
function run(on) {
  playing = on;
  play.textContent = on ? "❚❚" : "▶";
  play.setAttribute("aria-label", on ? "pause" : "play");
  if (on) { last = performance.now(); requestAnimationFrame(step); }
}
function go(t) { now = Math.min(motion.duration, Math.max(0, t)); show(); }
play.addEventListener("click", () => run(!playing));
scrub.addEventListener("input", () => { run(false); go(Number(scrub.value)); });
document.addEventListener("keydown", (e) => {
  if (e.target.matches("input[type=text], select, textarea") || e.ctrlKey || e.metaKey) return;
  if (e.key === " " && !e.target.matches("button, input")) { e.preventDefault(); run(!playing); }
  if (e.target !== scrub && (e.key === "ArrowLeft" || e.key === "ArrowRight")) { run(false); go(now + (e.key === "ArrowLeft" ? -1 : 1) * motion.duration / 200); }
});

// --- distances

const side = html("section", { class: "side" }, app);
let distanceNow, pairNow, strip, least = 0;
if (near) {
  const card = html("div", { class: "card" }, side);
  html("h2", {}, card, "Closest parts");
  const rows = html("div", { class: "distance" }, card);
  distanceNow = html("b", { id: "distance" }, rows);
  pairNow = html("span", { id: "pair" }, rows);
  for (let k = 1; k < count; k += 1) if (near.distance[k] < near.distance[least]) least = k;
  const leastText = html("b", { id: "least", class: "soft" }, rows, millimetres(near.distance[least]));
  leastText.title = "the least of the whole motion";
  const at = html("span", { class: "soft" }, rows, `least, at ${short(least / (count - 1) * motion.duration, 4)} s: ${pairAt(least)} `);
  html("button", { id: "to-least", class: "chip" }, at, "show").addEventListener("click", () => { run(false); go(least / (count - 1) * motion.duration); });
  strip = new Chart(card, "Distance", `m, between the capsules that cover the parts; ${short(motion.nearest.margin)} m are kept`, (t) => { run(false); go(t); });
  strip.canvas.classList.add("strip");
  strip.set([{ name: "distance", colour: "#e8590c", values: near.distance, limits: [motion.nearest.margin] }], [0, motion.duration]);
}
function millimetres(x) { return Math.abs(x) < 1 ? `${short(1000 * x)} mm` : `${short(x)} m`; }
function pairAt(k) {
  const links = motion.nearest.links, second = near.second[k];
  return `${links[near.first[k]]} and ${second < 0 ? planeName(-1 - second) : links[second]}`;
}
function planeName(k) {
  const names = robot.floor === null ? [] : ["the floor"];
  (robot.box || []).forEach((x, i) => { if (x !== null) names.push(`the box, ${"xXyYzZ"[i]} = ${short(x)} m`); });
  return [...names, ...motion.nearest.obstacles][k] || `plane ${k + 1}`;
}

// --- limits

const useCard = html("div", { class: "card" }, side);
html("h2", {}, useCard, "Use of the limits");
html("p", { class: "soft", style: "margin:0 0 .4rem;font-size:.82rem" }, useCard, "Full colour: now. Pale, and the figure: the most of the whole motion.");
const table = html("table", { class: "uses" }, useCard), head = html("tr", {}, html("thead", {}, table)), body = html("tbody", {}, table);
html("th", { scope: "col" }, head, "joint");
for (const [, kind] of KINDS) html("th", { scope: "col" }, head, kind);
const bars = [];
robot.active.forEach((name, k) => {
  const row = html("tr", {}, body);
  html("td", { title: name }, row, name);
  for (const [key, kind] of KINDS) {
    const most = motion.use[kind][k], cell = html("td", {}, row);
    const known = limit(kind, k) !== null && (key !== "tau" || samples.tau.length);
    if (!known || most === null) { html("span", { class: "soft", title: "no limit is known" }, cell, "–"); continue; }
    const bar = html("span", { class: `bar ${most > 1.0000001 ? "bad" : most > 0.97 ? "warn" : ""}`, "data-use": most }, cell);
    html("i", {}, bar).style.width = `${Math.min(100, 100 * most)}%`;
    const level = html("u", {}, bar);
    html("span", {}, bar, `${(100 * most).toFixed(most < 0.0995 ? 1 : 0)} %`);
    bars.push({ key, kind, k, level });
  }
});
function limit(kind, k) {
  const { lower, upper } = motion.limits;
  if (kind === "position") return lower[k] === null || upper[k] === null ? null : (upper[k] - lower[k]) / 2;
  return motion.limits[kind][k];
}
function used({ key, kind, k }, t) {
  const x = value(key, t, k) - (kind === "position" ? (motion.limits.upper[k] + motion.limits.lower[k]) / 2 : 0);
  return Math.abs(x) / limit(kind, k);
}

// --- curves

const legend = html("div", { class: "chips", role: "group", "aria-label": "joints shown" }, side);
const charts = [];
for (const [key, kind, label, units] of KINDS) {
  if (!samples[key].length) continue;
  const chart = new Chart(side, label, units, (t) => { run(false); go(t); });
  chart.canvas.id = `chart-${kind}`;
  chart.set(robot.active.map((name, k) => ({
    name, colour: colourOf(k), values: Float64Array.from({ length: count }, (_, i) => samples[key][i * n + k]),
    limits: kind === "position" ? [motion.limits.lower[k], motion.limits.upper[k]] : [motion.limits[kind][k], motion.limits[kind][k] === null ? null : -motion.limits[kind][k]],
  })), [0, motion.duration]);
  charts.push([key, chart]);
}
robot.active.forEach((name, k) => {
  const chip = html("button", { class: "chip", "aria-pressed": "true" }, legend);
  html("i", { style: `background:${colourOf(k)}` }, chip);
  chip.append(name);
  chip.addEventListener("click", () => {
    const on = chip.getAttribute("aria-pressed") !== "true";
    chip.setAttribute("aria-pressed", on);
    for (const [, chart] of charts) { if (on) chart.hidden.delete(name); else chart.hidden.add(name); chart.draw(); }
  });
});
const around = html("div", { class: "card", id: "obstacles" }, side);
html("h2", {}, around, "Obstacles");
const editor = new ObstacleEditor(around, viewer, robot.obstacles, [["Save as a file", "save-obstacles", (text) => download("obstacles.yaml", text)]]);
editor.unused = () => "Changed here: the distances are those of before. Save the file, and plan or preview with --obstacles FILE.";
if (data.warning) app.prepend(html("p", { class: "alarm", role: "alert" }, null, data.warning));
if (data.notes.length) {
  const card = html("div", { class: "card" }, side);
  html("h2", {}, card, "Notes");
  const list = html("ul", { class: "notes" }, card);
  for (const note of data.notes) html("li", {}, list, note);
}

// --- one time for all

function show() {
  viewer.q = poseAt(now);
  if (near) {
    const k = Math.round(place(now)), d = near.distance[k], margin = motion.nearest.margin;
    const at = (list) => [0, 1, 2].map((i) => list[3 * k + i]);
    viewer.nearest = { p: at(near.p), r: at(near.r), near: d < margin };
    distanceNow.textContent = millimetres(d);
    distanceNow.classList.toggle("near", d < margin);
    pairNow.textContent = pairAt(k);
    strip.at(now);
  }
  viewer.request();
  for (const bar of bars) bar.level.style.width = `${Math.min(100, 100 * used(bar, now))}%`;
  for (const [, chart] of charts) chart.at(now);
  scrub.value = now;
  clock.textContent = `${now.toFixed(2)} / ${motion.duration.toFixed(2)} s`;
}
const wanted = new URLSearchParams(location.hash.slice(1));
if (wanted.has("collision")) { viewer.set("collision", true); const tick = document.getElementById("show-collision"); if (tick) tick.checked = true; }
go(Number(wanted.get("t")) || 0);
window.dynid = { viewer, editor, frames: (t) => frames(robot, poseAt(t)).map((T) => Array.from(T)), time: () => now, playing: () => playing };
