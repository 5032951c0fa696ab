// Where time comes from. The cluster's time is a monotonic clock anchored to the journal, so that it never
// runs backwards, not even over a restart, and jumps of the wall clock do nothing to it.

import type { Clock } from "./interface.ts";

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
