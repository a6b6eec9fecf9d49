"use strict";
// Curves over time on a canvas, with limits as dashed lines and a cursor that all charts share.

const PALETTE = ["#1c7ed6", "#e8590c", "#2f9e44", "#9c36b5", "#c2255c", "#0c8599", "#9a7500", "#5f3dc4"];
const colourOf = (k) => PALETTE[k % PALETTE.length];

function ticks(low, high, count) {
  const step = 10 ** Math.floor(Math.log10((high - low) / count || 1));
  const nice = [1, 2, 5, 10].map((k) => k * step).find((s) => (high - low) / s <= count + 1) || step;
  const marks = [];
  for (let k = Math.ceil(low / nice); k * nice <= high + nice * 1e-9; k += 1) marks.push(+(k * nice).toPrecision(12));
  return marks;
}

function short(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const length = Math.abs(value);
  return length !== 0 && (length < 1e-3 || length >= 1e5) ? value.toExponential(digits - 1) : String(+value.toPrecision(digits));
}

class Chart {
  // series: [{name, colour, values, times?, dash?}], limits: [[low, high]] of each series or null
  constructor(parent, title, unitText, pick) {
    this.box = html("figure", {}, parent);
    const caption = html("figcaption", {}, this.box);
    html("b", {}, caption, title);
    html("span", { class: "soft" }, caption, unitText);
    this.now = html("span", { class: "now" }, caption);
    this.canvas = html("canvas", { class: "chart", role: "img", "aria-label": `${title} over time` }, this.box);
    this.series = []; this.range = [0, 1]; this.cursor = null; this.hidden = new Set();
    this.pick = pick;
    if (pick) {
      const at = (e) => {
        const box = this.canvas.getBoundingClientRect(), x = (e.clientX - box.left - this.left) / (box.width - this.left - 8);
        pick(this.range[0] + Math.min(1, Math.max(0, x)) * (this.range[1] - this.range[0]));
      };
      this.canvas.addEventListener("pointerdown", (e) => { this.canvas.setPointerCapture(e.pointerId); at(e); });
      this.canvas.addEventListener("pointermove", (e) => { if (e.buttons) at(e); });
    }
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  set(series, range) { this.series = series; this.range = range; this.still = null; this.draw(); }

  at(t) { this.cursor = t; this.draw(); }

  draw() {
    const ratio = Math.min(devicePixelRatio || 1, 2), w = this.canvas.clientWidth, h = this.canvas.clientHeight;
    if (!w || !h) return;
    this.canvas.width = w * ratio; this.canvas.height = h * ratio;
    const g = this.canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const soft = style.getPropertyValue("--soft"), line = style.getPropertyValue("--line"), ink = style.getPropertyValue("--ink");
    g.scale(ratio, ratio);
    const shown = this.series.filter((s) => !this.hidden.has(s.name));
    let low = Infinity, high = -Infinity;
    for (const s of shown) for (const v of s.values) if (Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
    if (!(low <= high)) { low = -1; high = 1; }
    const pad = 0.06 * (high - low || Math.abs(high) || 1);
    low -= pad; high += pad;
    this.left = 46;
    const right = w - 8, top = 6, bottom = h - 20;
    const x = (t) => this.left + (t - this.range[0]) / (this.range[1] - this.range[0] || 1) * (right - this.left);
    const y = (v) => bottom - (v - low) / (high - low) * (bottom - top);
    g.font = "11px system-ui, sans-serif"; g.fillStyle = soft; g.strokeStyle = line; g.lineWidth = 1;
    g.textAlign = "right"; g.textBaseline = "middle";
    for (const v of ticks(low, high, 4)) {
      g.beginPath(); g.moveTo(this.left, y(v)); g.lineTo(right, y(v)); g.stroke();
      g.fillText(short(v), this.left - 5, y(v));
    }
    g.textAlign = "center"; g.textBaseline = "top";
    for (const t of ticks(...this.range, Math.max(3, Math.floor(w / 90)))) g.fillText(short(t), x(t), bottom + 5);
    g.save();
    g.beginPath(); g.rect(this.left, top, right - this.left, bottom - top); g.clip();
    for (const s of shown) {
      g.strokeStyle = s.colour;
      if (s.limits) {
        g.globalAlpha = 0.5; g.setLineDash([2, 4]);
        for (const v of s.limits) if (v !== null && v > low && v < high) { g.beginPath(); g.moveTo(this.left, y(v)); g.lineTo(right, y(v)); g.stroke(); }
        g.globalAlpha = 1; g.setLineDash([]);
      }
      g.lineWidth = s.width || 1.4; g.setLineDash(s.dash || []);
      g.beginPath();
      const n = s.values.length, step = Math.max(1, Math.floor(n / (2 * w)));
      let pen = false;
      for (let k = 0; k < n; k += step) {
        if (!Number.isFinite(s.values[k])) { pen = false; continue; }
        const t = s.times ? s.times[k] : this.range[0] + (this.range[1] - this.range[0]) * k / (n - 1);
        if (pen) g.lineTo(x(t), y(s.values[k])); else g.moveTo(x(t), y(s.values[k]));
        pen = true;
      }
      g.stroke(); g.setLineDash([]);
    }
    g.restore();
    if (this.cursor !== null) {
      g.strokeStyle = ink; g.lineWidth = 1.2; g.globalAlpha = 0.8;
      g.beginPath(); g.moveTo(x(this.cursor), top); g.lineTo(x(this.cursor), bottom); g.stroke();
      g.globalAlpha = 1;
    }
  }
}
