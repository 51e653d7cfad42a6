/**
 * A clock that counts time in which the machine was suspended.
 *
 * Node.js has none: `process.hrtime` and `performance.now` stand still meanwhile. On Linux the kernel tells the time since the machine's start
 * in `/proc/uptime`, in hundredths of a second. Elsewhere this takes the larger of the times that have passed by the monotonic clock and
 * by the wall clock: if somebody sets the wall clock forward, locks may be lost needlessly.
 */
import { openSync, readSync } from "node:fs";

/** How much later it may be than the clock says, in milliseconds. */
export const RESOLUTION_MS = 10;

const started = { monotonic: performance.now(), wall: Date.now() };
let furthest = 0;

function sinceStart(): number {
  furthest = Math.max(furthest, performance.now() - started.monotonic, Date.now() - started.wall);
  return furthest;
}

function uptimeOf(file: number): number {
  const text = Buffer.alloc(64);
  const length = readSync(file, text, 0, text.length, 0);
  return Number(text.toString("latin1", 0, length).split(" ")[0]) * 1000;
}

function openUptime(): number | undefined {
  try {
    const file = openSync("/proc/uptime", "r");
    return uptimeOf(file) > 0 ? file : undefined;
  } catch {
    return undefined;
  }
}

const uptime = openUptime();
let skipped = 0;

/** Returns milliseconds since some fixed moment. */
export function now(): number {
  return (uptime === undefined ? sinceStart() : uptimeOf(uptime)) + skipped;
}

/** Moves the clock, for tests: as if the machine had been suspended for this time. */
export function skip(milliseconds: number): void {
  skipped += milliseconds;
}
