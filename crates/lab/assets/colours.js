// Colours of the canvas, from the style sheet, so that light and dark are said in one place.

const KINDS = 8;

/** The colours of the present theme. */
export function palette() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  return {
    text: get("--text"), faint: get("--text-2"), grid: get("--line"), paper: get("--paper"),
    waiting: get("--waiting"), inside: get("--inside"), failed: get("--failed"), accent: get("--accent"),
    broken: get("--broken"),
    kinds: Array.from({ length: KINDS }, (_, at) => get(`--kind-${at}`)),
  };
}

/** The place of a kind of message among the colours: by its place in the algorithm's list. */
export function kindColour(colours, kinds, kind) {
  const at = Math.max(0, kinds.indexOf(kind));
  return colours.kinds[at % KINDS];
}

/** The class that gives an element the colour of a kind of message. */
export function kindClass(kinds, kind) {
  return `kind-${Math.max(0, kinds.indexOf(kind)) % KINDS}`;
}
