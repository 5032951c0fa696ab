// Shields (V6): a request that was preempted too often within 24 hours is exempt from some rules until that is over.

import type { AttemptOutcome } from "../events.ts";
import type { Pool, Request } from "../state.ts";

const DAY_MS = 86_400_000;

/** When the shield ends, in a pool, of a request with these preemptions; minus infinity: it has none. */
export function shieldEndOf(preemptedAtMs: readonly number[], { preemptionsMax: max }: Pool): number {
  if (max === 0) return Number.POSITIVE_INFINITY;
  if (preemptedAtMs.length < max) return Number.NEGATIVE_INFINITY; // An index below zero is looked up as a name.
  return (preemptedAtMs[preemptedAtMs.length - max] as number) + DAY_MS;
}

/** The preemptions that still count, with one more. */
export function withPreemption(preemptedAtMs: readonly number[], atMs: number): number[] {
  return [...preemptedAtMs.filter((each) => each > atMs - DAY_MS), atMs];
}

/** Whether an attempt that ends so was preempted; what an administrator stops was not preempted by anybody (P8). */
export function isPreemption({ progress }: Request, outcome: AttemptOutcome): boolean {
  return outcome === "preempted" && progress.allocation?.stop?.reason !== "administration";
}
