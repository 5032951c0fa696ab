// What to do next about one attempt in Slurm: what is written down about it, what Slurm shows of it, and what is wanted (S2–S6).
// Pure, and repeated every two seconds: what was not carried out, or was forgotten by a controller that crashed, comes again.
//
// Invariants
//   1. Only a job whose number is written down is released, and only after the release is written down: a job of our name
//      with another number never ran, and one that was never released can be submitted again (J5).
//   2. An attempt has ended only by the word of the accounting, and when the queue no longer shows it at work.

import type { Circumstances } from "../../runner/index.ts";
import { START_MS_MAX, type Wish } from "../attempt.ts";
import type { StoredEnd } from "../journal.ts";
import type { AccountedJob, QueuedJob } from "./commands.ts";
import { endOf, stageOf } from "./states.ts";

/** Written down, and durable before anything follows from it. */
export interface Note {
  /** The number of the job in Slurm. */
  readonly jobId?: string;
  /** Released, or about to be. */
  readonly releasedAtMs?: number;
  /** It was seen at work. */
  readonly hasRun?: boolean;
  /** Since when the controller has shown it as held, although it has begun. */
  readonly forgottenAtMs?: number;
  /** What it was asked for, or is about to be. */
  readonly told?: "checkpoint" | "stop";
  /** The question has reached Slurm. */
  readonly asked?: "checkpoint" | "stop";
  readonly hasSaved?: boolean;
  readonly hasFinished?: boolean;
  /** It did not start in time, and why by Slurm's word. */
  readonly gaveUp?: string;
}

export interface Seen {
  /** All of its name that the controller knows. */
  readonly queued: readonly QueuedJob[];
  /** All that the accounting knows of it; undefined: not asked. */
  readonly accounted: readonly AccountedJob[] | undefined;
  /** Its script has begun, whatever Slurm says. */
  readonly hasBegun?: boolean;
  /** The exit code that the command itself has left; undefined: none. */
  readonly ownExitCode?: number | undefined;
  /** Since when neither has known it, although it was submitted. */
  readonly missingForMs: number;
}

export type Move =
  | { readonly kind: "submit" }
  /** Writes down; everything after it waits for that. */
  | { readonly kind: "note"; readonly note: Note }
  | { readonly kind: "release" | "hold" | "cancel"; readonly id: string }
  | { readonly kind: "ask"; readonly id: string; readonly for: "checkpoint" | "stop" }
  /** The accounting must be asked before anything else can be said. */
  | { readonly kind: "account" }
  | { readonly kind: "end"; readonly end: StoredEnd["end"] };

/** A controller that has just started may not have heard of its nodes yet. */
export const MISSING_MS_MAX = 60_000;

export function nextMoves(
  note: Note,
  seen: Seen,
  wish: Wish,
  nowMs: number,
  startMsMax = START_MS_MAX,
): Move[] {
  if (note.jobId === undefined) return movesBefore(note, seen, wish);
  const own = seen.queued.find(({ id }) => id === note.jobId);
  const others = seen.queued.filter(({ id, state }) => id !== note.jobId && stageOf(state) !== "over");
  const cancels = others.map(({ id }): Move => ({ kind: "cancel", id }));
  return [...cancels, ...movesOfOwn(note, { ...seen, own }, wish, nowMs, startMsMax)];
}

/** Its number is not known: it was never submitted, or the adapter ended before it wrote the number down. */
function movesBefore(note: Note, { queued, accounted }: Seen, wish: Wish): Move[] {
  const found = [...queued, ...(accounted ?? [])]
    .map(({ id }) => id)
    .sort((a, b) => Number(a) - Number(b))[0];
  if (found !== undefined) return [{ kind: "note", note: { ...note, jobId: found } }];
  if (accounted === undefined) return [{ kind: "account" }];
  const isOver = wish.do !== "carry_on";
  return isOver ? [{ kind: "end", end: { outcome: "stopped" } }] : [{ kind: "submit" }];
}

function movesOfOwn(
  note: Note,
  seen: Seen & { readonly own: QueuedJob | undefined },
  wish: Wish,
  nowMs: number,
  startMsMax: number,
): Move[] {
  const { own } = seen;
  const stage = own === undefined ? "over" : stageOf(own.state);
  switch (stage) {
    case "waiting":
      if (note.hasRun === true || seen.hasBegun === true)
        return movesOfBegun(note, own as QueuedJob, seen.ownExitCode, nowMs);
      return movesWhileWaiting(note, own as QueuedJob, wish, nowMs, startMsMax);
    case "running":
      if (note.hasRun !== true) return [{ kind: "note", note: { ...note, hasRun: true } }];
      return movesWhileRunning(note, wish);
    case "suspended":
      return wish.do === "stop" || wish.do === "end" ? cancelled(note) : [];
    case "completing":
      return [];
    case "over":
      return movesAfter(note, seen, wish);
    default:
      return stage satisfies never;
  }
}

/**
 * It waits again, and must not run again under this grant. If it is held, a controller that crashed has forgotten its start: to
 * release it would drain its node, and what runs there is ended when the controller hears of it.
 */
function movesOfBegun(
  note: Note,
  { id, reason }: QueuedJob,
  ownExitCode: number | undefined,
  nowMs: number,
): Move[] {
  if (reason.startsWith("JobHeld") && ownExitCode === undefined) {
    if (note.forgottenAtMs === undefined)
      return [{ kind: "note", note: { ...note, hasRun: true, forgottenAtMs: nowMs } }];
    if (nowMs - note.forgottenAtMs < MISSING_MS_MAX) return [];
  }
  return [{ kind: "cancel", id }];
}

function movesWhileWaiting(
  note: Note,
  own: QueuedJob,
  wish: Wish,
  nowMs: number,
  startMsMax: number,
): Move[] {
  const { id, reason } = own;
  if (wish.do !== "carry_on") return cancelled(note);
  if (note.gaveUp !== undefined) return [{ kind: "cancel", id }];
  if (note.releasedAtMs === undefined) return [{ kind: "note", note: { ...note, releasedAtMs: nowMs } }];
  if (nowMs - note.releasedAtMs > startMsMax)
    return [
      { kind: "hold", id },
      { kind: "note", note: { ...note, gaveUp: reason } },
    ];
  return reason.startsWith("JobHeld") ? [{ kind: "release", id }] : [];
}

function movesWhileRunning(note: Note, wish: Wish): Move[] {
  const id = note.jobId as string;
  switch (wish.do) {
    case "carry_on":
      // What was only asked to checkpoint may go on; SIGTERM cannot be taken back.
      return note.told === "checkpoint" ? [{ kind: "note", note: withoutQuestion(note) }] : [];
    case "checkpoint":
      if (note.told === undefined)
        return [{ kind: "note", note: { ...note, told: "checkpoint", hasSaved: false } }];
      return note.asked === undefined ? [{ kind: "ask", id, for: "checkpoint" }] : [];
    case "stop":
      if (note.told !== "stop") return [{ kind: "note", note: { ...note, told: "stop" } }];
      if (wish.isOverdue) return [{ kind: "cancel", id }];
      return note.asked === "stop" ? [] : [{ kind: "ask", id, for: "stop" }];
    case "end":
      return cancelled(note);
  }
}

function withoutQuestion({ told: _, asked: __, ...note }: Note): Note {
  return note;
}

/** That it was us is written down first: a foreign cancellation is a failure. */
function cancelled(note: Note): Move[] {
  if (note.told !== "stop") return [{ kind: "note", note: { ...note, told: "stop" } }];
  return [{ kind: "cancel", id: note.jobId as string }];
}

function movesAfter(note: Note, { accounted, missingForMs, ownExitCode }: Seen, wish: Wish): Move[] {
  if (accounted === undefined) return [{ kind: "account" }];
  const own = accounted.filter(({ id }) => id === note.jobId);
  if (note.gaveUp !== undefined && own.every(({ state }) => state !== "COMPLETED" && state !== "FAILED")) {
    const message = `Slurm did not start it in time: ${note.gaveUp}.`;
    return [{ kind: "end", end: { outcome: "failed", cause: "start_failed", message } }];
  }
  // A requeued attempt was lost then, whatever became of the job later.
  const deciding = own.find(({ state }) => state === "REQUEUED") ?? own.at(-1);
  if (deciding !== undefined && note.forgottenAtMs !== undefined && ownExitCode === undefined) {
    const message = "Slurm forgot that it had started it.";
    return [
      { kind: "end", end: note.told === undefined ? { outcome: "lost", message } : { outcome: "stopped" } },
    ];
  }
  const end = deciding && endOf(deciding, circumstancesOf(note), ownExitCode);
  if (end !== undefined) return [{ kind: "end", end }];
  if (missingForMs < MISSING_MS_MAX) return [];
  if (note.told === "stop" || wish.do === "end") return [{ kind: "end", end: { outcome: "stopped" } }];
  // Never released: it never ran, so it can be submitted again.
  if (note.releasedAtMs === undefined) return [{ kind: "note", note: {} }];
  return [{ kind: "end", end: { outcome: "lost", message: "Slurm no longer knows it." } }];
}

export function circumstancesOf({ told, hasSaved = false, hasFinished = false }: Note): Circumstances {
  return { told, hasSaved, hasFinished };
}
