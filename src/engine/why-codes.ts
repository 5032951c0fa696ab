// Why each of many requests waits, in one word, at the cost of one look at each line: lists show it, explanations say more.

import { disciplineOf } from "./disciplines/disciplines.ts";
import type { PoolName, RequestId } from "./records.ts";
import { Promises, quotaBlockOf } from "./scheduling/quotas.ts";
import { type EngineState, freeOf, type Pool, type PoolLine, type Request, requirePool } from "./state.ts";

/**
 * `limit`, `group_limit`, `reserved`: its own quota (G3); `held`: units are promised to it, here or in another pool (V5);
 * `units`: they are short; `behind`: there would be some, but somebody before it waits for them (G4).
 */
export type WhyCode = "units" | "behind" | "limit" | "group_limit" | "reserved" | "held" | "held_elsewhere";

/** Good as long as the state is as it is. */
export interface WhyCodes {
  of(requestId: RequestId): WhyCode;
  counts(): Partial<Record<WhyCode, number>>;
}

export function whyCodesOf(state: EngineState, name: PoolName, nowMs: number): WhyCodes {
  const pool = requirePool(state, name);
  const promises = new Promises(pool.keys.length);
  for (const { line } of pool.promised) promises.add(line.pools.get(name) as PoolLine);
  const known = new Map<PoolLine, WhyCode>();
  let head: PoolLine | null | undefined;

  function ofLine(poolLine: PoolLine): WhyCode {
    const code = known.get(poolLine) ?? judge(poolLine);
    known.set(poolLine, code);
    return code;
  }

  function judge(poolLine: PoolLine): WhyCode {
    const quota = quotaOf(poolLine);
    if (quota !== undefined) return quota;
    const isShort = poolLine.need.some(
      (amount, i) => amount > 0 && amount > freeOf(pool, i) - (promises.claimed[i] as number),
    );
    if (isShort) return "units";
    // Where nothing is short on the whole, no node may have room; of the head that is certain, since it waits.
    head ??= headOf(state, pool, nowMs, quotaOf);
    return poolLine === head ? "units" : "behind";
  }

  function quotaOf(poolLine: PoolLine): WhyCode | undefined {
    return quotaBlockOf(poolLine, promises, () => false)?.rule;
  }

  return {
    of(requestId) {
      const request = state.requests.get(requestId) as Request;
      const { hold } = request.progress;
      if (hold !== null) return hold.pool === name ? "held" : "held_elsewhere";
      return ofLine(request.line.pools.get(name) as PoolLine);
    },
    counts() {
      const counts: Partial<Record<WhyCode, number>> = {};
      const add = (code: WhyCode, count: number) => {
        if (count > 0) counts[code] = (counts[code] ?? 0) + count;
      };
      for (const poolLine of pool.waiting) add(ofLine(poolLine), poolLine.line.members.size);
      add("held", pool.promised.size);
      add("held_elsewhere", pool.passers.size);
      return counts;
    },
  };
}

/** The line of the first that waits for units; null: nobody does. */
function headOf(
  state: EngineState,
  pool: Pool,
  nowMs: number,
  quotaOf: (poolLine: PoolLine) => WhyCode | undefined,
): PoolLine | null {
  for (const { line, progress } of disciplineOf(pool).queue(state, pool, nowMs)) {
    const poolLine = line.pools.get(pool.record.name);
    if (progress.hold === null && poolLine !== undefined && quotaOf(poolLine) === undefined) return poolLine;
  }
  return null;
}

/** Since when the request waits that has waited longest in a pool; null: nobody does. */
export function oldestWaitOf(state: EngineState, name: PoolName): number | null {
  const pool = requirePool(state, name);
  let oldestMs = Number.POSITIVE_INFINITY;
  const look = ({ progress }: Request) => {
    oldestMs = Math.min(oldestMs, progress.queuedAtMs);
  };
  // Members of a line stand in the order of their submission; who came back into it has waited less.
  for (const { line } of pool.waiting) look(line.members.first() as Request);
  for (const request of pool.promised) look(request);
  for (const request of pool.passers) look(request);
  return oldestMs === Number.POSITIVE_INFINITY ? null : oldestMs;
}
