// What Slurm's states mean (S3). Pure.

import { type Circumstances, outcomeOf } from "../../runner/index.ts";
import type { StoredEnd } from "../journal.ts";
import type { AccountedJob } from "./commands.ts";
import { REFUSED_RESTART } from "./script.ts";

export type Stage =
  /** It waits in Slurm. */
  | "waiting"
  | "running"
  /** Its processes end, or its epilog runs: its units are still held. */
  | "completing"
  /** Held back from its nodes for now, as `scontrol suspend` does. */
  | "suspended"
  | "over";

const STAGES: Readonly<Record<string, Stage>> = {
  PENDING: "waiting",
  REQUEUED: "waiting",
  REQUEUE_HOLD: "waiting",
  REQUEUE_FED: "waiting",
  SPECIAL_EXIT: "waiting",
  CONFIGURING: "waiting",
  RUNNING: "running",
  RESIZING: "running",
  SIGNALING: "running",
  COMPLETING: "completing",
  STAGE_OUT: "completing",
  SUSPENDED: "suspended",
  STOPPED: "suspended",
};

export function stageOf(state: string): Stage {
  return STAGES[state] ?? "over";
}

/** Ends caused by the machine or in Slurm: the attempt is lost, not failed. */
const LOST: ReadonlySet<string> = new Set(["NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REQUEUED", "REVOKED"]);

/** Ends that Slurm brings about: what the command made of them is not its own result. */
const BY_SLURM: ReadonlySet<string> = new Set(["OUT_OF_MEMORY", "TIMEOUT", "DEADLINE"]);

/**
 * Undefined: it has not ended by the word of the accounting. The command's own exit code, where it is known and not that of a
 * signal, counts more than the state: a controller that crashed may take what has ended for lost, or cancel it.
 */
export function endOf(
  job: AccountedJob,
  circumstances: Circumstances,
  ownExitCode?: number,
): StoredEnd["end"] | undefined {
  const { state, exitCode, signal, endedAt } = job;
  if (state !== "REQUEUED" && stageOf(state) !== "over") return undefined;
  const at = endedAt === undefined ? {} : { ended_at: endedAt };
  const exit = {
    exit_code: signal > 0 ? 128 + signal : exitCode,
    ...(signal > 0 && { signal: nameOf(signal) }),
    ...at,
  };
  const isAsked = circumstances.told !== undefined;
  if (ownExitCode !== undefined && ownExitCode < 128 && !BY_SLURM.has(state)) {
    const outcome = outcomeOf({ exitCode: ownExitCode, signal: null }, circumstances);
    return { outcome, exit_code: ownExitCode, ...at };
  }
  const isRefused = state === "FAILED" && exitCode === REFUSED_RESTART && ownExitCode === undefined;
  if (LOST.has(state) || isRefused) {
    const why = isRefused ? "it was started again" : state;
    return isAsked
      ? { outcome: "stopped", ...at }
      : { outcome: "lost", message: `Slurm ended it: ${why}.`, ...at };
  }
  switch (state) {
    case "COMPLETED":
    case "FAILED":
      return { outcome: outcomeOf({ exitCode: exit.exit_code, signal: null }, circumstances), ...exit };
    case "OUT_OF_MEMORY":
      return { outcome: "failed", cause: "oom", ...exit };
    case "TIMEOUT":
    case "DEADLINE":
      return {
        outcome: "failed",
        message: "It ran longer than the time limit of its Slurm partition.",
        ...exit,
      };
    default:
      // CANCELLED, by Berth or in Slurm.
      if (isAsked) return { outcome: circumstances.hasFinished ? "succeeded" : "stopped", ...exit };
      return { outcome: "failed", cause: "interrupted", message: `Slurm ended it: ${state}.`, ...exit };
  }
}

const SIGNALS: Readonly<Record<number, string>> = {
  1: "SIGHUP",
  2: "SIGINT",
  6: "SIGABRT",
  9: "SIGKILL",
  11: "SIGSEGV",
  15: "SIGTERM",
};

function nameOf(signal: number): string {
  return SIGNALS[signal] ?? `SIG${signal}`;
}
