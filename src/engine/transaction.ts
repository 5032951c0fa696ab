// One command being decided: the state, the time, and what has happened so far.

import type { Event } from "./events.ts";
import { evolve } from "./evolve.ts";
import type { EngineState } from "./state.ts";

/** A throw in `evolve` means that memory can no longer be trusted, unlike a throw in what led to the event. */
export class EvolveError extends Error {}

export class Transaction {
  readonly events: Event[] = [];
  readonly state: EngineState;
  readonly nowMs: number;
  /** How many looks at pools may still be taken before the fixed point is cut. */
  looksLeft: number;
  /** Whether scheduling that was paused goes on here. */
  mayGoOn: boolean;

  constructor(
    state: EngineState,
    nowMs: number,
    { looksMax = Number.POSITIVE_INFINITY, mayGoOn = true }: { looksMax?: number; mayGoOn?: boolean } = {},
  ) {
    this.state = state;
    this.nowMs = nowMs;
    this.looksLeft = looksMax;
    this.mayGoOn = mayGoOn;
  }

  /** Records an event and lets it happen, so that what follows is decided on the state after it. */
  emit(event: Event): void {
    try {
      evolve(this.state, event);
    } catch (cause) {
      throw new EvolveError(`the event ${event.kind} does not fit the state`, { cause });
    }
    this.events.push(event);
  }
}
