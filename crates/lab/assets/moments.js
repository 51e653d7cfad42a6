// The moment that is shown beside the drawing: one question is in flight at a time, and asks only for what differs from the last answer.

import { ask } from "./api.js";

export class Moments {
  /** Calls `shown` with each moment that has come, and `failed` with an error. */
  constructor(shown, failed) {
    this.shown = shown;
    this.failed = failed;
    this.parts = null;
    this.moment = null;
    this.wanted = null;
    this.busy = false;
  }

  /** The moments of another run, or of this one with other acts. */
  of(parts) {
    const query = new URLSearchParams(parts).toString();
    if (query === this.query) return;
    this.query = query;
    this.parts = parts;
    this.moment = null;
    this.wanted = null;
  }

  /** Asks for the moment after `at` steps. Where one is asked for already, only the last that is wanted is asked for next. */
  async want(at) {
    this.wanted = at;
    if (this.busy) return;
    this.busy = true;
    while (this.wanted !== null) {
      const { parts, query, wanted } = this;
      const base = this.moment;
      this.wanted = null;
      try {
        const answer = await ask("moment", base ? { ...parts, at: wanted, base: base.step } : { ...parts, at: wanted });
        if (query !== this.query) continue;
        this.moment = base ? applied(base, answer) : answer;
        this.shown(this.moment);
      } catch (error) {
        if (query === this.query) this.failed(error);
      }
    }
    this.busy = false;
  }

  /** Nothing is asked for any more. */
  close() {
    this.query = null;
    this.wanted = null;
  }
}

/** The moment that differs from `base` as the server says. */
export function applied(base, { gone, pending, sites, ...rest }) {
  const left = new Set(gone);
  return {
    ...rest,
    sites: base.sites.map((site, at) => sites[at] ?? site),
    pending: [...base.pending.filter((message) => !left.has(message.number)), ...pending].sort((one, other) => one.due - other.due || one.number - other.number),
  };
}
