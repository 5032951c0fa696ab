// The allocations of operations in their groups (9.5), as the search for victims and people see them.

import type { Node, Pool, Run } from "../../state.ts";
import { type AllocationGroup, splitAllocationGroups } from "./allocation-groups.ts";
import { runsIn } from "./entries.ts";
import type { Operation, Peers, PoolTree } from "./tree.ts";

export interface Allocation {
  readonly run: Run;
  readonly operation: Operation;
  readonly group: AllocationGroup;
  readonly freshness: number;
}

/** Everything that is allocated to an operation and not stopping, oldest first. */
export function allocationsIn(
  pool: Pool,
  tree: PoolTree,
  operation: Operation,
): ReadonlyMap<Run, Allocation> {
  const groups = groupsIn(pool, tree, operation.peers as Peers);
  if (operation.allocations?.groups !== groups) {
    const byRun = new Map<Run, Allocation>();
    for (const [index, run] of runsOf(operation).entries()) {
      const group = groups[index] as AllocationGroup;
      byRun.set(run, { run, operation, group, freshness: freshnessOf(run) });
    }
    operation.allocations = { groups, byRun };
  }
  return operation.allocations.byRun;
}

/** The groups of the runs of an operation, oldest first: the same for all its peers, whose runs are all alike. */
export function groupsIn(pool: Pool, tree: PoolTree, peers: Peers): readonly AllocationGroup[] {
  if (peers.groups !== null) return peers.groups;
  const groups = groupsAt(pool, tree, peers, peers.fairShare);
  if (peers.margin?.coversGroups !== false) peers.groups = groups; // Otherwise nothing says when they change.
  return groups;
}

/** The groups that their runs would be in with another fair share. */
export function groupsAt(
  pool: Pool,
  tree: PoolTree,
  { settings, demandShare, operations }: Peers,
  fairShare: readonly number[],
): readonly AllocationGroup[] {
  return splitAllocationGroups({
    allocations: runsOf(operations.first() as Operation).map(({ poolLine }) => poolLine.need),
    total: pool.capacity,
    shareKeys: tree.keys,
    fairShare,
    demandShare,
    preemptionThreshold: settings.preemptionSatisfactionThreshold,
    aggressiveThreshold: settings.aggressivePreemptionSatisfactionThreshold,
    protectedUsage: pool.keys.map((key) => settings.nonPreemptibleUsageThreshold[key]),
  });
}

/** Everybody's. */
export function* allocationsOfAll(pool: Pool, tree: PoolTree): Generator<Allocation> {
  for (const { operations } of tree.running) {
    for (const operation of operations) yield* allocationsIn(pool, tree, operation).values();
  }
}

/** Every run that is not stopping: NP work first, then the oldest (9.5). */
function runsOf({ lines }: Operation): Run[] {
  const runs: Run[] = [];
  for (const entry of lines) runs.push(...runsIn(entry));
  return runs.length < 2 ? runs : runs.sort(byProtection);
}

function byProtection(a: Run, b: Run): number {
  const { preemptible } = a.poolLine.line.shape;
  const difference = Number(preemptible) - Number(b.poolLine.line.shape.preemptible);
  return difference || freshnessOf(a) - freshnessOf(b);
}

/** The start of its current work or its last completed checkpoint, whichever is later, by the journal. */
export function freshnessOf({ token, request }: Run): number {
  return Math.max(token, request.progress.lastCheckpointSeq);
}

/** NP and sensitive work is never taken (V2, 9.11). */
export function isTakeable({ poolLine }: Run): boolean {
  return poolLine.line.shape.preemptible && !poolLine.sensitive;
}

/** What a run holds in a place: on a node, or in a pool without nodes. */
export function unitsOn({ poolLine, nodes }: Run, node: Node | null): readonly number[] {
  if (node === null) return poolLine.need;
  return nodes.includes(node) ? (poolLine.ask?.need ?? []) : [];
}

const PREFERENCE: Readonly<Record<AllocationGroup, number>> = {
  preemptible: 0,
  aggressively_preemptible: 1,
  non_preemptible: 2,
};

/** The order in which they are taken: less protected groups first, the newest of each first (9.8, 9.9). */
export function byPreference(a: Allocation, b: Allocation): number {
  return PREFERENCE[a.group] - PREFERENCE[b.group] || b.freshness - a.freshness;
}
