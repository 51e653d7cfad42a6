// One run: what the address bar says, what the server answers, and all that is drawn of it.

import { ask, algorithms } from "./api.js";
import { show as showAddress } from "./address.js";
import { h, problem, replace, toast } from "./dom.js";
import { Model } from "./model.js";
import { Diagram } from "./diagram.js";
import { kindClass } from "./colours.js";
import { setupForm } from "./setup_form.js";
import { showSites, showPending, showNetwork } from "./act_panels.js";
import { showState, showCounters, showLamps } from "./moment_panels.js";
import { showPictures } from "./pictures.js";
import { exportPanel } from "./export.js";
import { keyAction } from "./keys.js";
import { Tip } from "./tip.js";
import * as forks from "./forks.js";

/** How many more steps are played when one goes on past the end. */
const MORE = 200;
/** The parts of an address that say what a run starts from. */
const SETUP = ["algo", "n", "k", "holders", "load", "rate", "delay", "stay", "channels", "seed"];

export class RunView {
  constructor(main) {
    this.main = main;
    this.selected = 0;
    this.playing = 0;
    this.speed = 2;
    this.asked = 0;
  }

  /** Shows the run of these parts of an address. */
  async open(parts) {
    this.known = await algorithms();
    this.setup = Object.fromEntries(SETUP.filter((name) => parts[name] !== undefined).map((name) => [name, parts[name]]));
    this.prepared = parts.from ?? "";
    this.#frame();
    ({ tabs: this.tabs, active: this.active } = forks.read(parts));
    this.selected = Number(parts.site ?? 0) || 0;
    if (this.prepared) this.#caption();
    await this.load();
  }

  close() {
    this.closed = true;
    clearInterval(this.playing);
  }

  retheme() {
    this.diagram?.retheme();
  }

  get tab() {
    return this.tabs[this.active];
  }

  get parts() {
    return { ...this.setup, until: this.tab.until, acts: this.tab.acts };
  }

  #frame() {
    this.canvas = h("canvas", { role: "img", "aria-label": "Space-time diagram", tabindex: "0" });
    this.tip = new Tip();
    this.where = h("span", { class: "where", id: "where" });
    this.slider = h("input", { type: "range", min: 0, max: 1, value: 0, "aria-label": "Step", oninput: () => this.go(Number(this.slider.value)) });
    this.playButton = h("button", { id: "play", "aria-label": "Play", onclick: () => this.play() }, "▶");
    this.boxes = Object.fromEntries(["caption", "tabs", "lamps", "legend", "told", "sites", "pending", "network", "state", "counters", "pictures", "share"]
      .map((name) => [name, h("div", { class: ["tabs", "lamps", "told"].includes(name) ? name : "", id: `box-${name}` })]));
    this.boxes.told.setAttribute("aria-live", "polite");
    const button = (label, text, act, keys) => h("button", { "aria-label": label, title: `${label} (${keys})`, onclick: act }, text);
    const select = (label, values, chosen, set) => h("select", { "aria-label": label, onchange: (event) => set(event.target.value) },
      values.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
    replace(this.main, h("div", { class: "run" },
      h("section", { class: "setup", "aria-label": "Setup and acts" },
        setupForm(this.known, this.setup, (setup, until) => this.restart(setup, until)),
        h("details", { class: "panel", open: true }, h("summary", {}, "Sites"), this.boxes.sites),
        h("details", { class: "panel", open: true }, h("summary", {}, "On their way"), this.boxes.pending),
        h("details", { class: "panel" }, h("summary", {}, "Links"), this.boxes.network)),
      h("section", { class: "drawing-area", "aria-label": "Run" },
        this.boxes.caption, this.boxes.tabs, this.boxes.lamps,
        h("div", { class: "drawing" }, this.canvas, this.tip.box),
        h("div", { class: "row below" }, this.boxes.legend, h("span", { class: "spacer" }),
          select("Axis", [["steps", "by step"], ["time", "by time"]], "steps", (value) => { this.diagram.axis = value; this.diagram.left = -1; this.diagram.follow(); this.diagram.draw(); }),
          button("Zoom out", "−", () => this.diagram.zoom(0.7), "−"), button("Zoom in", "+", () => this.diagram.zoom(1.4), "+"), button("All of it", "fit", () => this.diagram.fit(), "0")),
        h("div", { class: "controls" },
          button("To the start", "|◀", () => this.go(0), "Home"),
          button("One step back", "◀", () => this.go(this.tab.at - 1), "←"),
          this.playButton,
          button("One step forward", "▶|", () => this.forward(), "→"),
          button("To the next entry", "entry ▸", () => this.entry(1), "N"),
          this.slider, this.where,
          select("Speed", [["1", "1 step/s"], ["2", "2 steps/s"], ["6", "6 steps/s"], ["20", "20 steps/s"]], "2", (value) => { this.speed = Number(value); if (this.playing) { this.play(); this.play(); } })),
        this.boxes.told),
      h("section", { class: "side", "aria-label": "State at this step" },
        h("div", { class: "panel" }, this.boxes.state), h("div", { class: "panel" }, this.boxes.pictures),
        h("div", { class: "panel" }, this.boxes.counters), h("div", { class: "panel" }, this.boxes.share))));
    this.diagram = new Diagram(this.canvas, {
      step: (step, site) => { this.selected = site; this.go(step); },
      message: (message, x, y) => this.tip.hold(this.model, message, this.moment?.pending.find((one) => one.number === message.number), [x, y], (act) => this.act(act)),
      hover: (message, x, y) => this.tip.show(this.model, message, [x, y]),
    });
  }

  /** Another setup: the forks of the old one mean nothing in it. */
  restart(setup, until) {
    this.setup = setup;
    this.prepared = "";
    replace(this.boxes.caption);
    this.boxes.caption.className = "";
    this.tabs = [{ acts: "", until, at: 0 }];
    this.active = 0;
    this.diagram.model = null;
    return this.load(true);
  }

  /** Plays the run of the active tab and shows it. */
  async load(toTheEnd = false) {
    const asked = ++this.asked;
    this.main.dataset.at = "";
    let answer;
    try {
      answer = await ask("run", this.parts);
    } catch (error) {
      if (asked !== this.asked || this.closed) return;
      replace(this.boxes.lamps);
      this.model = null;
      this.main.querySelector(".drawing .message")?.remove();
      this.main.querySelector(".drawing").append(problem("This run cannot be played", error.message, h("p", {}, "Change the setup, or ", h("a", { href: "#/gallery" }, "go to the gallery"), ".")));
      this.#address();
      return;
    }
    if (asked !== this.asked || this.closed) return;
    this.main.querySelector(".drawing .message")?.remove();
    this.model = new Model(answer);
    this.selected = Math.min(this.selected, this.model.sites - 1);
    if (answer.refused) toast(`Step ${answer.steps + 1} is impossible: ${answer.refused}`);
    if (toTheEnd) this.tab.at = Math.min(answer.steps, this.setup.load === "hand" ? answer.steps : Math.min(answer.steps, 1));
    this.tab.at = Math.min(this.tab.at, answer.steps);
    this.slider.max = answer.steps;
    this.canvas.setAttribute("aria-label", `Space-time diagram of ${answer.spec}: ${answer.sites} sites, ${answer.steps} steps, ${this.model.lineCount} events`);
    Object.assign(this.canvas.dataset, { events: this.model.lineCount, steps: answer.steps, end: answer.end });
    this.#legend();
    forks.show(this.boxes.tabs, this.tabs, this.active, (active) => this.choose(active), (at) => this.closeFork(at));
    await this.go(this.tab.at);
  }

  /** Goes to a position: so many steps taken. */
  async go(at) {
    if (!this.model) return;
    this.main.dataset.at = "";
    this.tab.at = Math.max(0, Math.min(at, this.model.steps));
    this.slider.value = this.tab.at;
    this.where.textContent = `${this.tab.at} / ${this.model.steps}`;
    this.diagram.show(this.model, this.tab.at, this.selected);
    this.#tell();
    this.#address();
    const asked = ++this.asked;
    let moment;
    try {
      moment = await ask("moment", { ...this.parts, at: this.tab.at });
    } catch (error) {
      if (asked === this.asked) toast(error.message);
      return;
    }
    if (asked !== this.asked || this.closed) return;
    this.moment = moment;
    this.#panels();
    this.main.dataset.at = String(moment.step);
  }

  #panels() {
    const { moment, model, selected } = this;
    const act = (text) => this.act(text);
    const choose = (site) => { this.selected = site; this.diagram.show(model, this.tab.at, site); this.#panels(); };
    showLamps(this.boxes.lamps, moment, (step) => this.go(step + 1));
    showSites(this.boxes.sites, moment, model, selected, choose, act);
    showPending(this.boxes.pending, moment, model, act);
    showNetwork(this.boxes.network, moment, model, act);
    showState(this.boxes.state, moment, selected);
    showPictures(this.boxes.pictures, moment, model);
    showCounters(this.boxes.counters, moment);
    exportPanel(this.boxes.share, this);
    this.checkFacts?.();
  }

  #legend() {
    const { model } = this;
    const seen = new Set(model.lines.text_kinds);
    this.boxes.legend.className = "legend";
    replace(this.boxes.legend,
      model.kinds.filter((kind) => seen.has(kind)).map((kind) => h("span", { class: kindClass(model.kinds, kind) }, kind)),
      h("span", { class: "bar-waiting" }, "waits"), h("span", { class: "bar-inside" }, "inside"),
      model.name.includes("fail") && h("span", { class: "bar-failed" }, "failed"),
      h("i", {}, "dashed: on its way"));
  }

  /** What the last step did, in words. */
  #tell() {
    const { model } = this;
    const end = { nothing: "Nothing is left to happen by itself.", until: "", refused: "The next act of this run is impossible here." }[model.end];
    const told = this.tab.at === 0 ? [h("strong", {}, "Start. "), `${model.spec}, ${model.sites} sites. Press → to step.`]
      : [h("strong", {}, `Step ${this.tab.at}: `), model.linesOf(this.tab.at - 1).map((at) => model.tell(at)).join("; ") || "nothing that shows"];
    replace(this.boxes.told, h("p", {}, told, this.tab.at === model.steps && end ? h("span", { class: "faint" }, ` ${end}`) : ""));
  }

  #address() {
    const parts = { ...this.setup, until: this.tab.until, acts: this.tab.acts, at: this.tab.at, site: this.selected || "", from: this.prepared, ...forks.write(this.tabs, this.active) };
    showAddress("run", parts);
  }

  /** A person acts at this position: what was to come is another run now. */
  async act(text) {
    const { tab } = this;
    const acts = forks.added(tab.acts, tab.at, text);
    const byHand = this.setup.load === "hand";
    const next = { acts, until: byHand ? tab.at + 1 : Math.max(tab.until, tab.at + MORE), at: tab.at + 1 };
    // Refused acts leave everything as it is.
    const shown = this.main.dataset.at;
    this.main.dataset.at = "";
    const refused = await ask("run", { ...this.setup, until: tab.at + 1, acts }).then((answer) => answer.refused, (error) => error.message);
    this.main.dataset.at = shown;
    if (refused) return toast(refused);
    if (tab.at < this.model.steps && forks.hasFuture(tab, this.model)) {
      this.tabs.push(next);
      this.active = this.tabs.length - 1;
    } else {
      this.tabs[this.active] = next;
    }
    await this.load();
  }

  choose(active) {
    this.active = active;
    return this.load();
  }

  closeFork(at) {
    this.tabs.splice(at, 1);
    this.active = Math.min(this.active, this.tabs.length - 1);
    return this.load();
  }

  /** One step on; past the end the run is played further. */
  async forward(by = 1) {
    if (!this.model) return;
    if (this.tab.at + by <= this.model.steps || this.model.end === "nothing") return this.go(this.tab.at + by);
    if (this.model.end === "refused" || this.tab.until >= this.known.max_steps) return this.go(this.model.steps);
    this.tab.until = Math.min(this.known.max_steps, this.model.steps + (this.setup.load === "hand" ? by : MORE));
    this.tab.at += by;
    await this.load();
  }

  entry(direction) {
    const to = direction > 0 ? this.model?.nextEntry(this.tab.at) : this.model?.previousEntry(this.tab.at);
    if (to !== null && to !== undefined) return this.go(to);
    toast(direction > 0 ? "No further entry in this run." : "No entry before this.");
  }

  play() {
    const start = !this.playing;
    clearInterval(this.playing);
    this.playing = 0;
    this.playButton.textContent = start ? "❚❚" : "▶";
    this.playButton.setAttribute("aria-label", start ? "Pause" : "Play");
    if (!start) return;
    this.playing = setInterval(() => {
      if (this.model && this.tab.at >= this.model.steps && this.model.end !== "until") this.play();
      else this.forward();
    }, 1000 / this.speed);
  }

  /** What a prepared run shows, and which of its facts hold. */
  async #caption() {
    const { showCaption } = await import("./caption.js");
    const box = this.boxes.caption;
    this.checkFacts = await showCaption(box, this.prepared, this);
  }

  key(event) {
    const action = this.model && keyAction(this, event);
    if (!action) return;
    event.preventDefault();
    action();
  }

  /** Chooses a site. */
  select(site) {
    if (site < 0 || site >= this.model.sites) return;
    this.selected = site;
    this.diagram.show(this.model, this.tab.at, site);
    this.#address();
    if (this.moment) this.#panels();
  }

  /** Delivers the message that is due next. */
  deliverNext() {
    const first = this.moment?.pending.find((one) => !one.held);
    if (first) this.act(`d${first.from}-${first.to}${first.nth ? `-${first.nth}` : ""}`);
    else toast("Nothing is on its way.");
  }
}
