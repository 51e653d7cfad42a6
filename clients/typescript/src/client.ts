/** The client: locks, semaphores and elections. */
import { now } from "./clock.js";
import { mayWorkElsewhere, MeshlockError, ReleasedError } from "./errors.js";
import { backoff, Credentials, Places, sleep } from "./places.js";
import { Session } from "./session.js";

// Node.js before 18.18 has no such symbols. What TypeScript makes of `using` looks for them when it is used.
(Symbol as { dispose?: symbol }).dispose ??= Symbol.for("nodejs.dispose");
(Symbol as { asyncDispose?: symbol }).asyncDispose ??= Symbol.for("nodejs.asyncDispose");

/** How a client shows who it is, and how patient it is. */
export interface Options extends Credentials {
  /** Names this program to operators. */
  label?: string;
  /**
   * How long the nodes keep a lock for a client that they do not hear of: after a crash it is free then. 10 s by default. It should be twice
   * the lease of the sites, so that a lock can outlive the failure of a site.
   */
  ttlMs?: number;
  /** For how long a call goes on when no place can serve it; 30 s by default. */
  retryForMs?: number;
}

/** What a caller may say of one acquisition. */
export interface Acquisition {
  /** Ends the wait. Nothing is left of the request then. */
  signal?: AbortSignal;
  /** The longest wait: then `TimedOutError` if others had the lock, and `UnavailableError` if nobody could say who has it. */
  waitMs?: number;
}

/** Somebody who holds a lock. */
export interface Holder {
  /** What the holder has proved, and its label. */
  who: string;
  /** Where it got the lock. */
  site: string;
  fence: bigint;
}

interface Wanted extends Acquisition {
  lock: string;
  label: string;
  permits?: number;
  try?: boolean;
}

/** A lock, or a permit of a semaphore, that this program holds until it releases or loses it. */
export class Held implements AsyncDisposable {
  readonly #session: Session;

  constructor(
    session: Session,
    readonly name: string,
    /** Larger than that of every earlier holder. Hand it to whatever the lock protects, and let that refuse smaller ones. */
    readonly fence: bigint,
    /** The number of the permit, where permits are numbered. */
    readonly slot: number | undefined,
  ) {
    this.#session = session;
  }

  /** Aborted when the lock is lost, or may be lost because no node has confirmed it in time, or has been released. */
  get signal(): AbortSignal {
    return this.#session.over;
  }

  /**
   * Whether the lock is held no more. It looks at the clock, so it is right also at once after this program was busy, or its machine was
   * suspended.
   */
  isLost(): boolean {
    return this.why !== undefined;
  }

  /** Why the lock is held no more: a `LostError` or a `ReleasedError`. */
  get why(): MeshlockError | undefined {
    return this.#session.why;
  }

  /** For how long nobody else can have the lock, whatever happens, in milliseconds; 0 if it is lost or released. */
  get safeForMs(): number {
    return this.isLost() ? 0 : Math.max(this.#session.left, 0);
  }

  /**
   * Gives the lock back. Throws a `LostError` if it was lost before, and another one if no node could be told: then the nodes free the
   * lock when its time is over.
   */
  async release(): Promise<void> {
    const why = this.why;
    if (why instanceof ReleasedError) {
      return;
    }
    if (why !== undefined) {
      throw why;
    }
    this.#session.end(new ReleasedError());
    await this.#session.kept;
    await this.#session.delete().catch((error: unknown) => {
      if (!isGone(error)) {
        throw error;
      }
    });
  }

  /**
   * Releases the lock at the end of an `await using` block. That it was lost before, or that no node could be told, is no error here: the
   * work in the block is done. The nodes free the lock when its time is over.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch((error: unknown) => {
      if (!(error instanceof MeshlockError)) {
        throw error;
      }
    });
  }
}

/** A lock that several may hold at once. */
export class Semaphore {
  constructor(readonly name: string, readonly permits: number, readonly acquireWith: (wanted: Acquisition & { try?: boolean }) => Promise<Held>) {}

  /** Waits for a permit. */
  acquire(how: Acquisition = {}): Promise<Held> {
    return this.acquireWith(how);
  }

  /** Takes a permit if one is free; throws a `BusyError` if none is. */
  tryAcquire(how: Pick<Acquisition, "signal"> = {}): Promise<Held> {
    return this.acquireWith({ ...how, try: true });
  }
}

/** Takes locks of the nodes whose APIs have these addresses, separated by commas. It uses the nearest that answers. */
export class Client {
  readonly #places: Places;
  readonly #label: string;
  readonly #ttlMs: number;
  readonly #retryForMs: number;

  constructor(places: string, options: Options = {}) {
    this.#places = new Places(places, options);
    this.#label = options.label ?? `${process.argv[1]?.split("/").pop() ?? "node"}, process ${process.pid}`;
    this.#ttlMs = options.ttlMs ?? 10_000;
    this.#retryForMs = options.retryForMs ?? 30_000;
  }

  /** Closes the connections that are not in use. Release all locks before. */
  close(): void {
    this.#places.close();
  }

  /** Waits for a lock. */
  lock(name: string, how: Acquisition = {}): Promise<Held> {
    return this.#acquire({ ...how, lock: name, label: this.#label });
  }

  /** Takes a lock if nobody has it; throws a `BusyError` if somebody has. */
  tryLock(name: string, how: Pick<Acquisition, "signal"> = {}): Promise<Held> {
    return this.#acquire({ ...how, lock: name, label: this.#label, try: true });
  }

  /** Waits until this program leads, under the name `candidate`. It leads until it releases or loses what is returned. */
  elect(election: string, candidate: string, how: Acquisition = {}): Promise<Held> {
    return this.#acquire({ ...how, lock: election, label: candidate });
  }

  /** Returns the semaphore of this name. All its users must name the same number of permits. */
  semaphore(name: string, permits: number): Semaphore {
    return new Semaphore(name, permits, (how) => this.#acquire({ ...how, lock: name, label: this.#label, permits }));
  }

  /** Returns who holds a lock. For an election this is who leads. */
  async holders(name: string, signal?: AbortSignal): Promise<Holder[]> {
    const { said } = await this.#places.askAny("GET", path(name, ""), undefined, signal);
    const holders = (said as { holders?: { who?: string; site?: string; fence?: string }[] }).holders ?? [];
    return holders.map(({ who, site, fence }) => ({ who: String(who), site: String(site), fence: fenceOf(fence) }));
  }

  /** Takes a lock away from its holders. For operators. */
  async breakLock(name: string, signal?: AbortSignal): Promise<void> {
    await this.#places.askAny("POST", path(name, "/break"), undefined, signal);
  }

  /** Gets a lock at whichever place can grant it. */
  async #acquire(wanted: Wanted): Promise<Held> {
    const { signal, waitMs } = wanted;
    const until = waitMs === undefined ? Infinity : now() + waitMs;
    let failing = now(); // Since when nothing has worked.
    for (let failures = 0; ; failures++) {
      let session: Session | undefined;
      try {
        session = await Session.open(this.#places, this.#ttlMs, wanted.label, signal);
        return await this.#wait(session, wanted, until);
      } catch (error) {
        if (session !== undefined) {
          // The request may have been granted, with an answer that was lost or came after the signal: the nodes are told.
          session.end(error instanceof MeshlockError ? error : new MeshlockError("given_up", "the request was given up"));
          await session.kept;
          if (session.confirmed) {
            // The request was waiting in good order before this.
            [failing, failures] = [now(), 0];
          }
        }
        signal?.throwIfAborted();
        const end = Math.min(failing + this.#retryForMs, until);
        const again = mayWorkElsewhere(error) || isGone(error);
        if (!again || wanted.try === true || now() >= end) {
          throw error;
        }
        const pause = Math.max(backoff(failures, 1000), (error as MeshlockError).retryAfter * 1000);
        await sleep(Math.min(pause, end - now()), signal);
        signal?.throwIfAborted();
      }
    }
  }

  /** Waits for a lock in a session, at its place or at another one. */
  async #wait(session: Session, wanted: Wanted, until: number): Promise<Held> {
    // The call ends with the session, or with the caller's signal.
    const both = new AbortController();
    const follow = (signal: AbortSignal) => {
      const abort = () => both.abort(signal.reason);
      signal.addEventListener("abort", abort, { once: true });
      return () => signal.removeEventListener("abort", abort);
    };
    const unfollow = [session.over, ...(wanted.signal ? [wanted.signal] : [])].map(follow);
    try {
      for (let failures = 1; ; failures++) {
        const [at, sent] = [session.place, now()];
        try {
          const said = await this.#places.ask(at, "POST", path(wanted.lock, "/acquire"), body(wanted, session.id, until), {
            signal: both.signal,
          });
          const grant = said as { fence?: string; slot?: number; safe_ms?: number };
          const held = new Held(session, wanted.lock, fenceOf(grant.fence), grant.slot ?? undefined);
          await session.granted(wanted.lock, sent, grant.safe_ms ?? 0);
          return held;
        } catch (error) {
          if (!mayWorkElsewhere(error) || failures >= this.#places.urls.length) {
            throw error;
          }
          this.#places.failed(at, error);
          if (session.place === at) {
            session.place = this.#places.after(at);
          }
        }
      }
    } finally {
      unfollow.forEach((stop) => stop());
    }
  }
}

function path(lock: string, what: string): string {
  return `/v1/locks/${encodeURIComponent(lock)}${what}`;
}

function body(wanted: Wanted, session: string, until: number): object {
  const { permits, try: tries, waitMs } = wanted;
  const left = Math.min(Math.max(Math.round(until - now()), 0), 2 ** 32 - 1);
  return { session, ...(permits !== undefined && { permits }), ...(tries === true && { try: true }), ...(waitMs !== undefined && { wait_ms: left }) };
}

function fenceOf(text: unknown): bigint {
  if (typeof text !== "string" || !/^[0-9]+$/.test(text)) {
    throw new MeshlockError("bad_answer", `${JSON.stringify(text)} is not a fence`);
  }
  return BigInt(text);
}

/** Whether an error says that the session, and all that it held, is gone. */
function isGone(error: unknown): boolean {
  return error instanceof MeshlockError && ["no_session", "session_over", "lost"].includes(error.code);
}
