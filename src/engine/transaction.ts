// One command being decided: the state, the time, and what has happened so far.

import { neverUp } from "./breaks.ts";
import type { Event } from "./events.ts";
import { evolve } from "./evolve.ts";
import type { EngineState, Request } from "./state.ts";

/** A throw in `evolve` means that memory can no longer be trusted, unlike a throw in what led to the event. */
export class EvolveError extends Error {}

export class Transaction {
  readonly events: Event[] = [];
  readonly state: EngineState;
  readonly nowMs: number;
  /** Whether what is left is for the next ticks. */
  readonly isTimeUp: () => boolean;
  /** Whether scheduling that was paused goes on here. */
  readonly mayGoOn: boolean;
  /** Scheduling was paused here: nothing more is decided. */
  isCut = false;

  constructor(
    state: EngineState,
    nowMs: number,
    { isTimeUp = neverUp, mayGoOn = true }: Partial<Pick<Transaction, "isTimeUp" | "mayGoOn">> = {},
  ) {
    this.state = state;
    this.nowMs = nowMs;
    this.isTimeUp = isTimeUp;
    this.mayGoOn = mayGoOn;
  }

  /** Records an event and lets it happen, so that what follows is decided on the state after it; `about` is the request that it names. */
  emit(event: Event, about?: Request): void {
    try {
      evolve(this.state, event, about);
    } catch (cause) {
      throw new EvolveError(`the event ${event.kind} does not fit the state`, { cause });
    }
    this.events.push(event);
  }
}
