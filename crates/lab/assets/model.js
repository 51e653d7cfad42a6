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
  /** `answer` is what the server says of a run or of a trace. */
  constructor(answer) {
    const { lines, ...rest } = answer;
    Object.assign(this, rest);
    this.names ??= Array.from({ length: this.sites }, (_, site) => `S${site}`);
    this.unit ??= "T";
    this.kinds = answer.algorithm ? answer.algorithm.messages.map((message) => message.kind) : [];
    this.lines = { step: [], time: [], what: [], site: [], peer: [], number: [], text: [], lock: [], state: [], kinds: [], texts: [], text_kinds: [], locks: [], states: [], facts: {} };
    this.places = { kinds: new Map(), texts: new Map(), locks: new Map(), states: new Map() };
    this.lineCount = 0;
    this.name = [];
    /** Messages by their number less that of the first. */
    this.messages = [];
    this.firstNumber = lines.number.find((number) => number >= 0) ?? 0;
    this.blocks = [];
    this.bars = [];
    this.open = [];
    this.entrySteps = [];
    this.epoch = 0;
    this.#sites();
    for (const site of this.holders ?? []) this.#begin(site, "inside", -1);
    this.append(lines, true);
  }

  /** What a site is called. */
  siteName(site) {
    return this.names[site] ?? `S${site}`;
  }

  #sites() {
    while (this.bars.length < this.sites) {
      this.bars.push([]);
      this.open.push({ bars: {}, counts: { waiting: 0, inside: 0, failed: 0 } });
    }
  }

  /** The places here of texts that a chunk of lines has written once. */
  #intern(name, chunk, more) {
    const all = this.lines[name], places = this.places[name];
    return (chunk ?? []).map((text, at) => {
      let place = places.get(text);
      if (place === undefined) {
        place = all.length;
        places.set(text, place);
        all.push(text);
        more?.(at);
      }
      return place;
    });
  }

  /** More lines, as the server writes them. They keep their steps, or each is a step of its own. */
  append(chunk, keepSteps = false) {
    const { lines } = this, count = chunk.step.length, start = this.lineCount;
    const kinds = this.#intern("kinds", chunk.kinds);
    const texts = this.#intern("texts", chunk.texts, (at) => {
      lines.text_kinds.push(chunk.text_kinds[at]);
      if (!this.algorithm && !this.kinds.includes(chunk.text_kinds[at])) this.kinds.push(chunk.text_kinds[at]);
    });
    const locks = this.#intern("locks", chunk.locks), states = this.#intern("states", chunk.states);
    for (let at = 0; at < count; at++) {
      const what = kinds[chunk.what[at]];
      lines.step.push(keepSteps ? chunk.step[at] : start + at);
      lines.time.push(chunk.time[at]);
      lines.what.push(what);
      lines.site.push(chunk.site[at]);
      lines.peer.push(chunk.peer[at]);
      lines.number.push(chunk.number[at]);
      lines.text.push(chunk.text[at] < 0 ? -1 : texts[chunk.text[at]]);
      lines.lock.push(chunk.lock ? locks[chunk.lock[at]] : -1);
      lines.state.push(chunk.state && chunk.state[at] >= 0 ? states[chunk.state[at]] : -1);
      if (chunk.facts?.[at]) lines.facts[start + at] = chunk.facts[at];
      this.name.push(lines.kinds[what]);
    }
    this.lineCount += count;
    if (!keepSteps) this.steps = this.lineCount;
    for (let at = start; at < this.lineCount; at++) {
      this.#message(at);
      this.#bar(at);
    }
  }

  /** The message with this number, if it is known. */
  message(number) {
    return this.messages[number - this.firstNumber];
  }

  /** One end of a message. Messages are numbered as they are sent; blocks of them with the last arrival in each find what crosses a window. */
  #message(at) {
    const { lines } = this, number = lines.number[at], name = this.name[at];
    if (number < this.firstNumber) return;
    const place = number - this.firstNumber;
    if (name === "send") {
      while (this.messages.length < place) this.#put({ number: this.messages.length + this.firstNumber, from: 0, to: 0, sent: lines.step[at], received: -Infinity, text: -1, kind: "", lost: true, sentLine: -1, receivedLine: -1 });
      this.#put({
        number, from: lines.site[at], to: lines.peer[at], sent: lines.step[at], sentLine: at, received: Infinity, receivedLine: -1,
        lost: false, text: lines.text[at], kind: lines.text_kinds[lines.text[at]],
      });
      return;
    }
    const message = this.messages[place];
    if (!message || (name !== "receive" && name !== "lost") || message.received !== Infinity) return;
    message.received = lines.step[at];
    message.receivedLine = at;
    message.lost = name === "lost";
    this.blocks[Math.floor(place / BLOCK)].stale = true;
  }

  #put(message) {
    const place = this.messages.length;
    this.messages.push(message);
    if (place % BLOCK === 0) this.blocks.push({ from: place, first: message.sent, last: message.received, stale: false });
    const block = this.blocks.at(-1);
    block.last = Math.max(block.last, message.received);
  }

  #begin(site, kind, step) {
    const { bars, counts } = this.open[site];
    counts[kind] += 1;
    if (bars[kind]) return;
    bars[kind] = { kind, from: step, to: Infinity };
    this.bars[site].push(bars[kind]);
  }

  #end(site, kind, step, all = false) {
    const { bars, counts } = this.open[site];
    counts[kind] = all ? 0 : Math.max(0, counts[kind] - 1);
    if (!bars[kind] || counts[kind] > 0) return;
    bars[kind].to = step;
    delete bars[kind];
  }

  #endAll(site, step) {
    this.#end(site, "waiting", step, true);
    this.#end(site, "inside", step, true);
  }

  #fail(site, step) {
    this.#endAll(site, step);
    if (!this.open[site].bars.failed) this.#begin(site, "failed", step);
  }

  /** Waiting, inside and failed times of a site, and the entries. */
  #bar(at) {
    const { lines } = this, site = lines.site[at], step = lines.step[at];
    switch (this.name[at]) {
      case "request": case "waits": this.#begin(site, "waiting", step); break;
      case "cancel": this.#end(site, "waiting", step); break;
      case "enter":
        this.#end(site, "waiting", step);
        this.#begin(site, "inside", step);
        this.entrySteps.push(step);
        break;
      case "holds": this.#begin(site, "inside", step); break;
      case "release": this.#end(site, "inside", step); break;
      case "gap": this.#endAll(site, step); break;
      case "fail": this.#fail(site, step); break;
      case "recover": this.#end(site, "failed", step, true); break;
      case "view": this.#view(at, step); break;
    }
  }

  /** Who is not in the newest view has lost everything, or is about to come in. */
  #view(at, step) {
    const { epoch, members } = this.lines.facts[at] ?? {};
    if (!members || epoch < this.epoch) return;
    this.epoch = epoch;
    for (let site = 0; site < this.sites; site++) {
      if (members.includes(this.names[site])) this.#end(site, "failed", step, true);
      else this.#fail(site, step);
    }
  }

  /** Sites that have been named by now. */
  rename(names) {
    this.names = names;
    this.sites = names.length;
    this.#sites();
  }

  /** Calls `each` with the messages that are on their way at some step from `first` to `last`. */
  eachMessage(first, last, each) {
    for (const block of this.blocks) {
      if (block.first > last) break;
      const to = Math.min(block.from + BLOCK, this.messages.length);
      if (block.stale) {
        block.last = -1;
        for (let place = block.from; place < to; place++) block.last = Math.max(block.last, this.messages[place].received);
        block.stale = false;
      }
      if (block.last < first) continue;
      for (let place = block.from; place < to; place++) {
        const message = this.messages[place];
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

  /** What the lines of one step tell; what goes to several sites is told once. */
  tellStep(step) {
    const told = [], { lines } = this;
    for (const at of this.linesOf(step)) {
      const last = told.at(-1);
      if (last && this.name[at] === "send" && this.name[last[0]] === "send" && lines.site[at] === lines.site[last[0]] && lines.text[at] === lines.text[last[0]]) last.push(at);
      else told.push([at]);
    }
    return told.map(([at, ...more]) => [this.tell(at), ...more.map((other) => this.siteName(lines.peer[other]))].join(", ")).join("; ");
  }

  /** What a line tells, in words. */
  tell(at) {
    const { lines } = this;
    const site = this.siteName(lines.site[at]), peer = this.siteName(lines.peer[at]), facts = lines.facts[at] ?? {};
    const who = facts.who ? ` (${facts.who})` : "", lock = lines.locks.length > 1 && lines.lock[at] >= 0 ? ` ${lines.locks[lines.lock[at]]}` : "";
    const text = lines.text[at] < 0 ? "" : plain(lines.texts[lines.text[at]]);
    switch (this.name[at]) {
      case "request": return `${site} requests${lock}${who}`;
      case "send": return `${site} sends ${text} to ${peer}`;
      case "receive": return `${site} receives ${text} from ${peer}`;
      case "enter": return `${site} enters${lock}${who}${facts.fence ? `, fence ${facts.fence}` : ""}`;
      case "release": return `${site} leaves${lock}`;
      case "cancel": return `${site}: a client does not wait for${lock || " it"} any more`;
      case "waits": return `${site} waits${lock}${who} since before`;
      case "holds": return `${site} is inside${lock}${who} since before`;
      case "view": return `${site} runs view ${facts.epoch} of ${facts.members.join(", ")}`;
      case "gap": return facts.count ? `${facts.count} lines of ${site} are lost` : `${site} is watched again`;
      case "fail": return `${site} fails`;
      case "recover": return `${site} runs again`;
      case "lost": return `${text} from ${peer} to ${site} is lost`;
      case "choose": return facts.choice ? `${site} chooses ${facts.choice[0] + 1} of ${facts.choice[1]}` : `${site} chooses`;
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
      const message = this.message(lines.number[at]);
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
