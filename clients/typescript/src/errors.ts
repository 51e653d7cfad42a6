/** An error of the API, or of the way to it. The message says what is wrong and what to do. */
export class MeshlockError extends Error {
  constructor(
    /** One of the API's codes, or `unreachable` if no node has answered. */
    readonly code: string,
    message: string,
    /** How long the node asks to wait, in seconds; 0 if it does not say. */
    readonly retryAfter = 0,
  ) {
    super(message);
    this.name = new.target.name;
  }
}

/** Someone else holds the lock, and the caller did not want to wait. */
export class BusyError extends MeshlockError {}

/** Someone else had the lock until the time was over. */
export class TimedOutError extends MeshlockError {}

/** The request was the youngest one of a deadlock between locks, and the lock's rule says that it does not wait. */
export class DeadlockError extends MeshlockError {}

/** The cluster cannot say who holds the lock. */
export class UnavailableError extends MeshlockError {}

/** No node has answered. */
export class UnreachableError extends MeshlockError {
  constructor(message: string) {
    super("unreachable", message);
  }
}

/** The lock is lost, or may be lost. */
export class LostError extends MeshlockError {
  constructor(message: string) {
    super("lost", message);
  }
}

/** The lock was released by this program. */
export class ReleasedError extends MeshlockError {
  constructor() {
    super("released", "the lock was released by this program");
  }
}

const KINDS: Record<string, typeof MeshlockError> = {
  busy: BusyError,
  timed_out: TimedOutError,
  deadlock: DeadlockError,
  unavailable: UnavailableError,
};

/** Returns the error that an answer describes. */
export function errorOf(place: string, status: number, text: string, retryAfter: number): MeshlockError {
  let said: { code?: unknown; message?: unknown } = {};
  try {
    said = Object(JSON.parse(text));
  } catch {
    // It is not a node that answers, but something before it.
  }
  const code = typeof said.code === "string" ? said.code : status === 503 ? "unavailable" : "not_understood";
  const message = typeof said.message === "string" ? said.message : `${place} answers with status ${status}`;
  return new (KINDS[code] ?? MeshlockError)(code, message, retryAfter);
}

const ELSEWHERE = new Set(["unreachable", "unavailable", "other_site", "too_many", "too_fast", "too_slow", "not_understood"]);

/** Whether another node, or the same one later, may answer otherwise. */
export function mayWorkElsewhere(error: unknown): error is MeshlockError {
  return error instanceof MeshlockError && ELSEWHERE.has(error.code);
}
