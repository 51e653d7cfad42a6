// A trace that the simulator or the checker has written, drawn and stepped like a run; it cannot be acted on.

import { send } from "./api.js";
import { h, plain, problem, replace } from "./dom.js";
import { Diagram } from "./diagram.js";
import { Model } from "./model.js";

export class TraceView {
  constructor(main) {
    this.main = main;
    this.at = 0;
  }

  open() {
    const file = h("input", { type: "file", "aria-label": "A trace file", accept: ".jsonl,.json,.ndjson,.txt", onchange: () => this.#read(file.files[0]) });
    this.box = h("div", { class: "stage", style: "height:70vh;display:flex;flex-direction:column" });
    replace(this.main, h("div", { class: "page" }, h("h1", {}, "Open a trace"),
      h("p", { class: "lead" }, "Written by ", h("code", {}, "meshlock sim ALGO --trace FILE"), " or ", h("code", {}, "meshlock check ALGO --trace FILE"), ". It stays on this machine; the address bar cannot carry it."),
      file, this.box));
  }

  async #read(file) {
    if (!file) return;
    try {
      this.model = new Model(await send("import", await file.text()));
    } catch (error) {
      replace(this.box, problem("This file cannot be drawn", error.message));
      return;
    }
    const canvas = h("canvas", { role: "img", tabindex: "0", "aria-label": `${file.name}: ${this.model.sites} sites, ${this.model.lineCount} events` });
    canvas.dataset.events = this.model.lineCount;
    this.told = h("p", { id: "box-told", class: "told", "aria-live": "polite" });
    this.slider = h("input", { type: "range", min: 0, max: this.model.steps, value: 0, "aria-label": "Line", oninput: () => this.go(Number(this.slider.value)) });
    replace(this.box, h("div", { class: "drawing" }, canvas),
      h("div", { class: "controls" }, h("button", { "aria-label": "One line back", onclick: () => this.go(this.at - 1) }, "◀"), h("button", { "aria-label": "One line forward", onclick: () => this.go(this.at + 1) }, "▶|"), this.slider,
        h("button", { "aria-label": "Zoom out", onclick: () => this.diagram.zoom(0.7) }, "−"), h("button", { "aria-label": "Zoom in", onclick: () => this.diagram.zoom(1.4) }, "+"), h("button", { onclick: () => this.diagram.fit() }, "fit")), this.told);
    this.diagram = new Diagram(canvas, { step: (step) => this.go(step), message() {}, hover: (message) => { if (message) this.told.textContent = `${message.kind} S${message.from} → S${message.to}: ${plain(this.model.lines.texts[message.text])}`; } });
    this.go(0);
  }

  retheme() {
    this.diagram?.retheme();
  }

  go(at) {
    if (!this.model) return;
    this.at = Math.max(0, Math.min(at, this.model.steps));
    this.slider.value = this.at;
    this.diagram.show(this.model, this.at, -1);
    this.told.textContent = this.at === 0 ? "Start. Press → to step." : `Line ${this.at}: ${this.model.tell(this.at - 1)} (time ${this.model.lines.time[this.at - 1]})`;
  }

  key(event) {
    if (/^(SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const far = event.shiftKey ? 10 : 1;
    const to = { ArrowRight: this.at + far, PageDown: this.at + 1, ArrowLeft: this.at - far, PageUp: this.at - 1, Home: 0, End: this.model?.steps ?? 0 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.go(to);
  }
}
