// The events of a run as a list of text with the same selection as the drawing: for the keyboard, and for those who do not see the drawing.

import { h, patch } from "./dom.js";

/** How many steps before and after the present one are in the list. */
const AROUND = 25;

export class EventList {
  /** `choose(at, site)` goes to a position, and to the site at which something has happened there. */
  constructor(choose) {
    this.choose = choose;
    this.list = h("div", { id: "events", class: "events", role: "listbox", tabindex: "0", "aria-label": "Events", onkeydown: (event) => this.#key(event) });
    this.box = h("details", { class: "panel", id: "box-events", ontoggle: () => this.#draw() }, h("summary", {}, "Events as text"), this.list);
  }

  /** Shows the events around the position `at` of a run. */
  show(model, at) {
    Object.assign(this, { model, at });
    this.#draw();
  }

  #draw() {
    if (!this.box.open || !this.model) return;
    const { model, at, list } = this, first = Math.max(0, at - AROUND), last = Math.min(model.steps, at + AROUND);
    patch(list, Array.from({ length: last - first + 1 }, (_, place) => this.#option(first + place)));
    list.setAttribute("aria-activedescendant", `event-${at}`);
    // Only the list moves, and not the page around it.
    const chosen = list.querySelector("[aria-selected='true']"), top = chosen.offsetTop - list.offsetTop;
    list.scrollTop = Math.min(top, Math.max(list.scrollTop, top + chosen.offsetHeight - list.clientHeight));
  }

  #option(step) {
    const { model, at } = this;
    return h("div", { id: `event-${step}`, role: "option", "data-key": step, "aria-selected": String(step === at), "aria-posinset": step + 1, "aria-setsize": model.steps + 1, onclick: () => this.#go(step) },
      h("span", { class: "faint" }, `${step} `), step === 0 ? "Start" : model.tellStep(step - 1) || "nothing that shows");
  }

  #go(step) {
    const at = Math.max(0, Math.min(step, this.model.steps));
    const [line] = at > 0 ? this.model.linesOf(at - 1) : [];
    this.choose(at, line === undefined ? null : this.model.lines.site[line]);
  }

  #key(event) {
    if (!this.model || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowDown: this.at + 1, ArrowUp: this.at - 1, PageDown: this.at + 10, PageUp: this.at - 10, Home: 0, End: this.model.steps }[event.key];
    if (to === undefined) return;
    // Elsewhere the same keys choose a site, or step.
    event.preventDefault();
    event.stopPropagation();
    this.#go(to);
  }
}
