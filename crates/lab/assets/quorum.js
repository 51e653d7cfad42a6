// The quorum workbench: build a family of sets, see whether they are quorums and what they cost, then run it.

import { ask } from "./api.js";
import { push, show } from "./address.js";
import { digits, h, problem, replace, s } from "./dom.js";
import { circle, heap, tree } from "./layouts.js";
import { plotOf } from "./plot.js";

const BUILDS = [["plane", "projective plane", ["order"]], ["folded", "plane folded to any N", ["n"]], ["grid", "grid: a row and a column", ["n"]], ["tree", "tree: paths from the root", ["n"]], ["majority", "majority", ["n"]], ["votes", "weighted votes", ["votes", "quota"]], ["sets", "own sets", ["sets"]]];
const FIELDS = { order: ["Order q", "2"], n: ["Sites N", "9"], votes: ["Votes of each site", "3,1,1,1,1"], quota: ["Quota (more than half)", ""], sets: ["Sets, '/' or a line between them", "0.1/1.2/0.2"] };

export async function showQuorum(main, parts) {
  const result = h("div", { class: "panel", id: "result", "aria-live": "polite" });
  const inputs = h("div", { class: "form wide" });
  const build = h("select", { name: "build", id: "build" }, BUILDS.map(([name, text]) => h("option", { value: name, selected: name === (parts.build ?? "plane") }, text)));
  const draw = () => {
    const [, , fields] = BUILDS.find(([name]) => name === build.value);
    replace(inputs, fields.map((field) => h("label", { class: field === "sets" ? "wide" : "" }, FIELDS[field][0],
      field === "sets" ? h("textarea", { name: field, rows: 4 }, parts[field] ?? FIELDS[field][1]) : h("input", { name: field, value: parts[field] ?? FIELDS[field][1] }))));
  };
  build.addEventListener("change", draw);
  draw();
  const form = h("form", { class: "form", onsubmit: (event) => {
    event.preventDefault();
    judge(result, push, Object.fromEntries(new FormData(form)));
  } }, h("label", {}, "Construction", build), inputs, h("button", { class: "main", id: "judge" }, "Build and judge"));
  replace(main, h("div", { class: "page" }, h("h1", {}, "Quorum workbench"),
    h("p", { class: "lead" }, "Sets of sites of which every two meet. Small ones cost few messages, well spread ones share the work, many different ones survive failures."), form, result));
  await judge(result, show, Object.keys(parts).length ? parts : { build: "plane", order: "2" });
}

async function judge(box, address, parts) {
  address("quorum", parts);
  let family;
  try {
    family = await ask("quorum", parts);
  } catch (error) {
    return replace(box, problem("This family cannot be built", error.message));
  }
  const range = ({ least, mean, most }) => (least === most ? digits(least) : `${digits(least)} to ${digits(most)}, mean ${digits(mean)}`);
  const survived = family.resilience.at_least === family.resilience.at_most ? family.resilience.at_least : `${family.resilience.at_least} to ${family.resilience.at_most}`;
  const rows = [["sites a set asks", range(family.sizes)], ["messages of an entry alone", range(family.messages)], ["load of the busiest site, best strategy", family.load.best.toFixed(4)],
    ["the same if all sets are used alike", family.load.even === null ? "–" : family.load.even.toFixed(4)], ["any so many failures survived", survived]];
  const loads = family.load.of_sites, most = Math.max(...loads);
  replace(box, h("h2", {}, `${family.title}: ${family.sites} sites, ${family.set_count} sets`),
    h("ul", { class: "facts", id: "checks" }, family.checks.map((check) => h("li", { "data-check": check.name, "data-holds": String(check.holds) }, check.about, check.why && `: ${check.why}`))),
    h("div", { class: "plots" },
      h("div", { class: "plot picture" }, h("h3", {}, "The sets"), sets(family)),
      h("div", { class: "plot" }, h("h3", {}, "Figures"), h("table", { id: "figures", "data-load": family.load.best, "data-resilience": survived }, h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("td", {}, name), h("td", { class: "number" }, value))))),
        h("h3", { style: "margin-top:10px" }, "Load of each site under the best strategy"),
        h("div", { class: "picture" }, s("svg", { viewBox: "0 0 400 110", role: "img", "aria-label": loads.map((load, at) => `S${at} ${load.toFixed(3)}`).join(", ") },
          loads.map((load, at) => s("rect", { x: (at * 400) / loads.length + 1, y: 90 - (load / most) * 80, width: Math.max(1, 400 / loads.length - 2), height: (load / most) * 80, class: "head kind-0" }, s("title", {}, `S${at}: ${load.toFixed(4)}`))),
          loads.length <= 24 && loads.map((_, at) => s("text", { x: ((at + 0.5) * 400) / loads.length, y: 105, "text-anchor": "middle", class: "faint" }, at))))),
      plotOf({ title: "Availability", x: "probability that a site is down", y: `probability that some quorum is up (${family.availability.method})`, curves: [{ name: "some quorum up", points: family.availability.points }, { name: "one site alone", points: [[0, 1, 0], [1, 0, 0]] }] })),
    family.run ? h("p", {}, h("a", { id: "simulate", href: `#/run?${family.run}&load=closed&until=160&at=0` }, "Run it"), " or ", h("a", { href: `#/compare?algos=${encodeURIComponent(/algo=([^&]+)/.exec(family.run)[1])},lamport,majority&n=${family.sites}` }, "compare it"), ".")
      : h("p", { class: "faint" }, "To run own sets, give each site one: as many sets as sites."));
}

/** The sets one after the other: a click shows the next. */
function sets(family) {
  const wide = 300;
  const isTree = family.title.startsWith("tree");
  const columns = Math.ceil(Math.sqrt(family.sites));
  const places = isTree ? tree(heap(family.sites), wide)
    : family.title.startsWith("grid") ? Array.from({ length: family.sites }, (_, at) => ({ x: 30 + (at % columns) * (240 / Math.max(1, columns - 1 || 1)), y: 26 + Math.floor(at / columns) * 44 }))
      : circle(family.sites, wide);
  const high = Math.max(...places.map((place) => place.y)) + 26;
  const holder = h("div", {});
  let at = 0;
  const label = h("span", { class: "small" });
  const draw = () => {
    const members = family.sets[at];
    label.textContent = ` set ${at + 1} of ${family.sets.length}: ${members.map((site) => `S${site}`).join(" ")}`;
    const radius = family.sites > 24 ? 8 : 14;
    replace(holder, s("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": label.textContent },
      places.map((place, site) => [s("circle", { cx: place.x, cy: place.y, r: radius, class: members.includes(site) ? "head kind-0" : "node" }), radius > 10 && s("text", { x: place.x, y: place.y + 4, "text-anchor": "middle", style: members.includes(site) ? "fill:var(--paper)" : "" }, site)])));
  };
  const move = (by) => { at = (at + by + family.sets.length) % family.sets.length; draw(); };
  draw();
  return h("div", {}, holder, h("div", { class: "row" }, h("button", { class: "tiny", "aria-label": "Previous set", onclick: () => move(-1) }, "◀"), h("button", { class: "tiny", "aria-label": "Next set", onclick: () => move(1) }, "▶"), label));
}
