// Long polls: callers that wait until something happens to a request.

import type { RequestId } from "../engine/index.ts";
import type { Leader } from "../leader/index.ts";
import { LONG_POLLS_MAX } from "./limits.ts";

export interface Waiting {
  /**
   * Resolves with true at the next change of the request. With false when there is no more waiting: the time is up,
   * the caller is gone, too many wait, or the server closes.
   */
  nextChange(requestId: RequestId, ms: number, signal: AbortSignal): Promise<boolean>;
  close(): void;
}

export function createWaiting(leader: Leader): Waiting {
  const waiters = new Map<RequestId, Set<(changed: boolean) => void>>();
  let count = 0;
  let isClosed = false;
  const stop = leader.onCommit(({ requestIds }) => {
    if (waiters.size === 0) return;
    for (const id of requestIds) for (const wake of waiters.get(id) ?? []) wake(true);
  });

  return {
    nextChange(requestId, ms, signal) {
      if (isClosed || count >= LONG_POLLS_MAX || signal.aborted) return Promise.resolve(false);
      return new Promise((resolve) => {
        const mine = waiters.get(requestId) ?? new Set();
        const wake = (changed: boolean) => {
          if (!mine.delete(wake)) return;
          count -= 1;
          if (mine.size === 0) waiters.delete(requestId);
          clearTimeout(timer);
          signal.removeEventListener("abort", abort);
          resolve(changed);
        };
        const abort = () => wake(false);
        const timer = setTimeout(wake, ms, false);
        signal.addEventListener("abort", abort);
        waiters.set(requestId, mine.add(wake));
        count += 1;
      });
    },
    close() {
      stop();
      isClosed = true;
      for (const mine of [...waiters.values()]) for (const wake of [...mine]) wake(false);
    },
  };
}
