// Structures drawn live: trees and pointers, quorums, the staircase, information structures, queues, who waits for whom.

import { arrow, node } from "./arrows.js";
import { h, patch, s } from "./dom.js";
import { circle, heap, tree } from "./layouts.js";

const WIDE = 300;
/** What the papers' names mean. */
const MEANING = { HOLDER: "HOLDER: where each believes the privilege to be", father: "Father: whom each believes to have asked last; next: who gets the token after it", permission: "Permission: to whom each site has given it", granted: "Granted: whom each site has granted", coordinator: "Coordinator", next: "Next in the ring", leader: "Leader" };
/** With more sites than this circles and matrices show nothing. */
const MAX_SITES = 32;

/** Everything that the present algorithm has to show. */
export function showPictures(box, moment, model) {
  const { sites } = moment;
  if (sites.length > MAX_SITES) return patch(box, h("p", { class: "small faint" }, `Structures are drawn for up to ${MAX_SITES} sites.`));
  const parts = [];
  const named = (list) => [...new Set(sites.flatMap((site) => site[list].map((one) => one.name)))];
  const slots = [...new Set(sites.flatMap((site) => site.pointers.map((one) => one.slot)))].sort();
  const arrows = named("pointers");
  for (const slot of slots.length ? slots : []) {
    const title = slot === null ? MEANING[arrows.find((name) => name !== "tree")] ?? (arrows.filter((name) => name !== "tree").join(", ") || "Tree") : `Pointers of token ${slot}`;
    parts.push(picture(title, pointers(sites, slot, model)));
  }
  if (model.spec.startsWith("tree-quorum")) parts.push(picture("Tree and the quorum of the chosen path", treeQuorum(sites)));
  for (const name of named("sets")) parts.push(picture(name, matrix(sites, name)));
  if (named("sets").includes("inform set I") && named("sets").includes("request set R") && model.spec.startsWith("sanders")) parts.push(conditions(sites));
  if (named("queues").length) parts.push(queues(sites));
  parts.push(picture("Who waits for whom", waitFor(sites)));
  patch(box, parts);
}

function picture(title, drawing) {
  return h("figure", { class: "picture", style: "margin:0 0 12px", "data-picture": title }, h("h3", {}, title), drawing);
}

function frame(places, label, ...content) {
  const high = Math.max(...places.map((place) => place.y)) + 26;
  return s("svg", { viewBox: `0 0 ${WIDE} ${high}`, role: "img", "aria-label": label }, content);
}

/** HOLDER, father, next, granted and the like; tree edges below them. */
function pointers(sites, slot, model) {
  const mine = (site) => site.pointers.filter((one) => one.slot === slot || one.name === "tree");
  const edges = sites.map((site) => site.pointers.filter((one) => one.name === "tree").map((one) => one.to));
  const hasTree = edges.some((list) => list.length > 0);
  const places = hasTree ? tree(edges, WIDE) : circle(sites.length, WIDE);
  const names = [...new Set(sites.flatMap((site) => mine(site).map((one) => one.name)))].filter((name) => name !== "tree");
  const told = sites.flatMap((site, at) => mine(site).filter((one) => one.name !== "tree").map((one) => `S${at} ${one.name} S${one.to}`));
  return h("div", {},
    frame(places, told.join(", ") || "no pointers",
      edges.flatMap((list, at) => list.filter((to) => to > at).map((to) => s("line", { class: "edge", x1: places[at].x, y1: places[at].y, x2: places[to].x, y2: places[to].y }))),
      sites.flatMap((site, at) => mine(site).filter((one) => one.name !== "tree").map((one, place, all) => arrow(places[at], places[one.to], { class: `kind-${names.indexOf(one.name) % 8}`, "data-arrow": `${one.name}:${at}-${one.to}` }, hasTree ? 8 : 14, all.slice(0, place).filter((other) => other.to === one.to).length))),
      sites.map((site, at) => node(places[at], site, at))),
    names.length > 1 && h("p", { class: "legend" }, names.map((name, at) => h("span", { class: `kind-${at % 8}` }, name))),
    model.algorithm?.kind === "token" && h("p", { class: "small faint" }, `Token at: ${sites.map((site, at) => (site.tokens ? `S${at}` : "")).filter(Boolean).join(", ") || "on its way"}`));
}

function treeQuorum(sites) {
  const neighbours = heap(sites.length), places = tree(neighbours, WIDE);
  const asking = sites.map((site, at) => ({ at, site })).filter(({ site }) => site.phase === "waiting" || site.phase === "inside");
  const chosen = new Set(asking.flatMap(({ site }) => site.sets.find((set) => set.name === "quorum")?.items ?? []));
  return frame(places, `asked: ${[...chosen].map((at) => `S${at}`).join(", ") || "nobody"}`,
    neighbours.flatMap((list, at) => list.filter((to) => to > at).map((to) => s("line", { class: chosen.has(at) && chosen.has(to) ? "arrow kind-0" : "edge", x1: places[at].x, y1: places[at].y, x2: places[to].x, y2: places[to].y }))),
    sites.map((site, at) => [chosen.has(at) && s("circle", { cx: places[at].x, cy: places[at].y, r: 19, class: "arrow kind-0", "data-asked": at }), node(places[at], site, at)]));
}

/** A set for each site: a row for each, longest first, so that a staircase looks like one. */
function matrix(sites, name) {
  const rows = sites.map((site, at) => ({ at, items: site.sets.find((set) => set.name === name)?.items ?? [] }));
  const sorted = [...rows].sort((one, other) => other.items.length - one.items.length || one.at - other.at);
  const order = sorted.map((row) => row.at);
  const cell = Math.min(22, (WIDE - 36) / sites.length), high = 20 + cell * sites.length + 4;
  const told = sorted.map((row) => `S${row.at}: ${row.items.map((item) => `S${item}`).join(" ") || "nobody"}`).join("; ");
  const label = (at) => (cell > 13 ? `S${at}` : "");
  return s("svg", { viewBox: `0 0 ${WIDE} ${high}`, role: "img", "aria-label": `${name}. ${told}`, "data-sets": JSON.stringify(rows.map((row) => row.items)) },
    order.map((at, column) => s("text", { x: 34 + (column + 0.5) * cell, y: 13, "text-anchor": "middle", class: "faint" }, label(at))),
    sorted.map((row, line) => [s("text", { x: 28, y: 20 + (line + 0.7) * cell, "text-anchor": "end" }, label(row.at)),
      order.map((other, column) => s("rect", { x: 34 + column * cell + 1, y: 20 + line * cell + 1, width: cell - 2, height: cell - 2, rx: 3, class: row.items.includes(other) ? "head kind-0" : "edge" }, s("title", {}, row.items.includes(other) ? `S${other} is in the ${name} of S${row.at}` : `S${other} is not`)))]));
}

/** Sanders' theorem for each pair: a site informs both, or each asks the other. */
function conditions(sites) {
  const set = (at, name) => sites[at].sets.find((one) => one.name === name)?.items ?? [];
  const pairs = [];
  for (let i = 0; i < sites.length; i++) {
    for (let j = i + 1; j < sites.length; j++) {
      const shared = set(i, "inform set I").filter((site) => set(j, "inform set I").includes(site));
      const mutual = set(i, "request set R").includes(j) && set(j, "request set R").includes(i);
      const why = shared.length ? `their inform sets meet in ${shared.map((at) => `S${at}`).join(", ")}` : mutual ? "each asks the other" : "neither: they can be inside at once";
      pairs.push(h("tr", { "data-pair": `${i}-${j}`, "data-condition": shared.length ? "inform" : mutual ? "ask" : "none" }, h("td", {}, `S${i}, S${j}`), h("td", {}, why)));
    }
  }
  return h("details", { class: "picture", open: sites.length <= 5 }, h("summary", {}, "Condition that keeps each pair apart"), h("table", {}, h("tbody", {}, pairs)));
}

function queues(sites) {
  const rows = sites.flatMap((site, at) => site.queues.filter((queue) => queue.items.length).map((queue) => h("tr", { "data-queue": `${at}:${queue.name}` }, h("td", {}, `S${at}`), h("td", { class: "faint" }, queue.name), h("td", { class: "mono" }, queue.items.join(" "), h("span", { hidden: true }, ".")))));
  return h("figure", { style: "margin:0 0 12px", "data-picture": "queues" }, h("h3", {}, "Queues"), rows.length ? h("table", {}, h("tbody", {}, rows)) : h("p", { class: "small faint" }, "All queues are empty."));
}

/** Arrows from those that wait to those they wait for; dashed to who is inside where a site itself cannot know. */
function waitFor(sites) {
  const places = circle(sites.length, WIDE);
  const inside = sites.map((site, at) => (site.phase === "inside" ? at : -1)).filter((at) => at >= 0);
  const edges = sites.flatMap((site, at) => {
    if (site.phase !== "waiting") return [];
    if (!site.waits_for.length) return inside.map((to) => ({ at, to, known: false }));
    const others = new Set(site.waits_for.map((asked) => blocker(sites, asked)).filter((to) => to !== at));
    return [...others].map((to) => ({ at, to, known: true }));
  });
  const cycle = findCycle(sites.length, edges.filter((edge) => edge.known));
  const told = edges.map(({ at, to }) => `S${at} waits for S${to}`).join(", ") || "nobody waits";
  return h("div", { "data-waits": edges.filter((edge) => edge.known).map(({ at, to }) => `${at}-${to}`).join(" "), "data-cycle": cycle.join(" ") },
    frame(places, told,
      edges.map(({ at, to, known }) => arrow(places[at], places[to], { class: cycle.includes(at) && cycle.includes(to) ? "kind-2" : "kind-4", "stroke-dasharray": known ? null : "4 4" })),
      sites.map((site, at) => node(places[at], site, at))),
    cycle.length > 0 && h("p", { class: "small" }, `A circle: ${cycle.map((at) => `S${at}`).join(" → ")} → S${cycle[0]}.`),
    cycle.length > 0 && h("p", { class: "small faint" }, "It is a deadlock only if nothing that is on its way breaks it: see the lamp."));
}

/** Who stands in the way at the site that was asked: whoever has its permission, or the site itself. */
function blocker(sites, asked) {
  const given = sites[asked].pointers.find((one) => one.name === "permission" || one.name === "granted");
  return given ? given.to : asked;
}

/** A cycle of waiting sites, if there is one. */
function findCycle(count, edges) {
  const next = Array.from({ length: count }, (_, at) => edges.filter((edge) => edge.at === at).map((edge) => edge.to));
  const state = new Array(count).fill(0), path = [];
  const visit = (at) => {
    state[at] = 1;
    path.push(at);
    for (const to of next[at]) {
      if (state[to] === 1) return path.slice(path.indexOf(to));
      if (state[to] === 0) {
        const found = visit(to);
        if (found) return found;
      }
    }
    path.pop();
    state[at] = 2;
    return null;
  };
  for (let at = 0; at < count; at++) {
    if (state[at] === 0) {
      const found = visit(at);
      if (found) return found;
    }
  }
  return [];
}
