// How discipline `class` explains itself (14): the parts of its order, who may be taken for whom by which rule, and what
// the cheapest choice would cost.

import {
  barred,
  commonProtection,
  guardOr,
  permitted,
  startedEarlier,
  youth,
} from "../../scheduling/reasons.ts";
import { BorrowLines, isShielded, shortKeys } from "../../scheduling/victims.ts";
import type { Run } from "../../state.ts";
import type { Permit, PreemptionFact, Protection, Sparing, Verdict } from "../../why.ts";
import type { Victim, Waiter } from "../discipline.ts";
import type { OrderPart, VictimSearch } from "../queue/queue-discipline.ts";
import { isNearCompletion, judgeFor, type Permission, withoutShields } from "./candidates.ts";
import { chooseBySum, type Field, totalMs } from "./choice.ts";
import { costMsOf, shownCost, worthMsOf } from "./cost.ts";
import { chooseOnNodes } from "./on-nodes.ts";
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

/** Whether a run that holds something short may be taken (V2, V6, 10.1–10.5, G4), or the one rule that forbids it. */
export function verdictsFor(search: VictimSearch): (run: Run) => Verdict {
  const { head, nowMs } = search;
  const valueMs = worthMsOf(head.poolLine, head.request);
  const permitFor = permitsFor(search);
  return (run) => {
    const young = youth(run, nowMs);
    if (young !== null && young.bar !== "too_young") return young;
    if (run.poolLine.preemptionClass === 10) return barred("top_class");
    if (young !== null) return young;
    if (isNearCompletion(run, nowMs)) return barred("near_completion", run.endMs);
    const verdict = permitFor(run);
    if (verdict.permit === "class" && costMsOf(run, nowMs) >= valueMs)
      return guardOr(search, run, barred("costs_too_much"));
    return guardOr(search, run, verdict);
  };
}

/** By class, reclaim, as a sensitive claim, or since it fills a gap (10.1–10.3); a shield keeps off class and gaps only. */
function permitsFor(search: VictimSearch): (run: Run) => Verdict {
  const { head, nowMs } = search;
  const waiter = head.poolLine;
  const lines = new BorrowLines();
  const judge = judgeFor(withoutShields(search), shortKeys(search.shortage));
  return (run) => {
    const { policy, line, preemptionClass } = run.poolLine;
    const permission = judge(run.kind);
    const permits = typeof permission === "string" ? [] : permitsOf(run, permission);
    const shielded = isShielded(run.kind, nowMs);
    const permit = permits.find((each) => !shielded || each === "sensitive_claim" || each === "reclaim");
    if (permit !== undefined) return permitted(permit);
    if (permits.length > 0) return barred("shielded", run.kind.shieldEndsAtMs);
    const isLower = byClass(run.poolLine, waiter) > 0;
    if (policy.record.kind === "service" && (waiter.sensitive || isLower) && !borrowsReserved(lines, run))
      return barred("service");
    if (!isLower) return barred("class_not_lower");
    return barred(line.shape.checkpoint === "none" && preemptionClass >= 7 ? "no_checkpoint" : "in_share");
  };
}

/** All by which a run may be taken, in the order in which a decision names one of them. */
function permitsOf({ token }: Run, permission: Permission): Permit[] {
  const permits: Permit[] = [];
  if (token >= permission.sensitiveFrom) permits.push("sensitive_claim");
  if (token >= permission.classFrom) permits.push("class");
  if (token >= permission.reclaimFrom) permits.push("reclaim");
  if (token >= permission.gapFrom) permits.push("gap");
  return permits;
}

/** Something that it holds on a key that somebody reserves (10.1). */
function borrowsReserved(lines: BorrowLines, run: Run): boolean {
  return run.poolLine.pool.isReserved.some((isReserved, i) => isReserved && lines.borrows(run, i));
}

const VICTIMS_MAX = 3;

export function fieldOf(search: VictimSearch): Field {
  const { pool, head } = search;
  const short = shortKeys(search.shortage);
  return {
    search,
    short,
    judge: judgeFor(search, short),
    victimsMax: pool.record.settings.maxVictims ?? VICTIMS_MAX,
    valueMs: worthMsOf(head.poolLine, head.request),
  };
}

/** The choice that the bounds of 10.5 forbid; null: without them there is none either. */
export function explainBounds(search: VictimSearch): PreemptionFact | null {
  const field = fieldOf(search);
  const free = { ...field, victimsMax: Number.POSITIVE_INFINITY, valueMs: Number.POSITIVE_INFINITY };
  const victims =
    search.head.poolLine.ask === null ? chooseBySum(free) : (chooseOnNodes(free)?.victims ?? null);
  if (victims === null) return null;
  return {
    why: "too_dear",
    victims: victims.length,
    victimsMax: field.victimsMax,
    cost: shownCost(totalMs(victims)),
    value: shownCost(field.valueMs),
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
  const young = youth(run, toldAtMs);
  if (young !== null && young.bar !== "too_young") return { why: "barred", bar: young.bar };
  const [theirs, victims] = [run.poolLine.preemptionClass, victim.poolLine.preemptionClass];
  if (theirs === 10) return { why: "barred", bar: "top_class" };
  if (young !== null) return { why: "barred", bar: young.bar };
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
