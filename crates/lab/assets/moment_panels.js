// What holds at this step: lamps, the chosen site's state, counters beside the paper's formulas.

import { breakable, digits, h, patch, plain, toast } from "./dom.js";

const NAMES = { exclusion: "exclusion", deadlock: "no deadlock", starvation: "no starvation so far", bypass: "passed no more than claimed", order: "order", fences: "fences rise", tokens: "tokens kept", invariants: "invariants", refusals: "nothing refused" };

/** A lamp for each property. A broken one leads to the step that broke it. */
export function showLamps(box, moment, go) {
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Properties");
  patch(box, moment.lamps.map((lamp) => h("button", {
    class: "lamp", "data-lamp": lamp.name, "data-key": lamp.name, "data-light": lamp.light, "data-step": lamp.step, title: `${lamp.why}\n${lamp.promise}`,
    "aria-label": `${NAMES[lamp.name] ?? lamp.name}: ${lamp.light === "dark" ? "not promised" : lamp.light}. ${lamp.why}`,
    onclick: () => { toast(lamp.why); if (lamp.step !== null) go(lamp.step); },
  }, NAMES[lamp.name] ?? lamp.name, lamp.step !== null && ` · step ${lamp.step + 1}`)));
}

/** The state of one site in the paper's words, with what the last step changed marked; the machine's own fields are folded away. */
export function showState(box, moment, selected) {
  const site = moment.sites[selected];
  const names = (items) => (items.length ? items.map((at) => `S${at}`).join(" ") : "nobody");
  const row = (name, value, key = name) => h("tr", { "data-changed": String(site.changed.includes(name)), "data-told": key, "data-key": key }, h("td", {}, key), h("td", {}, value));
  const rows = [
    site.timestamp && row("timestamp", site.timestamp),
    site.values.map(([name, value]) => row(name, value)),
    site.pointers.filter((one) => one.name !== "tree").map((one) => row(one.name, `S${one.to}`, one.slot === null ? one.name : `${one.name} of token ${one.slot}`)),
    site.sets.map((set) => row(set.name, names(set.items))),
    site.queues.map((queue, at) => row(queue.name, queue.items.join(" ") || "empty", site.queues.findIndex((other) => other.name === queue.name) === at ? queue.name : `${queue.name} (${at + 1})`)),
  ].flat().filter(Boolean);
  const field = (one) => h("tr", { "data-changed": String(one.changed), "data-field": one.name, "data-key": one.name }, h("td", {}, breakable(one.name)), h("td", { class: "mono" }, plain(one.value).replace(/\}, (?=[A-Z])/g, "},\n")));
  patch(box, h("h3", {}, `State of S${selected} `, h("span", { class: "phase", "data-phase": site.phase }, site.phase)),
    site.tokens > 0 && h("p", { class: "small" }, site.tokens > 1 ? `${site.tokens} tokens are here.` : "The token is here."),
    rows.length > 0 && h("table", { class: "fields", "data-key": "told" }, h("tbody", {}, rows)),
    lists(site),
    site.passed > 0 && h("p", { class: "small faint" }, `${site.passed} ${site.passed === 1 ? "has" : "have"} entered since it asked.`),
    h("details", { "data-key": "fields", "data-state": JSON.stringify(moment.sites.map((one) => [one.phase, one.fields.map(({ value }) => value)])) }, h("summary", { class: "small faint" }, "All fields, as the program has them"),
      h("table", { class: "fields" }, h("tbody", {}, site.fields.map(field)))));
}

/** The lists that have a value for each site: a column for each site, so that RN and LN can be compared. */
function lists(site) {
  if (site.tables.length === 0) return null;
  const named = (table) => (table.slot === null ? table.name : `${table.name} of token ${table.slot}`);
  return h("div", { class: "scroll", tabindex: "0", "aria-label": site.tables.map(named).join(", "), "data-key": "lists" }, h("table", { class: "lists" },
    h("thead", {}, h("tr", {}, h("th", {}), site.tables[0].values.map((_, at) => h("th", { class: "number" }, `S${at}`)))),
    h("tbody", {}, site.tables.map((table) => h("tr", { "data-list": named(table), "data-changed": String(site.changed.includes(table.name)) }, h("th", {}, named(table)), table.values.map((value) => h("td", { class: "number" }, value)))))));
}

/** Messages so far, by kind and for each entry, beside what the paper says. */
export function showCounters(box, moment) {
  const { counters } = moment;
  patch(box, h("h3", {}, "Counted"),
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
