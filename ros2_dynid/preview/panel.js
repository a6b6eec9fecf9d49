"use strict";
// The panel: shows what the nodes say and asks for what a person clicks. It decides nothing; the node refuses or does it.

const me = Array.from(crypto.getRandomValues(new Uint8Array(8)), (x) => x.toString(16).padStart(2, "0")).join("");
const WINDOW = 20; // seconds of the curves
const PATIENCE_MS = 150; // with a stop that has not been answered
const app = document.getElementById("app");
let token = sessionStorage.getItem("dynid token") || "", robot = null, robotNumber = 0, planNumber = 0, plan = null, viewer = null, state = null;
const fromAddress = new URLSearchParams(location.hash.slice(1)).get("token");
if (fromAddress) { token = fromAddress; sessionStorage.setItem("dynid token", token); history.replaceState(null, "", "/"); }

// --- the frame of the page

const top_ = html("header", { class: "top" }, app);
const title = html("h1", {}, top_, "ros2_dynid panel");
const phase = html("span", { class: "state", id: "state" }, top_, "connecting");
const who = html("span", { class: "who" }, top_), whoText = html("span", { id: "who" }, who);
const key = html("input", { type: "password", id: "token", placeholder: "token", "aria-label": "token", autocomplete: "off" }, who);
key.value = token;
key.addEventListener("input", () => { token = key.value.trim(); sessionStorage.setItem("dynid token", token); });
key.addEventListener("change", () => { hangUp(); listen(); });
const takeOver = html("button", { id: "take_over" }, who, "Take over");
takeOver.addEventListener("click", () => ask("take_over"));
const stop = html("button", { class: "stop", id: "stop", title: "stops the robot within its limits (space bar)" }, top_, "STOP");
stop.addEventListener("click", stopNow);
// The space bar stops wherever the focus is; a space is typed only in a text field, and only while the robot is known to rest.
const typed = (e) => e.key === " " && e.target.matches("input[type=text], input[type=password]") && state && !state.moving && lost.hidden;
document.addEventListener("keydown", (e) => {
  if (e.key !== " " || typed(e)) return;
  e.preventDefault();
  if (!e.repeat) stopNow();
}, true);
// Some browsers click the button in focus when the key comes up: a space must never start anything.
document.addEventListener("keyup", (e) => { if (e.key === " " && !typed(e)) e.preventDefault(); }, true);

const alarm = html("p", { class: "alarm", id: "alarm", role: "alert" }, app);
alarm.hidden = true;
const stage = html("section", { class: "stage" }, app);
const legend = html("div", { class: "legend" }, stage);
for (const [colour, text] of [["#b9bfc6", "robot"], ["#2980e5", "plan"], ["#d9480f", "path of the tip"]]) {
  html("i", { style: `background:${colour}` }, legend);
  legend.append(text);
}
const side = html("section", { class: "side" }, app);
const lost = html("div", { class: "lost", id: "lost", role: "alert" }, document.body,
  "The connection to the panel is lost, and with it this stop button. A motion under way goes on under the excitation node's own supervision. Use the robot's own stop.");
lost.hidden = true;

function card(heading, number) {
  const box = html("div", { class: "card" }, side), head = html("h2", {}, box);
  if (number) html("span", { class: "step" }, head, number);
  head.append(heading);
  return box;
}
const buttons = []; // of actions and their buttons
function button(row, action, label, primary, fields = () => ({})) {
  const node = html("button", { id: action, class: primary ? "primary" : "" }, row, label);
  node.disabled = true;
  node.addEventListener("click", () => ask(action, fields()));
  buttons.push([action, node]);
  return node;
}
// A button that acts while it is held, by a pointer or the key Enter: the action goes out ten times a second, and `let_go`
// at its end. What is lost on the way ends it too: the node waits no longer than 0.3 s for the next.
const HELD_MS = 100;
let held = null;
function holdButton(row, action, label, name, fields) {
  const node = html("button", { class: "hold", "aria-label": name }, row, label);
  node.disabled = true;
  buttons.push([action, node]);
  const hold = (e) => { if (e.button || node.disabled || held) return; e.preventDefault(); held = node; keepHolding(node, action, fields()); };
  node.addEventListener("pointerdown", hold);
  node.addEventListener("keydown", (e) => { if (e.key === "Enter" && !e.repeat) hold(e); });
  node.addEventListener("contextmenu", (e) => e.preventDefault());
  return node;
}
async function keepHolding(node, action, fields) {
  node.classList.add("held");
  while (held === node) {
    const sent = performance.now();
    if (!(await tell(action, fields)).ok) break;
    await new Promise((after) => { setTimeout(after, Math.max(0, HELD_MS - (performance.now() - sent))); });
  }
  letGo();
  node.classList.remove("held");
}
function letGo() {
  if (!held) return;
  held = null;
  tell("let_go");
}
for (const kind of ["pointerup", "pointercancel", "blur"]) addEventListener(kind, letGo);
addEventListener("keyup", (e) => { if (e.key === "Enter") letGo(); });

function number(row, label, id, value, step, unitText) {
  const box = html("label", {}, row, label), input = html("input", { type: "number", id, value, step }, box);
  if (unitText) box.append(unitText);
  return () => (input.value === "" ? 0 : Number(input.value));
}

// --- move

const move = card("Plan, rehearse, start", "1");
let row = html("div", { class: "row" }, move);
const seed = number(row, "seed", "seed", 1, 1), duration = number(row, "duration", "duration", 0, "any", "s, 0: as configured");
button(row, "plan", "Plan", true, () => ({ seed: seed(), duration: duration() }));
row = html("div", { class: "row" }, move);
button(row, "rehearse", "Rehearse slowly");
const start = html("button", { id: "start" }, row, "Start");
buttons.push(["start", start]);
start.disabled = true;
button(row, "pause", "Pause");
button(row, "resume", "Resume");
button(row, "release", "Release the stop");
row = html("div", { class: "row" }, move);
const jogged = html("select", { id: "jogged" }, html("label", {}, row, "move one joint slowly, while held"));
for (const [label, direction, name] of [["\u2212", -1, "to smaller positions"], ["+", 1, "to larger positions"]]) {
  holdButton(row, "jog", label, name, () => ({ joint: jogged.value, direction })).id = direction > 0 ? "jog_up" : "jog_down";
}
const unrehearsed = html("div", { class: "ask", id: "unrehearsed" }, move);
unrehearsed.hidden = true;
const whyNot = html("p", { style: "margin:0 0 .4rem" }, unrehearsed);
const choice = html("div", { class: "row" }, unrehearsed);
html("button", { class: "primary" }, choice, "Rehearse first").addEventListener("click", () => { unrehearsed.hidden = true; ask("rehearse"); });
html("button", { id: "anyway" }, choice, "Start anyway").addEventListener("click", () => { unrehearsed.hidden = true; ask("start", { anyway: true }); });
html("button", {}, choice, "Cancel").addEventListener("click", () => { unrehearsed.hidden = true; });
start.addEventListener("click", () => {
  if (state && state.rehearsal.startsWith("passed")) { ask("start"); return; }
  whyNot.textContent = state && state.rehearsal ? `The rehearsal was not passed: ${state.rehearsal}.`
    : "This plan has not been rehearsed since it was made. A rehearsal runs the same path slowly.";
  unrehearsed.hidden = false;
});
const verdictOfRehearsal = html("p", { class: "soft", id: "rehearsal", style: "margin:0;font-size:.82rem" }, move);
const safety = html("p", { class: "soft", id: "safety", style: "margin:.3rem 0 0;font-size:.82rem" }, move);

// --- obstacles

const around = card("Obstacles");
let editor = null;
const using = async (text) => {
  const { ok, line } = await tell("set_obstacles", { text });
  if (ok) { note("good", `obstacles: ${line}`); editor.used(); }
};

// --- record and identify

const identify = card("Record and identify", "2");
row = html("div", { class: "row" }, identify);
button(row, "record", "Record");
button(row, "end_recording", "End recording");
row = html("div", { class: "row" }, identify);
button(row, "identify", "Identify", true);
button(row, "cancel", "Cancel");
const bar = html("progress", { max: 1, value: 0, id: "progress" }, identify), stageText = html("span", { class: "soft", id: "stage" }, identify);
bar.hidden = true;
const recorded = html("p", { class: "soft", style: "margin:.2rem 0;font-size:.82rem" }, identify);
const verdict = html("ul", { class: "verdict", id: "verdict" }, identify);

// --- use

const use = card("Use the model", "3");
const served = html("p", { id: "model", style: "margin:0 0 .45rem" }, use);
row = html("div", { class: "row" }, use);
const file = html("input", { type: "text", id: "path", placeholder: "model.yaml on the robot's computer", "aria-label": "model file" }, row);
button(row, "load_model", "Load model", false, () => ({ path: file.value }));
row = html("div", { class: "row" }, use);
const mass = number(row, "payload", "mass", 0, "any", "kg"), com = ["x", "y", "z"].map((axis) => number(row, axis, `com-${axis}`, 0, "any", "m"));
button(row, "payload", "Set payload", false, () => ({ mass: mass(), x: com[0](), y: com[1](), z: com[2]() }));

// --- curves

const curves = card("Torque");
row = html("div", { class: "row" }, curves);
const joint = html("select", { id: "joint", "aria-label": "joint" }, html("label", {}, row, "joint"));
const drift = html("span", { id: "drift", class: "soft" }, row);
const torque = new Chart(curves, "Measured and predicted", "N·m, N"), tracking = new Chart(curves, "Tracking error of all joints", "rad, m");
const history_ = [];

const log = html("ul", { class: "log", id: "log" }, card("What happened"));
const diagnostics = html("ul", { class: "diagnostics", id: "diagnostics" }, card("Nodes"));

// --- asking

const headers = () => ({ "Content-Type": "application/json", "X-Dynid-Token": token.replace(/[^!-~]/g, "?"), "X-Dynid-Client": me });
async function tell(action, fields = {}) {
  let found = { ok: false, line: "the panel does not answer" }, answered = false;
  try {
    const answer = await fetch("/do", { method: "POST", headers: headers(), body: JSON.stringify({ action, ...fields }) });
    found = await answer.json();
    answered = true;
  } catch { /* said by the line */ }
  if (!found.ok) note("bad", `${action}: ${found.line}`);
  return { ...found, answered };
}
async function ask(action, fields = {}) {
  const { ok, line, answered } = await tell(action, fields);
  if (ok) note("good", `${action}: ${line}`);
  return answered;
}
// A browser opens six connections to a server at most, for all its tabs: a stop that has to wait gets the place of our own
// stream of states. A connection that breaks is tried again.
async function stopNow() {
  const late = setTimeout(hangUp, PATIENCE_MS);
  for (let trial = 0; trial < 3; trial += 1) if (await ask("stop")) break;
  clearTimeout(late);
  listen();
}
let own = [], logged = "";
function note(level, text) { own = [...own, { level, text }].slice(-12); logged = ""; listed(); }
function listed() {
  const theirs = state ? state.lines : [], mine = own.filter(({ text }) => !theirs.some((line) => line.text === text));
  const shown = [...mine].reverse().concat([...theirs].reverse()).slice(0, 12), next = JSON.stringify(shown);
  if (next !== logged) { fill(log, shown.map(({ level, text }) => [level, text])); logged = next; }
}
function fill(list, rows) {
  list.replaceChildren();
  for (const [level, text] of rows) html("li", { class: level }, list, text);
}

// --- hearing

async function seeRobot() {
  const answer = await fetch("/robot");
  if (!answer.ok) return;
  const found = await answer.json();
  stage.querySelectorAll("canvas, .nogl").forEach((node) => node.remove());
  robot = found; robotNumber = found.number; plan = null; planNumber = 0;
  viewer = new Viewer(stage, robot);
  around.querySelectorAll(":scope > :not(h2)").forEach((node) => node.remove());
  editor = new ObstacleEditor(around, viewer, robot.obstacles, [
    ["Use for planning", "set_obstacles", using], ["Save as a file", "save-obstacles", (text) => download("obstacles.yaml", text)],
  ]);
  buttons.splice(0, buttons.length, ...buttons.filter(([action]) => action !== "set_obstacles"), ["set_obstacles", document.getElementById("set_obstacles")]);
  obstaclesNumber = 0;
  title.textContent = robot.name;
  joint.replaceChildren();
  jogged.replaceChildren();
  robot.active.forEach((name, k) => { html("option", { value: k }, joint, name); html("option", { value: name }, jogged, name); });
  alarm.textContent = robot.warning || "";
  alarm.hidden = !robot.warning;
  if (robot.notes.length) note("warn", robot.notes.join("; "));
}
async function seePlan() {
  const answer = await fetch("/plan");
  if (!answer.ok || !robot) return;
  const found = await answer.json(), path = floats(found.path), tips = robot.tips.length;
  planNumber = found.number;
  plan = { ...found, q: floats(found.q), begun: performance.now() };
  const lists = robot.tips.map((_, tip) => Array.from({ length: found.count }, (_, k) => [0, 1, 2].map((i) => path[3 * (k * tips + tip) + i])));
  if (viewer.gl) { viewer.path(lists); viewer.fit(lists.flat()); }
}
let obstaclesNumber = 0;
async function seeObstacles() {
  const answer = await fetch("/obstacles");
  if (!answer.ok || !editor) return;
  const found = await answer.json();
  obstaclesNumber = found.number;
  editor.show(found.entries);
}
let busy = false;
async function catchUp() {
  if (busy) return;
  busy = true;
  try {
    if (state.robot && state.robot !== robotNumber) await seeRobot();
    if (robot && state.plan && state.plan !== planNumber) await seePlan();
    if (robot && state.obstacles && state.obstacles !== obstaclesNumber) await seeObstacles();
  } catch (error) { note("bad", String(error)); } finally { busy = false; }
}

function ghostNow() {
  if (state && state.ghost) return state.ghost;
  if (!plan || (state && state.moving)) return null;
  const n = robot.active.length, t = ((performance.now() - plan.begun) / 1000) % (plan.duration + 1);
  const at = Math.min(plan.count - 1, t / plan.duration * (plan.count - 1)), low = Math.floor(at), high = Math.min(plan.count - 1, low + 1), f = at - low;
  return robot.active.map((_, k) => plan.q[low * n + k] * (1 - f) + plan.q[high * n + k] * f);
}

let diagnosed = "", judged = "";
function hear(text) {
  state = JSON.parse(text);
  lost.hidden = true;
  catchUp();
  phase.textContent = state.excitation || (state.robot ? "no excitation node" : "waiting for the robot");
  phase.className = `state ${state.moving ? "moving" : state.stopped ? "bad" : ""}`;
  const mine = state.commander === me;
  whoText.textContent = mine ? "you command" : state.commander ? "another browser commands" : token ? "no operator in control" : "watching: enter the token to command";
  takeOver.hidden = mine || !token;
  for (const [action, node] of buttons) {
    const why = state.refused[action] || (mine || !state.commander ? (token ? "" : "enter the token first") : "another browser commands: take over first");
    node.disabled = Boolean(why);
    node.title = why;
  }
  verdictOfRehearsal.textContent = state.rehearsal ? `Rehearsal ${state.rehearsal}` : "";
  safety.textContent = state.stop_on_disconnect
    ? "If this page or its connection dies, the panel node stops the motion when it notices (stop_on_disconnect)."
    : "If this page or its connection dies, a motion under way goes on under the excitation node's own supervision. Keep the robot's own stop at hand.";
  bar.hidden = !state.progress;
  if (state.progress) bar.value = state.progress.share;
  stageText.textContent = state.progress ? state.progress.stage : state.planning ? "planning" : "";
  recorded.textContent = state.recording ? "recording" : state.recorded ? `last recording: ${state.recorded}` : "no recording yet";
  served.textContent = state.model ? `Served: ${state.model}` : "No model is served yet.";
  drift.textContent = state.drift === null ? "" : state.drift ? "drift: payload or friction has changed" : "no drift";
  const rows = JSON.stringify(state.diagnostics);
  if (rows !== diagnosed) {
    fill(diagnostics, state.diagnostics.map(({ name, level, text }) => [["good", "warn", "bad", "bad"][level], `${name.replace(/: state$/, "")}: ${text}`]));
    diagnosed = rows;
  }
  const words = JSON.stringify(state.verdict);
  if (words !== judged) { fill(verdict, state.verdict.map(({ level, text }) => [level, text])); judged = words; }
  listed();
  if (state.q && viewer) viewer.q = state.q;
  history_.push(state);
  while (history_.length && history_[0].t < state.t - WINDOW) history_.shift();
  while (history_.length > 1 && history_[0].t > state.t) history_.shift();
}

function curve(name, key_, k, colour, dash) {
  return { name, colour, dash, times: history_.map((s) => s.t - state.t), values: history_.map((s) => (s[key_] && s[key_][k] !== null ? s[key_][k] : NaN)) };
}
let drawn = 0;
function frame(now) {
  requestAnimationFrame(frame);
  if (!viewer || !state || document.hidden || now - drawn < 45) return;
  drawn = now;
  viewer.ghost = ghostNow();
  viewer.request();
  const k = Number(joint.value) || 0, series = [curve("measured", "effort", k, "#7a8894"), curve("predicted", "predicted", k, "#d9480f")];
  if (state.external) series.push(curve("external", "external", k, "#862e9c", [4, 3]));
  torque.set(series, [-WINDOW, 0]);
  const now_ = (list) => (list && list[k] !== null && list[k] !== undefined ? short(list[k]) : "–");
  torque.now.textContent = `measured ${now_(state.effort)}, predicted ${now_(state.predicted)}${state.external ? `, external ${now_(state.external)}` : ""}`;
  tracking.set(robot.active.map((name, j) => curve(name, "error", j, colourOf(j))), [-WINDOW, 0]);
  const worst = state.error ? Math.max(...state.error.map((x) => Math.abs(x || 0))) : null;
  tracking.now.textContent = worst === null ? "not moving" : `largest now ${short(1000 * worst)} mrad`;
}
requestAnimationFrame(frame);

// --- the stream of states, answered by a sign of life from the one that commands

let last = performance.now(), signed = 0, events = null;
function hangUp() {
  if (events) events.abort();
  events = null;
}
// By fetch, since an EventSource cannot send the token: with it the panel keeps a place for us, whoever else looks on.
async function listen() {
  if (events) return;
  const mine = events = new AbortController(), where = `/events?client=${me}`;
  try {
    let answer = await fetch(where, { headers: headers(), signal: mine.signal });
    if (answer.status === 403 && token) answer = await fetch(where, { signal: mine.signal }); // a token of yesterday: look on
    if (!answer.ok) return;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = "", part; !(part = await reader.read()).done;) {
      const lines = (text + part.value).split("\n");
      text = lines.pop();
      last = performance.now();
      for (const line of lines) if (line.startsWith("data: ")) { hear(line.slice(6)); alive(); }
    }
  } catch { /* the panel has gone, or we hung up */ } finally { if (events === mine) events = null; }
}
// Sent when a state comes, not by a timer: a browser slows the timers of a page that is not in front.
async function alive() {
  if (state.commander !== me || last - signed < 400) return;
  signed = last;
  try {
    await fetch("/do", { method: "POST", headers: headers(), body: JSON.stringify({ action: "alive" }) });
  } catch { signed = 0; }
}
// A page that nobody sees and that does not command leaves its connection to others.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) letGo();
  if (!document.hidden) { last = performance.now(); listen(); }
  else if (!(state && state.commander === me)) hangUp();
});
listen();
setInterval(() => {
  lost.hidden = performance.now() - last < 2500;
  if (!document.hidden) listen();
}, 500);
window.dynid = { get state() { return state; }, get viewer() { return viewer; }, get editor() { return editor; }, ask, me };
