// Who says what runs: the agent of each node, or one adapter for a whole pool (20–22).

import {
  type EngineState,
  type NodeName,
  nodeViewsOf,
  type PoolName,
  type RequestId,
  requestOf,
  runsOf,
} from "../../engine/index.ts";

export type Reporter =
  | { readonly kind: "node"; readonly node: NodeName }
  | { readonly kind: "pool"; readonly pool: PoolName };

/** No name has a control character, so a pool cannot pass for a node. */
export function keyOf(reporter: Reporter): string {
  return reporter.kind === "node" ? reporter.node : `\u0000${reporter.pool}`;
}

export function poolKey(pool: PoolName): string {
  return keyOf({ kind: "pool", pool });
}

/** Whether one adapter speaks for all of the pool. */
export function hasAdapter(state: EngineState, pool: PoolName | null): pool is PoolName {
  const executor = pool === null ? undefined : state.pools.get(pool)?.record.settings.executor;
  return executor === "slurm" || executor === "kubernetes";
}

/** Those who say what becomes of an attempt: one for each of its parts, in the order of their ranks. */
export function reportersFor(state: EngineState, pool: PoolName | null, nodes: readonly string[]): string[] {
  return hasAdapter(state, pool) ? [poolKey(pool)] : [...nodes];
}

/** Those who speak for the parts of what runs now. */
export function reportersOf(state: EngineState, id: RequestId): readonly string[] {
  const allocation = requestOf(state, id)?.progress.allocation ?? null;
  if (allocation === null) return [];
  const nodes = allocation.placement.map(({ node }) => node);
  return reportersFor(state, allocation.pool, nodes);
}

/** What is granted where the reporter speaks. */
export function grantedTo(state: EngineState, reporter: Reporter): readonly RequestId[] {
  if (reporter.kind === "pool") return runsOf(state, reporter.pool);
  return (nodeViewsOf(state, [reporter.node])[0]?.runs ?? []).map(({ requestId }) => requestId);
}
