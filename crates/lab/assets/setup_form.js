// What a run starts from: the algorithm with its options, sites, load, delays, seed.

import { h, replace } from "./dom.js";

const LOADS = [["closed", "think, then ask again"], ["open", "requests arrive and queue"], ["saturated", "ask again at once"], ["once", "each site once"], ["hand", "by hand only"]];
/** How algorithms are listed to choose from, by what lets a process in. */
const FAMILIES = [["permissions", "Permissions"], ["quorums", "Quorums"], ["token", "Tokens"]];
const DELAYS = [["spread", "0.2 T to 1 T"], ["same", "always T"], ["wild", "exponential"]];

/** The name and the options of a spec. */
export function parseSpec(spec) {
  const [name, ...rest] = spec.split(":");
  const options = {};
  // An option's value may have commas of its own only where it is a notation; those have no '='.
  for (const word of rest.join(":").split(",").filter((part) => part !== "")) {
    const [option, ...value] = word.split("=");
    options[option] = value.length ? value.join("=") : "yes";
  }
  return { name, options };
}

function formatSpec(name, options, info) {
  const given = Object.entries(options).filter(([option, value]) => value !== "" && info.options.some((one) => one.name === option && one.default !== value));
  return given.length ? `${name}:${given.map(([option, value]) => `${option}=${value}`).join(",")}` : name;
}

/** The algorithms by family: the family's name, and those of its algorithms. */
export function families(known) {
  return FAMILIES.map(([kind, title]) => [title, known.algorithms.filter((info) => info.kind === kind)]);
}

/** The form; `start(setup, until)` plays what it says. */
export function setupForm(known, setup, start) {
  const { name, options } = parseSpec(setup.algo ?? "ricart-agrawala");
  const optionBox = h("div", { class: "panel" });
  const about = h("p", { class: "small faint" });
  const field = (label, control) => h("label", {}, label, control);
  const number = (part, otherwise, attributes) => h("input", { name: part, type: "number", value: setup[part] ?? otherwise, inputmode: "decimal", ...attributes });
  const choice = (part, values, otherwise) => h("select", { name: part }, values.map(([value, text]) => h("option", { value, selected: value === (setup[part] ?? otherwise) }, text)));
  const algorithm = h("select", { name: "algo", id: "algo" }, families(known).map(([title, infos]) => h("optgroup", { label: title }, infos.map((info) => h("option", { value: info.name, selected: info.name === name }, info.name)))));
  if (!known.algorithms.some((info) => info.name === name)) algorithm.prepend(h("option", { value: setup.algo, selected: true }, name));

  const infoOf = () => known.algorithms.find((info) => info.name === algorithm.value);
  const showOptions = (given) => {
    const info = infoOf();
    about.textContent = info ? `${info.title}. ${info.source}.` : "An algorithm used only by an erratum.";
    replace(optionBox, (info?.options ?? []).map((option) => {
      const value = given[option.name] ?? option.default;
      const list = `list-${option.name}`;
      const control = option.free
        ? [h("input", { name: `option-${option.name}`, value, list, title: option.takes }), h("datalist", { id: list }, option.words.map((word) => h("option", { value: word })))]
        : h("select", { name: `option-${option.name}` }, option.words.map((word) => h("option", { value: word, selected: word === value }, word)));
      return h("label", { title: option.about }, option.name, control);
    }));
  };
  showOptions(options);

  const run = () => {
    const data = Object.fromEntries(new FormData(form));
    const info = infoOf();
    const given = Object.fromEntries((info?.options ?? []).map((option) => [option.name, data[`option-${option.name}`] ?? ""]));
    const next = { algo: info ? formatSpec(info.name, given, info) : algorithm.value, n: data.n, k: data.k, load: data.load, rate: data.rate, delay: data.delay, stay: data.stay, channels: data.channels, seed: data.seed };
    if (data.holders) next.holders = data.holders;
    start(next, data.load === "hand" ? 0 : Number(data.until) || 0);
  };
  // Another algorithm is shown at once, with its own options, and the rest as it is where that is possible.
  algorithm.addEventListener("change", () => {
    showOptions({});
    if (!infoOf()?.many_permits) form.elements.k.value = 1;
    run();
  });
  const more = h("details", { class: "panel", open: setup.algo === undefined && innerWidth > 700 }, h("summary", {}, "Setup"), optionBox,
  h("div", { class: "pair" }, field("Sites N", number("n", 4, { min: 1, max: known.max_sites })), field("Permits K", number("k", 1, { min: 1, max: known.max_sites }))),
  field("Load", choice("load", LOADS, "closed")),
  h("div", { class: "pair" }, field("Requests per T and site", number("rate", 0.2, { min: 0.000001, step: "any" })), field("Stays inside (T, or hand)", h("input", { name: "stay", value: setup.stay ?? (setup.load === "hand" ? "hand" : "0.5") }))),
  h("div", { class: "pair" }, field("Delays", choice("delay", DELAYS, "spread")), field("Channels", choice("channels", [["fifo", "keep order"], ["any", "any order"]], "fifo"))),
  h("div", { class: "pair" }, field("Seed", number("seed", 1, { min: 0, step: 1 })), field("Steps", number("until", 120, { min: 0, max: known.max_steps, step: 1 }))),
  field("Inside at the start", h("input", { name: "holders", value: setup.holders ?? "", placeholder: "nobody, or 0-2" })),
  h("button", { class: "main", id: "start" }, "Run"));
  const form = h("form", { class: "panel", onsubmit: (event) => { event.preventDefault(); run(); } }, field("Algorithm", algorithm), about, more);
  form.noValidate = true;
  return form;
}
