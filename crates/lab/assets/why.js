// Why a site waits, or how it came to be inside: sentences that follow from the states, the messages on their way and the lines so far.

import { h, patch } from "./dom.js";

/** How many of the sites that are waited for are explained. */
const MAX_TOLD = 12;

/** Fills `box` for the site `site`; `show(step)` goes there, and `shade(line)` shades what can have caused a line. */
export function showWhy(box, moment, model, site, show, shade) {
  const { phase } = moment.sites[site];
  if (phase === "waiting") return patch(box, h("h3", {}, `Why does S${site} wait?`), waiting(moment, model, site, show));
  if (phase === "inside") return patch(box, h("h3", {}, `How did S${site} get in?`), inside(moment, model, site, show, shade));
  patch(box);
}

/** A link to a step. */
function at(step, show) {
  return h("button", { class: "step", onclick: () => show(step + 1) }, `step ${step + 1}`);
}

/** The last line of a kind at a site within the first `steps` steps. */
function lastLine(model, site, steps, wanted) {
  let found = -1;
  for (let line = 0; line < model.lineCount && model.lines.step[line] < steps; line++) {
    if (model.lines.site[line] === site && wanted(line)) found = line;
  }
  return found;
}

const named = (model, name) => (line) => model.name[line] === name;

function waiting(moment, model, site, show) {
  const me = moment.sites[site], { lines } = model;
  const asked = lastLine(model, site, moment.step, named(model, "request"));
  const since = asked < 0 ? "It waits since the start." : ["It has asked in ", at(lines.step[asked], show), me.timestamp && `, with the timestamp ${me.timestamp}`, "."];
  const reasons = me.waits_for.length > 0 ? me.waits_for.slice(0, MAX_TOLD).map((other) => h("li", { "data-waits-for": other }, answerOf(moment, model, site, other, asked, show))) : token(moment, model, site, show).map((text) => h("li", {}, text));
  const more = me.waits_for.length - MAX_TOLD;
  return [h("p", { class: "small" }, since), h("ul", { class: "why" }, reasons, more > 0 && h("li", {}, `and ${more} more`))];
}

/** Why the answer of `other` is missing. */
function answerOf(moment, model, site, other, asked, show) {
  const them = moment.sites[other], { lines } = model;
  const on = (from, to, wanted = () => true) => moment.pending.find((message) => message.from === from && message.to === to && wanted(message));
  const travels = (message, text) => [text, `${message.text} is on its way`, message.held && ", held by a cut link", since(model, message, show), "."];
  const answer = on(other, site, (message) => !ASKS.has(message.kind)), going = on(site, other), theirs = on(other, site);
  if (answer) return travels(answer, `S${other}: its `);
  if (going) return travels(going, `S${other} does not know yet: `);
  // To some algorithms a request that crosses is an answer, too.
  if (theirs) return travels(theirs, `S${other}: its own `);
  if (them.phase === "failed") return [`S${other} has failed.`];
  const given = them.pointers.find((one) => (one.name === "permission" || one.name === "granted") && one.to !== site);
  const got = asked < 0 ? -1 : lastLine(model, other, moment.step, (line) => model.name[line] === "receive" && lines.peer[line] === site && lines.step[line] >= lines.step[asked] && ASKS.has(lines.text_kinds[lines.text[line]]));
  const known = got >= 0 && [", which has got the request in ", at(lines.step[got], show)];
  if (given) return [other === site ? `S${other} itself` : `S${other}`, known, known ? ", " : " ", `has given its permission to S${given.to}, which ${said(moment.sites[given.to])}.`];
  const held = them.sets.find((set) => KEPT.test(set.name) && set.items.includes(site))?.name ?? them.queues.find((queue) => queue.items.some((item) => new RegExp(`\\bS${site}\\b`).test(item)))?.name;
  return [`S${other}`, known, held ? `${known ? "," : ""} has it in its ${held}, and ` : ": ", `it ${said(them)}.`];
}

/** The kinds of messages that ask. */
const ASKS = new Set(["REQUEST", "REQ", "WANTED"]);

/** The sets in which papers keep those who are answered later. */
const KEPT = /^(deferred|inform set I)$/;

function said(site) {
  if (site.phase === "waiting") return site.timestamp ? `waits itself, with ${site.timestamp}` : "waits itself";
  return site.phase === "inside" ? "is inside" : site.phase === "failed" ? "has failed" : "is idle";
}

function since(model, pending, show) {
  const message = model.message(pending.number);
  return message ? [" since ", at(message.sent, show)] : "";
}

/** Where the token is that a site waits for, and where the site stands in its queue. */
function token(moment, model, site, show) {
  const { sites } = moment;
  const here = sites.map((one, place) => ({ one, place })).filter(({ one }) => one.tokens > 0);
  const travelling = moment.pending.filter((message) => TOKENS.has(message.kind));
  const places = [
    ...here.map(({ one, place }) => `${model.permits > 1 ? "A" : "The"} token is at S${place}, which ${said(one)}.`),
    ...travelling.map((message) => [`${message.text} is on its way from S${message.from} to S${message.to}`, message.held && ", held by a cut link", since(model, message, show), "."]),
  ];
  const asks = moment.pending.filter((message) => message.from === site && !TOKENS.has(message.kind)).map((message) => [`Its ${message.text} to S${message.to} is still on its way`, since(model, message, show), "."]);
  const queues = sites.flatMap((one, place) => one.queues.map((queue) => ({ queue, place, nth: queue.items.findIndex((item) => item === `S${site}`) })))
    .filter(({ nth }) => nth >= 0).map(({ queue, place, nth }) => `It is number ${nth + 1} of the ${queue.name} at S${place}.`);
  const nexts = sites.flatMap((one, place) => one.pointers.filter((pointer) => pointer.name === NEXT[model.algorithm?.name] && pointer.to === site && place !== site).map(() => `It is the next of S${place}, which ${said(one)}.`));
  const all = [...places, ...queues, ...nexts, ...asks];
  return all.length ? all : ["No token is to be seen: it was lost."];
}

/** The pointer to the site that gets the token from here, by the algorithm. */
const NEXT = { "naimi-trehel": "next", "neilsen-mizuno": "FOLLOW" };

const TOKENS = new Set(["TOKEN", "PRIVILEGE", "PERM", "REL"]);

/** The messages that let a site in, and a button that shades all that can have caused its entry. */
function inside(moment, model, site, show, shade) {
  const { lines } = model;
  const entered = lastLine(model, site, moment.step, named(model, "enter"));
  if (entered < 0) return h("p", { class: "small" }, "It is inside since the start.");
  const asked = lastLine(model, site, lines.step[entered] + 1, named(model, "request"));
  const got = [];
  for (let line = Math.max(0, asked); line <= entered; line++) {
    if (lines.site[line] === site && model.name[line] === "receive") got.push(line);
  }
  const cause = (line) => {
    const message = model.message(lines.number[line]);
    return h("li", {}, lines.texts[lines.text[line]], ` from S${lines.peer[line]} in `, at(lines.step[line], show), message && [", sent in ", at(message.sent, show)]);
  };
  return [
    h("p", { class: "small" }, "It has entered in ", at(lines.step[entered], show), asked >= 0 && [", having asked in ", at(lines.step[asked], show)], got.length ? ". Between them it got:" : ", and needed nothing from anyone."),
    got.length > 0 && h("ul", { class: "why" }, got.slice(-MAX_TOLD).map(cause), got.length > MAX_TOLD && h("li", {}, `and ${got.length - MAX_TOLD} before`)),
    h("button", { class: "tiny", "data-act": "past", onclick: () => shade(entered) }, "Shade its causal past"),
  ];
}
