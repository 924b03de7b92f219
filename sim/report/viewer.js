"use strict";
// The timeline: rows of bars on a canvas. Only what shows is drawn: a binary search finds the first bar of a row, and
// bars narrower than a pixel become one column whose opacity is the share of the pixel they fill.
// The page's data: rows, tables of ops and of actions (kind, stage, chunk, microbatch; -1: none), and packed columns (see packing.py).

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

function columns(buffer, n) {
  return {
    start: new Float64Array(buffer, 0, n),
    duration: new Float32Array(buffer, 8 * n, n),
    op: new Uint32Array(buffer, 12 * n, n),
    action: new Uint32Array(buffer, 16 * n, n),
  };
}

function seconds(t) {
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "us"]];
  const [size, name] = units.find(([u]) => Math.abs(t) >= u) || [1e-9, "ns"];
  return (t / size).toPrecision(4) + " " + name;
}

function quantity(value, unit, base) {
  const prefixes = base === 1024 ? ["", "Ki", "Mi", "Gi", "Ti", "Pi"] : ["", "k", "M", "G", "T", "P", "E"];
  let i = 0;
  while (Math.abs(value) >= base && i < prefixes.length - 1) { value /= base; i++; }
  return (i ? value.toPrecision(4) : String(value)) + " " + prefixes[i] + unit;
}

// A colour with white in it (or, below zero, black), as the palette's mix.
function mix(colour, white) {
  const target = white >= 0 ? 255 : 0, share = Math.abs(white);
  const parts = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return "rgb(" + parts.map((c) => Math.round(c + (target - c) * share)).join(",") + ")";
}

function ink(colour) {
  const [r, g, b] = colour.match(/\d+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b < 140 ? "#fff" : "#1a1a1a";
}

class Viewer {
  constructor(canvas, tip, data, arrays) {
    Object.assign(this, { canvas, tip, data, arrays, pane: canvas.parentElement, context: canvas.getContext("2d") });
    Object.assign(this, { low: 0, high: data.end, end: data.end });
    this.stats = { draws: 0, bars: 0, ms: 0 };
    this.match = this.pinned = null;
    this.colours = this.colourTable();
    this.busy = this.prefixes();
    this.listen();
    this.resize();
  }

  // Colour of an op by chunk; ink on it.
  colourTable() {
    this.chunkOf = this.data.actions.map((action) => Math.max(action[2], 0));
    const chunks = 1 + this.chunkOf.reduce((most, chunk) => Math.max(most, chunk), 0);
    const table = [];
    for (const op of this.data.ops) {
      const shades = [];
      for (let c = 0; c < (op.shaded ? chunks : 1); c++) {
        const fill = mix(op.colour, op.shaded && chunks > 1 ? -0.25 + (0.8 * c) / (chunks - 1) : 0);
        shades.push({ fill, ink: ink(fill) });
      }
      table.push(shades);
    }
    return table;
  }

  colour(i) {
    const shades = this.colours[this.arrays.op[i]];
    return shades[shades.length > 1 ? this.chunkOf[this.arrays.action[i]] : 0];
  }

  // Busy seconds before every bar, for the opacity of columns that hold many.
  prefixes() {
    const sum = new Float64Array(this.data.length + 1), duration = this.arrays.duration;
    for (let i = 0; i < this.data.length; i++) sum[i + 1] = sum[i] + duration[i];
    return sum;
  }

  // Rows as high as the window allows: all of them are seen at once, or at the least height within the scrolled pane.
  layout() {
    const limit = 0.8 * window.innerHeight - 2, many = this.data.rows.length > 24;
    this.left = 92;
    for (let share = 1; share > 0.3; share -= 0.05) {
      this.place(Math.max((many ? 18 : 26) * share, 7), Math.max((many ? 5 : 14) * share, 2), Math.max(7 * share, 2), share > 0.8 ? 1 : 0.5);
      if (this.height <= limit) return;
    }
  }

  place(high, thin, apart, gap) {
    let y = 20, before = null, run = null;
    for (const row of this.data.rows) {
      if (this.data.runs > 1 && row.run !== run) { y += 20; row.heading = row.run; run = row.run; }
      const group = row.run + "/" + row.rank;
      if (group !== before) { y += before === null ? 0 : apart; row.first = true; before = group; }
      row.y = y;
      row.h = row.computes ? high : thin;
      y += row.h + gap;
    }
    this.height = Math.ceil(y + 6);
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    this.layout();
    this.width = this.canvas.clientWidth || 1000;
    Object.assign(this.canvas, { width: this.width * ratio, height: this.height * ratio });
    this.canvas.style.height = this.height + "px";
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.draw();
  }

  x(t) { return this.left + ((t - this.low) / (this.high - this.low)) * (this.width - this.left); }
  time(x) { return this.low + ((x - this.left) / (this.width - this.left)) * (this.high - this.low); }

  // First bar of [a, b) that starts at or after t.
  after(a, b, t) {
    const start = this.arrays.start;
    while (a < b) {
      const m = (a + b) >>> 1;
      if (start[m] < t) a = m + 1; else b = m;
    }
    return a;
  }

  // The slice to draw: whole actions as long as kernels would be slivers.
  slice(row) {
    if (!row.far) return row.spans;
    const [a, b] = row.spans, i = this.after(a, b, this.low), j = this.after(a, b, this.high);
    const pixels = ((this.width - this.left) * (this.busy[j] - this.busy[i])) / (this.high - this.low);
    return j - i > 0 && pixels / (j - i) < 3 ? row.far : row.spans;
  }

  draw() {
    const begin = performance.now(), g = this.context;
    g.clearRect(0, 0, this.width, this.height);
    g.font = "10px system-ui, sans-serif";
    g.textBaseline = "middle";
    this.stats.bars = 0;
    for (const row of this.data.rows) {
      g.fillStyle = "#f4f4f4";
      g.fillRect(this.left, row.y, this.width - this.left, row.h);
      if (row.computes && row.idle) this.drawIdle(row);
      this.drawRow(row, ...this.slice(row));
      this.label(row);
    }
    this.axis();
    Object.assign(this.stats, { draws: this.stats.draws + 1, ms: performance.now() - begin });
  }

  label(row) {
    const g = this.context;
    g.fillStyle = "#333";
    g.textAlign = "right";
    if (row.heading) this.heading(row);
    if (row.computes && row.first) g.fillText("rank " + row.rank.toLocaleString("en"), this.left - 6, row.y + row.h / 2);
    else if (row.h >= 10) g.fillText(row.name, this.left - 6, row.y + row.h / 2);
  }

  // The name of a run above its first row.
  heading(row) {
    const g = this.context, font = g.font;
    g.font = "bold 12px system-ui, sans-serif";
    g.textAlign = "left";
    g.fillText(row.heading, 4, row.y - 10);
    g.font = font;
    g.textAlign = "right";
  }

  drawIdle(row) {
    const g = this.context, [a, b] = row.idle, { start, duration } = this.arrays;
    for (let i = Math.max(a, this.after(a, b, this.low) - 1); i < b && start[i] < this.high; i++) {
      const x0 = Math.max(this.x(start[i]), this.left), x1 = this.x(start[i] + duration[i]);
      if (x1 - x0 < 1.5) continue;
      g.fillStyle = mix(this.data.ops[this.arrays.op[i]].colour, 0.45);
      g.fillRect(x0, row.y + row.h - 3, x1 - x0, 3);
    }
  }

  drawRow(row, a, b) {
    const g = this.context, { start, duration } = this.arrays, pixel = (this.high - this.low) / (this.width - this.left);
    let i = Math.max(a, this.after(a, b, this.low) - 1);
    while (i < b && start[i] < this.high) {
      const end = start[i] + duration[i];
      if (end <= this.low) { i++; continue; }
      const shade = this.colour(i);
      g.fillStyle = shade.fill;
      if (duration[i] >= pixel) {
        const x0 = Math.max(this.x(start[i]), this.left), x1 = Math.min(this.x(end), this.width);
        const w = x1 - x0, gap = w > 4 ? 0.6 : 0;
        g.fillRect(x0, row.y, w - gap, row.h);
        if (this.marked(i)) this.mark(row, x0, w);
        if (w > 9 && row.h >= 10) this.write(i, row, x0, w, shade.ink);
        i++;
      } else {
        const x0 = Math.floor(this.x(start[i])), next = this.after(i + 1, b, this.time(x0 + 1));
        g.globalAlpha = Math.min(1, Math.max(0.25, (this.busy[next] - this.busy[i]) / pixel));
        g.fillRect(Math.max(x0, this.left), row.y, 1, row.h);
        g.globalAlpha = 1;
        if (this.match !== null) for (let k = i; k < next; k++) if (this.marked(k)) { this.mark(row, x0, 1); break; }
        i = next;
      }
      this.stats.bars++;
    }
  }

  marked(i) { return i === this.pinned || (this.match !== null && this.match[this.arrays.op[i]]); }

  mark(row, x, w) {
    const g = this.context;
    g.strokeStyle = "#000";
    g.lineWidth = 1.5;
    g.strokeRect(x, row.y + 0.75, Math.max(w, 1), row.h - 1.5);
  }

  write(i, row, x, w, colour) {
    const g = this.context, op = this.data.ops[this.arrays.op[i]];
    const [, , , microbatch] = this.data.actions[this.arrays.action[i]];
    const far = row.far && i >= row.far[0] && i < row.far[1];
    const text = far && this.data.microbatches > 1 ? (microbatch < 0 ? op.name : String(microbatch)) : op.name;
    const width = g.measureText(text).width;
    if (width > w - 3) return;
    g.fillStyle = colour;
    g.textAlign = "center";
    g.fillText(text, x + w / 2, row.y + row.h / 2);
  }

  axis() {
    const g = this.context, span = this.high - this.low, top = this.pane.scrollTop;
    if (top) { g.fillStyle = "#fff"; g.fillRect(0, top, this.width, 14); }
    const raw = span / Math.max(2, (this.width - this.left) / 110), ten = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((k) => k * ten).find((s) => s >= raw);
    g.textAlign = "center";
    for (let t = Math.ceil(this.low / step) * step; t <= this.high; t += step) {
      const x = this.x(t);
      g.fillStyle = "rgba(0,0,0,0.10)";
      g.fillRect(x, top + 14, 1, this.height - 18 - top);
      g.fillStyle = "#555";
      g.fillText(this.tick(t, step), Math.min(x, this.width - 22), top + 7);
    }
  }

  tick(t, step) {
    const [size, name] = step >= 0.1 ? [1, "s"] : step >= 1e-4 ? [1e-3, "ms"] : [1e-6, "us"];
    return (t / size).toFixed(Math.max(0, Math.min(4, Math.ceil(-Math.log10(step / size))))) + " " + name;
  }

  show(low, high) {
    const least = this.end * 1e-8, span = Math.min(Math.max(high - low, least), this.end);
    this.low = Math.min(Math.max(low, 0), this.end - span);
    this.high = this.low + span;
    if (!this.waiting) {
      this.waiting = true;
      requestAnimationFrame(() => { this.waiting = false; this.draw(); });
    }
  }

  zoom(factor, t = (this.low + this.high) / 2) { this.show(t - (t - this.low) * factor, t + (this.high - t) * factor); }
  pan(share) { const d = (this.high - this.low) * share; this.show(this.low + d, this.high + d); }

  // What is under a point: {row, index} of a bar, or of an idle interval.
  at(x, y) {
    const row = this.data.rows.find((r) => y >= r.y && y < r.y + r.h);
    if (!row || x < this.left) return null;
    const t = this.time(x), slack = (this.high - this.low) / (this.width - this.left), { start, duration } = this.arrays;
    for (const [a, b] of [this.slice(row), row.idle || [0, 0]]) {
      const i = this.after(a, b, t + slack) - 1;
      if (i >= a && start[i] + duration[i] >= t - slack) return { row, index: i };
    }
    return { row, index: -1 };
  }

  describe({ row, index: i }) {
    const where = "rank " + row.rank.toLocaleString("en") + (row.size > 1 ? " (of " + row.size.toLocaleString("en") + " alike)" : "")
      + ", pipeline place " + row.place + ", stream " + row.name;
    if (i < 0) return [["", where], ["", "idle: nothing is posted"]];
    const op = this.data.ops[this.arrays.op[i]], [kind, ...numbers] = this.data.actions[this.arrays.action[i]];
    const start = this.arrays.start[i], duration = this.arrays.duration[i];
    const named = ["stage", "chunk", "microbatch"].map((name, k) => (numbers[k] < 0 ? "" : name + " " + numbers[k]));
    const part = [kind, ...named].filter(Boolean).join(", ");
    const lines = [["", op.name], ["time", seconds(start) + " + " + seconds(duration)], ["part of", part]];
    for (const [key, value] of Object.entries(op.facts)) {
      if (value === "" || value === 0) continue;
      const text = key === "bytes" ? quantity(value, "B", 1024) : key === "flops"
        ? quantity(value, "FLOP", 1000) + " (" + quantity(value / duration, "FLOP/s", 1000) + ")" : String(value);
      lines.push([key === "idle" ? "cause" : key, text]);
      if (key === "bytes" && !("flops" in op.facts)) lines.push(["rate", quantity(value / duration, "B/s", 1000)]);
    }
    return [...lines, ["on", where]];
  }

  hover(x, y) {
    const found = this.at(x, y);
    this.hovered = found;
    if (!found) { this.tip.hidden = true; return; }
    this.tip.replaceChildren(...this.describe(found).map(([key, text]) => {
      const line = document.createElement("div");
      if (key) line.append(Object.assign(document.createElement("b"), { textContent: key + " " }));
      line.append(text);
      return line;
    }));
    this.tip.hidden = false;
    const box = this.canvas.getBoundingClientRect(), w = this.tip.offsetWidth, h = this.tip.offsetHeight;
    this.tip.style.left = Math.max(4, Math.min(box.left + x + 14, window.innerWidth - w - 8)) + "px";
    this.tip.style.top = (box.top + y + 16 + h > window.innerHeight ? box.top + y - h - 10 : box.top + y + 16) + "px";
  }

  // Mark bars whose op's name holds the text and show the next one after the middle; returns how many there are.
  find(text) {
    const words = text.trim().toLowerCase();
    this.match = words ? this.data.ops.map((op) => "op" in op.facts && op.name.toLowerCase().includes(words)) : null;
    let count = 0, best = -1;
    if (words) {
      const middle = (this.low + this.high) / 2;
      for (const row of this.data.rows) {
        for (let i = row.spans[0]; i < row.spans[1]; i++) {
          if (!this.match[this.arrays.op[i]]) continue;
          count++;
          const t = this.arrays.start[i];
          if (t > middle && (best < 0 || t < this.arrays.start[best])) best = i;
          else if (best < 0 && count === 1) this.fallback = i;
        }
      }
      if (count) this.focus(best >= 0 ? best : this.fallback);
    } else this.draw();
    return count;
  }

  focus(i) {
    const t = this.arrays.start[i], d = this.arrays.duration[i];
    this.pinned = i;
    this.show(t + d / 2 - d * 8, t + d / 2 + d * 8);
  }

  listen() {
    const canvas = this.canvas;
    const place = (e) => { const box = canvas.getBoundingClientRect(); return [e.clientX - box.left, e.clientY - box.top]; };
    let drag = null;
    canvas.addEventListener("wheel", (e) => {
      if (!(e.ctrlKey || e.metaKey || e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))) return;
      e.preventDefault();
      if (Math.abs(e.deltaX) > Math.abs(e.deltaY) && !e.shiftKey) this.pan(e.deltaX / this.width);
      else this.zoom(Math.exp((e.deltaY || e.deltaX) / 300), this.time(place(e)[0]));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (e) => {
      drag = { x: place(e)[0], low: this.low, high: this.high };
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      const [x, y] = place(e);
      if (!drag) { this.hover(x, y); return; }
      const d = ((drag.x - x) / (this.width - this.left)) * (drag.high - drag.low);
      this.show(drag.low + d, drag.high + d);
      this.tip.hidden = true;
    });
    canvas.addEventListener("pointerup", (e) => {
      if (drag && Math.abs(place(e)[0] - drag.x) < 3 && this.hovered) { this.pinned = this.hovered.index; this.draw(); }
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("dblclick", (e) => this.zoom(0.25, this.time(place(e)[0])));
    canvas.addEventListener("keydown", (e) => {
      const act = {
        w: () => this.zoom(0.6), s: () => this.zoom(1 / 0.6), a: () => this.pan(-0.2), d: () => this.pan(0.2),
        ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), "+": () => this.zoom(0.6),
        "-": () => this.zoom(1 / 0.6), "0": () => this.show(0, this.end),
      }[e.key];
      if (act) { act(); e.preventDefault(); }
    });
    this.pane.addEventListener("scroll", () => this.draw());
    window.addEventListener("resize", () => this.resize());
    window.addEventListener("beforeprint", () => this.resize());
  }
}

async function main() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const arrays = columns(await unpack(data.columns), data.length);
  const viewer = new Viewer(document.getElementById("timeline"), document.getElementById("tip"), data, arrays);
  const on = (id, event, act) => document.getElementById(id).addEventListener(event, act);
  on("in", "click", () => viewer.zoom(0.5));
  on("out", "click", () => viewer.zoom(2));
  on("all", "click", () => viewer.show(0, viewer.end));
  on("find", "keydown", (e) => {
    if (e.key !== "Enter") return;
    const count = viewer.find(e.target.value);
    document.getElementById("found").textContent = e.target.value ? count.toLocaleString("en") + " found" : "";
  });
  window.viewer = viewer;
}

main();
