// A trace that the simulator, the checker or a cluster has written, drawn and stepped like a run; it cannot be acted on. A file of
// counterexamples of a proof is shown in its place.

import { ask, send } from "./api.js";
import { kindClass } from "./colours.js";
import { h, plain, problem, replace } from "./dom.js";
import { Diagram } from "./diagram.js";
import { EventList } from "./events.js";
import { InductionView } from "./induction.js";
import { Model } from "./model.js";
import { Standing, onlyLock, showLocks, showTraceState } from "./trace_panels.js";

export class TraceView {
  constructor(main) {
    this.main = main;
    this.at = 0;
    this.selected = 0;
  }

  async open(parts = {}) {
    const file = h("input", { type: "file", "aria-label": "A trace file", accept: ".jsonl,.json,.ndjson,.txt", onchange: () => this.#read(file.files[0]) });
    this.box = h("div", {});
    replace(this.main, h("div", { class: "page" }, h("h1", {}, "Open a trace or a counterexample"),
      h("p", { class: "lead" }, "Written by ", h("code", {}, "meshlock sim ALGO --trace FILE"), ", ", h("code", {}, "meshlock check ALGO --trace FILE"), ", ", h("code", {}, "meshlock trace --record FILE"), " or ", h("code", {}, "meshlock prove ALGO --counterexamples FILE"), ". It stays on this machine; the address bar cannot carry it."),
      file, this.box));
    if (parts.opened) await this.#load("the file that the lab was started with", () => ask("opened"));
  }

  #read(file) {
    return file && this.#load(file.name, async () => send("import", await file.text()));
  }

  async #load(name, answered) {
    try {
      this.answer = await answered();
    } catch (error) {
      replace(this.box, problem("This file cannot be drawn", error.message));
      return;
    }
    this.model = null;
    this.induction = this.answer.counterexamples ? new InductionView(this.box, this.answer.counterexamples) : null;
    if (this.induction) return;
    this.frame(this.box, name);
    this.showAll("");
    this.go(0);
  }

  /** Everything around the drawing. */
  frame(box, name) {
    this.title = name;
    this.canvas = h("canvas", { role: "img", tabindex: "0" });
    this.told = h("p", { id: "box-told", class: "told", "aria-live": "polite" });
    this.slider = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Line", oninput: () => this.go(Number(this.slider.value)) });
    this.where = h("span", { class: "where" });
    this.boxes = Object.fromEntries(["legend", "locks", "state", "more"].map((part) => [part, h("div", { class: part === "legend" ? "legend" : "panel", id: `box-${part}` })]));
    this.filter = h("select", { "aria-label": "Lock", onchange: () => this.refilter(this.filter.value) });
    this.events = new EventList((at, site) => { this.selected = site ?? this.selected; this.go(at); });
    const button = (label, text, act) => h("button", { "aria-label": label, title: label, onclick: act }, text);
    replace(box, h("div", { class: "watch" },
      h("section", { class: "drawing-area", "aria-label": "Drawing" },
        h("div", { class: "drawing" }, this.canvas),
        h("div", { class: "row below" }, this.boxes.legend, h("span", { class: "spacer" }), this.filter,
          button("Zoom out", "−", () => this.diagram.zoom(0.7)), button("Zoom in", "+", () => this.diagram.zoom(1.4)), button("All of it", "fit", () => this.diagram.fit())),
        h("div", { class: "controls" }, this.controls(button), this.slider, this.where), this.told),
      h("section", { class: "side", "aria-label": "At this line" }, this.boxes.more, this.boxes.locks, this.boxes.state, this.events.box)));
    this.diagram = new Diagram(this.canvas, {
      step: (step, site) => { this.selected = site; this.go(step); },
      message: (message) => this.#tellMessage(message),
      hover: (message) => message && this.#tellMessage(message),
    });
  }

  /** The buttons that move. */
  controls(button) {
    return [button("One line back", "◀", () => this.go(this.at - 1)), button("One line forward", "▶|", () => this.go(this.at + 1)), button("To the next entry", "entry ▸", () => this.go(this.model.nextEntry(this.at) ?? this.model.steps))];
  }

  #tellMessage(message) {
    const { model } = this;
    this.told.textContent = `${message.kind} ${model.siteName(message.from)} → ${model.siteName(message.to)}: ${plain(model.lines.texts[message.text])}`;
  }

  /** Another lock is to be shown, or all. */
  refilter(lock) {
    this.showAll(lock);
    this.go(0);
  }

  /** Draws all lines that are about `lock`, or all. */
  showAll(lock) {
    const { answer } = this;
    const lines = lock ? onlyLock(answer.lines, lock) : answer.lines;
    this.take(new Model({ ...answer, lines, steps: lines.step.length }), answer.lines.locks ?? [], lock);
  }

  /** Shows a model, from whose locks one can choose. */
  take(model, locks, lock) {
    this.model = model;
    this.standing = new Standing(model);
    this.offer(locks, lock);
    this.shown();
  }

  offer(locks, lock) {
    const named = locks.filter((name) => name !== "");
    this.filter.hidden = named.length < 2;
    const wanted = ["", ...named];
    if (this.filter.options.length !== wanted.length) replace(this.filter, wanted.map((name) => h("option", { value: name }, name || "all locks")));
    this.filter.value = lock;
  }

  /** There may be more lines than before. */
  shown() {
    const { model, canvas } = this;
    canvas.setAttribute("aria-label", `${this.title}: ${model.sites} sites, ${model.lineCount} events`);
    canvas.dataset.events = model.lineCount;
    this.slider.max = model.steps;
    const kinds = model.kinds.join();
    if (this.boxes.legend.dataset.kinds !== kinds) {
      this.boxes.legend.dataset.kinds = kinds;
      replace(this.boxes.legend, model.kinds.map((kind) => h("span", { class: kindClass(kind) }, kind)), h("span", { class: "bar-waiting" }, "waits"), h("span", { class: "bar-inside" }, "inside"), h("span", { class: "bar-failed" }, "not in the view"));
    }
  }

  retheme() {
    this.diagram?.retheme();
  }

  go(at) {
    if (!this.model) return;
    const { model } = this;
    this.at = Math.max(0, Math.min(at, model.steps));
    this.selected = Math.min(this.selected, Math.max(0, model.sites - 1));
    this.slider.value = this.at;
    this.where.textContent = `${this.at} / ${model.steps}`;
    this.diagram.show(model, this.at, this.selected);
    this.events.show(model, this.at);
    this.told.textContent = this.at === 0 ? "Start. Press → to step." : `Line ${this.at}: ${model.tell(this.at - 1)} (${Number(model.lines.time[this.at - 1].toFixed(3))} ${model.unit})`;
    showLocks(this.boxes.locks, model, this.standing.after(this.at));
    showTraceState(this.boxes.state, model, this.selected, this.at).catch((error) => { this.told.textContent = error.message; });
  }

  key(event) {
    if (this.induction) return this.induction.key(event);
    if (!this.model || /^(SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const far = event.shiftKey ? 10 : 1, { model } = this;
    const actions = {
      ArrowRight: () => this.go(this.at + far), PageDown: () => this.go(this.at + 1), ArrowLeft: () => this.go(this.at - far), PageUp: () => this.go(this.at - 1),
      Home: () => this.go(0), End: () => this.go(model.steps), n: () => this.go(model.nextEntry(this.at) ?? model.steps), p: () => this.go(model.previousEntry(this.at) ?? 0),
      ArrowDown: () => this.#select(this.selected + 1), ArrowUp: () => this.#select(this.selected - 1),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  #select(site) {
    this.selected = Math.max(0, Math.min(site, this.model.sites - 1));
    this.go(this.at);
  }
}
