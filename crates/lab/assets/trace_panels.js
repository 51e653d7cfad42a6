// What a trace says of one moment: who holds and who waits, which view runs, and the state of a site where the trace has states.

import { send } from "./api.js";
import { h, patch, plain } from "./dom.js";

/** Who holds and who waits after the first lines of a trace; going on is quick, going back starts from the first line. */
export class Standing {
  constructor(model) {
    this.model = model;
    this.at = 0;
    this.locks = new Map();
    this.view = null;
  }

  /** After the first `at` lines. */
  after(at) {
    if (at < this.at) Object.assign(this, new Standing(this.model));
    for (; this.at < at; this.at++) this.#line(this.at);
    return this;
  }

  #line(at) {
    const { lines, name } = this.model, site = lines.site[at], facts = lines.facts[at] ?? {};
    const lock = () => {
      const text = lines.locks[lines.lock[at]] ?? "";
      if (!this.locks.has(text)) this.locks.set(text, { holders: [], waiters: [] });
      return this.locks.get(text);
    };
    const one = { site, client: facts.client, who: facts.who, fence: facts.fence };
    const drop = (from) => {
      const found = from.findIndex((other) => other.site === site && other.client === facts.client);
      if (found >= 0) from.splice(found, 1);
    };
    switch (name[at]) {
      case "request": case "waits": lock().waiters.push(one); break;
      case "cancel": drop(lock().waiters); break;
      case "enter": drop(lock().waiters); lock().holders.push(one); break;
      case "holds": lock().holders.push(one); break;
      case "release": drop(lock().holders); break;
      case "gap": case "fail": this.#forget((other) => other.site === site); break;
      case "view":
        if (this.view && facts.epoch < this.view.epoch) break;
        this.view = { epoch: facts.epoch, members: facts.members };
        this.#forget((other) => !facts.members.includes(this.model.names[other.site]));
        break;
    }
  }

  #forget(gone) {
    for (const lock of this.locks.values()) {
      lock.holders = lock.holders.filter((one) => !gone(one));
      lock.waiters = lock.waiters.filter((one) => !gone(one));
    }
  }
}

/** How many locks are listed. */
const MAX_LOCKS = 100;

/** Holders and queues, the locks that are in use first. */
export function showLocks(box, model, standing) {
  const used = [...standing.locks].filter(([, lock]) => lock.holders.length + lock.waiters.length > 0);
  const client = (one) => h("li", { "data-at": model.siteName(one.site) }, h("strong", {}, model.siteName(one.site)), one.who && ` ${one.who}`, one.fence !== undefined && h("span", { class: "faint" }, ` fence ${one.fence}`));
  patch(box, h("h3", {}, "Holders and queues"),
    standing.view && h("p", { class: "small faint", "data-view": standing.view.epoch }, `View ${standing.view.epoch}: ${standing.view.members.join(", ")}`),
    used.length === 0 && h("p", { class: "small faint" }, "Nobody holds anything or waits here."),
    used.slice(0, MAX_LOCKS).map(([name, lock]) => h("section", { class: "lock", "data-lock": name, "data-holders": lock.holders.map((one) => model.siteName(one.site)).join(" "), "data-waiters": lock.waiters.length },
      h("h4", {}, name || "the lock"),
      h("div", { class: "small" }, lock.holders.length ? "held by" : "free"), h("ul", { class: "holders" }, lock.holders.map(client)),
      lock.waiters.length > 0 && [h("div", { class: "small" }, `${lock.waiters.length} ${lock.waiters.length === 1 ? "waits" : "wait, in the order in which they asked"}`), h("ol", { class: "waiters" }, lock.waiters.slice(0, 20).map(client))])),
    used.length > MAX_LOCKS && h("p", { class: "small faint" }, `and ${used.length - MAX_LOCKS} more locks`));
}

/** The state of a site after the first `at` lines, with what the last step there changed marked. */
export async function showTraceState(box, model, site, at) {
  const { lines } = model, asked = `${site} ${at}`;
  box.dataset.asked = asked;
  if (!lines.states.length) return patch(box, h("h3", {}, "States"), h("p", { class: "small faint", "data-states": "none" }, "This trace has no states. ", h("code", {}, "meshlock sim --trace-state"), ", ", h("code", {}, "meshlock trace --state"), " and ", h("code", {}, "meshlock lab --attach --state"), " write or show them."));
  const found = [];
  for (let line = at - 1; line >= 0 && found.length < 2; line--) {
    if (lines.site[line] !== site || lines.state[line] < 0) continue;
    // Lines of one step have the same state.
    if (found.length === 1 && lines.state[line] === lines.state[found[0]] && lines.time[line] === lines.time[found[0]]) continue;
    found.push(line);
  }
  if (found.length === 0) return patch(box, h("h3", {}, `State of ${model.siteName(site)}`), h("p", { class: "small faint", "data-states": "before" }, "No line of this site yet."));
  const [now, before] = found, text = (line) => (line === undefined ? "" : lines.states[lines.state[line]]);
  const { fields } = await send("fields", `${text(before)}\n${text(now)}`);
  if (box.dataset.asked !== asked) return;
  const machine = lines.facts[now]?.machine, lock = lines.locks[lines.lock[now]];
  const row = (field) => h("tr", { "data-changed": String(before !== undefined && field.changed), "data-field": field.name }, h("td", {}, field.name), h("td", { class: "mono" }, plain(field.value)));
  patch(box, h("h3", {}, `State of ${model.siteName(site)}`),
    h("p", { class: "small faint" }, `after line ${now + 1}${lines.locks.length > 1 ? `, lock ${lock}` : ""}${machine === undefined ? "" : `; messages and states call it S${machine}`}`),
    h("table", { class: "fields", "data-states": "shown" }, h("tbody", {}, fields.map(row))));
}

/** The lines that are about one lock, or about none. */
export function onlyLock(lines, lock) {
  const place = lines.locks?.indexOf(lock) ?? -1, none = lines.locks?.indexOf("") ?? -1;
  const kept = lines.step.map((_, at) => at).filter((at) => lines.lock[at] === place || lines.lock[at] === none);
  const column = (name) => kept.map((at) => lines[name][at]);
  const facts = Object.fromEntries(kept.map((at, to) => [to, lines.facts?.[at]]).filter(([, fact]) => fact));
  const columns = Object.fromEntries(["time", "what", "site", "peer", "number", "text", "lock", "state"].map((name) => [name, column(name)]));
  return { ...lines, ...columns, step: kept.map((_, at) => at), facts };
}
