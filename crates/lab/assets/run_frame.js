// What stands around the drawing of a run: panels, buttons, lists to choose from.

import { h, replace } from "./dom.js";
import { EventList } from "./events.js";

const BOXES = ["caption", "tabs", "lamps", "legend", "told", "sites", "pending", "network", "state", "why", "counters", "pictures", "share", "setup"];
const SPEEDS = [["1", "1 step/s"], ["2", "2 steps/s"], ["6", "6 steps/s"], ["20", "20 steps/s"]];

/** Builds the frame of `view` in its place, and gives the view its parts. */
export function frameOf(view) {
  view.canvas = h("canvas", { role: "img", "aria-label": "Space-time diagram", tabindex: "0" });
  view.where = h("span", { class: "where", id: "where" });
  view.slider = h("input", { type: "range", min: 0, max: 1, value: 0, "aria-label": "Step", oninput: () => view.go(Number(view.slider.value)) });
  view.playButton = h("button", { id: "play", "aria-label": "Play", onclick: () => view.play() }, "▶");
  const boxes = view.boxes = Object.fromEntries(BOXES.map((name) => [name, h("div", { class: ["tabs", "lamps", "told"].includes(name) ? name : "", id: `box-${name}` })]));
  boxes.told.setAttribute("aria-live", "polite");
  const button = (label, text, act, keys, id) => h("button", { "aria-label": label, title: `${label} (${keys})`, id, onclick: act }, text);
  const select = (label, values, chosen, set) => h("select", { "aria-label": label, onchange: (event) => set(event.target.value) },
    values.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  view.undoButton = button("Undo", "↶", () => view.undo(), "Ctrl+Z", "undo");
  view.redoButton = button("Redo", "↷", () => view.redo(), "Ctrl+Shift+Z", "redo");
  view.events = new EventList((at, site) => { view.selected = site ?? view.selected; view.go(at); });
  const turn = (value) => Object.assign(view.diagram, { axis: value, left: -1 });
  replace(view.main, h("div", { class: "run" },
    h("section", { class: "setup", "aria-label": "Setup and acts" },
      boxes.setup,
      h("details", { class: "panel", open: true }, h("summary", {}, "Sites"), boxes.sites),
      h("details", { class: "panel", open: true }, h("summary", {}, "On their way"), boxes.pending),
      h("details", { class: "panel" }, h("summary", {}, "Links"), boxes.network)),
    h("section", { class: "drawing-area", "aria-label": "Run" },
      boxes.caption, boxes.tabs, boxes.lamps,
      h("div", { class: "drawing" }, view.canvas, view.tip.box),
      h("div", { class: "row below" }, boxes.legend, h("span", { class: "spacer" }),
        select("Axis", [["steps", "by step"], ["time", "by time"]], "steps", (value) => { turn(value); view.diagram.follow(); view.diagram.draw(); }),
        button("Zoom out", "−", () => view.diagram.zoom(0.7), "−"), button("Zoom in", "+", () => view.diagram.zoom(1.4), "+"), button("All of it", "fit", () => view.diagram.fit(), "0")),
      h("div", { class: "controls" },
        button("To the start", "|◀", () => view.go(0), "Home"),
        button("One step back", "◀", () => view.go(view.tab.at - 1), "←"),
        view.playButton,
        button("One step forward", "▶|", () => view.forward(), "→"),
        button("To the next entry", "entry ▸", () => view.entry(1), "N"),
        view.slider, view.where,
        select("Speed", SPEEDS, String(view.speed), (value) => view.pace(Number(value))),
        view.undoButton, view.redoButton),
      boxes.told),
    h("section", { class: "side", "aria-label": "State at this step" },
      h("div", { class: "panel" }, boxes.why, boxes.state), h("div", { class: "panel" }, boxes.pictures),
      h("div", { class: "panel" }, boxes.counters), view.events.box, h("div", { class: "panel" }, boxes.share))));
}
