// Does the work of a follower whenever there may be something to do: at once when it is notified, and every so often in
// any case, since nobody rings behind some poolers (C7).

import type { Clock } from "../leader/index.ts";

export interface Tail {
  /** There is something to do. */
  ring(): void;
  stop(): void;
}

export interface TailTimes {
  /** Followers look for new events so often, whether or not they are woken. */
  readonly tailEveryMs: number;
  /** They do not look more often than this: what comes meanwhile is read together. */
  readonly tailGapMs: number;
}

export function startTail(
  { clock, times }: { readonly clock: Clock; readonly times: TailTimes },
  work: () => Promise<void>,
): Tail {
  let isStopped = false;
  let isWorking = false;
  let isRung = false;
  let beganMs = Number.NEGATIVE_INFINITY;
  let cancel = () => {};

  function plan(): void {
    cancel();
    const sinceMs = clock.monotonicMs() - beganMs;
    cancel = clock.after(isRung ? Math.max(0, times.tailGapMs - sinceMs) : times.tailEveryMs, turn);
  }

  function turn(): void {
    isRung = false;
    isWorking = true;
    beganMs = clock.monotonicMs();
    void work().finally(() => {
      isWorking = false;
      if (!isStopped) plan();
    });
  }

  plan();
  return {
    ring() {
      if (isRung || isStopped) return;
      isRung = true;
      if (!isWorking) plan();
    },
    stop() {
      isStopped = true;
      cancel();
    },
  };
}
