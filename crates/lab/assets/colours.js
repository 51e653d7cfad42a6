// Colours of the canvas, from the style sheet, so that light and dark are said in one place; and which colour a kind of message has.

/** How many colours there are for messages; the last one is for kinds that are not listed here, such as those of a trace of another program. */
const KINDS = 11;
/** The colour of each kind of message: the same in every view, by what it does. Kinds of one algorithm differ (`tests/colours.rs`). */
const OF_KIND = new Map([
  // It asks; it gives; it refuses; it asks back; it gives up; it yields.
  ["REQUEST WANTED REQ", 0], ["REPLY GRANT TOKEN PRIVILEGE PERM", 1], ["FAILED FAIL MISS CLOSE", 2], ["INQUIRE FOCUS HANDOVER APPEND", 3], ["RELEASE FLUSH REL", 4], ["YIELD INFORM ANNOUNCE DONE", 6],
  // It lets others in beside the receiver, passes a permission on, or is about a change of mode.
  ["SHARE", 5], ["TRANSFER UPGRADE", 7], ["UPGRADED", 8], ["DOWNGRADE", 9],
  // It tells of failures and returns.
  ["WELCOME INITIALIZE", 5], ["HELLO ASK RESTART", 7], ["READY ANSWER ADVISE", 8], ["RECOVERING", 6], ["MERGE", 9], ["RECOVERINGPART", 4],
].flatMap(([kinds, colour]) => kinds.split(" ").map((kind) => [kind, colour])));

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

/** The place of a kind of message among the colours. Traces write `RecoveringPart` where a run has `RECOVERING_PART`. */
export function colourOf(kind) {
  return OF_KIND.get(kind.replaceAll("_", "")) ?? KINDS - 1;
}

/** The colour of a kind of message. */
export function kindColour(colours, kind) {
  return colours.kinds[colourOf(kind)];
}

/** The class that gives an element the colour of a kind of message. */
export function kindClass(kind) {
  return `kind-${colourOf(kind)}`;
}
