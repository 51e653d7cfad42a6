// A run as the diagram needs it: lines, messages with both ends, and bars, found quickly by step.

import { plain } from "./dom.js";

/** The first place in `sorted` whose value is not below `value`. */
export function lowerBound(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}

const BLOCK = 256;

export class Model {
  /** `answer` is what the server says of a run or an imported trace. */
  constructor(answer) {
    Object.assign(this, answer);
    this.kinds = answer.algorithm ? answer.algorithm.messages.map((message) => message.kind) : [...new Set(answer.lines.text_kinds)];
    this.lineCount = answer.lines.step.length;
    this.name = answer.lines.what.map((what) => answer.lines.kinds[what]);
    this.#messages();
    this.#bars();
  }

  /** Both ends of every message, by its number. */
  #messages() {
    const { lines } = this;
    const count = 1 + lines.number.reduce((most, number) => Math.max(most, number), -1);
    this.messages = Array.from({ length: count }, () => null);
    for (let at = 0; at < this.lineCount; at++) {
      const number = lines.number[at];
      if (number < 0) continue;
      const name = this.name[at];
      if (name === "send") {
        this.messages[number] = {
          number, from: lines.site[at], to: lines.peer[at], sent: lines.step[at], sentLine: at, received: Infinity, receivedLine: -1,
          lost: false, text: lines.text[at], kind: lines.text_kinds[lines.text[at]],
        };
      } else if (this.messages[number] && (name === "receive" || name === "lost") && this.messages[number].received === Infinity) {
        const message = this.messages[number];
        message.received = lines.step[at];
        message.receivedLine = at;
        message.lost = name === "lost";
      }
    }
    this.messages = this.messages.map((message, number) => message ?? { number, from: 0, to: 0, sent: 0, received: -1, text: -1, kind: "", lost: true, sentLine: -1, receivedLine: -1 });
    // Messages are numbered as they are sent: blocks of them with the last arrival in each find what crosses a window.
    this.blocks = [];
    for (let from = 0; from < count; from += BLOCK) {
      const part = this.messages.slice(from, from + BLOCK);
      this.blocks.push({ from, to: from + part.length, first: part[0].sent, last: part.reduce((most, message) => Math.max(most, message.received), -1) });
    }
  }

  /** Waiting, inside and failed times of every site, and the entries. */
  #bars() {
    const { lines } = this;
    this.bars = Array.from({ length: this.sites }, () => []);
    this.entrySteps = [];
    const open = Array.from({ length: this.sites }, () => ({}));
    const close = (site, kind, step) => {
      const from = open[site][kind];
      if (from === undefined) return;
      this.bars[site].push({ kind, from, to: step });
      delete open[site][kind];
    };
    for (const site of this.holders ?? []) open[site].inside = -1;
    for (let at = 0; at < this.lineCount; at++) {
      const site = lines.site[at], step = lines.step[at];
      switch (this.name[at]) {
        case "request": open[site].waiting = step; break;
        case "enter":
          close(site, "waiting", step);
          open[site].inside = step;
          this.entrySteps.push(step);
          break;
        case "release": close(site, "inside", step); break;
        case "fail":
          close(site, "waiting", step);
          close(site, "inside", step);
          open[site].failed = step;
          break;
        case "recover": close(site, "failed", step); break;
      }
    }
    for (let site = 0; site < this.sites; site++) {
      for (const kind of Object.keys(open[site])) this.bars[site].push({ kind, from: open[site][kind], to: Infinity });
      this.bars[site].sort((one, other) => one.from - other.from);
    }
  }

  /** Calls `each` with the messages that are on their way at some step from `first` to `last`. */
  eachMessage(first, last, each) {
    for (const block of this.blocks) {
      if (block.first > last) break;
      if (block.last < first) continue;
      for (let number = block.from; number < block.to; number++) {
        const message = this.messages[number];
        if (message.sent <= last && message.received >= first) each(message);
      }
    }
  }

  /** The lines of one step, in order. */
  linesOf(step) {
    const found = [];
    for (let at = lowerBound(this.lines.step, step); at < this.lineCount && this.lines.step[at] === step; at++) found.push(at);
    return found;
  }

  /** What a line tells, in words. */
  tell(at) {
    const { lines } = this;
    const site = `S${lines.site[at]}`, peer = `S${lines.peer[at]}`;
    const text = lines.text[at] < 0 ? "" : plain(lines.texts[lines.text[at]]);
    switch (this.name[at]) {
      case "request": return `${site} requests`;
      case "send": return `${site} sends ${text} to ${peer}`;
      case "receive": return `${site} receives ${text} from ${peer}`;
      case "enter": return `${site} enters`;
      case "release": return `${site} leaves`;
      case "fail": return `${site} fails`;
      case "recover": return `${site} runs again`;
      case "lost": return `${text} from ${peer} to ${site} is lost`;
      case "learn": return `${site} learns about ${peer}`;
      case "wake": return `a timer of ${site} runs out`;
      case "cut": return lines.peer[at] < 0 ? `${site} is cut off` : `the link ${site}–${peer} is cut`;
      case "mend": return lines.peer[at] < 0 ? `${site} is back` : `the link ${site}–${peer} is mended`;
      case "delay": return `${text} from ${peer} to ${site} is delayed`;
      default: return this.name[at];
    }
  }

  /** For each site the last step of it that may have caused the line `line`: the edge of its causal past. */
  past(line) {
    const { lines } = this;
    const edge = new Array(this.sites).fill(-1);
    edge[lines.site[line]] = lines.step[line];
    for (let at = line; at >= 0; at--) {
      const site = lines.site[at];
      if (this.name[at] !== "receive" || lines.step[at] > edge[site]) continue;
      const message = this.messages[lines.number[at]];
      if (message && message.sent > edge[message.from]) edge[message.from] = message.sent;
    }
    return edge;
  }

  /** How many steps have been taken after the next entry that follows position `at`, or null. */
  nextEntry(at) {
    const found = lowerBound(this.entrySteps, at);
    return found < this.entrySteps.length ? this.entrySteps[found] + 1 : null;
  }

  /** The same for the entry before. */
  previousEntry(at) {
    const found = lowerBound(this.entrySteps, at - 1) - 1;
    return found >= 0 ? this.entrySteps[found] + 1 : null;
  }
}
