// What one question may cost (X7): decisions, and processor time of the thread.

import { readFileSync } from "node:fs";

export interface Budget {
  /** Counts one decision; false when the budget is spent. */
  spend(): boolean;
  /** Looks at the time; for decisions that take long. */
  isTimeUp(): boolean;
  readonly isSpent: boolean;
  /** Milliseconds of processor time so far. */
  readonly usedMs: number;
}

/** Reading the processor time takes some, too: it is read when so much time has passed on the clock. */
const LOOK_EVERY_MS = 1;

export function createBudget(
  { cpuMs, decisions }: { readonly cpuMs: number; readonly decisions: number },
  timeMs: () => number = threadTimeMs,
): Budget {
  const beganMs = timeMs();
  let lookedAtMs = performance.now();
  let left = decisions;
  let isSpent = false;
  const isTimeUp = () => {
    const clockMs = performance.now();
    if (!isSpent && clockMs - lookedAtMs >= LOOK_EVERY_MS) {
      lookedAtMs = clockMs;
      isSpent = timeMs() - beganMs >= cpuMs;
    }
    return isSpent;
  };
  return {
    spend() {
      if (isTimeUp()) return false;
      isSpent = --left < 0;
      return !isSpent;
    },
    isTimeUp,
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
