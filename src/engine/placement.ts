// Placement: where in a pool the units of a request come from. A quota pool has no places, so everything
// passes through here trivially; a node-backed pool looks at its nodes (12).

import { compareIds, toVector } from "./resources.ts";
import type { EngineState, Pool, PoolLine, Run } from "./state.ts";

/** The metered keys of a pool and what it has of each. */
export function poolCapacity(pool: Pool): { keys: string[]; capacity: number[] } {
  const keys = Object.keys(pool.record.capacity).sort(compareIds);
  return { keys, capacity: toVector(pool.record.capacity, keys) };
}

/** The key on which an empty pool could not hold the request, with what it could hold; null if it could. */
export function largestHoldable({ need, pool }: PoolLine): { key: string; allowed: number } | null {
  for (let i = 0; i < pool.keys.length; i++) {
    const allowed = pool.capacity[i] as number;
    if ((need[i] as number) > allowed) return { key: pool.keys[i] as string, allowed };
  }
  return null;
}

export function occupyNodes(_state: EngineState, _run: Run): void {}

export function vacateNodes(_state: EngineState, _run: Run): void {}
