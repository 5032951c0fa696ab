// Whether the kernel ended a command for lack of memory. Its control group knows exactly; without one only the counter of the
// whole machine does, and then the command must have ended by SIGKILL itself.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { EnclosurePlan } from "./enclosure.ts";
import type { Exit } from "./launch.ts";
import { exitCodeOf } from "./terminal.ts";

const KILLED = 137;

/** Begins with the job; the answer is right at the moment of its exit, while its control group is still there. */
export function watchMemory(plan: EnclosurePlan, machineFile = "/proc/vmstat"): (exit: Exit) => boolean {
  const groupFile = plan.level === "cgroup" ? join(plan.directory, "memory.events") : undefined;
  const before = killsIn(machineFile) ?? 0;
  return (exit) => {
    if (exitCodeOf(exit) === 0) return false;
    const ofGroup = groupFile === undefined ? undefined : killsIn(groupFile);
    if (ofGroup !== undefined) return ofGroup > 0;
    return exitCodeOf(exit) === KILLED && (killsIn(machineFile) ?? 0) > before;
  };
}

/** Undefined: the file does not say. */
function killsIn(file: string): number | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
  const count = /^oom_kill (\d+)$/m.exec(text)?.[1];
  return count === undefined ? undefined : Number(count);
}
