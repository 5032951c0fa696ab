// Keeps the lease of a leader, and knows how long it may answer (C3, C6).
//
// Invariants
//   1. Times count from the sending of the last renewal that succeeded, so that a process which was frozen in between
//      knows, when it thaws, that others may lead by now.
//   2. While it is sure, nobody else leads: a candidate has seen the row move no earlier than that renewal was sent, and
//      tries no sooner than `hintedSilenceMs` later, by a clock that runs as fast as ours.

import type { Clock, Log } from "../leader/index.ts";
import type { Store } from "../store/index.ts";

export interface LeaseKeeper {
  /** An answer from memory is true now. */
  readonly isSure: boolean;
  /** Waits until it is sure again; false: the lease is lost. */
  sure(): Promise<boolean>;
  stop(): void;
}

export interface KeeperTimes {
  readonly renewEveryMs: number;
  /** Answers are given at once for so long after the last renewal, and then wait for the next one. Shorter than `hintedSilenceMs`. */
  readonly sureMs: number;
  /** A leader that could not renew for so long steps down. Shorter than the silence that candidates without a hint wait for. */
  readonly freshMs: number;
}

export function createLeaseKeeper(
  { store, clock, log }: { readonly store: Store; readonly clock: Clock; readonly log: Log },
  parts: {
    readonly epoch: number;
    readonly times: KeeperTimes;
    /** It is sure again, or still. */
    readonly onRenewed: () => void;
    readonly onLost: (why: string) => void;
  },
): LeaseKeeper {
  const { epoch, times, onRenewed, onLost } = parts;
  let lastSentMs = clock.monotonicMs();
  let isStopped = false;
  let isAsking = false;
  let cancelTimer = () => {};
  const waiting: ((isSure: boolean) => void)[] = [];
  const isWithin = (ms: number) => !isStopped && clock.monotonicMs() - lastSentMs < ms;
  const isSure = () => isWithin(times.sureMs);

  async function renew(): Promise<void> {
    const sentMs = clock.monotonicMs();
    isAsking = true;
    try {
      if (!(await store.renewLease(epoch))) return lose("another server has taken over");
      lastSentMs = sentMs;
      if (isSure()) proceed(true);
      if (!isStopped) onRenewed();
    } catch (error) {
      log.warn({ err: error }, "the lease could not be renewed");
    } finally {
      isAsking = false;
    }
  }

  function proceed(outcome: boolean): void {
    for (const resolve of waiting.splice(0)) resolve(outcome);
  }

  function lose(why: string): void {
    if (isStopped) return;
    stop();
    onLost(why);
  }

  function turn(): void {
    if (isStopped) return;
    if (!isWithin(times.freshMs)) return lose("the lease could not be renewed in time");
    if (!isAsking) void renew();
    cancelTimer = clock.after(times.renewEveryMs, turn);
  }

  function stop(): void {
    isStopped = true;
    cancelTimer();
    proceed(false);
  }

  turn();
  return {
    get isSure() {
      return isSure();
    },
    async sure() {
      if (isStopped) return false;
      return isSure() || new Promise((resolve) => waiting.push(resolve));
    },
    stop,
  };
}
