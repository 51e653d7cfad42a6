// What the keys do, and how to read the drawing.

import { h, replace } from "./dom.js";

const KEYS = [
  ["→ or Page Down", "one step forward (presenter remotes work)"], ["← or Page Up", "one step back"],
  ["Shift with ← →", "ten steps"], ["Space", "play, pause"], ["N / P", "to the next / previous entry"],
  ["Home / End", "to the start / the end"], ["+ / − / 0", "zoom in / out / all of it"], ["↑ ↓ or 1 … 9", "choose a site"],
  ["Q / X", "let the chosen site request / release"], ["D", "deliver the message that is due next"], ["F / V", "let the chosen site fail / recover"],
  ["[ / ]", "the fork before / after"], ["Ctrl+Z / Ctrl+Shift+Z", "undo, redo what you did (so does the browser's Back)"], ["?", "this help"],
];

export function openHelp() {
  const box = document.getElementById("help-box");
  replace(box,
    h("h2", { id: "help-title" }, "How to use the lab"),
    h("p", {}, "Each line is a site, time goes to the right, arrows are messages. Thin bars: the process waits. Thick bars: it is inside. ",
      "What you do in the past forks the run; forks are tabs. The address bar carries all of it: copy it to share what you see."),
    h("div", { class: "keys" }, KEYS.map(([key, what]) => [h("span", {}, key.split(/ (or|with|\/|…) /).map((part) => /^(or|with|\/|…)$/.test(part) ? ` ${part} ` : h("kbd", {}, part))), h("span", {}, what)])),
    h("p", { class: "small faint" }, "“Events as text” lists what happens around the present step; in it ↑ and ↓ go from step to step. Drag or scroll moves the drawing, Ctrl with scroll or two fingers zoom it. Hover or tap an arrow for its content and its causal past."),
    h("form", { method: "dialog", class: "row" }, h("span", { class: "spacer" }), h("button", { class: "main", autofocus: true }, "Close")));
  if (!box.open) box.showModal();
}
