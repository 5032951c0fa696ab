// Where time comes from. The cluster's time is a monotonic clock anchored to the journal, so that it never
// runs backwards, not even over a restart, and jumps of the wall clock do nothing to it.

import { type Head, type Store, StoreError } from "../store/index.ts";
import type { Clock, Log } from "./interface.ts";

/** A start so long after the last commit is believed only of a person. Longer than a holiday weekend. */
const LEAP_MS_MAX = 7 * 24 * 3_600_000;
/** Clocks that are kept in step differ by less. */
const AHEAD_MS_MAX = 60_000;

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  after(delayMs, run) {
    const timer = setTimeout(run, delayMs);
    return () => clearTimeout(timer);
  },
  soon: (run) => void setImmediate(run),
};

/** The time of the cluster in whole milliseconds, from the last time in the journal on. */
export function clusterTime(clock: Clock, lastAtMs: number): () => number {
  const anchorMs = Math.max(clock.wallMs(), lastAtMs);
  const startMs = clock.monotonicMs();
  return () => Math.floor(anchorMs + (clock.monotonicMs() - startMs));
}

/**
 * Time in the journal never goes back: one start with a clock that is years ahead would keep the cluster there. So a
 * clock that is far ahead of the journal is refused, unless a clock of the store agrees with it, or a person does.
 */
export async function checkClock(
  { store, clock, log }: { readonly store: Store; readonly clock: Clock; readonly log: Log },
  { head, isAccepted }: { readonly head: Head; readonly isAccepted: boolean },
): Promise<void> {
  if (head.seq === 0) return;
  const wallMs = clock.wallMs();
  if (head.atMs - wallMs > AHEAD_MS_MAX) {
    const times = { clusterTime: textOf(head.atMs), machineTime: textOf(wallMs) };
    log.warn(times, "the time of the cluster is ahead of the clock of this machine");
  }
  if (isAccepted || wallMs - head.atMs <= LEAP_MS_MAX) return;
  const knownMs = Math.max(head.atMs, (await store.clockMs()) ?? 0);
  if (wallMs - knownMs <= LEAP_MS_MAX) return;
  throw new StoreError(
    "wrong_clock",
    `The clock of this machine says ${textOf(wallMs)}, but ` +
      (knownMs === head.atMs
        ? `the last change is from ${textOf(head.atMs)}.`
        : `that of the database says ${textOf(knownMs)}.`),
    {
      hint: "Set the clock. If it is right, start once with --accept-clock: time never goes back after that.",
    },
  );
}

function textOf(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
