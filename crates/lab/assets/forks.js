// Forks of a run: lists of acts that share a setup, kept as tabs and in the address bar.

import { h, patch } from "./dom.js";

/** The tabs of an address: each has its acts, how far it is played and where one looks. */
export function read(parts) {
  const number = (text, otherwise) => (/^\d+$/.test(text ?? "") ? Number(text) : otherwise);
  const own = { acts: parts.acts ?? "", until: number(parts.until, parts.load === "hand" ? 0 : 120), at: number(parts.at, 0) };
  const tabs = (parts.forks ?? "").split("~").filter((text) => text !== "").map((text) => {
    const [acts = "", until, at] = text.split("!");
    return { acts, until: number(until, 120), at: number(at, 0) };
  });
  const active = Math.min(number(parts.tab, 0), Math.max(0, tabs.length - 1));
  if (tabs.length === 0) return { tabs: [own], active: 0 };
  tabs[active] = own;
  return { tabs, active };
}

/** The parts of an address that say the tabs, if there is more than one. */
export function write(tabs, active) {
  if (tabs.length < 2) return {};
  return { tab: active, forks: tabs.map((tab) => `${tab.acts}!${tab.until}!${tab.at}`).join("~") };
}

/** The steps and the words of a list of acts, as `0q0.q1.7f2` has them. */
function steps(acts) {
  let next = 0;
  return acts.split(".").filter((word) => word !== "").map((word) => {
    const [, digits, what] = word.match(/^(\d*)(.*)$/);
    const step = digits === "" ? next : Number(digits);
    next = step + 1;
    return { step, what };
  });
}

/** The acts before `at`, and `act` there. */
export function added(acts, at, act) {
  const kept = [...steps(acts).filter(({ step }) => step < at), { step: at, what: act }];
  let next = 0;
  return kept.map(({ step, what }) => {
    const word = step === next && step > 0 ? what : `${step}${what}`;
    next = step + 1;
    return word;
  }).join(".");
}

/** The first step at which two lists of acts differ; none if they do not. */
export function departure(one, other) {
  const [ones, others] = [steps(one), steps(other)];
  const at = ones.findIndex(({ step, what }, place) => others[place]?.step !== step || others[place].what !== what);
  const place = at < 0 ? ones.length : at;
  return Math.min(ones[place]?.step ?? Infinity, others[place]?.step ?? Infinity);
}

/** Whether something would be lost by acting here. */
export function hasFuture(tab, model) {
  return tab.at < model.steps;
}

/** Draws the tabs. */
export function show(box, tabs, active, choose, close) {
  box.hidden = tabs.length < 2;
  box.setAttribute("role", "tablist");
  box.setAttribute("aria-label", "Forks of this run");
  patch(box, tabs.map((tab, at) => {
    const made = steps(tab.acts).at(-1);
    const label = at === 0 ? "Run" : `Fork ${at}${made ? ` · step ${made.step + 1}` : ""}`;
    return h("span", { class: "row", role: "presentation", "data-key": at },
      h("button", { role: "tab", "aria-selected": String(at === active), onclick: () => choose(at) }, label),
      at > 0 && h("button", { class: "quiet tiny", "aria-label": `Close ${label}`, onclick: () => close(at) }, "×"));
  }));
}
