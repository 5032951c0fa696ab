// What a waiter of discipline `priority` may take, whoever it is about (8.1, 8.2).

import { countsForReserve } from "../../scheduling/quotas.ts";
import type { Policy } from "../../state.ts";
import type { VictimSearch } from "../queue/queue-discipline.ts";

/** What the head may do, whoever it is about (8). */
export interface Rights {
  readonly any: boolean;
  /** The short keys that can be anybody's own: what nobody reserves is neither that nor borrowed (8.2). */
  readonly reservable: readonly number[];
  /** It fits its headroom on all of them. */
  readonly fitsReserve: boolean;
}

export function rightsFor(
  { pool, head: { poolLine }, walk }: VictimSearch,
  short: readonly number[],
): Rights {
  const reservable = short.filter((i) => countsForReserve(pool, i));
  const fits = (i: number) => (poolLine.need[i] as number) <= walk.headroom(poolLine, i);
  const fitsReserve = reservable.length > 0 && reservable.every(fits);
  return { any: pool.record.settings.priorityPreempts === "any", reservable, fitsReserve };
}

/** Whether it may take back from a component what that one borrows (8.2). */
export function reclaimsFrom(policy: Policy, { head }: VictimSearch, { any, fitsReserve }: Rights): boolean {
  const waiter = head.poolLine;
  const isOther = policy !== waiter.policy || waiter.firm;
  return fitsReserve && isOther && !(any && waiter.policy.record.priority < policy.record.priority);
}
