// When time itself is the next event.

import type { EngineState } from "./state.ts";

/** The next moment at which a `tick` has something to do; null if only commands can change anything. */
export function nextWakeMs(state: EngineState): number | null {
  return state.timers.first()?.wakeAtMs ?? null;
}
