// The space-time diagram: a line for each site, time to the right, messages as arrows. Only what is seen is drawn.

import { palette, kindColour } from "./colours.js";
import { lowerBound } from "./model.js";

/** Room for the sites' names: the least, the most, and of each letter. */
const [MIN_LEFT, MAX_LEFT, LETTER] = [46, 150, 7.6];
const TOP = 26;
const BOTTOM = 14;
/** With more arrows in view than this, only a part of them is drawn, and the diagram says so. */
const MAX_ARROWS = 3000;
/** With more arrows in view than this they are thin and pale, so that bars and marks stay readable. */
const DENSE = 400;
const WIDEST = 90;

/** A name that fits. */
function short(name) {
  const most = Math.floor((MAX_LEFT - 16) / LETTER);
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

export class Diagram {
  /** `on` has `step(step, site)`, `message(message, x, y)`, `hover(text)`. */
  constructor(canvas, on) {
    this.canvas = canvas;
    this.on = on;
    this.model = null;
    this.at = 0;
    this.left = -1;
    this.wide = 34;
    this.margin = MIN_LEFT;
    this.axis = "steps";
    this.selected = 0;
    this.hovered = null;
    this.edge = null;
    this.frame = 0;
    this.colours = palette();
    this.#listen();
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.retheme());
  }

  retheme() {
    this.colours = palette();
    this.draw();
  }

  show(model, at, selected) {
    const fresh = this.model === null || this.model.sites !== model.sites;
    this.model = model;
    const longest = model.names.reduce((most, name) => Math.max(most, name.length), 0);
    this.margin = Math.min(MAX_LEFT, Math.max(MIN_LEFT, longest * LETTER + 16));
    this.at = at;
    this.selected = selected;
    this.hovered = null;
    this.edge = null;
    if (fresh) this.left = -1;
    this.follow();
    this.draw();
  }

  /** Moves the window so that the present step is in it. */
  follow() {
    const seen = this.width() / this.wide;
    const x = this.place(this.at - 1);
    if (x < this.left || x > this.left + seen - 2) this.left = Math.max(-1, x - seen * 0.7);
  }

  zoom(factor, around = this.width() / 2) {
    const anchor = this.left + around / this.wide;
    const least = Math.min(0.5, this.width() / Math.max(1, this.extent() + 2));
    this.wide = Math.min(WIDEST, Math.max(least, this.wide * factor));
    this.left = anchor - around / this.wide;
    this.pan(0);
  }

  pan(pixels) {
    const most = Math.max(-1, this.extent() + 1 - (this.width() / this.wide) * 0.5);
    this.left = Math.min(most, Math.max(-1, this.left + pixels / this.wide));
    this.draw();
  }

  fit() {
    this.wide = Math.min(WIDEST, this.width() / (this.extent() + 3));
    this.left = -1;
    this.draw();
  }

  width() {
    return Math.max(1, this.canvas.clientWidth - this.margin);
  }

  rowHeight() {
    const rows = this.model ? this.model.sites : 1;
    return Math.max(5, (this.canvas.clientHeight - TOP - BOTTOM) / rows);
  }

  /** Where a step is, in units of the axis. */
  place(step) {
    if (this.axis === "steps" || !this.model) return step;
    const { lines } = this.model;
    if (step < 0) return -0.5;
    const at = Math.min(lowerBound(lines.step, step), this.model.lineCount - 1);
    return at < 0 ? 0 : lines.time[at] * this.scale();
  }

  /** How many units of the axis a unit of time takes, so that both axes are about as long. */
  scale() {
    const { lines, steps } = this.model;
    const last = lines.time[this.model.lineCount - 1] || 1;
    return steps / last;
  }

  extent() {
    return this.model ? this.model.steps : 1;
  }

  x(step) {
    return this.margin + (this.place(step) - this.left) * this.wide;
  }

  y(site) {
    return TOP + (site + 0.5) * this.rowHeight();
  }

  /** The first and the last step in view. */
  window() {
    const right = this.left + this.width() / this.wide;
    if (this.axis === "steps") return [Math.floor(this.left) - 1, Math.ceil(right) + 1];
    const { lines } = this.model, scale = this.scale();
    const first = lowerBound(lines.time, this.left / scale), last = lowerBound(lines.time, right / scale);
    return [lines.step[Math.max(0, first - 1)] ?? 0, lines.step[Math.min(last, this.model.lineCount - 1)] ?? 0];
  }

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  paint() {
    const started = performance.now();
    const { canvas } = this, ratio = devicePixelRatio || 1;
    const [wide, high] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
      canvas.width = Math.round(wide * ratio);
      canvas.height = Math.round(high * ratio);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    if (!this.model) return;
    this.render(pen, wide, high);
    canvas.dataset.frame = (performance.now() - started).toFixed(2);
  }

  /** Draws with `pen`, which is a canvas's or one that writes SVG. */
  render(pen, wide, high) {
    const [first, last] = this.window();
    this.seen = [];
    this.labels = [];
    this.#grid(pen, wide, high, first, last);
    pen.save?.();
    pen.beginPath();
    pen.rect(this.margin, 0, wide - this.margin, high);
    pen.clip?.();
    this.#bars(pen, first, last);
    this.#pastShade(pen);
    this.#arrows(pen, first, last);
    this.#marks(pen, first, last);
    this.#cursor(pen, wide, high);
    pen.restore?.();
    this.#names(pen);
    if (this.part > 1) {
      pen.fillStyle = this.colours.faint;
      pen.font = "11px system-ui, sans-serif";
      pen.textAlign = "right";
      pen.textBaseline = "alphabetic";
      pen.fillText(`one of ${this.part} messages is drawn; zoom in for all`, wide - 8, high - 4);
    }
  }

  #grid(pen, wide, high, first, last) {
    const { colours } = this;
    pen.font = "12px system-ui, sans-serif";
    pen.lineWidth = 1;
    for (let site = 0; site < this.model.sites; site++) {
      pen.strokeStyle = site === this.selected ? colours.faint : colours.grid;
      pen.beginPath();
      pen.moveTo(this.margin, this.y(site));
      pen.lineTo(wide, this.y(site));
      pen.stroke();
    }
    let every = 1;
    while (every * this.wide < 44) every *= every.toString().startsWith("2") ? 2.5 : 2;
    pen.fillStyle = colours.faint;
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    if (this.axis === "steps") {
      for (let step = Math.ceil(Math.max(0, first) / every) * every; step <= Math.min(last, this.model.steps); step += every) {
        const x = this.x(step) ;
        if (x >= this.margin) pen.fillText(String(step + 1), x, 13);
      }
    } else {
      const scale = this.scale(), right = this.left + this.width() / this.wide;
      const unit = Math.max(1, Math.ceil(every / scale));
      for (let time = Math.ceil(Math.max(0, this.left) / scale / unit) * unit; time * scale <= right; time += unit) {
        const x = this.margin + (time * scale - this.left) * this.wide;
        if (x >= this.margin) pen.fillText(`${time} ${this.model.unit}`, x, 13);
      }
    }
  }

  #names(pen) {
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    // Where lines are close together only some have room for a name.
    const every = Math.ceil(13 / this.rowHeight());
    for (let site = 0; site < this.model.sites; site++) {
      if (site % every !== 0 && site !== this.selected) continue;
      pen.fillStyle = site === this.selected ? this.colours.accent : this.colours.text;
      pen.font = `${site === this.selected ? "600 " : ""}13px system-ui, sans-serif`;
      pen.fillText(short(this.model.siteName(site)), this.margin - 10, this.y(site));
    }
  }

  #bars(pen, first, last) {
    const tall = Math.min(16, this.rowHeight() * 0.42);
    for (let site = 0; site < this.model.sites; site++) {
      const y = this.y(site);
      for (const bar of this.model.bars[site]) {
        if (bar.from > last) break;
        if (bar.to < first) continue;
        const from = Math.max(this.x(Math.max(bar.from, first - 1)), this.margin - 2);
        const to = this.x(Math.min(bar.to, this.model.steps, last + 1));
        const h = bar.kind === "waiting" ? tall * 0.5 : tall;
        pen.globalAlpha = bar.from >= this.at ? 0.3 : 1;
        pen.fillStyle = this.colours[bar.kind];
        pen.fillRect(from, y - h / 2, Math.max(1, to - from), h);
      }
    }
    pen.globalAlpha = 1;
  }

  #pastShade(pen) {
    if (!this.edge) return;
    pen.globalAlpha = 0.16;
    pen.fillStyle = this.colours.accent;
    const high = this.rowHeight();
    this.edge.forEach((step, site) => {
      if (step < 0) return;
      const right = this.x(step) + 3;
      if (right > this.margin) pen.fillRect(this.margin, this.y(site) - high * 0.42, right - this.margin, high * 0.84);
    });
    pen.globalAlpha = 1;
  }

  #arrows(pen, first, last) {
    const { model, colours } = this;
    let count = 0;
    model.eachMessage(first, last, () => { count += 1; });
    const part = Math.ceil(count / MAX_ARROWS);
    this.part = part;
    const fine = this.wide > 7, dense = count > DENSE;
    model.eachMessage(first, last, (message) => {
      const hovered = this.hovered?.message === message;
      if (part > 1 && message.number % part !== 0 && !hovered) return;
      if (message.sent >= this.at && !fine && part > 1) return;
      const pending = message.sent < this.at && (message.received >= this.at);
      const never = message.received === Infinity;
      const inPast = this.edge && !message.lost && message.received <= this.edge[message.to] && message.sent <= this.edge[message.from];
      const colour = kindColour(colours, message.kind);
      const x0 = this.x(message.sent), y0 = this.y(message.from);
      let x1 = this.x(never ? model.steps : message.received), y1 = this.y(message.to);
      if (never) {
        // Still on its way at the end: a short stub towards its receiver.
        const reach = Math.min(1, 46 / Math.hypot(Math.max(x1 - x0, 24), y1 - y0));
        x1 = x0 + Math.max(x1 - x0, 24) * reach;
        y1 = y0 + (y1 - y0) * reach;
      }
      if (message.lost) {
        x1 = x0 + (x1 - x0) * 0.7;
        y1 = y0 + (y1 - y0) * 0.7;
      }
      const shade = message.sent >= this.at ? 0.22 : this.edge && !inPast && !hovered ? 0.35 : 1;
      pen.globalAlpha = dense && !inPast && !hovered ? shade * 0.45 : shade;
      pen.strokeStyle = colour;
      pen.fillStyle = colour;
      pen.lineWidth = hovered || inPast ? 2.4 : fine && !dense ? 1.5 : 0.8;
      pen.setLineDash(pending || never ? [5, 4] : []);
      pen.beginPath();
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
      pen.stroke();
      pen.setLineDash([]);
      if (fine) this.#head(pen, x0, y0, x1, y1, message.lost);
      if (fine) this.seen.push({ message, x0, y0, x1, y1, pending });
      if (!dense && this.wide > 26 && Math.hypot(x1 - x0, y1 - y0) > 60 && this.rowHeight() > 34) this.#label(pen, message.kind, x0, y0, x1, y1);
    });
    pen.globalAlpha = 1;
  }

  #label(pen, kind, x0, y0, x1, y1) {
    pen.font = "10px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    const wide = kind.length * 6.6 + 4;
    for (const share of [0.24, 0.45, 0.68]) {
      const x = x0 + (x1 - x0) * share + 5, y = y0 + (y1 - y0) * share;
      const free = this.labels.every((box) => x > box.x + box.wide || box.x > x + wide || Math.abs(y - box.y) > 12);
      if (!free) continue;
      this.labels.push({ x, y, wide });
      pen.fillText(kind, x, y);
      return;
    }
  }

  #head(pen, x0, y0, x1, y1, lost) {
    if (lost) {
      pen.lineWidth = 2;
      pen.beginPath();
      pen.moveTo(x1 - 4, y1 - 4);
      pen.lineTo(x1 + 4, y1 + 4);
      pen.moveTo(x1 + 4, y1 - 4);
      pen.lineTo(x1 - 4, y1 + 4);
      pen.stroke();
      return;
    }
    const angle = Math.atan2(y1 - y0, x1 - x0), size = 7;
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.lineTo(x1 - size * Math.cos(angle - 0.42), y1 - size * Math.sin(angle - 0.42));
    pen.lineTo(x1 - size * Math.cos(angle + 0.42), y1 - size * Math.sin(angle + 0.42));
    pen.fill();
  }

  #marks(pen, first, last) {
    if (this.wide < 4) return;
    const { model, colours } = this, { lines } = model;
    for (let at = lowerBound(lines.step, first); at < model.lineCount && lines.step[at] <= last; at++) {
      const name = model.name[at];
      if (name === "send" || name === "lost") continue;
      const x = this.x(lines.step[at]), y = this.y(lines.site[at]);
      pen.globalAlpha = lines.step[at] >= this.at ? 0.3 : 1;
      pen.fillStyle = name === "fail" || name === "cut" ? colours.broken : colours.text;
      pen.beginPath();
      if (name === "fail") {
        pen.font = "700 14px system-ui, sans-serif";
        pen.textAlign = "center";
        pen.textBaseline = "middle";
        pen.fillText("✕", x, y);
      } else if (name === "view" || name === "gap") {
        // A view begins, or something is not known: a short line across the site's.
        pen.fillStyle = name === "gap" ? colours.broken : colours.accent;
        pen.rect(x - 1.5, y - 11, 3, 22);
        pen.fill();
      } else if (name === "request" || name === "release" || name === "cancel") {
        pen.rect(x - 1, y - 8, 2, 16);
        pen.fill();
      } else {
        pen.arc(x, y, name === "enter" ? 3.6 : 2.3, 0, 7);
        pen.fill();
      }
    }
    pen.globalAlpha = 1;
  }

  #cursor(pen, wide, high) {
    const x = this.at === 0 ? this.x(-0.5) : this.axis === "steps" ? this.x(this.at - 1) + this.wide * 0.5 : this.x(this.at - 1) + 3;
    pen.strokeStyle = this.colours.accent;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x, TOP - 8);
    pen.lineTo(x, high);
    pen.stroke();
    pen.fillStyle = this.colours.accent;
    pen.beginPath();
    pen.moveTo(x - 5, TOP - 10);
    pen.lineTo(x + 5, TOP - 10);
    pen.lineTo(x, TOP - 3);
    pen.fill();
  }

  /** The arrow nearest to a point, if one is near. */
  #nearest(x, y) {
    let best = null, distance = 8;
    for (const arrow of this.seen ?? []) {
      const dx = arrow.x1 - arrow.x0, dy = arrow.y1 - arrow.y0;
      const share = Math.min(1, Math.max(0, ((x - arrow.x0) * dx + (y - arrow.y0) * dy) / (dx * dx + dy * dy || 1)));
      const far = Math.hypot(x - arrow.x0 - share * dx, y - arrow.y0 - share * dy);
      if (far < distance) [best, distance] = [arrow, far];
    }
    return best;
  }

  #point(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const site = Math.floor((y - TOP) / this.rowHeight());
    let step = this.left + (x - this.margin) / this.wide;
    if (this.axis !== "steps" && this.model) {
      const at = Math.min(lowerBound(this.model.lines.time, step / this.scale()), this.model.lineCount - 1);
      step = this.model.lines.step[Math.max(0, at)] ?? 0;
    }
    return { x, y, site, step: Math.round(step) };
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey || event.altKey) this.zoom(Math.exp(-event.deltaY / 200), this.#point(event).x - this.margin);
      else this.pan(event.deltaX + event.deltaY);
    }, { passive: false });
    const fingers = new Map();
    let dragged = 0, apart = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, event);
      dragged = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId);
      if (!before) return this.#hover(event);
      fingers.set(event.pointerId, event);
      if (fingers.size === 2) {
        const [one, other] = [...fingers.values()];
        const now = Math.abs(one.clientX - other.clientX);
        if (apart > 0 && now > 0) this.zoom(now / apart, this.#point(event).x - this.margin);
        apart = now;
        dragged = 99;
        return;
      }
      dragged += Math.abs(event.clientX - before.clientX);
      if (dragged > 4) this.pan(before.clientX - event.clientX);
    });
    const lift = (event) => {
      if (fingers.delete(event.pointerId) && event.type === "pointerup" && dragged <= 4) this.#click(event);
      apart = 0;
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", () => this.point(null));
  }

  #hover(event) {
    if (!this.model) return;
    const { x, y } = this.#point(event);
    const arrow = this.#nearest(x, y);
    if (arrow?.message !== this.hovered?.message) this.point(arrow, x, y);
  }

  /** Points at an arrow: its content and its causal past. */
  point(arrow, x = 0, y = 0) {
    this.hovered = arrow;
    // What can have caused a message happened before it was sent; what its receiver did meanwhile has no part in it.
    const line = arrow ? arrow.message.sentLine : -1;
    this.edge = line >= 0 ? this.model.past(line) : null;
    this.on.hover(arrow ? arrow.message : null, x, y);
    this.draw();
  }

  /** Shades all that can have caused a line. */
  shade(line) {
    this.hovered = null;
    this.edge = this.model.past(line);
    this.draw();
  }

  #click(event) {
    if (!this.model) return;
    const { x, y, site, step } = this.#point(event);
    const arrow = this.#nearest(x, y);
    if (arrow && Math.abs(y - this.y(Math.min(Math.max(site, 0), this.model.sites - 1))) > 9) {
      this.point(arrow, x, y);
      this.on.message(arrow.message, x, y);
      return;
    }
    if (site >= 0 && site < this.model.sites) this.on.step(Math.min(this.model.steps, Math.max(0, step + 1)), site);
  }
}
