// Counterexamples to induction: a state of a proof's model, a step, and the clause that it breaks, as `meshlock prove` found them.

import { arrow, beside, node } from "./arrows.js";
import { kindClass } from "./colours.js";
import { h, replace, s } from "./dom.js";
import { circle } from "./layouts.js";

/** The side of a picture, the room around its circle, and how much arrows are bent. */
const SIZE = 300, AROUND = 44, BEND = 24;
/** What a model calls the phases of a process. */
const PHASES = new Map([["inside", "inside"], ["executing", "inside"], ["waiting", "waiting"]]);

/** Shows the counterexamples of a file, one at a time. */
export class InductionView {
  constructor(box, cases) {
    this.cases = cases;
    this.box = h("div", { class: "induction" });
    this.where = h("span", { class: "where" });
    this.choice = h("select", { "aria-label": "Counterexample", onchange: () => this.go(Number(this.choice.value)) }, cases.map((one, at) => h("option", { value: at }, `${one.model}: ${title(one)}`)));
    const button = (label, text, by) => h("button", { "aria-label": label, title: label, onclick: () => this.go(this.at + by) }, text);
    replace(box, h("div", { class: "row", hidden: cases.length < 2 }, button("The counterexample before", "◀", -1), button("The next counterexample", "▶", 1), this.choice, this.where), this.box);
    this.go(0);
  }

  go(at) {
    this.at = Math.max(0, Math.min(at, this.cases.length - 1));
    this.choice.value = this.at;
    this.where.textContent = `${this.at + 1} / ${this.cases.length}`;
    const one = this.cases[this.at], { before, after, step, clause } = one, short = shortener(one.sites);
    const pairs = (list) => list.map(([variable, element]) => `${variable} = ${short(element)}`).join(", ");
    replace(this.box,
      h("h2", { "data-breaks": clause.name, "aria-live": "polite" }, step ? `${call(step.action, step.parameters.map(([, element]) => element), short)} breaks ${clause.name}` : `This state breaks ${clause.name}`),
      one.wrong && h("p", {}, `The model of ${one.model} is wrong on purpose: ${one.wrong}. `, one.erratum && ["This is printed: ", h("a", { href: `#/gallery/erratum/${encodeURIComponent(one.erratum)}` }, "the run that goes wrong"), "."]),
      step && h("p", { id: "induction-rule" }, h("strong", {}, `Step ${step.action}: `), step.rule, step.parameters.length > 0 && ` Here ${pairs(step.parameters)}.`),
      h("p", { id: "induction-clause" }, h("strong", {}, `Clause ${clause.name}: `), clause.why, clause.fails_for.length > 0 && ` It fails for ${pairs(clause.fails_for)}.`),
      h("p", { class: "small faint" }, step
        ? "All clauses hold before the step, and not after it. Whether a run reaches that state is not said: the clauses do not exclude it."
        : "No step is needed. Whether a run reaches this state is not said."),
      h("div", { class: "states" }, picture(step ? "Before the step" : "The state", before, after, one.sites, short), step && picture("After the step", after, before, one.sites, short)),
      table(one, short));
  }

  key(event) {
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowRight: this.at + 1, PageDown: this.at + 1, ArrowLeft: this.at - 1, PageUp: this.at - 1, Home: 0, End: this.cases.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.go(to);
  }
}

const title = ({ step, clause }) => (step ? `${step.action} breaks ${clause.name}` : `a state breaks ${clause.name}`);

/** Sites are called here as everywhere on the page; other elements keep their names. */
function shortener(sites) {
  const names = new Map(sites.map((name, at) => [name, `S${at}`]));
  return (element) => names.get(element) ?? element;
}

const call = (name, list, short) => (list.length ? `${name}(${list.map(short).join(", ")})` : name);
const told = (message, short) => `${call(message.kind, message.carries, short)} from ${message.from ? short(message.from) : "a site that the model does not name"} to ${short(message.to)}`;

/** The sites on a circle, and the messages on their way; those that are not in the other state are thick. */
function picture(name, state, other, sites, short) {
  const places = circle(sites.length, SIZE), centre = { x: SIZE / 2, y: SIZE / 2 };
  const phase = (site) => PHASES.get(state.facts.find((fact) => PHASES.has(fact.symbol) && fact.of.length === 1 && fact.of[0] === site)?.symbol) ?? "idle";
  const kept = new Set((other ?? state).messages.map((message) => JSON.stringify(message)));
  const between = new Map();
  const arrows = state.messages.map((message) => {
    const to = places[sites.indexOf(message.to)];
    // Where the model does not say who has sent it, it comes from outside.
    const far = Math.hypot(to.x - centre.x, to.y - centre.y) || 1;
    const from = message.from ? places[sites.indexOf(message.from)] : { x: to.x + ((to.x - centre.x) / far) * 70, y: to.y + ((to.y - centre.y) / far) * 70 - (to === centre ? 70 : 0) };
    const ends = `${message.from}>${message.to}`, nth = between.get(ends) ?? 0;
    between.set(ends, nth + 1);
    const place = message.from ? beside(from, to, BEND, nth) : { x: from.x, y: from.y - 5 - 13 * nth };
    return s("g", { class: kindClass(message.kind), "data-message": `${message.kind}:${message.from ? short(message.from) : ""}-${short(message.to)}`, "data-changed": String(!kept.has(JSON.stringify(message))) },
      arrow(from, to, {}, BEND, nth), s("text", { x: place.x, y: place.y, "text-anchor": "middle", class: "label" }, call(message.kind, message.carries, short)));
  });
  const label = `${name}: ${state.messages.map((message) => told(message, short)).join("; ") || "no message is on its way"}`;
  return h("figure", { class: "picture", "data-picture": name }, h("h3", {}, name),
    s("svg", { viewBox: `${-AROUND} ${-AROUND} ${SIZE + 2 * AROUND} ${SIZE + 2 * AROUND}`, role: "img", "aria-label": label }, arrows, sites.map((site, at) => node(places[at], { phase: phase(site) }, at))));
}

/** Every fact and message before and after, by the site that it is about. */
function table({ sites, before, after }, short) {
  const groups = new Map([...sites.map((site) => [site, []]), ["", []], ["messages", []]]);
  const rows = new Map();
  const note = (group, name, side, value, otherwise) => {
    const key = `${group} ${name}`;
    if (!rows.has(key)) {
      rows.set(key, { name, before: otherwise, after: otherwise });
      groups.get(group).push(rows.get(key));
    }
    rows.get(key)[side] = value;
  };
  for (const [side, state] of [["before", before], ["after", after]]) {
    for (const { symbol, of, value } of state?.facts ?? []) {
      const owned = sites.includes(of[0]);
      note(owned ? of[0] : "", call(symbol, owned ? of.slice(1) : of, short), side, value ? short(value) : "yes", value ? "–" : "no");
    }
    for (const message of state?.messages ?? []) note("messages", told(message, short), side, "on its way", "no");
  }
  const headed = [...sites.map((site) => [site, short(site)]), ["", "All sites"], ["messages", "Messages"]];
  const row = ({ name, before: was, after: is }) => h("tr", { "data-fact": name, "data-changed": String(Boolean(after) && was !== is) }, h("td", {}, name), h("td", {}, was), after && h("td", {}, is));
  return h("div", { class: "scroll" }, h("table", { class: "fields", "data-facts": rows.size },
    h("caption", { class: "small faint" }, after ? "What holds before and after the step; what it changes is marked" : "What holds"),
    h("thead", {}, h("tr", {}, h("th", {}, "Fact"), h("th", {}, after ? "Before" : "Value"), after && h("th", {}, "After"))),
    headed.filter(([group]) => groups.get(group).length > 0).map(([group, head]) => h("tbody", { "data-group": head }, h("tr", {}, h("th", { colspan: after ? 3 : 2, scope: "rowgroup" }, head)), groups.get(group).map(row)))));
}
