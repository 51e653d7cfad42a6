// One run: what the address bar says, what the server answers, and all that is drawn of it.

import { ask, algorithms } from "./api.js";
import { changes, push as pushAddress, show as showAddress } from "./address.js";
import { confirmed, h, patch, problem, replace, toast } from "./dom.js";
import { Model } from "./model.js";
import { Moments } from "./moments.js";
import { Diagram } from "./diagram.js";
import { kindClass } from "./colours.js";
import { setupForm } from "./setup_form.js";
import { showSites, showPending, showNetwork } from "./act_panels.js";
import { showState, showCounters, showLamps } from "./moment_panels.js";
import { showPictures } from "./pictures.js";
import { showWhy } from "./why.js";
import { showCaption } from "./caption.js";
import { exportPanel } from "./export.js";
import { frameOf } from "./run_frame.js";
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
    this.tip = new Tip();
    this.moments = new Moments((moment) => this.#arrived(moment), (error) => toast(error.message));
  }

  /** Shows the run of these parts of an address. */
  async open(parts) {
    this.known = await algorithms();
    frameOf(this);
    this.diagram = new Diagram(this.canvas, {
      step: (step, site) => { this.selected = site; this.go(step); },
      message: (message, x, y) => this.tip.hold(this.model, message, this.moment?.pending.find((one) => one.number === message.number), [x, y], (act) => this.act(act)),
      hover: (message, x, y) => this.tip.show(this.model, message, [x, y]),
    });
    await this.restore(parts);
  }

  /** Goes to the state that these parts of an address describe: at first, and when one goes back or forth among changes. */
  async restore(parts) {
    this.#stop();
    this.main.dataset.at = "";
    const before = JSON.stringify(this.setup);
    this.setup = Object.fromEntries(SETUP.filter((name) => parts[name] !== undefined).map((name) => [name, parts[name]]));
    if (JSON.stringify(this.setup) !== before) this.#offerSetup();
    ({ tabs: this.tabs, active: this.active } = forks.read(parts));
    this.selected = Number(parts.site ?? 0) || 0;
    this.#prepare(parts.from ?? "");
    await this.load();
  }

  close() {
    this.closed = true;
    this.moments.close();
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

  #offerSetup() {
    const open = this.boxes.setup.querySelector("details")?.open;
    replace(this.boxes.setup, setupForm(this.known, this.setup, (setup, until) => this.restart(setup, until)));
    if (open !== undefined) this.boxes.setup.querySelector("details").open = open;
  }

  /** The prepared run that this one comes from, if any: its caption stays with it. */
  #prepare(from) {
    if (from === this.prepared) return;
    this.prepared = from;
    this.caption = null;
    replace(this.boxes.caption);
    this.boxes.caption.className = "";
    if (from) this.captioned = showCaption(this.boxes.caption, from, this).then((caption) => { if (from === this.prepared) this.caption = caption; });
  }

  /** Another setup. The old run with its forks is one step back. */
  async restart(setup, until) {
    // Where one thinks better of it, the form says again what is shown.
    if (!(await this.#mayGoOn())) return this.#offerSetup();
    this.setup = setup;
    this.#prepare("");
    this.tabs = [{ acts: "", until, at: 0 }];
    this.active = 0;
    this.diagram.model = null;
    pushAddress("run", this.#addressParts());
    await this.load(true);
  }

  /** Plays the run of the active tab and shows it. */
  async load(toTheEnd = false) {
    const asked = ++this.asked;
    this.loading = true;
    this.main.dataset.at = "";
    let answer;
    try {
      answer = await ask("run", this.parts);
    } catch (error) {
      if (asked === this.asked && !this.closed) this.#cannot(error);
      return;
    } finally {
      if (asked === this.asked) this.loading = false;
    }
    if (asked !== this.asked || this.closed) return;
    this.main.querySelector(".drawing .message")?.remove();
    this.model = new Model(answer);
    this.moments.of(this.parts);
    this.selected = Math.min(this.selected, this.model.sites - 1);
    if (answer.refused) toast(`Step ${answer.steps + 1} is impossible: ${answer.refused}`);
    if (toTheEnd) this.tab.at = this.setup.load === "hand" ? answer.steps : Math.min(answer.steps, 1);
    this.tab.at = Math.min(this.tab.at, answer.steps);
    this.slider.max = answer.steps;
    this.canvas.setAttribute("aria-label", `Space-time diagram of ${answer.spec}: ${answer.sites} sites, ${answer.steps} steps, ${this.model.lineCount} events`);
    Object.assign(this.canvas.dataset, { events: this.model.lineCount, steps: answer.steps, end: answer.end });
    this.#legend();
    forks.show(this.boxes.tabs, this.tabs, this.active, (active) => this.choose(active), (at) => this.closeFork(at));
    if (this.prepared) await this.captioned;
    await this.caption?.judge(this.parts);
    this.go(this.tab.at);
  }

  /** Says why this run cannot be played. */
  #cannot(error) {
    replace(this.boxes.lamps);
    this.model = null;
    const drawing = this.main.querySelector(".drawing");
    drawing.querySelector(".message")?.remove();
    drawing.append(problem("This run cannot be played", error.message, h("p", {}, "Change the setup, or ", h("a", { href: "#/gallery" }, "go to the gallery"), ".")));
    this.#address();
  }

  /** Goes to a position: so many steps taken. */
  go(at) {
    if (!this.model) return;
    this.tab.at = Math.max(0, Math.min(at, this.model.steps));
    this.main.dataset.at = "";
    this.slider.value = this.tab.at;
    this.where.textContent = `${this.tab.at} / ${this.model.steps}`;
    this.diagram.show(this.model, this.tab.at, this.selected);
    this.events.show(this.model, this.tab.at);
    this.#tell();
    this.#address();
    this.moments.want(this.tab.at);
  }

  /** A moment has come: the one that is looked at, or while one plays, one shortly before. */
  #arrived(moment) {
    if (this.closed || !this.model) return;
    this.moment = moment;
    this.#panels();
    this.main.dataset.at = String(moment.step);
  }

  #panels() {
    const { moment, model, selected } = this;
    const act = (text) => this.act(text);
    const choose = (site) => this.select(site);
    showLamps(this.boxes.lamps, moment, (step) => this.go(step + 1));
    showSites(this.boxes.sites, moment, model, selected, choose, act);
    showPending(this.boxes.pending, moment, model, act);
    showNetwork(this.boxes.network, moment, model, act);
    showState(this.boxes.state, moment, selected);
    showWhy(this.boxes.why, moment, model, selected, (step) => this.go(step), (line) => this.diagram.shade(line));
    showPictures(this.boxes.pictures, moment, model);
    showCounters(this.boxes.counters, moment);
    exportPanel(this.boxes.share, this);
    this.caption?.update();
    const { before, after } = changes();
    this.undoButton.disabled = before === 0;
    this.redoButton.disabled = after === 0;
  }

  #legend() {
    const { model } = this;
    const seen = new Set(model.lines.text_kinds);
    this.boxes.legend.className = "legend";
    patch(this.boxes.legend,
      model.kinds.filter((kind) => seen.has(kind)).map((kind) => h("span", { class: kindClass(kind) }, kind)),
      h("span", { class: "bar-waiting" }, "waits"), h("span", { class: "bar-inside" }, "inside"),
      model.name.includes("fail") && h("span", { class: "bar-failed" }, "failed"),
      h("i", {}, "dashed: on its way"));
  }

  /** What the last step did, in words. */
  #tell() {
    const { model } = this;
    const end = { nothing: "Nothing is left to happen by itself.", until: "", refused: "The next act of this run is impossible here." }[model.end];
    const told = this.tab.at === 0 ? [h("strong", {}, "Start. "), `${model.spec}, ${model.sites} sites. Press → to step.`]
      : [h("strong", {}, `Step ${this.tab.at}: `), model.tellStep(this.tab.at - 1) || "nothing that shows"];
    replace(this.boxes.told, h("p", {}, told, this.tab.at === model.steps && end ? h("span", { class: "faint" }, ` ${end}`) : ""));
  }

  #addressParts() {
    return { ...this.setup, until: this.tab.until, acts: this.tab.acts, at: this.tab.at, site: this.selected || "", from: this.prepared, ...forks.write(this.tabs, this.active) };
  }

  #address() {
    showAddress("run", this.#addressParts());
  }

  /** A change here takes the place of the changes that were undone: asks, if there are any. */
  async #mayGoOn() {
    const { after } = changes();
    return after === 0 || confirmed(`You have undone ${after === 1 ? "a change" : `${after} changes`}. Changing something here drops ${after === 1 ? "it" : "them"} for good; Redo brings ${after === 1 ? "it" : "them"} back.`, "Go on");
  }

  undo() {
    if (changes().before === 0) return toast("Nothing to undo.");
    this.main.dataset.at = "";
    history.back();
  }

  redo() {
    if (changes().after === 0) return toast("Nothing to redo.");
    this.main.dataset.at = "";
    history.forward();
  }

  /** A person acts at this position: what was to come is another run now. */
  async act(text) {
    if (!this.model || !text) return;
    const { tab } = this;
    this.#stop();
    const acts = forks.added(tab.acts, tab.at, text);
    const byHand = this.setup.load === "hand";
    const next = { acts, until: byHand ? tab.at + 1 : Math.max(tab.until, tab.at + MORE), at: tab.at + 1 };
    // Refused acts leave everything as it is.
    const shown = this.main.dataset.at;
    this.main.dataset.at = "";
    const refused = await ask("run", { ...this.setup, until: tab.at + 1, acts }).then((answer) => answer.refused, (error) => error.message);
    this.main.dataset.at = shown;
    if (refused) return toast(refused);
    if (!(await this.#mayGoOn())) return;
    if (forks.hasFuture(tab, this.model)) {
      this.tabs = [...this.tabs, next];
      this.active = this.tabs.length - 1;
    } else {
      this.tabs = this.tabs.with(this.active, next);
    }
    pushAddress("run", this.#addressParts());
    await this.load();
  }

  choose(active) {
    this.active = active;
    return this.load();
  }

  async closeFork(at) {
    if (!(await this.#mayGoOn())) return;
    this.tabs = this.tabs.filter((_, tab) => tab !== at);
    this.active = Math.min(this.active, this.tabs.length - 1);
    pushAddress("run", this.#addressParts());
    await this.load();
  }

  /** One step on; past the end the run is played further. */
  async forward(by = 1) {
    if (!this.model || this.loading) return;
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
    if (this.playing) return this.#stop();
    this.playButton.textContent = "❚❚";
    this.playButton.setAttribute("aria-label", "Pause");
    this.playing = setInterval(() => {
      if (this.model && this.tab.at >= this.model.steps && this.model.end !== "until") this.#stop();
      else this.forward();
    }, 1000 / this.speed);
  }

  #stop() {
    clearInterval(this.playing);
    this.playing = 0;
    this.playButton.textContent = "▶";
    this.playButton.setAttribute("aria-label", "Play");
  }

  /** Plays at another speed. */
  pace(speed) {
    this.speed = speed;
    if (this.playing) {
      this.#stop();
      this.play();
    }
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
