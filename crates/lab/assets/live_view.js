// A running cluster live: what its sites tell is drawn as it comes. The page only listens.

import { ask } from "./api.js";
import { h, patch, problem, replace } from "./dom.js";
import { Model } from "./model.js";
import { onlyLock } from "./trace_panels.js";
import { TraceView } from "./trace_view.js";

/** The shortest pause between two questions, in milliseconds. */
const PAUSE = 100;
/** How long to wait after a question that was not answered. */
const RETRY = 1000;

const wait = (time) => new Promise((done) => { setTimeout(done, time); });

export class LiveView extends TraceView {
  async open() {
    this.following = true;
    this.next = 0;
    this.version = 0;
    this.locks = [""];
    this.lock = "";
    this.box = h("div", { class: "live" });
    let first;
    try {
      first = await ask("live");
    } catch (error) {
      return replace(this.main, problem("No cluster to show", error.message, h("p", {}, h("code", {}, "meshlock lab --attach"), " shows this user's cluster, ", h("code", {}, "--attach HOST:PORT"), " another one.")));
    }
    replace(this.main, this.box);
    this.frame(this.box, "A running cluster");
    this.#begin(first);
    this.#listen();
  }

  close() {
    this.closed = true;
  }

  controls(button) {
    this.followButton = h("button", { id: "follow", "aria-pressed": "true", onclick: () => this.follow(!this.following) }, "❚❚ pause");
    return [this.followButton, ...super.controls(button)];
  }

  /** Follows what happens, or stays where one looks. */
  follow(following) {
    this.following = following;
    this.followButton.textContent = following ? "❚❚ pause" : "▶ follow";
    this.followButton.setAttribute("aria-pressed", String(following));
    if (following) super.go(this.model.steps);
  }

  go(at) {
    if (this.following && at < this.model.steps) this.follow(false);
    super.go(at);
  }

  refilter(lock) {
    this.lock = lock;
    this.next = 0;
    this.version = 0;
    this.fresh = true;
  }

  /** Draws everything again, from the oldest line that the server has. */
  #begin(answer) {
    this.fresh = false;
    this.locks = [""];
    const lines = this.#wanted(answer.lines);
    this.take(new Model({ spec: answer.spec, names: answer.names, sites: answer.names.length, unit: answer.unit, steps: lines.step.length, lines }), this.locks, this.lock);
    this.at = this.following ? this.model.steps : 0;
    this.#onAnswer(answer);
  }

  /** The lines of a chunk that are to be drawn. */
  #wanted(lines) {
    for (const name of lines.locks ?? []) if (!this.locks.includes(name)) this.locks.push(name);
    return this.lock ? onlyLock(lines, this.lock) : lines;
  }

  /** Asks for what is new, again and again. */
  async #listen() {
    while (!this.closed) {
      const refetch = this.fresh || this.model.lineCount > 1.25 * this.most;
      const asked = refetch ? { from: 0, version: 0 } : { from: this.next, version: this.next < this.all ? 0 : this.version };
      let answer;
      try {
        answer = await ask("live", asked);
      } catch (error) {
        this.#note(error.message);
        await wait(RETRY);
        continue;
      }
      if (this.closed) return;
      if (refetch) this.#begin(answer);
      else if (!this.fresh) this.#more(answer);
      await wait(this.next < this.all ? 0 : PAUSE);
    }
  }

  #more(answer) {
    const { model } = this;
    if (answer.from > this.next) {
      // Some lines were dropped before they came here.
      this.fresh = true;
      return;
    }
    model.unit = answer.unit;
    model.rename(answer.names);
    model.append(this.#wanted(answer.lines));
    this.offer(this.locks, this.lock);
    this.shown();
    this.#onAnswer(answer);
  }

  #onAnswer(answer) {
    ({ next: this.next, version: this.version, all: this.all, most: this.most } = answer);
    this.#sites(answer);
    if (this.following) super.go(this.model.steps);
    else super.go(this.at);
    this.main.dataset.lines = String(this.next);
  }

  #note(text) {
    this.boxes.more.querySelector("#live-note")?.replaceChildren(text);
  }

  /** How the cluster and its sites are. */
  #sites({ cluster, sites, corrected, first, pattern, record_failed: failed }) {
    const lost = Object.values(sites).reduce((sum, site) => sum + site.lost, 0);
    const slow = Object.entries(corrected).map(([site, by]) => `${site} by ${by.toFixed(1)} ms`).join(", ");
    const notes = [
      first > 0 && `The first ${first} lines are not kept any more.`,
      lost > 0 && `${lost} lines were lost: the lab did not keep up.`,
      slow && `Clocks were behind and are corrected: ${slow}.`,
      failed && `The recording has failed: ${failed}`,
    ].filter(Boolean);
    const row = ([name, site]) => h("tr", { "data-site": name, "data-watched": String(site.watched), "data-left": site.left },
      h("td", {}, h("span", { class: site.watched ? "dot on" : "dot off", "aria-hidden": "true" }), name, cluster.leader === name && h("span", { class: "badge" }, "leads")),
      h("td", {}, site.left !== null && `not a member since view ${site.left}; `, site.watched ? site.standing : site.why), h("td", { class: "number" }, site.lease_left === null ? "" : `${(site.lease_left / 1000).toFixed(1)} s`));
    patch(this.boxes.more, h("h3", {}, `Cluster ${cluster.cluster}, view ${cluster.epoch}`),
      h("table", { class: "sites", "data-epoch": cluster.epoch, "data-leader": cluster.leader ?? "" }, h("thead", {}, h("tr", {}, h("th", {}, "site"), h("th", {}, ""), h("th", { class: "number" }, "lease"))), h("tbody", {}, Object.entries(sites).map(row))),
      h("p", { class: "small faint", id: "live-note" }, notes.join(" ")),
      h("p", { class: "small" }, `Watching ${pattern === "*" ? "all locks" : pattern}. `, h("a", { href: "/api/live/trace", download: "cluster.jsonl", id: "record" }, "Save what was seen"), ", to be opened again with ", h("code", {}, "meshlock lab FILE"), "."));
  }
}
