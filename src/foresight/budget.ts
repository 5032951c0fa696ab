// What one question may cost (X7): decisions, and processor time of the thread.

import { readFileSync } from "node:fs";

export interface Budget {
  /** Counts one decision; false when the budget is spent. */
  spend(): boolean;
  readonly isSpent: boolean;
  /** Milliseconds of processor time so far. */
  readonly usedMs: number;
}

/** Processor time is looked at this often: reading it takes some, too. */
const DECISIONS_PER_LOOK = 8;

export function createBudget(
  { cpuMs, decisions }: { readonly cpuMs: number; readonly decisions: number },
  timeMs: () => number = threadTimeMs,
): Budget {
  const beganMs = timeMs();
  let left = decisions;
  let isSpent = false;
  return {
    spend() {
      if (isSpent) return false;
      left--;
      const isLate = left % DECISIONS_PER_LOOK === 0 && timeMs() - beganMs >= cpuMs;
      isSpent = left < 0 || isLate;
      return !isSpent;
    },
    get isSpent() {
      return isSpent;
    },
    get usedMs() {
      return timeMs() - beganMs;
    },
  };
}

/** Processor time of this thread; where the system does not tell it, the time on the clock. */
function threadTimeMs(): number {
  try {
    return Number.parseInt(readFileSync("/proc/thread-self/schedstat", "latin1"), 10) / 1e6;
  } catch {
    return performance.now();
  }
}
