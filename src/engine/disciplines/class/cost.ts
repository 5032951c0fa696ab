// What it costs to stop a run, and what it is worth to start a request (10.4, 10.5), in milliseconds of work.

import type { PoolLine, Request, Run, RunKind } from "../../state.ts";

const MINUTE_MS = 60_000;
const AUTO_CHECKPOINT_MS = 5 * MINUTE_MS;
const UNKNOWN_WALLTIME_MS = 60 * MINUTE_MS;
const HARDLY_BEGUN_MS = MINUTE_MS;
const NEARLY_DONE_MS = 1000 * MINUTE_MS;

/** How long a checkpoint takes, as far as anyone can tell. */
export function checkpointMs({ line, pool }: PoolLine): number {
  switch (line.shape.checkpoint) {
    case "none":
      return 0;
    case "auto":
      return line.shape.checkpointMs ?? AUTO_CHECKPOINT_MS;
    case "manual":
      return pool.record.settings.checkpointTimeoutMs;
  }
}

/** What stopping a run now would cost (10.4). */
export function costMsOf(run: Run, nowMs: number): number {
  const { poolLine, startedAtMs, endMs, request } = run;
  const savedAtMs = Math.max(startedAtMs, request.progress.lastCheckpointAtMs ?? startedAtMs);
  const remainingMs =
    endMs === Number.POSITIVE_INFINITY ? 0 : remainingValueMs(run, endMs - startedAtMs, nowMs);
  return checkpointMs(poolLine) + lostWorkMs(poolLine, nowMs - savedAtMs) + remainingMs;
}

/** The least that runs of the same price cost that began no later than this one, if the longest walltime is given. */
export function leastCostMsSince(run: Run, walltimeMsMax: number, nowMs: number): number {
  const { poolLine, kind } = run;
  const lostMs = kind.hasCheckpoint ? 0 : lostWorkMs(poolLine, nowMs - run.startedAtMs);
  const remainingMs = kind.hasWalltime ? remainingValueMs(run, walltimeMsMax, nowMs) : 0;
  return checkpointMs(poolLine) + lostMs + remainingMs;
}

/** The same for all runs of a class that cost the same but for their start and walltime. */
export function priceKeyOf({ poolLine, hasWalltime, hasCheckpoint }: Omit<RunKind, "priceKey">): string {
  const { preemptionClass, line } = poolLine;
  const { checkpoint, checkpointMs: saving } = line.shape;
  const size = checkpoint === "none" ? sizeOf(line.shape) : 0;
  return `${preemptionClass} ${checkpoint} ${saving} ${size} ${hasWalltime} ${hasCheckpoint}`;
}

/** Work that no checkpoint saves; the others save theirs when they are asked to. */
function lostWorkMs({ line }: PoolLine, sinceMs: number): number {
  return line.shape.checkpoint === "none" ? sinceMs * sizeOf(line.shape) : 0;
}

/** Nodes × GPUs per node: how much work a minute is. */
function sizeOf({ nodes, resources }: Request["spec"]): number {
  return nodes * Math.max(1, Object.hasOwn(resources, "gpu") ? (resources.gpu as number) : 0);
}

/** A minute for every percent of the walltime that is used up, but for its first and last tenth. */
function remainingValueMs({ startedAtMs }: Run, walltimeMs: number, nowMs: number): number {
  const usedMs = nowMs - startedAtMs;
  if (usedMs * 10 >= walltimeMs * 9) return NEARLY_DONE_MS;
  if (usedMs * 10 < walltimeMs) return HARDLY_BEGUN_MS;
  return (usedMs * 100 * MINUTE_MS) / walltimeMs; // Multiplied first, so that equal parts are equal numbers.
}

/** So close to the end of a long walltime that it is left to finish (10.3). */
export function isNearCompletion({ poolLine, endMs, startedAtMs }: Run, nowMs: number): boolean {
  const { nearCompletionMs } = poolLine.pool.record.settings;
  return (
    endMs < Number.POSITIVE_INFINITY &&
    endMs - nowMs <= nearCompletionMs &&
    endMs - startedAtMs > 2 * nearCompletionMs
  );
}

/** What starting a request is worth: class × nodes × GPUs per node × expected time (10.5). */
export function worthMsOf({ line, preemptionClass }: PoolLine, { spec }: Request): number {
  return preemptionClass * sizeOf(line.shape) * (spec.walltimeMs ?? UNKNOWN_WALLTIME_MS);
}

/** Costs and values are shown in hundredths of a minute. */
export function shownCost(ms: number): number {
  return Math.round(ms / 600);
}
