// What is said of a message where it is drawn; one that is on its way can be dealt with there.

import { h, plain, replace } from "./dom.js";
import { kindClass } from "./colours.js";

export class Tip {
  constructor() {
    this.box = h("div", { class: "tip", hidden: true });
    this.fixed = false;
  }

  hide() {
    this.box.hidden = true;
    this.fixed = false;
    this.box.classList.remove("fixed");
  }

  /** Shows a message's content; without one the tip goes, unless it is held. */
  show(model, message, place) {
    if (!message) {
      if (!this.fixed) this.hide();
      return;
    }
    this.hide();
    const way = message.lost ? "lost" : `sent in step ${message.sent + 1}${message.received === Infinity ? ", on its way" : `, received in step ${message.received + 1}`}`;
    replace(this.box, h("strong", { class: kindClass(message.kind) }, message.kind), ` ${model.siteName(message.from)} → ${model.siteName(message.to)}`,
      h("div", { class: "mono" }, plain(model.lines.texts[message.text])), h("div", { class: "faint" }, `${way}; shaded: its causal past`));
    this.#put(place);
  }

  /** Shows a message and, if it is pending, what can be done with it. */
  hold(model, message, pending, place, act) {
    this.show(model, message, place);
    if (!pending) return;
    const ends = `${pending.from}-${pending.to}`, nth = pending.nth ? `-${pending.nth}` : "";
    const button = (label, text) => h("button", { class: "tiny", onclick: () => { this.hide(); act(text); } }, label);
    this.fixed = true;
    this.box.classList.add("fixed");
    this.box.append(h("div", { class: "row" }, button("Deliver now", `d${ends}${nth}`), button("Delay", `t${ends}-${pending.nth}-20`), button("Drop", `l${ends}${nth}`), button("Twice", `u${ends}${nth}`),
      h("button", { class: "tiny", "aria-label": "Close", onclick: () => this.hide() }, "×")));
    this.#put(place);
  }

  #put([x, y]) {
    this.box.hidden = false;
    const around = this.box.parentElement;
    this.box.style.left = `${Math.max(4, Math.min(x + 14, around.clientWidth - this.box.offsetWidth - 8))}px`;
    this.box.style.top = `${Math.max(4, Math.min(y + 14, around.clientHeight - this.box.offsetHeight - 8))}px`;
  }
}
