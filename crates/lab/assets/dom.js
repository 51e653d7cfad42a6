// Small helpers to make elements, so that text is never taken for markup.

const SVG = "http://www.w3.org/2000/svg";
/** Where an element keeps the names of its handlers, so that they can be given to another. */
const HANDLERS = Symbol("handlers");
/** What the keyboard can reach. */
const REACHABLE = "button:not(:disabled), a[href], select, input, summary, [tabindex='0']";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      element[name] = value;
      (element[HANDLERS] ??= []).push(name);
    }
    else if (name === "class") element.setAttribute("class", value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** An HTML element. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Puts `children` in the place of whatever is in `element`. */
export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

/** The same, but what is there already stays: its focus, what was typed and what is folded. Elements with a `data-key` are known by it. */
export function patch(element, ...children) {
  const focused = document.activeElement;
  const around = [];
  for (let one = focused; one && one !== element; one = one.parentElement) around.push(one);
  const inside = element.contains(focused) && element !== focused;
  patchChildren(element, children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
  if (!inside || document.activeElement === focused) return;
  // What had the focus is gone: the nearest thing around it that is left takes it.
  const left = around.find((one) => one.isConnected && element.contains(one)) ?? element;
  const next = left.matches(REACHABLE) ? left : left.querySelector(REACHABLE) ?? element;
  if (next === element) element.tabIndex = -1;
  next.focus({ preventScroll: true });
}

const keyOf = (node) => node.dataset?.key;

function patchChildren(parent, fresh) {
  const kept = new Set(fresh.map(keyOf));
  const keyed = new Map();
  for (const child of [...parent.childNodes]) {
    const key = keyOf(child);
    if (key === undefined) continue;
    if (kept.has(key)) keyed.set(key, child);
    else child.remove();
  }
  let at = parent.firstChild;
  for (const node of fresh) {
    const key = keyOf(node);
    const same = key === undefined ? at : keyed.get(key);
    if (!same || same.nodeName !== node.nodeName || keyOf(same) !== key) {
      parent.insertBefore(node, at);
      continue;
    }
    if (same === at) at = at.nextSibling;
    else parent.insertBefore(same, at);
    patchNode(same, node);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function patchNode(old, node) {
  if (!(old instanceof Element)) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    // Whether something is folded is the reader's own doing.
    if (!node.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  }
  for (const { name, value } of node.attributes) {
    if (old.getAttribute(name) !== value && !(name === "open" && old.nodeName === "DETAILS")) old.setAttribute(name, value);
  }
  for (const name of old[HANDLERS] ?? []) old[name] = null;
  for (const name of node[HANDLERS] ?? []) old[name] = node[name];
  old[HANDLERS] = node[HANDLERS];
  patchChildren(old, [...node.childNodes]);
}

/** Says something for a moment, to eyes and screen readers. */
export function toast(text) {
  const box = document.getElementById("toast");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { box.hidden = true; }, 6000);
}

/** Asks before something is lost; `yes` says what happens then. */
export function confirmed(question, yes) {
  return new Promise((done) => {
    const box = h("dialog", { "aria-label": question, onclose: () => { box.remove(); done(box.returnValue === "yes"); } },
      h("form", { method: "dialog", class: "panel" }, h("p", {}, question),
        h("div", { class: "row" }, h("span", { class: "spacer" }), h("button", { value: "no", autofocus: true }, "Cancel"), h("button", { class: "main", value: "yes" }, yes))));
    document.body.append(box);
    box.showModal();
  });
}

/** A message in the place of a view: what is wrong and what to do next. */
export function problem(title, why, ...next) {
  return h("section", { class: "message", role: "alert", "data-problem": why }, h("h2", {}, title), h("p", {}, why), ...next);
}

/** A number with as many digits as help. */
export function digits(value) {
  if (!Number.isFinite(value)) return "–";
  const rounded = Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
  return rounded.includes(".") ? rounded.replace(/\.?0+$/, "") : rounded;
}

/** What a site or a message prints, shorter: numbers without the names of their types. */
export function plain(text) {
  return text.replace(/\b(Clock|Turn|Incarnation|Count|Slot|Stamp)\((\d+)\)/g, "$2");
}

/** A name that may break after its dots and underscores only. */
export function breakable(name) {
  return name.split(/(?<=[._])/).flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part]));
}

/** A text in which what stands between backticks is code. */
export function rich(text) {
  return text.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));
}
