// Quotas of its own that keep a request waiting: limits of its policy and of the groups above it, and its reserve (G3).

import { isFirmOn } from "../admission.ts";
import { addInto, isUnmeteredWhenMissing } from "../resources.ts";
import type { Group, Policy, Pool, PoolLine } from "../state.ts";

/** What blocks a request, whether or not units are short as well. */
export interface QuotaBlock {
  readonly rule: "limit" | "group_limit" | "reserved";
  readonly group: Group | null;
  readonly keyIndex: number;
  readonly used: number;
  readonly allowed: number;
}

/** Units that holds have set aside: they count as if their waiters ran (V1). */
export class Promises {
  /** In the pool as a whole. */
  readonly claimed: number[];
  /** Made with the first promise: most walks meet no holder. */
  #to: Map<Policy | Group, number[]> | undefined;
  #firmTo: Map<Policy, number[]> | undefined;

  constructor(keyCount: number) {
    this.claimed = new Array<number>(keyCount).fill(0);
  }

  /** So many more waiters of a line are promised units. */
  add(poolLine: PoolLine, count = 1): void {
    const { policy, need } = poolLine;
    this.#to ??= new Map();
    this.#firmTo ??= new Map();
    addInto(this.claimed, need, count);
    addInto(vectorOf(this.#to, policy, need.length), need, count);
    if (poolLine.firm) addInto(vectorOf(this.#firmTo, policy, need.length), need, count);
    for (let group = policy.group; group !== null; group = group.parent) {
      addInto(vectorOf(this.#to, group, need.length), need, count);
    }
  }

  to(holder: Policy | Group, i: number): number {
    return this.#to?.get(holder)?.[i] ?? 0;
  }

  firmTo(policy: Policy, i: number): number {
    return this.#firmTo?.get(policy)?.[i] ?? 0;
  }
}

export const NO_PROMISES: Pick<Promises, "to" | "firmTo"> = new Promises(0);

/**
 * The own limit, group limit or reserve that blocks it. One that is not below the capacity does not count where
 * units are lacking (G3). On nodes they need not be: what runs on nodes that are not ready takes none.
 */
export function quotaBlockOf(
  poolLine: PoolLine,
  promises: Pick<Promises, "to" | "firmTo">,
  hasRoomOnNodes: (poolLine: PoolLine) => boolean,
): QuotaBlock | null {
  const { policy, need, pool } = poolLine;
  for (let i = 0; i < need.length; i++) {
    const amount = need[i] as number;
    if (amount === 0) continue;
    const capacity = pool.capacity[i] as number;
    const used = (policy.usage[i] as number) + promises.to(policy, i);
    const allowed = policy.limit[i] as number;
    if (used + amount > allowed && (allowed < capacity || hasRoomOnNodes(poolLine)))
      return { rule: "limit", group: null, keyIndex: i, used, allowed };
    for (let { group } = policy; group !== null; group = group.parent) {
      const used = (group.usage[i] as number) + promises.to(group, i);
      const allowed = group.limit[i] as number;
      if (used + amount > allowed && (allowed < capacity || hasRoomOnNodes(poolLine)))
        return { rule: "group_limit", group, keyIndex: i, used, allowed };
    }
    if (!isFirmOn(poolLine, i)) continue;
    const firm = (policy.firmUsage[i] as number) + promises.firmTo(policy, i);
    const reserved = policy.reserved[i] as number;
    if (firm + amount > reserved && (reserved < capacity || hasRoomOnNodes(poolLine)))
      return { rule: "reserved", group: null, keyIndex: i, used: firm, allowed: reserved };
  }
  return null;
}

/** Units over the keys of a pool, and those of them that are firm. */
export interface Usage {
  readonly all: readonly number[];
  readonly firm: readonly number[];
}

/** What is left of the component's reserve for it on a key, less what is promised, and without what would be gone. */
export function headroomOf(poolLine: PoolLine, i: number, promised = 0, gone?: Usage): number {
  const { policy } = poolLine;
  const used = isFirmOn(poolLine, i)
    ? (policy.firmUsage[i] as number) - (gone?.firm[i] ?? 0)
    : (policy.usage[i] as number) - (gone?.all[i] ?? 0);
  return Math.max(0, (policy.reserved[i] as number) - used - promised);
}

/** Whether some metered amount exceeds the headroom, if nothing is promised to anybody (G1). */
export function mustBorrow(poolLine: PoolLine): boolean {
  const { need, pool } = poolLine;
  return need.some((amount, i) => amount > headroomOf(poolLine, i) && countsForReserve(pool, i));
}

/** A metered mcpu, memory_mb or step_run that no policy of the pool reserves is left out of account (G1, 8.2). */
export function countsForReserve({ isReserved, keys }: Pool, i: number): boolean {
  return (isReserved[i] as boolean) || !isUnmeteredWhenMissing(keys[i] as string);
}

function vectorOf<Key>(map: Map<Key, number[]>, key: Key, length: number): number[] {
  let vector = map.get(key);
  if (vector === undefined) {
    vector = new Array<number>(length).fill(0);
    map.set(key, vector);
  }
  return vector;
}
