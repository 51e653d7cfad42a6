// The gallery: the papers' figures and every erratum, each one click away.

import { algorithms, ask } from "./api.js";
import { h, problem, replace, rich } from "./dom.js";
import { families } from "./setup_form.js";

/** Lists everything, or leads to the run of the entry that the address names. */
export async function showGallery(main, rest, parts) {
  if (rest.length > 1) return openEntry(main, rest[0], rest[1], parts.at);
  const [{ entries, errata }, known] = await Promise.all([ask("gallery"), algorithms()]);
  const groups = new Map();
  for (const entry of entries) {
    const paper = entry.source.split(",")[0];
    groups.set(paper, [...(groups.get(paper) ?? []), entry]);
  }
  replace(main, h("div", { class: "page" },
    h("h1", {}, "See an algorithm run, step it, break it"),
    h("p", { class: "lead" }, "Distributed mutual exclusion by the papers' own examples: each card is a run that you can step through, act on and fork. ",
      "Or ", h("a", { href: "#/trace" }, "open a trace"), " that the simulator or the checker has written, or a counterexample of a proof."),
    h("section", { class: "panel" }, h("h2", {}, "Your own run"),
      h("p", { class: "lead" }, "Choose an algorithm; beside its run are the load, the delays and everything else that can be set."),
      families(known).map(([title, infos]) => h("div", { class: "row", role: "group", "aria-label": title }, h("strong", { class: "small" }, title),
        infos.map((info) => h("a", { class: "choice", href: `#/run?algo=${info.name}&n=${info.name === "maekawa" ? 7 : 5}&until=120`, title: info.title, "data-algorithm": info.name }, info.name))))),
    [...groups].map(([paper, list]) => h("section", { class: "panel" }, h("h2", {}, paper), h("div", { class: "cards" }, list.map((entry) =>
      h("a", { class: "card", href: `#/gallery/figure/${entry.id}`, "data-entry": entry.id },
        h("h3", {}, entry.title), h("span", { class: "source" }, entry.source), h("span", { class: "small" }, entry.caption)))))),
    h("section", { class: "panel" }, h("h2", {}, "Figures that are plots"),
      h("div", { class: "cards" }, PLOTS.map(([id, title, source]) => h("a", { class: "card", href: `#/compare?experiment=${id}` }, h("h3", {}, title), h("span", { class: "source" }, source))))),
    h("section", { class: "panel" }, h("h2", {}, "What the papers get wrong"),
      h("p", { class: "lead" }, "Found by exploring every interleaving. A click lets the checker find the shortest counterexample again and plays it."),
      h("div", { class: "cards" }, errata.map((erratum) => h("a", { class: "card", href: `#/gallery/erratum/${erratum.id}`, "data-erratum": erratum.id },
        h("h3", {}, erratum.title), h("span", { class: "source" }, erratum.source), h("span", { class: "small" }, rich(erratum.wrong))))))));
}

const PLOTS = [
  ["singhal-1989-table-2", "Messages and waiting time against load", "Singhal 1989, Table II"],
  ["bulgannawar-1994-figure-3a", "Time to enter against load", "Bulgannawar and Vaidya 1994, Figure 3(a)"],
  ["bulgannawar-1994-figure-3b", "The same where sending costs nothing", "Bulgannawar and Vaidya 1994, Figure 3(b)"],
  ["bulgannawar-1994-figure-4", "Messages per entry against load", "Bulgannawar and Vaidya 1994, Figure 4"],
  ["bulgannawar-1994-figure-5", "Words per message against load", "Bulgannawar and Vaidya 1994, Figure 5"],
];

/** In an address a plus would be a space. */
const escaped = (address) => address.replaceAll("+", "%2B");

async function openEntry(main, kind, id, at) {
  if (kind === "figure") {
    const entry = await ask(`gallery/${encodeURIComponent(id)}`);
    location.replace(`#/run?${escaped(entry.address)}&at=${encodeURIComponent(at ?? 0)}&from=figure:${entry.id}`);
    return;
  }
  if (kind !== "erratum") throw new Error(`the gallery has no '${kind}'`);
  replace(main, h("p", { class: "loading", role: "status" }, "The checker explores every interleaving…"));
  const found = await ask(`errata/${encodeURIComponent(id)}`);
  if (found.address) {
    // It opens where it goes wrong; the caption says what, and where.
    const wrong = [found.id, found.property, found.steps, found.round ?? ""].join(":");
    location.replace(`#/run?${escaped(found.address)}&at=${encodeURIComponent(at ?? found.steps)}&from=${encodeURIComponent(`erratum:${wrong}`)}`);
    return;
  }
  replace(main, h("div", { class: "page", "data-erratum": found.id }, h("h1", {}, found.title), h("p", { class: "lead" }, found.source),
    h("p", {}, h("strong", {}, "Printed: "), rich(found.printed)), h("p", {}, h("strong", {}, "Wrong: "), rich(found.wrong)), h("p", {}, h("strong", {}, "Right: "), rich(found.repair)),
    found.calculated.length > 0 ? h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["Of", "As printed", "As it is"].map((text) => h("th", {}, text)))),
      h("tbody", {}, found.calculated.map((row) => h("tr", {}, row.map((text) => h("td", {}, text)))))))
      : problem("No run goes wrong", "The machine finds nothing that breaks: the claim is refuted, or the assumption is superfluous."),
    h("p", {}, h("a", { href: "#/gallery" }, "Back to the gallery"))));
}
