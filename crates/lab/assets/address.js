// The address bar: `#/run?algo=maekawa&n=9&…` says everything that is needed to see the same thing again.

/** The view and its parts that the address bar asks for. */
export function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = Object.fromEntries(new URLSearchParams(query));
  const [view = "", ...rest] = path.split("/");
  return { view: view || "home", rest: rest.map(decodeURIComponent), parts };
}

/** The address of a view. Empty parts are left out. */
export function format(view, parts) {
  const kept = Object.entries(parts).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  // Colons, commas and slashes may stay as they are in a fragment, and specs have many.
  const query = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  return `#/${view}${query ? `?${query.replace(/%3A/g, ":").replace(/%2C/g, ",").replace(/%2F/g, "/")}` : ""}`;
}

/** Shows `view` with `parts` in the address bar without loading it again. */
export function show(view, parts) {
  history.replaceState(null, "", format(view, parts));
}
