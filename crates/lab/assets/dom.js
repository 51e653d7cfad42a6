// Small helpers to make elements, so that text is never taken for markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
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

/** Says something for a moment, to eyes and screen readers. */
export function toast(text) {
  const box = document.getElementById("toast");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { box.hidden = true; }, 6000);
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
