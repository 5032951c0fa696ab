// What Slurm's states mean (S3). Pure.

import { type Circumstances, outcomeOf } from "../../runner/index.ts";
import type { StoredEnd } from "../journal.ts";
import type { AccountedJob } from "./commands.ts";
import { REFUSED_RESTART } from "./script.ts";
import type { Trace } from "./traces.ts";

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

/** What the accounting says of an attempt. */
export interface AccountOf extends AccountedJob {
  /** It cannot be about another job. */
  readonly isSure: boolean;
}

/** What the accounting calls a job of which it heard only the end. */
const NAMELESS = "allocation";
/** Numbers begin anew after this many jobs, or where a cluster was set up again: what was long ago does not matter. */
const GIVEN_TWICE_MS_MAX = 24 * 3_600_000;

/**
 * Of the records of one number, or of one name, those that may be about the job of this name. A controller that crashed gives a
 * number out again: what a node then says of the job that had it first is taken for the second's, and the accounting may have heard
 * of it nothing but the end.
 */
export function accountsOfName(name: string, jobs: readonly AccountedJob[], nowMs: number): AccountOf[] {
  const isRecent = ({ endedAt }: AccountedJob) =>
    endedAt === undefined || nowMs - Date.parse(endedAt) < GIVEN_TWICE_MS_MAX;
  const isGivenTwice = jobs.some((job) => job.name !== name && job.name !== NAMELESS && isRecent(job));
  return jobs
    .filter((job) => job.name === name || job.name === NAMELESS)
    .map((job) => ({ ...job, isSure: job.name === name && !isGivenTwice }));
}

/** By the word of the accounting. A requeued attempt is over, whatever becomes of the job. */
export function hasEnded({ state }: AccountedJob): boolean {
  return state === "REQUEUED" || stageOf(state) === "over";
}

/** Ends caused by the machine or in Slurm: the attempt is lost, not failed. */
const LOST: ReadonlySet<string> = new Set(["NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REQUEUED", "REVOKED"]);

/** Slurm's limits: what the command made of them is not its own result. */
const LIMITS: ReadonlySet<string> = new Set(["OUT_OF_MEMORY", "TIMEOUT", "DEADLINE"]);

/**
 * Words that may be wrong of a job whose script has not begun: a controller that has crashed also calls jobs so whose start it has
 * forgotten, and the accounting may mean the job that had the number before.
 */
const DOUBTFUL: ReadonlySet<string> = new Set(["CANCELLED", "NODE_FAIL", "COMPLETED", "FAILED"]);

/** What is known of an end beside the accounting. */
export interface EndFacts {
  readonly trace: Trace;
  readonly circumstances: Circumstances;
  /** It was seen at work. */
  readonly hasRun: boolean;
  /** Slurm showed it as waiting after it had begun. */
  readonly hasWaitedAgain: boolean;
}

/**
 * The script may still say how its command ended, or begin: from the start of a job to its first line a node takes its time.
 * What we have cancelled ourselves has nothing to say.
 */
export function mayStillTell({ state }: AccountedJob, facts: EndFacts): boolean {
  const { trace, circumstances, hasWaitedAgain } = facts;
  if (trace.exit !== undefined || LIMITS.has(state)) return false;
  if (!trace.hasBegun && !DOUBTFUL.has(state)) return false;
  return circumstances.told === undefined || hasWaitedAgain || state !== "CANCELLED";
}

/** How an attempt ended whose job has: `docs/decisions/ends-in-slurm.md`. */
export function endOf(job: AccountOf, facts: EndFacts): StoredEnd["end"] {
  const { trace, circumstances, hasRun, hasWaitedAgain } = facts;
  const { state, endedAt } = job;
  const exit = { ...exitOf(job, trace), ...(endedAt !== undefined && { ended_at: endedAt }) };
  const isRefused = state === "FAILED" && job.exitCode === REFUSED_RESTART && trace.exit === undefined;
  const isByItself = (state === "COMPLETED" || state === "FAILED") && !isRefused;
  if (isAnothers(job, trace)) return lost(`Slurm says ${state}, but its script does not.`, circumstances);
  if (!LIMITS.has(state) && (isByItself || trace.exit?.wasTold === false))
    return byItself(exit, circumstances);
  if (LOST.has(state) || isRefused || hasWaitedAgain)
    return lost(`Slurm ended it: ${isRefused ? "it was started again" : state}.`, circumstances);
  const isAsked = circumstances.told !== undefined;
  if (state === "CANCELLED" && !isAsked && !hasRun && !trace.hasBegun)
    return lost("Slurm cancelled it before it began.", circumstances);
  switch (state) {
    case "OUT_OF_MEMORY":
      return { outcome: "failed", cause: "oom", ...exit };
    case "TIMEOUT":
    case "DEADLINE":
      return { outcome: "failed", cause: "walltime", message: OVERTIME, ...exit };
    default:
      // CANCELLED, by Berth or in Slurm.
      if (isAsked) return { outcome: circumstances.hasFinished ? "succeeded" : "stopped", ...exit };
      return { outcome: "failed", cause: "interrupted", message: `Slurm ended it: ${state}.`, ...exit };
  }
}

/** Every script says how its command ended, unless it is killed: none of ours has succeeded before its script began. */
function isAnothers({ state, isSure }: AccountOf, { hasBegun, exit }: Trace): boolean {
  return (!isSure && exit === undefined) || (state === "COMPLETED" && !hasBegun);
}

/** The same if Slurm no longer knows the job. */
export function endOfForgotten({ trace, circumstances }: EndFacts): StoredEnd["end"] {
  if (trace.exit !== undefined) return byItself({ exit_code: trace.exit.code }, circumstances);
  return lost("Slurm no longer knows it.", circumstances);
}

function byItself(exit: { exit_code: number }, circumstances: Circumstances): StoredEnd["end"] {
  return { outcome: outcomeOf({ exitCode: exit.exit_code, signal: null }, circumstances), ...exit };
}

function lost(message: string, { told }: Circumstances): StoredEnd["end"] {
  return told === undefined ? { outcome: "lost", message } : { outcome: "stopped" };
}

/** What the script has seen counts more than Slurm's number, in which 137 is signal 9. */
function exitOf({ exitCode, signal }: AccountedJob, { exit }: Trace) {
  if (exit !== undefined) return { exit_code: exit.code };
  return signal > 0 ? { exit_code: 128 + signal, signal: nameOf(signal) } : { exit_code: exitCode };
}

const OVERTIME = "It ran longer than the time limit of its Slurm partition.";

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
