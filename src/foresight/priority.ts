// The priority of the foresight thread: what it tries must not take the processor from the thread that serves everybody (X4).

import { readlinkSync } from "node:fs";
import { constants, getPriority, setPriority } from "node:os";
import { basename } from "node:path";

const STEPS_BELOW = 5;

/** Only this thread's: on Linux each has its own. Elsewhere, or where it is forbidden, it stays as it is. */
export function lowerPriority(): void {
  try {
    const thread = Number(basename(readlinkSync("/proc/thread-self")));
    const lower = getPriority(thread) + STEPS_BELOW;
    setPriority(thread, Math.min(lower, constants.priority.PRIORITY_LOW));
  } catch {
    // It works as well without.
  }
}
