// The page of a fleet, with the helpers of page.js. Text is only ever set as textContent.
const LEVELS = { good: "good", note: "good", warning: "warn", changed: "warn", "no data": "warn" };
const level = (verdict) => LEVELS[verdict] || "bad";
const day = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 10);

function fleetRobots() {
  const controls = html("p", { class: "controls soft" }, at("robots"), "Verdict: ");
  const choice = html("select", { "aria-label": "verdict" }, controls);
  ["all", ...new Set(data.robots.map((row) => row.verdict))].forEach((name) => html("option", { value: name }, choice, name));
  const fill = table(at("robots"), [
    { key: "id", title: "robot", link: (row) => row.report },
    { key: "verdict", title: "verdict", level: (row) => level(row.verdict) },
    { key: "validation", title: "error, held out [%]", digits: 3 }, { key: "fit", title: "error, fit [%]", digits: 3 },
    { key: "sigmas", title: "furthest [sigma]", digits: 3 }, { key: "recordings", title: "recordings" },
    { key: "seconds", title: "recorded [s]", digits: 3 }, { key: "kind", title: "kind", text: true },
    { key: "reason", title: "why", text: true },
  ], data.robots, { search: true, kept: (row) => choice.value === "all" || row.verdict === choice.value });
  choice.addEventListener("change", fill);
}

// From blue (below the others) over the paper's colour to red (above); 6 sigma and more are full.
function heat(z, paper) {
  const share = Math.max(-1, Math.min(1, z / 6)), end = share < 0 ? [28, 126, 214] : [201, 42, 42];
  return `rgb(${paper.map((c, k) => Math.round(c + (end[k] - c) * Math.abs(share))).join(",")})`;
}

function fleetHeat() {
  for (const kind of data.kinds) {
    const box = figure(at("heat"), `${kind.name}: ${kind.robots.length} robots`, [], true);
    const note = html("figcaption", {}, box, "Point at a cell.");
    const scroll = html("div", { class: "scroll" }, box), canvas = html("canvas", { role: "img" }, scroll);
    canvas.setAttribute("aria-label", `sigmas of ${kind.robots.length} robots in ${kind.names.length} parameters`);
    const rows = kind.robots.map((_, k) => k);
    const most = rows.map((k) => Math.max(0, ...kind.z[k].map((v) => Math.abs(v ?? 0))));
    rows.sort((a, b) => most[b] - most[a]);
    const tall = kind.robots.length <= 40 ? 16 : kind.robots.length <= 200 ? 8 : 3, wide = 16, left = tall > 10 ? 130 : 8, top = 58;
    const ratio = window.devicePixelRatio || 1, width = left + wide * kind.names.length, height = top + tall * rows.length + 4;
    canvas.width = width * ratio; canvas.height = height * ratio;
    canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches, paper = dark ? [40, 51, 61] : [240, 243, 246];
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = style.getPropertyValue("--soft");
    kind.names.forEach((name, c) => {
      pen.save(); pen.translate(left + wide * c + 12, top - 6); pen.rotate(-Math.PI / 2); pen.fillText(name.slice(0, 9), 0, 0); pen.restore();
    });
    rows.forEach((r, k) => {
      pen.fillStyle = style.getPropertyValue("--soft");
      if (left > 20) pen.fillText(kind.robots[r].slice(0, 20), 2, top + tall * k + tall - 4);
      kind.z[r].forEach((z, c) => {
        if (z === null) return;
        pen.fillStyle = heat(z, paper);
        pen.fillRect(left + wide * c, top + tall * k, wide - 1, tall > 4 ? tall - 1 : tall);
      });
    });
    canvas.addEventListener("pointermove", (event) => {
      const place = canvas.getBoundingClientRect();
      const c = Math.floor((event.clientX - place.left - left) / wide), k = Math.floor((event.clientY - place.top - top) / tall);
      if (c < 0 || k < 0 || c >= kind.names.length || k >= rows.length) return;
      const z = kind.z[rows[k]][c];
      note.textContent = `${kind.robots[rows[k]]}, ${kind.names[c]}: ${z === null ? "not compared" : `${number(z, 3)} sigma from the others`}`;
    });
  }
}

function fleetKinds() {
  const rows = data.kinds.flatMap((kind) => kind.table.map((row) => ({ kind: kind.name, ...row })));
  table(at("kinds"), [
    { key: "parameter", title: "parameter" }, { key: "mean", title: "mean" }, { key: "std", title: "std of the mean", digits: 2 },
    { key: "spread", title: "spread between robots", digits: 3 }, { key: "unit", title: "unit" },
    { key: "robots", title: "robots" }, { key: "kind", title: "kind", text: true },
  ], rows, { search: true });
}

function fleetTrends() {
  if (!data.trends.length) { html("p", { class: "soft" }, at("trends"), "No recording has a date, or there are too few."); return; }
  const controls = html("p", { class: "controls soft" }, at("trends"), "Robot: ");
  const choice = html("select", { "aria-label": "robot" }, controls);
  data.trends.forEach((one, k) => html("option", { value: k }, choice, one.changed ? `${one.id} (changed)` : one.id));
  const place = html("div", { class: "charts" }, at("trends"));
  function show() {
    place.replaceChildren();
    for (const joint of data.trends[+choice.value].joints) {
      const keys = [["measured", "one recording each"]];
      if (joint.left) keys.push(["residual", `left its band on ${day(joint.left)}`]);
      if (joint.slope !== null) keys.push(["prior", `${number(100 * joint.slope, 2)} % a day`]);
      const box = figure(place, joint.name, keys);
      const days = joint.t.map((t) => (t - joint.t[0]) / 86400);
      picture(box, 190, `friction of ${joint.name}`, (root, width) => {
        const band = joint.low === null ? [] : [joint.low, joint.high];
        const x = extent([days, [0, 1]]), y = extent([joint.y, band]);
        const { px, py } = axes(root, width, 190, x, y, `days since ${day(joint.t[0])}`, `friction [${joint.unit}]`);
        for (const edge of band) svg("line", { class: "series prior", x1: px(x[0]), x2: px(x[1]), y1: py(edge), y2: py(edge) }, root);
        if (joint.left) {
          const at = px((joint.left - joint.t[0]) / 86400);
          svg("line", { class: "residual", x1: at, x2: at, y1: MARGIN.top, y2: 190 - MARGIN.bottom }, root);
        }
        const dots = svg("g", {}, root);
        days.forEach((d, k) => svg("circle", { class: "measured", fill: "currentColor", cx: px(d), cy: py(joint.y[k]), r: 2.5 }, dots));
      });
    }
  }
  choice.addEventListener("change", show);
  show();
}

function fleetLists() {
  table(at("outliers"), [
    { key: "robot", title: "robot" }, { key: "parameter", title: "parameter" }, { key: "sigmas", title: "sigmas", digits: 3 },
    { key: "value", title: "value" }, { key: "mean", title: "mean of the others" }, { key: "spread", title: "spread", digits: 3 },
    { key: "unit", title: "unit" },
  ], data.outliers, { search: true });
  table(at("worst"), [
    { key: "robot", title: "robot" }, { key: "together", title: "error with the others [%]", digits: 3 },
    { key: "alone", title: "error alone [%]", digits: 3 }, { key: "recording", title: "recording", text: true },
  ], data.worst, { search: true });
  table(at("failed"), [
    { key: "robot", title: "robot" }, { key: "recording", title: "recording", text: true },
    { key: "reason", title: "why it was not used", text: true },
  ], data.failed, { search: true });
}

[fleetRobots, fleetHeat, fleetTrends, fleetKinds, fleetLists].forEach((draw) => draw());
