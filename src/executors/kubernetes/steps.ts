// What to do next about one attempt in Kubernetes: what is written down about it, what the cluster shows of it, and what is
// wanted (K1–K3). Pure, and repeated: what was not carried out comes again.
//
// Invariants
//   1. Jobs are made only after that is written down, and only once: what was there and is gone is never made again (J5).
//   2. The first pod of a job is the attempt. A second one, which Kubernetes makes when the first is taken away, is ended.
//   3. That something is not there is believed only of an answer that was asked for it: a watch may be behind.
//   4. An attempt has ended when nothing of any of its pods runs (K2).

import type { Circumstances } from "../../runner/index.ts";
import { START_MS_MAX, type Wish } from "../attempt.ts";
import type { StoredEnd } from "../journal.ts";
import { type PodEnd, type PodFacts, storedEndOf, wordOf } from "./states.ts";

/** Written down, and durable before anything follows from it. */
export interface Note {
  /** Its jobs were made, or were about to be. */
  readonly madeAtMs?: number;
  /** The cluster has them. */
  readonly isMade?: boolean;
  /** The first pod of each job, by its uid. */
  readonly pods?: Readonly<Record<string, string>>;
  /** How those ended. */
  readonly ends?: Readonly<Record<string, PodEnd>>;
  readonly hasRun?: boolean;
  /** What it was asked for. */
  readonly told?: "checkpoint" | "stop";
  readonly hasSaved?: boolean;
  readonly hasFinished?: boolean;
  /** It did not start in time, and why by the cluster's word. */
  readonly gaveUp?: string;
  /** It was ended in Kubernetes, or a part of it has failed: the rest must go. */
  readonly broken?: string;
}

export interface Seen {
  /** Of its jobs, those that the cluster has; `isDeleted`: on its way out. */
  readonly jobs: ReadonlyMap<string, { readonly isDeleted: boolean }>;
  readonly pods: readonly PodFacts[];
  /** What is not among them is not there: the cluster was asked. */
  readonly isConfirmed: boolean;
  /** What the cluster's events say, while it waits. */
  readonly saying?: string | undefined;
}

export type Move =
  | { readonly kind: "make" }
  /** Writes down; everything after it waits for that. */
  | { readonly kind: "note"; readonly note: Note }
  /** In the foreground: pods get SIGTERM and their grace (K2). */
  | { readonly kind: "delete"; readonly job: string }
  /** Pods that are not the attempt must not start, or not go on: the job's deletion would come to them too late. */
  | { readonly kind: "discard"; readonly pods: readonly PodFacts[] }
  /** Its pods have only so much time left. */
  | { readonly kind: "hurry"; readonly pods: readonly PodFacts[] }
  /** The cluster must be asked before anything else can be said. */
  | { readonly kind: "confirm" }
  | { readonly kind: "end"; readonly end: StoredEnd["end"] };

export function nextMoves(
  names: readonly string[],
  note: Note,
  seen: Seen,
  wish: Wish,
  nowMs: number,
  startMsMax = START_MS_MAX,
): Move[] {
  if (note.isMade !== true) return movesBefore(note, seen, wish, nowMs);
  const learned = learn(note, seen.pods);
  if (learned !== note) return [{ kind: "note", note: learned }];
  const decided = decide(names, note, seen, wish, nowMs, startMsMax);
  if (decided !== note) return [{ kind: "note", note: decided }];
  const live = seen.pods.filter(({ stage }) => stage !== "over");
  if (isLeaving(note)) return movesOut(note, seen, wish, live, names);
  if (live.length > 0 || names.some((name) => seen.jobs.has(name) && note.ends?.[name] === undefined))
    return [];
  if (names.every((name) => note.ends?.[name] !== undefined))
    return [{ kind: "end", end: endOf(names, note) }];
  if (!seen.isConfirmed) return [{ kind: "confirm" }];
  return [{ kind: "note", note: { ...note, broken: "its job was deleted" } }];
}

/** The adapter may have ended between writing the note and making the job: the job's name shows which. */
function movesBefore(note: Note, seen: Seen, wish: Wish, nowMs: number): Move[] {
  if (note.madeAtMs === undefined)
    return wish.do === "carry_on" ? [{ kind: "note", note: { ...note, madeAtMs: nowMs } }] : [STOPPED];
  if (seen.jobs.size > 0 || seen.pods.length > 0) {
    // One of several may be missing: those that are there are not made again.
    return wish.do === "carry_on" ? [{ kind: "make" }] : [{ kind: "note", note: { ...note, isMade: true } }];
  }
  if (wish.do === "carry_on") return [{ kind: "make" }];
  return seen.isConfirmed ? [STOPPED] : [{ kind: "confirm" }];
}

const STOPPED: Move = { kind: "end", end: { outcome: "stopped" } };

/** What pods show is written down: they may be gone at the next look. */
function learn(note: Note, pods: readonly PodFacts[]): Note {
  const known = { ...note.pods };
  const ends = { ...note.ends };
  let { hasRun = false, hasSaved = false, hasFinished = false } = note;
  for (const { job, uid, stage, end } of pods) {
    known[job] ??= uid;
    if (stage === "running" || (stage === "over" && end?.kind === "exited")) hasRun = true;
    if (known[job] !== uid || end === undefined || ends[job] !== undefined) continue;
    ends[job] = end;
    const word = wordOf(end, note.told !== undefined);
    hasSaved ||= word === "done";
    hasFinished ||= word === "finished";
  }
  const isSame =
    Object.keys(known).length === Object.keys(note.pods ?? {}).length &&
    Object.keys(ends).length === Object.keys(note.ends ?? {}).length &&
    hasRun === (note.hasRun ?? false);
  return isSame ? note : { ...note, pods: known, ends, hasRun, hasSaved, hasFinished };
}

/** Whether it must go, and why. */
function decide(
  names: readonly string[],
  note: Note,
  { pods, saying }: Seen,
  wish: Wish,
  nowMs: number,
  startMsMax: number,
): Note {
  const isEnded = names.every((name) => note.ends?.[name] !== undefined);
  if (wish.do === "checkpoint" && note.told === undefined && !isEnded) return { ...note, told: "checkpoint" };
  const mustStop = wish.do === "stop" || wish.do === "end";
  if (mustStop && note.told !== "stop" && !isEnded) return { ...note, told: "stop" };
  if (isLeaving(note)) return note;
  const second = pods.find(({ job, uid }) => note.pods?.[job] !== uid);
  if (second !== undefined) return { ...note, broken: "its pod was taken away, and another one was made" };
  const deleted = pods.find(({ isDeleted, stage }) => isDeleted && stage !== "over");
  if (deleted !== undefined) return { ...note, broken: "its pod was deleted" };
  const failed = names.find((name) => isFailure(note.ends?.[name]));
  if (failed !== undefined && !isEnded) return { ...note, broken: `its part ${failed} has failed` };
  if (note.hasRun !== true && !isEnded && nowMs - (note.madeAtMs ?? nowMs) > startMsMax)
    return { ...note, gaveUp: whyWaiting(pods) ?? saying ?? "no reason was given" };
  return note;
}

/** By the word of the scheduler or of a node. */
export function whyWaiting(pods: readonly PodFacts[]): string | undefined {
  return pods.find(({ why }) => why !== undefined)?.why;
}

function isLeaving({ told, gaveUp, broken }: Note): boolean {
  return told !== undefined || gaveUp !== undefined || broken !== undefined;
}

function isFailure(end: PodEnd | undefined): boolean {
  return end !== undefined && (end.kind !== "exited" || end.exitCode !== 0);
}

function movesOut(
  note: Note,
  { jobs, isConfirmed }: Seen,
  wish: Wish,
  live: readonly PodFacts[],
  names: readonly string[],
): Move[] {
  const deletions = names
    .filter((name) => jobs.get(name)?.isDeleted === false)
    .map((job): Move => ({ kind: "delete", job }));
  // What is left of several parts need not save: the attempt has failed.
  const isUrgent = wish.do === "stop" || wish.do === "end" || (note.broken !== undefined && names.length > 1);
  const seconds = live.filter(({ job, uid, isDeleted }) => note.pods?.[job] !== uid && !isDeleted);
  if (live.length > 0)
    return [
      ...deletions,
      ...(seconds.length > 0 ? [{ kind: "discard", pods: seconds } as const] : []),
      ...(isUrgent && deletions.length === 0 ? [{ kind: "hurry", pods: live } as const] : []),
    ];
  // A job that is not deleted may still make a pod.
  if (deletions.length > 0) return deletions;
  const isKnown = names.every((name) => note.ends?.[name] !== undefined);
  return isKnown || isConfirmed ? [{ kind: "end", end: endOf(names, note) }] : [{ kind: "confirm" }];
}

function endOf(names: readonly string[], note: Note): StoredEnd["end"] {
  const circumstances = circumstancesOf(note);
  if (note.gaveUp !== undefined && note.hasRun !== true) {
    if (note.told !== undefined) return { outcome: "stopped" };
    const message = `Kubernetes did not start it in time: ${note.gaveUp}`;
    return { outcome: "failed", cause: "start_failed", message };
  }
  // In the order in which they were seen: the first failure is the attempt's (E7), others may have been ended because of it.
  const ends = Object.values(note.ends ?? {});
  const failure = ends.find(isFailure);
  const isCut = note.broken !== undefined && names.length === 1;
  if (isCut && note.told === undefined)
    return { outcome: "lost", message: `Kubernetes ended it: ${note.broken}.` };
  const deciding = failure ?? (ends.length === names.length ? ends[0] : undefined);
  if (deciding !== undefined) return storedEndOf(deciding, circumstances);
  if (note.told !== undefined) return { outcome: "stopped" };
  return { outcome: "lost", message: `Kubernetes ended it: ${note.broken ?? "its pod is gone"}.` };
}

/** Deletion is SIGTERM, so that an exit code of 0 after it is the stop that was asked for (11.4). */
export function circumstancesOf({ told, hasSaved = false, hasFinished = false }: Note): Circumstances {
  return { told: told === undefined ? undefined : "stop", hasSaved, hasFinished };
}
