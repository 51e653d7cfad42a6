// Algorithms side by side: the same load and seed drawn for each, sweeps with confidence bands, the papers' figures.

import { ask, algorithms } from "./api.js";
import { push, show } from "./address.js";
import { digits, h, problem, replace } from "./dom.js";
import { Diagram } from "./diagram.js";
import { Model } from "./model.js";
import { plotOf } from "./plot.js";

const DEFAULTS = { algos: "lamport,ricart-agrawala,maekawa,suzuki-kasami,raymond", n: "9", k: "1", rates: "0.01,0.03,0.1,0.3", load: "open", entries: "2000", seed: "1" };
/** How many diagrams are drawn side by side. */
const MAX_DRAWN = 6;

export async function showCompare(main, parts) {
  const known = await algorithms();
  const { experiments } = await ask("experiments");
  const results = h("div", { class: "panel", id: "results", "aria-live": "polite" });
  const value = (name) => parts[name] ?? DEFAULTS[name];
  const chosen = new Set(value("algos").split(","));
  const field = (label, name, attributes = {}) => h("label", {}, label, h("input", { name, value: value(name), ...attributes }));
  const form = h("form", { class: "form", onsubmit: (event) => {
    event.preventDefault();
    const data = Object.fromEntries(new FormData(form));
    const picked = [...form.querySelectorAll("input[name=algo]:checked")].map((box) => box.value);
    const given = String(data.more ?? "").trim();
    sweep(results, push, { algos: [...picked, given].filter(Boolean).join(","), n: data.n, k: data.k, rates: data.rates, load: data.load, entries: data.entries, seed: data.seed });
  } },
  h("fieldset", { class: "wide", style: "border:1px solid var(--line);border-radius:8px" }, h("legend", { class: "small faint" }, "Algorithms"),
    h("div", { class: "row" }, known.algorithms.map((info) => h("label", { class: "row", style: "display:flex" }, h("input", { type: "checkbox", name: "algo", value: info.name, checked: chosen.has(info.name), style: "min-height:0;width:auto" }), info.name)))),
  h("label", {}, "More, with options", h("input", { name: "more", placeholder: "maekawa:quorums=grid", value: [...chosen].filter((name) => name.includes(":")).join(",") })),
  field("Sites N, one or several", "n"), field("Permits K", "k"), field("Requests per T and site", "rates"),
  h("label", {}, "Load", h("select", { name: "load" }, [["open", "requests arrive and queue"], ["closed", "think, then ask again"]].map(([name, text]) => h("option", { value: name, selected: name === value("load") }, text)))),
  field("Entries a point", "entries"), field("Seed", "seed"),
  h("button", { class: "main", id: "sweep" }, "Compare"));
  const picker = h("select", { "aria-label": "A paper's table or figure", id: "experiment" }, experiments.map((one) => h("option", { value: one.id, selected: one.id === parts.experiment }, `${one.source}: ${one.about}`)));
  replace(main, h("div", { class: "page" },
    h("h1", {}, "Compare"),
    h("p", { class: "lead" }, "Several algorithms under the same load and from the same seed; and the papers' tables and figures run again, with what they published drawn in."),
    form,
    h("div", { class: "row clip" }, picker, h("button", { id: "reproduce", onclick: () => reproduce(results, push, picker.value) }, "Run this paper's figure again")),
    results));
  if (parts.experiment) await reproduce(results, show, parts.experiment);
  else if (parts.algos) await sweep(results, show, { ...DEFAULTS, ...parts });
}

async function busy(box, text, work) {
  replace(box, h("p", { class: "loading", role: "status" }, text));
  try {
    await work();
  } catch (error) {
    replace(box, problem("This cannot be compared", error.message));
  }
}

async function sweep(box, address, parts) {
  address("compare", parts);
  await busy(box, "Simulating…", async () => {
    const { points } = await ask("compare", parts);
    const specs = [...new Set(points.map((point) => point.spec))];
    const sizes = [...new Set(points.map((point) => point.sites))];
    const overSites = sizes.length > 1;
    const curvesOf = (measure) => specs.map((spec) => ({ name: spec, points: points.filter((point) => point.spec === spec && (!overSites || point.rate === points[0].rate)).map((point) => { const [mean, half] = measure(point.report); return [overSites ? point.sites : point.rate, mean, half ?? 0]; }) }));
    const x = overSites ? "sites N" : "requests per T and site";
    const plots = [
      ["Messages per entry", (report) => [report.messages_per_entry.mean, report.messages_per_entry.ci95]],
      ["Waiting time, in T", (report) => [report.wait.mean, report.wait.ci95]],
      ["Fairness (Jain's index of entries)", (report) => [report.fairness.jain, 0]],
    ];
    const drawn = h("div", { class: "plots" });
    replace(box, h("div", { class: "plots" }, plots.map(([title, measure]) => plotOf({ title, x, y: title.startsWith("Fairness") ? "1: all sites enter equally often" : "bands: 95 % confidence", curves: curvesOf(measure) }, { log: true }))),
      h("div", { class: "scroll" }, table(points)), h("h2", {}, "The same seed and load, drawn"), drawn);
    const n = sizes[0], rate = points.at(-1).rate;
    for (const spec of specs.slice(0, MAX_DRAWN)) await small(drawn, spec, { n, k: parts.k, load: parts.load, rate, seed: parts.seed });
  });
}

function table(points) {
  const cells = ["algorithm", "N", "rate", "messages", "± 95 %", "paper, heavy load", "wait (T)", "± 95 %", "exit to entry (T)", "Jain"];
  const number = (value) => h("td", { class: "number" }, value === null || value === undefined ? "–" : digits(value));
  return h("table", { id: "points" }, h("thead", {}, h("tr", {}, cells.map((cell, at) => h("th", { class: at ? "number" : "" }, cell)))),
    h("tbody", {}, points.map(({ spec, sites, rate, heavy, report }) => h("tr", { "data-spec": spec },
      h("td", {}, spec), number(sites), h("td", { class: "number" }, rate), number(report.messages_per_entry.mean), number(report.messages_per_entry.ci95), h("td", { class: "number" }, heavy[0]), number(report.wait.mean), number(report.wait.ci95), number(report.sync_delay.mean), number(report.fairness.jain)))));
}

/** A diagram of the first steps of one algorithm. */
async function small(box, spec, parts) {
  const setup = { algo: spec, ...parts, delay: "same", stay: "0.2", until: 90 };
  const answer = await ask("run", setup);
  const canvas = h("canvas", { role: "img", "aria-label": `First steps of ${spec}` });
  box.append(h("div", { class: "small-run", "data-spec": spec }, h("div", { class: "row" }, h("h3", {}, spec), h("span", { class: "spacer" }), h("a", { class: "small", href: `#/run?${new URLSearchParams({ ...setup, at: 0 })}` }, "open")), h("div", { class: "drawing" }, canvas)));
  const diagram = new Diagram(canvas, { step() {}, message() {}, hover() {} });
  diagram.selected = -1;
  diagram.show(new Model(answer), answer.steps, -1);
  diagram.fit();
}

async function reproduce(box, address, id) {
  address("compare", { experiment: id });
  await busy(box, "Running the paper's experiment again, in short…", async () => {
    const found = await ask(`experiments/${encodeURIComponent(id)}`);
    const number = (value) => h("td", { class: "number" }, value === null || value === undefined ? "" : digits(value));
    replace(box, h("h2", {}, found.source), h("p", { class: "lead" }, found.about,
      found.entries && `. From ${found.entries} entries a point; `, found.entries && h("code", {}, `meshlock reproduce ${found.id}`), found.entries && " takes as many as the paper and states how far off each figure is. A label that names a number of entries means that full length; here every run has the fewer."),
    h("div", { class: "plots" }, found.plots.map((plot) => plotOf(plot, { log: true }))),
    h("div", { class: "scroll" }, h("table", { id: "rows" }, h("thead", {}, h("tr", {}, ["where", "what", "published", "measured", "± 95 %"].map((cell, at) => h("th", { class: at > 2 ? "number" : "" }, cell)))),
      h("tbody", {}, found.rows.map((row) => h("tr", {}, h("td", {}, row.label), h("td", {}, row.quantity), h("td", {}, row.published), number(row.measured), number(row.ci95)))))),
    h("details", {}, h("summary", {}, "Notes"), h("ul", {}, found.notes.map((note) => h("li", { class: "small" }, note)))));
  });
}
