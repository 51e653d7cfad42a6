// The page: which view the address bar asks for, theme, help. Each view is a module of its own.

import { arrived, read } from "./address.js";
import { h, problem, replace, toast } from "./dom.js";
import { openHelp } from "./help.js";
import { RunView } from "./run_view.js";
import { showGallery } from "./gallery.js";
import { showCompare } from "./compare.js";
import { showQuorum } from "./quorum.js";
import { TraceView } from "./trace_view.js";
import { LiveView } from "./live_view.js";

const main = document.getElementById("main");
let current = null;

/** Opens a view that is stepped, and remembers it. */
const open = (View) => async (parts) => {
  const view = new View(main);
  current = view;
  await view.open(parts);
};

const VIEWS = new Map(Object.entries({
  home: (parts, rest) => showGallery(main, rest, parts),
  gallery: (parts, rest) => showGallery(main, rest, parts),
  run: open(RunView),
  compare: (parts) => showCompare(main, parts),
  quorum: (parts) => showQuorum(main, parts),
  trace: open(TraceView),
  live: open(LiveView),
}));

async function route() {
  const { view, rest, parts } = read();
  // A run that is shown already goes to another of its states; nothing is built anew.
  if (view === "run" && current instanceof RunView) return current.restore(parts);
  current?.close?.();
  current = null;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view || (view === "home" && link.dataset.view === "gallery")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.dataset.ready = "no";
  try {
    if (!VIEWS.has(view)) throw new Error(`there is no view '${view}'; the views are run, gallery, compare, quorum, live and trace`);
    await VIEWS.get(view)(parts, rest);
  } catch (error) {
    replace(main, problem("This address cannot be shown", error.message,
      h("p", {}, h("a", { href: "#/gallery" }, "Go to the gallery"), " or ", h("a", { href: "#/run" }, "start a plain run"), ".")));
  }
  document.body.dataset.ready = "yes";
}

function theme(wanted) {
  document.documentElement.dataset.theme = wanted;
  current?.retheme?.();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const remembered = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
theme(remembered() ?? (dark.matches ? "dark" : "light"));
dark.addEventListener("change", () => { if (!remembered()) theme(dark.matches ? "dark" : "light"); });
document.getElementById("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  theme(next);
  try { localStorage.setItem("theme", next); } catch { /* It is remembered only where the browser allows it. */ }
});
document.getElementById("help").addEventListener("click", openHelp);
addEventListener("keydown", (event) => {
  if (event.key === "?" && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) openHelp();
  else current?.key?.(event);
});
// Back and links: one of the two events comes, or both.
const moved = () => { if (arrived()) route(); };
addEventListener("hashchange", moved);
addEventListener("popstate", moved);
// What goes wrong beside the view is said, and the view stays.
const failed = (why) => {
  if (main.querySelector(".loading")) replace(main, problem("Internal error of this page", why, h("p", {}, h("a", { href: "#/gallery" }, "Go to the gallery"))));
  else toast(`Internal error of this page: ${why}. What you see may be incomplete; the address bar still has your run.`);
};
addEventListener("error", (event) => failed(event.message));
addEventListener("unhandledrejection", (event) => failed(String(event.reason?.message ?? event.reason)));
route();
