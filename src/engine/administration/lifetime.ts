// When pools and policies were created and last changed.

import type { Lifetime } from "../records.ts";
import type { Transaction } from "../transaction.ts";

/** Of a thing that the next event creates. */
export function created({ state, nowMs }: Transaction): Required<Lifetime> {
  return { createdSeq: state.seq + 1, createdAtMs: nowMs, updatedAtMs: nowMs };
}

export function updated({ nowMs }: Transaction): Pick<Lifetime, "updatedAtMs"> {
  return { updatedAtMs: nowMs };
}
