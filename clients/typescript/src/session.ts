/** A session of the nodes: one for each lock. It is kept alive from its opening to its end. */
import { now, RESOLUTION_MS } from "./clock.js";
import { LostError, mayWorkElsewhere, MeshlockError, ReleasedError } from "./errors.js";
import { ANSWER_WITHIN, backoff, CONNECT_WITHIN, Places, sleep } from "./places.js";

/** Keeps a node that promises almost nothing from being asked without a pause, in milliseconds. */
const SHORTEST_PERIOD = 20;

const STOPPED = "this program was busy or stopped for longer than the lock was safe";

/** What a node says of a session. */
interface SessionAnswer {
  session?: string;
  left_ms?: number;
  safe_ms?: number;
  locks?: string[];
}

export class Session {
  /** Where the session was confirmed last. */
  place: number;
  /** The name of the lock once it is granted. */
  lock: string | undefined;
  /** Whether a node has confirmed the session after its opening. */
  confirmed = false;
  /** Settled when the session is not kept any more. */
  readonly kept: Promise<void>;
  /** When the time ends in which nobody else can have the lock. */
  #safeUntil = 0;
  /** When the session ends if it is not confirmed. */
  #aliveUntil = 0;
  #period = SHORTEST_PERIOD;
  #why: MeshlockError | undefined;
  readonly #over = new AbortController();

  private constructor(readonly places: Places, readonly id: string, place: number, sent: number, said: SessionAnswer) {
    this.place = place;
    this.count(sent, said.safe_ms ?? 0, said.left_ms ?? 0);
    this.kept = this.#keep();
  }

  /** Opens a session at one of the places and begins to keep it alive. */
  static async open(places: Places, ttlMs: number, label: string, signal?: AbortSignal): Promise<Session> {
    const sent = now();
    const { at, said } = await places.askAny("POST", "/v1/sessions", { ttl_ms: ttlMs, label }, signal);
    const answer = said as SessionAnswer;
    return new Session(places, String(answer.session), at, sent, answer);
  }

  /** Aborted when the session is over: lost, or ended by this program. Its reason says which. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /** Why the session is over. It looks at the clock: timers may fire late. */
  get why(): MeshlockError | undefined {
    if (this.left <= 0) {
      this.end(new LostError(STOPPED));
    }
    return this.#why;
  }

  /** For how long the session is still good, in milliseconds. */
  get left(): number {
    return (this.lock === undefined ? this.#aliveUntil : this.#safeUntil) - now();
  }

  /** Extends the times by an answer to a request that was sent at `sent`. */
  count(sent: number, safe: number, left: number): void {
    this.#safeUntil = Math.max(this.#safeUntil, sent + safe - RESOLUTION_MS);
    this.#aliveUntil = Math.max(this.#aliveUntil, sent + left - RESOLUTION_MS);
    const shortest = safe > 0 ? Math.min(safe, left) : left;
    this.#period = Math.max(shortest / 4, SHORTEST_PERIOD);
  }

  /** Notes that the lock is held. If little of the safe time is left because the answer took long, it is confirmed first. */
  async granted(lock: string, sent: number, safe: number): Promise<void> {
    this.#safeUntil = Math.max(this.#safeUntil, sent + safe - RESOLUTION_MS);
    if (this.#safeUntil - now() <= safe / 2) {
      const lost = await this.#confirm();
      if (lost !== undefined) {
        throw lost;
      }
    }
    if (this.#why !== undefined) {
      throw this.#why;
    }
    if (now() >= this.#safeUntil) {
      throw new LostError("the grant came too late");
    }
    this.lock = lock;
  }

  /** Notes why the session is over. The first reason counts. */
  end(why: MeshlockError): void {
    if (this.#why === undefined) {
      this.#why = why;
      this.#over.abort(why);
    }
  }

  /** Ends the session at the nodes, at whichever place can do it. */
  async delete(signal?: AbortSignal): Promise<void> {
    let at = this.place;
    for (let step = 0; ; step++) {
      try {
        await this.places.ask(at, "DELETE", `/v1/sessions/${this.id}`, undefined, { within: ANSWER_WITHIN, signal });
        return;
      } catch (error) {
        if (!mayWorkElsewhere(error) || step + 1 >= this.places.urls.length) {
          throw error;
        }
        at = this.places.after(at);
      }
    }
  }

  /**
   * Confirms the session regularly until it is over. What this program has not released itself, because it was lost or never granted, is
   * then ended at the nodes, so that others need not wait for it.
   */
  async #keep(): Promise<void> {
    while (!this.over.aborted) {
      await sleep(Math.min(this.#period, this.left), this.over, true);
      const lost = await this.#confirm();
      if (lost !== undefined) {
        this.end(lost);
      }
    }
    if (!(this.#why instanceof ReleasedError)) {
      const limit = new AbortController();
      const timer = setTimeout(() => limit.abort(new LostError("it takes too long")), CONNECT_WITHIN);
      timer.unref();
      await this.delete(limit.signal).catch(() => undefined);
      clearTimeout(timer);
    }
  }

  /** Renews the session at its place, or at another one if that fails, until its time is over. Returns why the session is lost. */
  async #confirm(): Promise<LostError | undefined> {
    const count = this.places.urls.length;
    let why = STOPPED;
    for (let failures = 0; !this.over.aborted; failures++) {
      if (failures > 0 && failures % count === 0) {
        await sleep(Math.min(backoff(failures / count, this.#period), this.left), this.over, true);
      }
      const left = this.left;
      if (left <= 0) {
        return new LostError(why);
      }
      const at = this.place;
      try {
        await this.#renew(at, Math.min(this.#period, left));
        return undefined;
      } catch (error) {
        if (this.over.aborted) {
          return undefined;
        }
        const message = error instanceof Error ? error.message : String(error);
        if (!mayWorkElsewhere(error)) {
          return new LostError(message);
        }
        why = `no node has confirmed the lock in time: ${message}`;
        this.places.failed(at, error);
        this.place = this.places.after(at);
      }
    }
    return undefined;
  }

  /** Asks one place to confirm the session. */
  async #renew(at: number, within: number): Promise<void> {
    // An answer to a question from before the grant need not know the lock.
    const [sent, lock] = [now(), this.lock];
    const path = `/v1/sessions/${this.id}/keep-alive`;
    const said = (await this.places.ask(at, "POST", path, undefined, { within, signal: this.over })) as SessionAnswer;
    // A lost lock stays lost, also if the node does not know it yet.
    if (this.left <= 0) {
      throw new LostError("the node's answer came too late, or this program was busy or stopped for too long");
    }
    if (lock !== undefined && !(said.locks ?? []).includes(lock)) {
      throw new LostError("the session does not hold the lock any more");
    }
    this.count(sent, said.safe_ms ?? 0, said.left_ms ?? 0);
    this.confirmed = true;
  }
}
