// What to do next about one attempt in Slurm: what is written down about it, what Slurm shows of it, and what is wanted (S2–S6).
// Pure, and repeated every two seconds: what was not carried out, or was forgotten by a controller that crashed, comes again.
//
// Invariants
//   1. Only a job whose number is written down is released, and only after the release is written down: a job of our name
//      with another number never ran, and one that was never released can be submitted again (J5).
//   2. An attempt has ended only by the word of the accounting, and when the queue no longer shows it at work.
//   3. Where Slurm and the attempt's own script do not say the same, whoever is behind gets a minute to catch up.

import type { Circumstances } from "../../runner/index.ts";
import { START_MS_MAX, type Wish } from "../attempt.ts";
import type { StoredEnd } from "../journal.ts";
import type { QueuedJob } from "./commands.ts";
import { type AccountOf, endOf, endOfForgotten, hasEnded, mayStillTell, stageOf } from "./states.ts";
import type { Trace } from "./traces.ts";

/** Written down, and durable before anything follows from it. */
export interface Note {
  /** The number of the job in Slurm. */
  readonly jobId?: string;
  /** Released, or about to be. */
  readonly releasedAtMs?: number;
  /** It was seen at work. */
  readonly hasRun?: boolean;
  /** Slurm showed it as waiting after it had begun: it was requeued, or a controller that crashed has forgotten its start. */
  readonly hasWaitedAgain?: boolean;
  /** Since when Slurm and its script have not said the same. */
  readonly differingSinceMs?: number;
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
  readonly accounted: readonly AccountOf[] | undefined;
  /** What its script has left, whatever Slurm says. */
  readonly trace: Trace;
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

/** A controller that has just started may not have heard of its nodes yet, and a shared disk may show a file late. */
export const CATCH_UP_MS_MAX = 60_000;
/** If a job is held that was released, its script may be about to begin: so long it is not released again. */
export const RELEASE_AGAIN_MS = 15_000;

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
      if (note.hasRun === true || seen.trace.hasBegun)
        return movesOfBegun(note, own as QueuedJob, seen.trace, nowMs);
      return movesWhileWaiting(note, own as QueuedJob, wish, nowMs, startMsMax);
    case "running":
      if (note.hasRun !== true) return [{ kind: "note", note: { ...note, hasRun: true } }];
      // It has ended, and a controller that crashed has forgotten that.
      if (seen.trace.exit !== undefined)
        return patiently(note, nowMs, [{ kind: "cancel", id: (own as QueuedJob).id }]);
      if (note.differingSinceMs !== undefined) return [{ kind: "note", note: withoutDifference(note) }];
      return movesWhileRunning(note, wish);
    case "suspended":
      return wish.do === "stop" || wish.do === "end" ? cancelled(note) : [];
    case "completing":
      return [];
    case "over":
      return movesAfter(note, seen, wish, nowMs);
    default:
      return stage satisfies never;
  }
}

/**
 * It waits again, and must not run again under this grant. If it was not requeued, its start is forgotten: to start it once
 * more would drain its node, and what runs there ends by itself, or when the controller hears of it.
 */
function movesOfBegun(note: Note, { id, reason }: QueuedJob, { exit }: Trace, nowMs: number): Move[] {
  if (note.hasWaitedAgain !== true)
    return [{ kind: "note", note: { ...note, hasRun: true, hasWaitedAgain: true, differingSinceMs: nowMs } }];
  const cancel: Move = { kind: "cancel", id };
  if (exit !== undefined) return [cancel];
  const hold: Move[] = isHeld(reason) ? [] : [{ kind: "hold", id }];
  return patiently(note, nowMs, [cancel], { meanwhile: hold });
}

/** Slurm and the script do not say the same: first it is waited for whoever is behind. */
function patiently(
  note: Note,
  nowMs: number,
  then: Move[],
  { meanwhile = [], forMs = CATCH_UP_MS_MAX }: { meanwhile?: Move[]; forMs?: number } = {},
): Move[] {
  const { differingSinceMs } = note;
  if (differingSinceMs === undefined) return [{ kind: "note", note: { ...note, differingSinceMs: nowMs } }];
  return nowMs - differingSinceMs < forMs ? meanwhile : then;
}

function withoutDifference({ differingSinceMs: _, ...note }: Note): Note {
  return note;
}

function isHeld(reason: string): boolean {
  return reason.startsWith("JobHeld");
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
  const release: Move[] = isHeld(reason) ? [{ kind: "release", id }] : [];
  if (note.releasedAtMs === undefined)
    return [{ kind: "note", note: { ...note, releasedAtMs: nowMs } }, ...release];
  if (nowMs - note.releasedAtMs > startMsMax)
    return [
      { kind: "hold", id },
      { kind: "note", note: { ...note, gaveUp: reason } },
    ];
  // The release did not arrive, or a controller that crashed has forgotten it: perhaps with a start that followed.
  return release.length === 0 ? [] : patiently(note, nowMs, release, { forMs: RELEASE_AGAIN_MS });
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

function movesAfter(note: Note, seen: Seen, wish: Wish, nowMs: number): Move[] {
  const { accounted, missingForMs, trace } = seen;
  if (accounted === undefined) return [{ kind: "account" }];
  const own = accounted.filter(({ id }) => id === note.jobId);
  if (note.gaveUp !== undefined && own.every(({ state }) => state !== "COMPLETED" && state !== "FAILED")) {
    const message = `Slurm did not start it in time: ${note.gaveUp}.`;
    return [{ kind: "end", end: { outcome: "failed", cause: "start_failed", message } }];
  }
  // A requeued attempt was lost then, whatever became of the job later.
  const deciding = own.find(({ state }) => state === "REQUEUED") ?? own.at(-1);
  const { hasRun = false, hasWaitedAgain = false } = note;
  const facts = { trace, circumstances: circumstancesOf(note), hasRun, hasWaitedAgain };
  if (deciding !== undefined && hasEnded(deciding)) {
    const end: Move[] = [{ kind: "end", end: endOf(deciding, facts) }];
    return mayStillTell(deciding, facts) ? patiently(note, nowMs, end) : end;
  }
  if (missingForMs < CATCH_UP_MS_MAX) return [];
  if (wish.do === "end") return [{ kind: "end", end: { outcome: "stopped" } }];
  // Never released: it never ran, so it can be submitted again.
  if (note.releasedAtMs === undefined && note.told === undefined) return [{ kind: "note", note: {} }];
  return [{ kind: "end", end: endOfForgotten(facts) }];
}

export function circumstancesOf({ told, hasSaved = false, hasFinished = false }: Note): Circumstances {
  return { told, hasSaved, hasFinished };
}
