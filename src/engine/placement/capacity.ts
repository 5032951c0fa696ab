// What a pool has, what a line asks of it, and whether it could ever hold that. A quota pool has no places, so
// there everything is a sum; a node-backed pool looks at its nodes (12).

import type { Labels } from "../records.ts";
import { amountOf, compareIds, isUnmeteredWhenMissing, type Resources, toVector } from "../resources.ts";
import type { Pool, PoolLine } from "../state.ts";
import { hasLabels, type Wanted, wantedOf } from "./node-index.ts";
import { covers } from "./node-list.ts";
import type { Ask } from "./room.ts";

/** The metered keys of a pool and what it has of each: of nodes, those of all, and what the ready ones have (P2). */
export function poolCapacity({ record, places }: Pool): { keys: string[]; capacity: number[] } {
  if (!record.nodeBacked) {
    const keys = Object.keys(record.capacity).sort(compareIds);
    return { keys, capacity: toVector(record.capacity, keys) };
  }
  const shapes = [...places.shapes.values()];
  const keys = [...new Set(shapes.flatMap(({ resources }) => Object.keys(resources)))].sort(compareIds);
  const capacity = keys.map((key) =>
    shapes.reduce((sum, { resources, readyCount }) => sum + readyCount * amountOf(resources, key), 0),
  );
  return { keys, capacity };
}

/** What a node has over the keys of its pool; what it does not meter is infinite (R4). */
export function nodeVector(resources: Resources, keys: readonly string[]): number[] {
  return keys.map((key) =>
    Object.hasOwn(resources, key) || !isUnmeteredWhenMissing(key)
      ? amountOf(resources, key)
      : Number.POSITIVE_INFINITY,
  );
}

/** What a line asks of the nodes; null in a pool without nodes. Work with a claim to its home goes there first (10.8). */
export function askOf({ line, policy, pool }: PoolLine, reserveRank: number): Ask | null {
  if (!pool.record.nodeBacked) return null;
  const { resources, nodes, constraints } = line.shape;
  const { home } = policy.record;
  return {
    need: toVector(resources, pool.keys),
    count: nodes,
    wanted: wantedOf(constraints),
    home: home === null || reserveRank > 1 ? null : bothOf(constraints, home),
  };
}

/** Labels that satisfy both; null: there are none. */
export function bothOf(constraints: Labels, home: Labels): Wanted | null {
  const agree = Object.keys(home).every(
    (label) => !Object.hasOwn(constraints, label) || constraints[label] === home[label],
  );
  return agree ? wantedOf({ ...constraints, ...home }) : null;
}

/** What an empty pool has too little of for a request: a key, or nodes that could hold a part of it. */
export interface Shortage {
  readonly key: string;
  readonly asked: number;
  readonly allowed: number;
}

/** Null if an empty pool could hold the request (A2, N4). */
export function shortageOf(poolLine: PoolLine): Shortage | null {
  const { need, pool, ask } = poolLine;
  if (ask !== null) return shortageOnNodes(pool, ask);
  for (let i = 0; i < pool.keys.length; i++) {
    const asked = need[i] as number;
    const allowed = pool.capacity[i] as number;
    if (asked > allowed) return { key: pool.keys[i] as string, asked, allowed };
  }
  return null;
}

/** All registered nodes count, whatever their state, so that a lost node rejects nobody (N4). */
function shortageOnNodes(pool: Pool, { need, count, wanted }: Ask): Shortage | null {
  const { counts } = pool.places.select(pool, wanted);
  const kinds = [...counts].map(([{ resources }, number]) => ({
    has: nodeVector(resources, pool.keys),
    number,
  }));
  const holding = kinds.filter(({ has }) => covers(has, need)).reduce((sum, { number }) => sum + number, 0);
  if (holding >= count) return null;
  const asked = need.flatMap((amount, i) => (amount > 0 ? [i] : []));
  // Also where no unit of a node is asked for: then nodes alone are missing.
  if (holding > 0 || asked.length === 0) return { key: "nodes", asked: count, allowed: holding };
  const mostOf = (i: number, among: readonly { has: readonly number[] }[]) => ({
    key: pool.keys[i] as string,
    asked: need[i] as number,
    allowed: among.reduce((most, { has }) => Math.max(most, has[i] as number), 0),
  });
  // Named is a key that would be short if it were the only one; or else the first, beside the others.
  const short = asked.map((i) => mostOf(i, kinds)).find((one) => one.asked > one.allowed);
  if (short !== undefined) return short;
  const first = asked[0] as number;
  const others = need.map((amount, i) => (i === first ? 0 : amount));
  return mostOf(
    first,
    kinds.filter(({ has }) => covers(has, others)),
  );
}

/** Whether a node could hold a part of the request when it is empty. */
export function couldHold(
  node: { readonly capacity: readonly number[]; readonly record: Parameters<typeof hasLabels>[0] },
  ask: Ask,
): boolean {
  return covers(node.capacity, ask.need) && hasLabels(node.record, ask.wanted.labels);
}
