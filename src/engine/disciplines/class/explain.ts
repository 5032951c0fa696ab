// How discipline `class` explains itself (14): the parts of its order, who may be taken for whom by which rule, and what
// the cheapest choice would cost.

import { commonProtection, startedEarlier, youth } from "../../scheduling/reasons.ts";
import { BorrowLines } from "../../scheduling/victims.ts";
import type { Run } from "../../state.ts";
import type { Bar, PreemptionFact, Protection, Sparing } from "../../why.ts";
import type { Victim, Waiter } from "../discipline.ts";
import type { OrderPart, VictimSearch } from "../queue/queue-discipline.ts";
import { type Field, NO_BOUNDS } from "../queue/victims.ts";
import { totalMs } from "./choice.ts";
import { costMsOf, isNearCompletion, shownCost } from "./cost.ts";
import { choose } from "./on-nodes.ts";
import { byClass, rankOfClass } from "./score.ts";

/** 10.6, but for the score. */
export function orderParts({ poolLine, borrows }: Waiter): OrderPart[] {
  const { sensitive, preemptionClass, pool } = poolLine;
  const { classBands } = pool.record.settings;
  const rule = "10.6";
  return [
    { part: "sensitive", value: Number(sensitive), rule },
    { part: "reserve", value: Number(!borrows), rule },
    { part: classBands ? "band" : "class", value: rankOfClass(preemptionClass, classBands), rule },
  ];
}

/** Why no rule permits to take a run (10.1, 10.3). */
export function barsFor({ head }: VictimSearch): (run: Run) => Bar {
  const waiter = head.poolLine;
  const lines = new BorrowLines();
  return (run) => {
    const { policy, line, preemptionClass } = run.poolLine;
    const isLower = byClass(run.poolLine, waiter) > 0;
    if (policy.record.kind === "service" && (waiter.sensitive || isLower) && !borrowsReserved(lines, run))
      return "service";
    if (!isLower) return "class_not_lower";
    return line.shape.checkpoint === "none" && preemptionClass >= 7 ? "no_checkpoint" : "in_share";
  };
}

/** What keeps everybody off a run (V2, 10.2). */
export function keptOff(run: Run, nowMs: number): ReturnType<typeof youth> {
  const young = youth(run, nowMs);
  const isTop = (young === null || young.bar === "too_young") && run.poolLine.preemptionClass === 10;
  return isTop ? { permit: null, bar: "top_class", untilMs: null } : young;
}

/** Something that it holds on a key that somebody reserves (10.1). */
function borrowsReserved(lines: BorrowLines, run: Run): boolean {
  return run.poolLine.pool.isReserved.some((isReserved, i) => isReserved && lines.borrows(run, i));
}

/** The choice that the bounds of 10.5 forbid; null: without them there is none either. */
export function explainBounds(field: Field): PreemptionFact | null {
  const free = { ...field, bounds: NO_BOUNDS };
  const chosen = choose(free);
  if (chosen === null) return null;
  const { victimsMax, costMsMax } = field.bounds;
  return {
    why: "too_dear",
    victims: chosen.victims.length,
    victimsMax,
    cost: shownCost(totalMs(chosen.victims)),
    value: shownCost(costMsMax),
  };
}

/** What 10.2 and 10.3 say about a run, whoever asks. */
export function protectionOf(run: Run, nowMs: number): Protection[] {
  const { policy, line, preemptionClass, sensitive } = run.poolLine;
  const borrows = borrowsReserved(new BorrowLines(), run);
  return [
    ...commonProtection(run, nowMs),
    ...(preemptionClass === 10 && !sensitive ? [{ by: "top_class" as const }] : []),
    ...(isNearCompletion(run, nowMs) ? [{ by: "near_completion" as const, untilMs: run.endMs }] : []),
    ...(line.shape.checkpoint === "none" && preemptionClass >= 7 ? [{ by: "no_checkpoint" as const }] : []),
    ...(policy.record.kind === "service" && !borrows ? [{ by: "service" as const }] : []),
    ...(borrows ? [] : [{ by: "own_reserve" as const }]),
  ];
}

/** By class, then by cost, then the later start (10.5), as of the moment when they were told to stop. */
export function byVictimOrder(a: Run, b: Run): number {
  const costOf = (run: Run) =>
    costMsOf(run, run.request.progress.allocation?.stop?.toldAtMs ?? run.startedAtMs);
  return (
    a.poolLine.preemptionClass - b.poolLine.preemptionClass || costOf(a) - costOf(b) || b.token - a.token
  );
}

/** Lower class goes first, then who costs less, then the latest (10.5). */
export function sparedBy(run: Run, { run: victim, toldAtMs }: Victim): Sparing | null {
  const kept = keptOff(run, toldAtMs);
  if (kept !== null) return { why: "barred", bar: kept.bar };
  const [theirs, victims] = [run.poolLine.preemptionClass, victim.poolLine.preemptionClass];
  if (theirs !== victims)
    return theirs < victims ? null : { why: "higher_class", rule: "10.5", theirs, victims };
  const [cost, own] = [costThen(run, toldAtMs), costThen(victim, toldAtMs)];
  if (cost === null || own === null || cost < own) return null;
  if (cost === own) return startedEarlier(run, victim, "10.5");
  return { why: "higher_cost", rule: "10.5", theirs: shownCost(cost), victims: shownCost(own) };
}

/** What a run cost at a moment; null: what it has saved since then hides it (10.4). */
function costThen(run: Run, atMs: number): number | null {
  const { spec, progress } = run.request;
  const isKnown = spec.checkpoint !== "none" || (progress.lastCheckpointAtMs ?? 0) <= atMs;
  return isKnown ? costMsOf(run, atMs) : null;
}
