// What a prepared run shows: its caption, its scenes, and which of its facts hold.

import { ask } from "./api.js";
import { h, replace, rich, toast } from "./dom.js";
import { departure } from "./forks.js";

/** Fills `box`. The answer's `judge` is told which run is shown, and its `update` is called whenever the position changes. */
export async function showCaption(box, from, view) {
  const [kind, id, property, step, round] = from.split(":");
  try {
    return kind === "erratum" ? erratum(box, await ask("gallery"), id, wrongAt(property, step, round), view) : await figure(box, id, view);
  } catch (error) {
    toast(error.message);
    return null;
  }
}

async function figure(box, id, view) {
  const entry = await ask(`gallery/${encodeURIComponent(id)}`);
  const scene = h("p", { id: "scene", "aria-live": "polite" });
  const jumps = entry.scenes.map((one) => h("button", { class: "tiny", "data-scene": one.step, onclick: () => view.go(one.step) }, one.text.split(":")[0].length < 24 ? one.text.split(":")[0] : `step ${one.step}`));
  const facts = entry.facts.map((fact) => h("li", { "data-step": fact.step }, fact.says));
  box.className = "caption";
  const more = foldable(entry.source, h("p", { class: "small" }, rich(entry.caption)));
  replace(box, h("h2", {}, entry.title), more.element, h("div", { class: "row" }, jumps), scene, h("ul", { class: "facts", "aria-label": "What the figure shows" }, facts));
  const own = new URLSearchParams(entry.address).get("acts") ?? "";
  // Facts hold or not in the run that is shown, which may be a fork of the figure's.
  let judged = [], left = Infinity;
  const judge = async (parts) => {
    left = departure(own, parts.acts);
    try {
      judged = (await ask(`gallery/${encodeURIComponent(id)}/facts`, parts)).facts;
    } catch (error) {
      judged = [];
      toast(error.message);
    }
  };
  const update = () => {
    const at = view.tab?.at ?? 0, away = at > left;
    more.follow(at);
    const seen = entry.scenes.filter((one) => one.step <= Math.min(at, left)).at(-1);
    scene.textContent = away ? `Not the figure's run any more since step ${left + 1}: the facts below are judged for what you see.` : seen?.text ?? "Press → to step.";
    facts.forEach((item, number) => { item.dataset.holds = entry.facts[number].step > at ? "later" : String(judged[number] ?? "later"); });
    jumps.forEach((jump) => {
      jump.disabled = Number(jump.dataset.scene) > left;
      jump.setAttribute("aria-pressed", String(!away && Number(jump.dataset.scene) === seen?.step));
    });
  };
  return { judge, update };
}

/** Which property fails after how many steps; links of earlier versions do not say it. */
function wrongAt(property, step, round) {
  const whole = (text) => (/^\d{1,6}$/.test(text ?? "") ? Number(text) : null);
  return /^[a-z-]{1,30}$/.test(property ?? "") && whole(step) !== null ? { property, step: whole(step), round: whole(round) } : null;
}

function erratum(box, { errata }, id, wrong, view) {
  const found = errata.find((one) => one.id === id);
  if (!found) throw new Error(`there is no erratum '${id}'`);
  box.className = "caption";
  const more = foldable(found.source,
    h("p", { class: "small" }, h("strong", {}, "Printed: "), rich(found.printed)), h("p", { class: "small" }, h("strong", {}, "What goes wrong: "), rich(found.wrong)),
    h("p", { class: "small" }, h("strong", {}, "Repair: "), rich(found.repair)),
    h("p", { class: "small faint" }, "The shortest run that the checker finds; step through it and watch the lamps."));
  const verdict = wrong && h("p", { id: "goes-wrong", "data-property": wrong.property, "data-step": wrong.step, "aria-live": "polite" });
  const there = wrong && h("button", { class: "tiny", id: "to-wrong", onclick: () => view.go(wrong.step) }, `step ${wrong.step}`);
  replace(box, h("h2", {}, found.title), wrong && h("div", { class: "row" }, verdict, there), more.element);
  let left = false;
  // A fork before that step is another run.
  const judge = (parts) => { left = wrong !== null && departure(view.tabs[0].acts, parts.acts) < wrong.step; };
  const update = () => {
    const at = view.tab?.at ?? 0;
    // It opens at its end, where one reads first what is wrong.
    more.follow(wrong && at === wrong.step ? 0 : at);
    if (!wrong) return;
    there.hidden = left || at === wrong.step;
    verdict.textContent = left ? `Not the checker's run any more, in which step ${wrong.step} breaks ${quoted(wrong.property)}.` : told(wrong, at, view.moment);
  };
  return { judge, update };
}

/** A property as its lamp says it. */
const quoted = (property) => `“${["deadlock", "starvation"].includes(property) ? "no " : ""}${property}”`;

/** What is wrong, seen from position `at`. */
function told({ property, step, round }, at, moment) {
  if (round !== null) return `${quoted(property)} is broken: the steps from ${round + 1} to ${step} can be repeated for ever, and somebody waits all the time.`;
  if (at < step) return `Step ${step} will break ${quoted(property)}.`;
  const lamp = moment?.lamps.find((one) => one.name === property && one.light === "broken");
  return `Step ${step} breaks ${quoted(property)}${lamp ? `: ${lamp.why}` : ""}.`;
}

/** What is read before the first step; after it the drawing needs the room, unless one has opened or closed it by hand. */
function foldable(source, ...content) {
  let touched = false;
  const element = h("details", { open: true }, h("summary", { class: "small faint", onclick: () => { touched = true; } }, source), content);
  return { element, follow: (at) => { if (!touched) element.open = at === 0; } };
}
