// The page: which view the address bar asks for, theme, help. Each view is a module of its own.

import { read } from "./address.js";
import { h, problem, replace } from "./dom.js";
import { openHelp } from "./help.js";
import { RunView } from "./run_view.js";
import { showGallery } from "./gallery.js";
import { showCompare } from "./compare.js";
import { showQuorum } from "./quorum.js";
import { TraceView } from "./trace_view.js";
import { LiveView } from "./live_view.js";

const main = document.getElementById("main");
let current = null;

const VIEWS = {
  home: (parts, rest) => VIEWS.gallery(parts, rest),
  run: async (parts) => {
    const view = new RunView(main);
    current = view;
    await view.open(parts);
  },
  gallery: (parts, rest) => showGallery(main, rest, parts),
  compare: (parts) => showCompare(main, parts),
  quorum: (parts) => showQuorum(main, parts),
  trace: async (parts) => {
    const view = new TraceView(main);
    current = view;
    await view.open(parts);
  },
  live: async () => {
    const view = new LiveView(main);
    current = view;
    await view.open();
  },
};

async function route() {
  current?.close?.();
  current = null;
  const { view, rest, parts } = read();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view || (view === "home" && link.dataset.view === "gallery")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.dataset.ready = "no";
  try {
    if (!VIEWS[view]) throw new Error(`there is no view '${view}'; the views are run, gallery, compare, quorum, live and trace`);
    await VIEWS[view](parts, rest);
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
addEventListener("hashchange", route);
addEventListener("error", (event) => {
  replace(main, problem("Internal error of this page", event.message, h("p", {}, h("a", { href: "#/gallery" }, "Go to the gallery"))));
});
addEventListener("unhandledrejection", (event) => {
  replace(main, problem("Internal error of this page", String(event.reason?.message ?? event.reason), h("p", {}, h("a", { href: "#/gallery" }, "Go to the gallery"))));
});
route();
