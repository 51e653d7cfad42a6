// What holds at this step: lamps, the chosen site's state, counters beside the paper's formulas.

import { breakable, digits, h, plain, replace, toast } from "./dom.js";

const NAMES = { exclusion: "exclusion", deadlock: "no deadlock", starvation: "no starvation so far", order: "order", fences: "fences rise", tokens: "tokens kept", invariants: "invariants", refusals: "nothing refused" };

const EMPTY = /^(\{\}|\[\]|None|0|Nothing)$/;

/** A lamp for each property. A broken one leads to the step that broke it. */
export function showLamps(box, moment, go) {
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Properties");
  replace(box, moment.lamps.map((lamp) => h("button", {
    class: "lamp", "data-lamp": lamp.name, "data-light": lamp.light, "data-step": lamp.step, title: `${lamp.why}\n${lamp.promise}`,
    "aria-label": `${NAMES[lamp.name] ?? lamp.name}: ${lamp.light === "dark" ? "not promised" : lamp.light}. ${lamp.why}`,
    onclick: () => { toast(lamp.why); if (lamp.step !== null) go(lamp.step); },
  }, NAMES[lamp.name] ?? lamp.name, lamp.step !== null && ` · step ${lamp.step + 1}`)));
}

/** The state of one site, with the fields marked that the last step changed; empty ones are folded away. */
export function showState(box, moment, selected) {
  const site = moment.sites[selected];
  const row = (field) => h("tr", { "data-changed": String(field.changed), "data-field": field.name }, h("td", {}, breakable(field.name)), h("td", { class: EMPTY.test(field.value) ? "mono faint" : "mono" }, plain(field.value).replace(/\}, (?=[A-Z])/g, "},\n")));
  const folded = site.fields.filter((field) => EMPTY.test(field.value) && !field.changed);
  const shown = site.fields.filter((field) => !folded.includes(field));
  const open = box.querySelector("details")?.open ?? false;
  replace(box, h("h3", {}, `State of S${selected} `, h("span", { class: "phase", "data-phase": site.phase }, site.phase)),
    h("table", { class: "fields", "data-state": JSON.stringify(moment.sites.map((one) => [one.phase, one.fields.map((field) => field.value)])) }, h("tbody", {}, shown.map(row))),
    folded.length > 0 && h("details", { open }, h("summary", { class: "small faint" }, `${folded.length} empty ${folded.length === 1 ? "field" : "fields"}`), h("table", { class: "fields" }, h("tbody", {}, folded.map(row)))),
    site.passed > 0 && h("p", { class: "small faint" }, `${site.passed} ${site.passed === 1 ? "has" : "have"} entered since it asked.`));
}

/** Messages so far, by kind and for each entry, beside what the paper says. */
export function showCounters(box, moment) {
  const { counters } = moment;
  replace(box, h("h3", {}, "Counted"),
    h("table", { "data-messages": counters.messages, "data-entries": counters.entries }, h("tbody", {},
      h("tr", {}, h("td", {}, "entries"), h("td", { class: "number" }, counters.entries)),
      h("tr", {}, h("td", {}, "messages"), h("td", { class: "number" }, counters.messages)),
      counters.by_kind.map(([kind, count]) => h("tr", {}, h("td", { class: "faint" }, `  ${kind}`), h("td", { class: "number" }, count))),
      h("tr", {}, h("th", {}, "messages per entry"), h("th", { class: "number" }, counters.per_entry === null ? "–" : digits(counters.per_entry))),
      counters.formulas.map(([load, text, value]) => h("tr", {}, h("td", {}, `paper, ${load}: ${text}`), h("td", { class: "number" }, digits(value)))),
      h("tr", {}, h("td", {}, "exit to next entry, paper"), h("td", { class: "number" }, counters.sync_delay)))),
    moment.entries.length > 0 && h("details", {}, h("summary", { class: "small" }, "Last entries and their fences"),
      h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "site"), h("th", { class: "number" }, "fence"), h("th", { class: "number" }, "overtook"))),
        h("tbody", { "data-entries": JSON.stringify(moment.entries.map((entry) => entry.site)) }, moment.entries.map((entry) => h("tr", {}, h("td", {}, `S${entry.site}`), h("td", { class: "number" }, entry.fence), h("td", { class: "number" }, entry.overtook)))))));
}
