// A course of commands that is cut into slices wherever it may be, for comparison with the whole one.

import type { Command } from "./commands.ts";
import { decide } from "./decide.ts";
import type { Event } from "./events.ts";
import type { EngineState } from "./state.ts";

export interface Course {
  /** All events but those about cuts. */
  readonly happened: readonly Event[];
  /** Slices in which nothing happened: they ended in the middle of a look. */
  readonly cutLooks: number;
}

export function courseOf(
  state: EngineState,
  commands: Iterable<readonly [nowMs: number, command: Command]>,
  areSlicesCut: boolean,
): Course {
  const events: Event[] = [];
  let cutLooks = 0;
  for (const [nowMs, command] of commands) {
    for (let next: Command | undefined = command; next !== undefined; ) {
      const decision = decide(state, next, nowMs, () => areSlicesCut);
      if (decision.outcome === "refused") throw new Error(decision.refusal.message, { cause: decision.bug });
      events.push(...decision.events);
      const isCut = decision.events.at(-1)?.kind === "schedulingPaused";
      if (isCut && decision.events.length === 1) cutLooks++;
      next = isCut ? { kind: "tick" } : undefined;
    }
  }
  const happened = events.filter(({ kind }) => kind !== "schedulingPaused" && kind !== "schedulingSettled");
  return { happened, cutLooks };
}
