// The order of a pool's queue in discipline `class` (10.6), and how long it lasts.

import { mainKeyIndex } from "../../placement/node-index.ts";
import type { PolicyKind } from "../../records.ts";
import type { ScoreWeights } from "../../settings.ts";
import type { PoolLine } from "../../state.ts";
import type { Waiter } from "../discipline.ts";
import { checkpointMs } from "./cost.ts";
import { ln } from "./ln.ts";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

const WEIGHTS: Readonly<Record<PolicyKind, ScoreWeights>> = {
  batch: { class: 0.15, wait: 0.2, share: 0.2, checkpoint: 0.05 },
  training: { class: 0.1, wait: 0.1, share: 0.1, checkpoint: 0.15 },
  service: { class: 0.15, wait: 0.05, share: 0.1, checkpoint: 0.1 },
  sensitive: { class: 0.9, wait: 0, share: 0, checkpoint: 0 },
  interactive: { class: 0.1, wait: 0.3, share: 0.1, checkpoint: 0 },
};

/** Sensitive claims, then who fits its headroom, then class or band; then score, then submission. */
export function rankOf({ sensitive, preemptionClass, pool }: PoolLine, borrows: boolean): number[] {
  return [
    Number(!sensitive),
    Number(borrows),
    -rankOfClass(preemptionClass, pool.record.settings.classBands),
  ];
}

/** Those with equal weights of waiting, and equal scores but for that, never overtake each other. */
export function standingIn(poolLine: PoolLine): string {
  const weights = weightsOf(poolLine);
  return `${weights.wait} ${standingScore(poolLine, weights)}`;
}

/** Classes 0 · 1–3 · 4–6 · 7–9 · 10 are one band each where a pool says so (10.1). */
export function rankOfClass(preemptionClass: number, classBands: boolean): number {
  return classBands ? Math.ceil(preemptionClass / 3) : preemptionClass;
}

/** Higher classes, or bands, of a pool first. */
export function byClass(a: PoolLine, b: PoolLine): number {
  const { classBands } = a.pool.record.settings;
  return rankOfClass(b.preemptionClass, classBands) - rankOfClass(a.preemptionClass, classBands);
}

/** In whole millionths, so that scores compare the same on every machine; most waiters can be ordered without it. */
export function scoreOf(waiter: Waiter, nowMs: number): number {
  if (!Number.isNaN(waiter.score)) return waiter.score;
  const weights = weightsOf(waiter.poolLine);
  const waited = weights.wait * ln(1 + hoursWaited(waiter, nowMs));
  waiter.score = Math.round((standingScore(waiter.poolLine, weights) + waited) * 1e6);
  return waiter.score;
}

function weightsOf({ pool, policy }: PoolLine): ScoreWeights {
  return pool.record.settings.scoreWeights ?? WEIGHTS[policy.record.kind];
}

/** The part of the score that time does not move. */
function standingScore(poolLine: PoolLine, weights: ScoreWeights): number {
  const { policy, pool, line } = poolLine;
  const main = mainKeyIndex(pool);
  const target = main < 0 ? 0 : (policy.reserved[main] as number);
  const missing = target === 0 ? 0 : Math.max(0, target - (policy.usage[main] as number)) / target;
  const canSave = line.shape.checkpoint !== "none";
  const quickness = canSave ? 1 / (1 + checkpointMs(poolLine) / MINUTE_MS) : 0;
  const byClass = (weights.class * poolLine.preemptionClass) / 10;
  return byClass + weights.share * missing + weights.checkpoint * quickness;
}

/** Scores further apart than this, in millionths, differ however both are rounded. */
const ROUNDING_MAX = 2;

/**
 * Until when time alone cannot put `behind` before `ahead`; a moment that is too early costs a look, no more.
 *
 * The distance of two scores is D + v·ln(1+a) − w·ln(1+b), with a and b the hours waited and v and w the weights
 * of `ahead` and `behind`. It shrinks at no more than `rate` per hour from now on, so it takes at least
 * distance ÷ rate until they meet.
 */
export function orderHoldsUntil(ahead: Waiter, behind: Waiter, nowMs: number): number {
  const never = Number.POSITIVE_INFINITY;
  if (!isSameRank(ahead, behind) || neverOvertakes(ahead, behind)) return never;
  const distance = (scoreOf(ahead, nowMs) - scoreOf(behind, nowMs) - ROUNDING_MAX) / 1e6;
  if (distance <= 0) return nowMs + 1;
  const v = weightsOf(ahead.poolLine).wait;
  const w = weightsOf(behind.poolLine).wait;
  const a = 1 + hoursWaited(ahead, nowMs);
  const b = 1 + hoursWaited(behind, nowMs);
  const slope = (w * a - v * b) / (a * b);
  const rate = w <= v ? slope : Math.min(w / b, Math.max(0, slope) + (w - v) / b);
  return rate <= 0 ? never : Math.max(nowMs + 1, Math.floor(nowMs + (distance / rate) * HOUR_MS));
}

/** Only those whom nothing but the score tells apart can change places as time passes. */
function isSameRank(a: Waiter, b: Waiter): boolean {
  return (
    a.poolLine.sensitive === b.poolLine.sensitive &&
    a.borrows === b.borrows &&
    byClass(a.poolLine, b.poolLine) === 0
  );
}

/** A request that asked no later, with no less to its credit and the same weight of waiting, stays ahead for ever. */
function neverOvertakes(ahead: Waiter, behind: Waiter): boolean {
  const weights = weightsOf(ahead.poolLine);
  const others = weightsOf(behind.poolLine);
  if (weights.wait !== others.wait) return false;
  const [own, other] = [ahead.request.progress, behind.request.progress];
  if (own.submittedAtMs > other.submittedAtMs) return false;
  const lead = standingScore(ahead.poolLine, weights) - standingScore(behind.poolLine, others);
  return lead * 1e6 > ROUNDING_MAX || (lead >= 0 && own.seq < other.seq);
}

function hoursWaited({ request }: Waiter, nowMs: number): number {
  return (nowMs - request.progress.submittedAtMs) / HOUR_MS;
}
