// The address bar: `#/run?algo=maekawa&n=9&…` says everything that is needed to see the same thing again.
//
// Two things change it. A position that one looks at is written where the present address is, when it rests. What a person does is
// a new address, so that Back undoes it.

/** How long nothing must have changed before the address is written, in milliseconds. WebKit refuses more than 100 changes in ten seconds. */
const REST = 250;
/** How long to wait after the browser has refused a change. */
const REFUSED = 10_000;

let waiting = null;
let timer = 0;
let shown = location.hash;
/** How many changes each series of addresses had at most: those after the present one can be done again. */
const longest = new Map();

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The view and its parts that the address bar asks for. */
export function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = Object.fromEntries(new URLSearchParams(query));
  const [view = "", ...rest] = path.split("/");
  return { view: view || "home", rest: rest.map(decoded), parts };
}

/** The address of a view. Empty parts are left out. */
export function format(view, parts) {
  const kept = Object.entries(parts).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  // Colons, commas and slashes may stay as they are in a fragment, and specs have many.
  const query = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  return `#/${view}${query ? `?${query.replace(/%3A/g, ":").replace(/%2C/g, ",").replace(/%2F/g, "/")}` : ""}`;
}

/** Whether the address bar asks for something that is not shown yet. If so, it counts as shown from now on. */
export function arrived() {
  if (location.hash === shown) return false;
  rest();
  shown = location.hash;
  return true;
}

/** Shows `view` with `parts` in the address bar as soon as they rest, without loading it again. */
export function show(view, parts) {
  waiting = format(view, parts);
  plan(REST);
}

/** The same at once, as a change that Back undoes. */
export function push(view, parts) {
  flush();
  const text = format(view, parts);
  if (text === location.hash) return;
  const { series, depth } = place();
  if (series === null) {
    const begun = `${Date.now()}-${longest.size}`;
    write("replaceState", location.hash, { series: begun, depth: 0 });
    longest.set(begun, 0);
  }
  const now = place();
  longest.set(now.series, depth + 1);
  // Where the browser refuses, the address comes later, in the place of the present one.
  if (!write("pushState", text, { series: now.series, depth: depth + 1 })) show(view, parts);
}

/** Writes what waits now. */
export function flush() {
  if (waiting === null) return;
  const text = waiting;
  rest();
  if (text !== location.hash && !write("replaceState", text, history.state)) {
    waiting = text;
    plan(REFUSED);
    document.body.dataset.address = "refused";
  }
}

/** The whole address of what is shown, also where the address bar does not have it yet. */
export function href() {
  return new URL(waiting ?? location.hash, location.href).href;
}

/** How many changes Back can undo, and how many can be done again. */
export function changes() {
  const { series, depth } = place();
  return { before: depth, after: Math.max(0, (longest.get(series) ?? 0) - depth) };
}

function place() {
  return { series: history.state?.series ?? null, depth: history.state?.depth ?? 0 };
}

function plan(time) {
  clearTimeout(timer);
  timer = setTimeout(flush, time);
  document.body.dataset.address = "changing";
}

function rest() {
  clearTimeout(timer);
  waiting = null;
  document.body.dataset.address = "resting";
}

/** Browsers limit how often the address may change: the page goes on without it. */
function write(how, text, state) {
  try {
    history[how](state, "", text);
    shown = location.hash;
    return true;
  } catch {
    return false;
  }
}

addEventListener("pagehide", flush);
