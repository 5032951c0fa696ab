// The allocations of operations in their groups (9.5), as the search for victims and people see them.

import type { Pool, Run } from "../../state.ts";
import { type AllocationGroup, splitAllocationGroups } from "./allocation-groups.ts";
import type { Operation, Peers, PoolTree } from "./tree.ts";

export interface Allocation {
  readonly run: Run;
  readonly operation: Operation;
  readonly group: AllocationGroup;
  readonly freshness: number;
}

/** The groups of the runs of an operation, oldest first: the same for all its peers, whose runs are all alike. */
export function groupsOf(pool: Pool, tree: PoolTree, peers: Peers): AllocationGroup[] {
  const { settings, fairShare, demandShare } = peers;
  return splitAllocationGroups({
    allocations: runsOf(peers.operations.first() as Operation).map(({ poolLine }) => poolLine.need),
    total: pool.capacity,
    shareKeys: tree.keys,
    fairShare,
    demandShare,
    preemptionThreshold: settings.preemptionSatisfactionThreshold,
    aggressiveThreshold: settings.aggressivePreemptionSatisfactionThreshold,
    protectedUsage: pool.keys.map((key) => settings.nonPreemptibleUsageThreshold[key]),
  });
}

export function allocationsOf(operation: Operation, groups: readonly AllocationGroup[]): Allocation[] {
  return runsOf(operation).map((run, index) => ({
    run,
    operation,
    group: groups[index] as AllocationGroup,
    freshness: freshnessOf(run),
  }));
}

/** Every run that is not stopping: NP work first, then the oldest (9.5). */
function runsOf({ lines }: Operation): Run[] {
  const runs: Run[] = [];
  for (const { runKinds } of lines) for (const kind of runKinds.values()) runs.push(...kind.runs);
  return runs.length < 2 ? runs : runs.sort(byProtection);
}

function byProtection(a: Run, b: Run): number {
  const { preemptible } = a.poolLine.line.shape;
  const difference = Number(preemptible) - Number(b.poolLine.line.shape.preemptible);
  return difference || freshnessOf(a) - freshnessOf(b);
}

/** The start of its current work or its last completed checkpoint, whichever is later, by the journal. */
function freshnessOf({ token, request }: Run): number {
  return Math.max(token, request.progress.lastCheckpointSeq);
}
