// What one can do at this point: to sites, to messages on their way, to links.

import { h, patch } from "./dom.js";
import { kindClass } from "./colours.js";

function button(label, text, act, extra = {}) {
  return h("button", { class: `tiny ${extra.class ?? ""}`, title: extra.title, "data-act": act.text, "data-key": act.text, onclick: act.do }, label, text && h("span", { class: "faint" }, text));
}

/** A row for each site: its phase, and what its process can do. */
export function showSites(box, moment, model, selected, choose, act) {
  const does = (text) => ({ text, do: () => act(text) });
  patch(box, h("div", { class: "panel" }, moment.sites.map((site, at) => h("div", { class: "site", "aria-current": String(at === selected), "data-site": at, "data-key": `site-${at}`, "data-phase": site.phase },
    h("div", { class: "row" },
      h("button", { class: "name", "data-key": "name", "aria-label": `Show the state of S${at}`, onclick: () => choose(at) }, `S${at}`),
      h("span", { class: "phase", "data-phase": site.phase }, site.phase),
      site.timestamp && h("span", { class: "mono faint" }, site.timestamp),
      site.tokens > 0 && h("span", { class: "badge", title: "the token is here" }, site.tokens > 1 ? `${site.tokens} tokens` : "token"),
      h("span", { class: "spacer" }),
      site.phase === "idle" && button("Request", "", does(`q${at}`)),
      site.phase === "inside" && button("Release", "", does(`x${at}`)),
      site.phase === "inside" && button("…again", "", does(`r${at}`), { title: "Release and request again in one step" }),
      site.phase !== "failed" && button("Crash", "", does(`f${at}`), { class: "danger" }),
      site.phase === "failed" && site.can_recover && button("Recover", "", does(`v${at}`)),
      site.phase === "failed" && !site.can_recover && h("span", { class: "small faint" }, model.algorithm?.failures.recovery ? "once all know, it can recover" : "stays down: its return is its host's task"))))));
}

/** The messages on their way, the one that is due next first. */
export function showPending(box, moment, model, act) {
  if (moment.pending.length === 0) return patch(box, h("p", { class: "small faint" }, "Nothing is on its way."));
  const shown = moment.pending.slice(0, 40);
  patch(box, h("div", { class: "panel" }, shown.map((message) => {
    const place = `${message.from}-${message.to}`, nth = message.nth ? `-${message.nth}` : "";
    const does = (text) => ({ text, do: () => act(text) });
    return h("div", { class: `pending ${kindClass(message.kind)}`, "data-key": `message-${message.number}`, "data-pending": `${place}${nth}` },
      h("div", { class: "row" }, h("strong", {}, message.kind), `S${message.from} → S${message.to}`, h("span", { class: "spacer" }), h("span", { class: "faint" }, message.held ? "held: link cut" : `due ${message.due.toFixed(2)}`)),
      h("div", { class: "mono what" }, message.text),
      h("div", { class: "row" }, button("Deliver", "", does(`d${place}${nth}`)), button("Delay", "", does(`t${place}-${message.nth}-20`), { title: "2 T later" }), button("Drop", "", does(`l${place}${nth}`)), button("Twice", "", does(`u${place}${nth}`), { title: "Deliver it now and once more later" })));
  }), moment.pending.length > shown.length && h("p", { class: "small faint" }, `and ${moment.pending.length - shown.length} more`)));
}

/** Links that one can cut and mend, and a clean split where the algorithm handles it. */
export function showNetwork(box, moment, model, act) {
  const sites = moment.sites.map((_, at) => at);
  const picker = (name, chosen) => h("select", { "aria-label": name }, sites.map((at) => h("option", { value: at, selected: at === chosen }, `S${at}`)));
  // What is chosen is read where it stands: the panel is renewed around it.
  const given = (event) => [...event.currentTarget.parentElement.querySelectorAll("select, input")].map((one) => one.value.trim());
  patch(box, h("div", { class: "panel" },
    h("div", { class: "row", "data-key": "cut" }, picker("One end", 0), "–", picker("The other end", Math.min(1, sites.length - 1)), h("button", { class: "tiny", "data-act": "cut", onclick: (event) => act(`c${given(event).join("-")}`) }, "Cut")),
    moment.cut.map(([low, high]) => h("div", { class: "row", "data-cut": `${low}-${high}`, "data-key": `cut ${low}-${high}` }, `S${low} – S${high} is cut`, h("button", { class: "tiny", onclick: () => act(`m${low}-${high}`) }, "Mend"))),
    model.algorithm?.failures.partition && (moment.away.length === 0
      ? h("div", { class: "row", "data-key": "split" }, "Split off", h("input", { "aria-label": "Sites on one side", placeholder: "0-1", size: 8 }), h("button", { class: "tiny", onclick: (event) => act(`s${given(event).join("-")}`) }, "Split"))
      : h("div", { class: "row", "data-key": "heal" }, `Split: ${moment.away.map((at) => `S${at}`).join(", ")} apart`, h("button", { class: "tiny", onclick: () => act("h") }, "Heal"))),
    h("p", { class: "small faint" }, "What is on its way over a cut link waits until it is mended; nobody is told.")));
}
