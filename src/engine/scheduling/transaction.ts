// One command being decided: the state, the time, and what has happened so far.

import type { Event } from "../events.ts";
import { evolve } from "../evolve.ts";
import type { EngineState } from "../state.ts";

export interface Transaction {
  readonly state: EngineState;
  readonly nowMs: number;
  readonly events: Event[];
}

/** A throw in `evolve` means that memory can no longer be trusted, unlike a throw in what led to the event. */
export class EvolveError extends Error {}

/** Records an event and lets it happen, so that what follows is decided on the state after it. */
export function emit({ state, events }: Transaction, event: Event): void {
  try {
    evolve(state, event);
  } catch (cause) {
    throw new EvolveError(`the event ${event.kind} does not fit the state`, { cause });
  }
  events.push(event);
}
