// When time itself is the next event.

import { drainWakeMs } from "./administration/nodes.ts";
import { disciplineOf } from "./disciplines/disciplines.ts";
import type { EngineState } from "./state.ts";

/**
 * The next moment at which a `tick` has something to do; null if only commands can change anything. While scheduling
 * is paused that is now.
 */
export function nextWakeMs(state: EngineState): number | null {
  if (state.isPaused) return state.clockMs;
  const wakeAtMs = Math.min(
    state.timers.first()?.wakeAtMs ?? Number.POSITIVE_INFINITY,
    starvationWakeMs(state),
    drainWakeMs(state),
  );
  return wakeAtMs === Number.POSITIVE_INFINITY ? null : wakeAtMs;
}

/** When an operation in a pool with shares begins to starve, or a back-off is over (9.4, 9.7). */
function starvationWakeMs({ moving }: EngineState): number {
  for (const pool of moving) if (disciplineOf(pool).hasShares) return pool.orderUntilMs;
  return Number.POSITIVE_INFINITY;
}
