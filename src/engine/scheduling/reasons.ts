// Facts that explanations of all disciplines are made of (14): what blocks a request, and who has what it lacks.

import type { VictimSearch } from "../disciplines/queue/queue-discipline.ts";
import type { Blocker, Holder, PoolExplanation } from "../explain.ts";
import type { RequestId } from "../records.ts";
import { compareIds, type Resources, toResources } from "../resources.ts";
import {
  type Group,
  type Policy,
  type Pool,
  type PoolLine,
  type Request,
  type Run,
  runKindsOf,
} from "../state.ts";
import type { Bar, CandidateKind, Permit, Protection, Sparing, SparingBar, Verdict } from "../why.ts";
import type { WhyCode } from "../why-codes.ts";
import type { QuotaBlock } from "./quotas.ts";
import { hasDisplaced, isMature, isShielded } from "./victims.ts";

/** How many runs that hold what is short are named. */
const HOLDERS_NAMED_MAX = 20;

export function blockedByQuota({ pool, need }: PoolLine, quota: QuotaBlock): Blocker {
  const { rule, group, keyIndex, used, allowed } = quota;
  const key = pool.keys[keyIndex] as string;
  const asked = need[keyIndex] as number;
  return { rule, key, asked, used, allowed, group: group?.record.name ?? null };
}

/** Victims that stop for this request, or where others will serve it, whatever is stopping in the pool. */
export function stoppingFor(pool: Pool, request: Request): RequestId[] {
  const stopping = runsOf(pool).filter((run) => run.isStopping);
  const own = stopping.filter((run) => run.request.progress.preemptedFor === request.spec.id);
  return (own.length > 0 ? own : stopping).map((run) => run.request.spec.id);
}

/** Runs that hold what it lacks, the latest first: those that fill its quota, or those that have one of these keys. */
export function holdersFor(
  { pool, policy }: PoolLine,
  blocker: Blocker,
  keys: readonly string[],
): Pick<PoolExplanation, "holders" | "holderCount"> {
  const isQuota = "allowed" in blocker;
  const wanted = new Set((isQuota ? [blocker.key] : keys).map((key) => pool.keys.indexOf(key)));
  const group = isQuota && blocker.group !== null ? pool.groups.get(blocker.group) : undefined;
  const isWithin = ({ poolLine }: Run) => {
    if (!isQuota) return true;
    if (group !== undefined) return isBelow(poolLine.policy, group);
    return poolLine.policy === policy && (blocker.rule !== "reserved" || poolLine.firm);
  };
  const runs = runsOf(pool)
    .filter((run) => run.poolLine.need.some((amount, i) => amount > 0 && wanted.has(i)) && isWithin(run))
    .sort((a, b) => b.token - a.token);
  return { holders: runs.slice(0, HOLDERS_NAMED_MAX).map(describeHolder), holderCount: runs.length };
}

function isBelow(policy: Policy, owner: Group): boolean {
  for (let group = policy.group; group !== null; group = group.parent) if (group === owner) return true;
  return false;
}

/** All that stands in its way at once, what was named first: the others are met when that has gone (Y12). */
export function blockersOf(blocker: Blocker, isShort: boolean, isBehind: boolean): WhyCode[] {
  const all: WhyCode[] = [
    codeOf(blocker),
    ...(isShort ? ["units" as const] : []),
    ...(isBehind ? ["behind" as const] : []),
  ];
  return [...new Set(all)];
}

export function permitted(permit: Permit): Verdict {
  return { permit, bar: null, untilMs: null };
}

export function barred(bar: Bar, untilMs: number | null = null): Verdict {
  return { permit: null, bar, untilMs };
}

/** What keeps everybody off a run, whatever the discipline (V2). */
export function youth(run: Run, nowMs: number): (Verdict & { readonly bar: SparingBar }) | null {
  const { pool, line, sensitive } = run.poolLine;
  if (!line.shape.preemptible) return { permit: null, bar: "not_preemptible", untilMs: null };
  if (sensitive) return { permit: null, bar: "sensitive", untilMs: null };
  if (isMature(run, pool, nowMs)) return null;
  return { permit: null, bar: "too_young", untilMs: run.startedAtMs + pool.record.settings.minRuntimeMs };
}

/** Of two that are alike otherwise, the latest is taken first. */
export function startedEarlier(run: Run, victim: Run, rule: "8.3" | "9.8" | "10.5"): Sparing | null {
  if (run.token > victim.token) return null;
  return { why: "started_earlier", rule, theirsAtMs: run.startedAtMs, victimsAtMs: victim.startedAtMs };
}

/** What is permitted otherwise is not if it, or something it displaced, has displaced the waiter (V6). */
export function guardOr(
  { state, head }: Pick<VictimSearch, "state"> & { readonly head: { readonly request: Request } },
  run: Run,
  verdict: Verdict,
): Verdict {
  if (verdict.permit === null) return verdict;
  return hasDisplaced(state, run.request.spec.id, head.request.spec.id) ? barred("guarded") : verdict;
}

/** What protects a run from everybody, and for how long (V2, V6). */
export function commonProtection(run: Run, nowMs: number): Protection[] {
  const { pool, line, sensitive } = run.poolLine;
  const { minRuntimeMs } = pool.record.settings;
  return [
    ...(line.shape.preemptible ? [] : [{ by: "not_preemptible" as const }]),
    ...(sensitive ? [{ by: "sensitive" as const }] : []),
    ...(isMature(run, pool, nowMs)
      ? []
      : [{ by: "min_runtime" as const, untilMs: run.startedAtMs + minRuntimeMs }]),
    ...(isShielded(run.kind, nowMs) ? [{ by: "shield" as const, untilMs: run.kind.shieldEndsAtMs }] : []),
  ];
}

/** Runs that are not stopping and hold one of these keys. */
export function* runsHolding(pool: Pool, keys: readonly number[]): Generator<Run> {
  for (const { poolLine, runs } of runKindsOf(pool)) {
    if (keys.some((i) => (poolLine.need[i] as number) > 0)) yield* runs;
  }
}

/** Runs by what matters about them and by the verdict on them, in a fixed order. */
export function candidateKinds(
  judged: Iterable<readonly [Run, Verdict]>,
  costOf: ((run: Run) => number) | null,
): CandidateKind[] {
  const kinds = new Map<string, CandidateKind>();
  for (const [run, verdict] of judged) {
    const { policy, line, preemptionClass } = run.poolLine;
    const { component, priority } = policy.record;
    const { resources } = line.shape;
    const key = JSON.stringify([component, preemptionClass, resources, verdict.permit ?? verdict.bar]);
    const known = kinds.get(key);
    const own = costOf?.(run) ?? null;
    const cost = own === null ? null : Math.min(own, known?.cost ?? own);
    kinds.set(key, {
      ...{ component, priority, preemptionClass, resources, cost },
      count: (known?.count ?? 0) + 1,
      verdict: known === undefined ? verdict : soonerOf(known.verdict, verdict),
    });
  }
  return [...kinds]
    .sort(([a, { count: x }], [b, { count: y }]) => y - x || compareIds(a, b))
    .map(([, kind]) => kind);
}

/** Of a kind the first is named whose protection ends. */
function soonerOf(a: Verdict, b: Verdict): Verdict {
  return (b.untilMs ?? Number.POSITIVE_INFINITY) < (a.untilMs ?? Number.POSITIVE_INFINITY) ? b : a;
}

/** In one word. */
export function codeOf({ rule }: Blocker): WhyCode {
  switch (rule) {
    case "holds":
      return "held";
    case "holds_elsewhere":
      return "held_elsewhere";
    case "behind_head":
      return "behind";
    default:
      return rule;
  }
}

function runsOf(pool: Pool): Run[] {
  return [...pool.policies.values()].flatMap((policy) => [...policy.runs]);
}

function describeHolder({ request, poolLine, isStopping, startedAtMs, endMs }: Run): Holder {
  return {
    requestId: request.spec.id,
    component: request.spec.component,
    units: positiveOf(poolLine.need, poolLine.pool),
    preemptible: request.spec.preemptible,
    isStopping,
    startedAtMs,
    endsAtMs: endMs === Number.POSITIVE_INFINITY ? null : endMs,
  };
}

export function positiveOf(amounts: readonly number[], { keys }: Pool): Resources {
  return Object.fromEntries(Object.entries(toResources(amounts, keys)).filter(([, amount]) => amount > 0));
}
