// What a preemption costs and what it is worth (10.4, 10.5): exact, and fast where nobody could tell the difference.
//
// Both are counted in milliseconds of work. The only part that is not a whole number is the percentage of a
// walltime. Plain numbers tell two sums apart unless they are all but equal; then fractions decide.

import type { PoolLine, Request, Run } from "../../state.ts";

const MINUTE_MS = 60_000;
const AUTO_CHECKPOINT_MS = 5 * MINUTE_MS;
const UNKNOWN_WALLTIME_MS = 60 * MINUTE_MS;
const NEARLY_DONE_MS = 1000 * MINUTE_MS;

/** Sums of numbers are off by far less than this part of them. */
const ROUNDING = 1e-12;
/** Whole numbers up to this one add up without rounding. */
const EXACT_MAX = 1e14;

/** A run with its price. */
export interface Priced {
  readonly run: Run;
  readonly costMs: number;
  /** Whether `costMs` is the exact cost. */
  readonly isExact: boolean;
}

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
export function costOf(run: Run, nowMs: number): Omit<Priced, "run"> {
  const { poolLine } = run;
  const remaining = remainingValue(run, nowMs);
  const wholeMs = checkpointMs(poolLine) + unsavedMs(run, nowMs) * sizeOf(poolLine) + remaining.wholeMs;
  const percentMs = remaining.isPercentage ? (usedMs(run, nowMs) / walltimeMs(run)) * 100 * MINUTE_MS : 0;
  return { costMs: wholeMs + percentMs, isExact: !remaining.isPercentage && wholeMs <= EXACT_MAX };
}

/** The least that a run of this kind costs if it began no later than this one; a whole number. */
export function leastCostSince(run: Run, nowMs: number): number {
  const { poolLine, kind } = run;
  const isLost = poolLine.line.shape.checkpoint === "none" && !kind.hasCheckpoint;
  const lostMs = isLost ? usedMs(run, nowMs) * sizeOf(poolLine) : 0;
  return checkpointMs(poolLine) + lostMs + (kind.hasWalltime ? MINUTE_MS : 0);
}

/** Work that no checkpoint saves; the others save theirs when they are asked to. */
function unsavedMs(run: Run, nowMs: number): number {
  if (run.poolLine.line.shape.checkpoint !== "none") return 0;
  return nowMs - Math.max(run.startedAtMs, run.request.progress.lastCheckpointAtMs ?? run.startedAtMs);
}

/** Nodes × GPUs per node: how much work a minute is. */
function sizeOf({ line }: PoolLine): number {
  return line.shape.nodes * gpusPerNode(line.shape.resources);
}

function gpusPerNode(resources: Request["spec"]["resources"]): number {
  return Math.max(1, Object.hasOwn(resources, "gpu") ? (resources.gpu as number) : 0);
}

function remainingValue(run: Run, nowMs: number): { wholeMs: number; isPercentage: boolean } {
  if (run.endMs === Number.POSITIVE_INFINITY) return { wholeMs: 0, isPercentage: false };
  const used = usedMs(run, nowMs);
  const walltime = walltimeMs(run);
  if (used * 10 >= walltime * 9) return { wholeMs: NEARLY_DONE_MS, isPercentage: false };
  if (used * 10 < walltime) return { wholeMs: MINUTE_MS, isPercentage: false };
  return { wholeMs: 0, isPercentage: true };
}

function usedMs(run: Run, nowMs: number): number {
  return nowMs - run.startedAtMs;
}

function walltimeMs(run: Run): number {
  return run.request.spec.walltimeMs as number;
}

/** What starting a request is worth, as factors: class × nodes × GPUs per node × expected time (10.5). */
export function worthOf({ line, preemptionClass }: PoolLine, { spec }: Request): readonly number[] {
  return [
    preemptionClass,
    line.shape.nodes,
    gpusPerNode(line.shape.resources),
    spec.walltimeMs ?? UNKNOWN_WALLTIME_MS,
  ];
}

export function product(factors: readonly number[]): number {
  return factors.reduce((all, factor) => all * factor, 1);
}

/** Which set costs less: negative if `a` does. */
export function compareCosts(a: readonly Priced[], b: readonly Priced[], nowMs: number): number {
  const difference = totalMs(a) - totalMs(b);
  if (isTelling(difference, totalMs(a) + totalMs(b)) || (isExact(a) && isExact(b))) return difference;
  return compareFractions(exactTotal(a, nowMs), exactTotal(b, nowMs));
}

export function costsLessThan(set: readonly Priced[], value: readonly number[], nowMs: number): boolean {
  const difference = totalMs(set) - product(value);
  if (isTelling(difference, totalMs(set) + product(value))) return difference < 0;
  const exactValue = value.reduce((all, factor) => all * BigInt(factor), 1n);
  return compareFractions(exactTotal(set, nowMs), { over: exactValue, under: 1n }) < 0;
}

/** Whether `more` certainly exceeds `less`, both being sums of costs. */
export function isClearlyMore(more: number, less: number): boolean {
  return more > less && isTelling(more - less, more + less);
}

function isTelling(difference: number, sum: number): boolean {
  return Math.abs(difference) > sum * ROUNDING;
}

export function totalMs(set: readonly Priced[]): number {
  let total = 0;
  for (const { costMs } of set) total += costMs;
  return total;
}

function isExact(set: readonly Priced[]): boolean {
  return set.length <= 64 && set.every((one) => one.isExact);
}

interface Fraction {
  readonly over: bigint;
  readonly under: bigint;
}

function exactTotal(set: readonly Priced[], nowMs: number): Fraction {
  return set.map(({ run }) => exactCost(run, nowMs)).reduce(plus, { over: 0n, under: 1n });
}

function exactCost(run: Run, nowMs: number): Fraction {
  const { poolLine } = run;
  const { nodes, resources } = poolLine.line.shape;
  const lost = BigInt(unsavedMs(run, nowMs)) * BigInt(nodes) * BigInt(gpusPerNode(resources));
  const { wholeMs, isPercentage } = remainingValue(run, nowMs);
  const whole = { over: BigInt(checkpointMs(poolLine) + wholeMs) + lost, under: 1n };
  if (!isPercentage) return whole;
  const percent = BigInt(usedMs(run, nowMs)) * BigInt(100 * MINUTE_MS);
  return plus(whole, { over: percent, under: BigInt(walltimeMs(run)) });
}

function plus(a: Fraction, b: Fraction): Fraction {
  return a.under === b.under
    ? { over: a.over + b.over, under: a.under }
    : { over: a.over * b.under + b.over * a.under, under: a.under * b.under };
}

function compareFractions(a: Fraction, b: Fraction): number {
  const difference = a.over * b.under - b.over * a.under;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}
