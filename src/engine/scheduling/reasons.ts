// Facts that explanations of all disciplines are made of (14): what blocks a request, and who has what it lacks.

import type { Blocker, Holder, PoolExplanation } from "../explain.ts";
import type { RequestId } from "../records.ts";
import { type Resources, toResources } from "../resources.ts";
import type { Pool, PoolLine, Request, Run } from "../state.ts";
import type { QuotaBlock } from "./quotas.ts";

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

/** Runs that hold what is short, the latest first. */
export function describeHolders(
  pool: Pool,
  keys: readonly string[],
): Pick<PoolExplanation, "holders" | "holderCount"> {
  const short = new Set(keys.map((key) => pool.keys.indexOf(key)));
  const runs = runsOf(pool)
    .filter((run) => run.poolLine.need.some((amount, i) => amount > 0 && short.has(i)))
    .sort((a, b) => b.token - a.token);
  return { holders: runs.slice(0, HOLDERS_NAMED_MAX).map(describeHolder), holderCount: runs.length };
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
