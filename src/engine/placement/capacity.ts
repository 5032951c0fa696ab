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

function bothOf(constraints: Labels, home: Labels): Wanted | null {
  const agree = Object.keys(home).every(
    (label) => !Object.hasOwn(constraints, label) || constraints[label] === home[label],
  );
  return agree ? wantedOf({ ...constraints, ...home }) : null;
}

/** The key on which an empty pool could not hold the request, with what it could hold; null if it could (A2, N4). */
export function largestHoldable(poolLine: PoolLine): { key: string; allowed: number } | null {
  const { need, pool, ask } = poolLine;
  if (ask !== null) return largestOnNodes(pool, ask);
  for (let i = 0; i < pool.keys.length; i++) {
    const allowed = pool.capacity[i] as number;
    if ((need[i] as number) > allowed) return { key: pool.keys[i] as string, allowed };
  }
  return null;
}

/** All registered nodes count, whatever their state, so that a lost node rejects nobody (N4). */
function largestOnNodes(pool: Pool, { need, count, wanted }: Ask): { key: string; allowed: number } | null {
  const { counts } = pool.places.select(pool, wanted);
  const kinds = [...counts].map(([{ resources }, number]) => ({
    has: nodeVector(resources, pool.keys),
    number,
  }));
  const holding = kinds.filter(({ has }) => covers(has, need));
  if (holding.reduce((sum, { number }) => sum + number, 0) >= count) return null;
  const asked = need.flatMap((amount, i) => (amount > 0 ? [i] : []));
  // Named is a key that would be short if it were the only one; or else the first, beside the others.
  const alone = asked.map((i) => ({ key: i, allowed: mostOn(i, kinds, count) }));
  const short = alone.find(({ key, allowed }) => (need[key] as number) > allowed);
  if (short !== undefined) return { key: pool.keys[short.key] as string, allowed: short.allowed };
  const first = asked[0] as number;
  const besides = kinds.filter(({ has }) =>
    covers(
      has,
      need.map((amount, i) => (i === first ? 0 : amount)),
    ),
  );
  return { key: pool.keys[first] as string, allowed: mostOn(first, besides, count) };
}

/** How much of a key so many nodes have at least. */
function mostOn(
  key: number,
  kinds: readonly { has: readonly number[]; number: number }[],
  count: number,
): number {
  const most = kinds
    .map(({ has, number }) => ({ amount: has[key] as number, number }))
    .sort((a, b) => b.amount - a.amount);
  let number = 0;
  for (const kind of most) {
    number += kind.number;
    if (number >= count) return kind.amount;
  }
  return 0;
}

/** Whether a node could hold a part of the request when it is empty. */
export function couldHold(
  node: { readonly capacity: readonly number[]; readonly record: Parameters<typeof hasLabels>[0] },
  ask: Ask,
): boolean {
  return covers(node.capacity, ask.need) && hasLabels(node.record, ask.wanted.labels);
}
