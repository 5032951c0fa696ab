// Watches who leads, and says when to try (C3, C4). Time is this process's monotonic clock: what counts is how long the
// row has stood still for this process, not what any clock says.
//
// Invariants
//   1. Only a row that has changed restarts the clock of silence; a failed try does not.
//   2. The clock stands still while the database does not answer: that silence is not the leader's.

import type { Lease } from "../store/index.ts";

export interface LeaseTimes {
  /** A leader that was silent for so long is taken for dead. */
  readonly silenceMs: number;
  /** The same for a candidate that holds the hint: the leader's connection has ended. */
  readonly hintedSilenceMs: number;
}

export interface LeaseWatch {
  /** The row as it was just read. */
  seen(lease: Lease, nowMs: number): void;
  /** The database did not answer. */
  failed(): void;
  /** The row to name in the attempt, if this is the moment for one (C2). */
  toTry(isHinted: boolean): Lease | undefined;
  readonly lease: Lease | undefined;
}

export function createLeaseWatch(ownId: string, times: LeaseTimes): LeaseWatch {
  let lease: Lease | undefined;
  let silentMs = 0;
  let lastAnswerMs: number | undefined;

  return {
    seen(found, nowMs) {
      const isSame =
        found.epoch === lease?.epoch &&
        found.renewals === lease.renewals &&
        found.holder === lease.holder &&
        found.offeredTo === lease.offeredTo;
      if (!isSame) silentMs = 0;
      else if (lastAnswerMs !== undefined) silentMs += nowMs - lastAnswerMs;
      lease = found;
      lastAnswerMs = nowMs;
    },
    failed() {
      lastAnswerMs = undefined;
    },
    toTry(isHinted) {
      if (lease === undefined || lastAnswerMs === undefined) return undefined;
      // Released, or our own from before the database was away: nobody has to be waited for.
      const isFree = lease.holder === null && (lease.offeredTo ?? ownId) === ownId;
      if (isFree || lease.holder === ownId) return lease;
      return silentMs >= (isHinted ? times.hintedSilenceMs : times.silenceMs) ? lease : undefined;
    },
    get lease() {
      return lease;
    },
  };
}
