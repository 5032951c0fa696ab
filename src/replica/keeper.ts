// Keeps the lease of a leader, and knows how long it may answer (C3, C6).
//
// Invariant: `isFresh` counts from the sending of the last renewal that succeeded, so that a process which was frozen in
// between knows, when it thaws, that others may lead by now.

import type { Clock, Log } from "../leader/index.ts";
import type { Store } from "../store/index.ts";

export interface LeaseKeeper {
  readonly isFresh: boolean;
  stop(): void;
}

export interface KeeperTimes {
  readonly renewEveryMs: number;
  /** Answers are given for so long after the last renewal. Shorter than the silence that candidates wait for. */
  readonly freshMs: number;
}

export function createLeaseKeeper(
  { store, clock, log }: { readonly store: Store; readonly clock: Clock; readonly log: Log },
  {
    epoch,
    times,
    onLost,
  }: { readonly epoch: number; readonly times: KeeperTimes; readonly onLost: (why: string) => void },
): LeaseKeeper {
  let lastSentMs = clock.monotonicMs();
  let isStopped = false;
  let isAsking = false;
  let cancelTimer = () => {};
  const isFresh = () => !isStopped && clock.monotonicMs() - lastSentMs < times.freshMs;

  async function renew(): Promise<void> {
    const sentMs = clock.monotonicMs();
    isAsking = true;
    try {
      if (await store.renewLease(epoch)) lastSentMs = sentMs;
      else lose("another server has taken over");
    } catch (error) {
      log.warn({ err: error }, "the lease could not be renewed");
    } finally {
      isAsking = false;
    }
  }

  function lose(why: string): void {
    if (isStopped) return;
    stop();
    onLost(why);
  }

  function turn(): void {
    if (isStopped) return;
    if (!isFresh()) return lose("the lease could not be renewed in time");
    if (!isAsking) void renew();
    cancelTimer = clock.after(times.renewEveryMs, turn);
  }

  function stop(): void {
    isStopped = true;
    cancelTimer();
  }

  turn();
  return {
    get isFresh() {
      return isFresh();
    },
    stop,
  };
}
