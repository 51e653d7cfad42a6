/** Locks and semaphores of a Meshlock cluster, through the HTTP API of its nodes. */
export { Client, Held, Semaphore, type Acquisition, type Holder, type Options } from "./client.js";
export { BusyError, DeadlockError, LostError, MeshlockError, ReleasedError, TimedOutError, UnavailableError, UnreachableError } from "./errors.js";
export { type Credentials } from "./places.js";
