// The allocations of operations in their groups (9.5), as the search for victims and people see them.

import type { Pool, Run } from "../../state.ts";
import { type AllocationGroup, splitAllocationGroups } from "./allocation-groups.ts";
import type { OperationNode, ShareTree } from "./tree.ts";

export interface Allocation {
  readonly run: Run;
  readonly operation: OperationNode;
  readonly group: AllocationGroup;
  readonly freshness: number;
}

/** Every run of an operation that is not stopping, oldest first, with its group. */
export function allocationsOf(pool: Pool, tree: ShareTree, operation: OperationNode): Allocation[] {
  const { settings, fairShare, demandShare } = operation;
  const runs = [...operation.lines].flatMap(({ runKinds }) =>
    [...runKinds.values()].flatMap((kind) => [...kind.runs]),
  );
  runs.sort(
    (a, b) =>
      Number(a.poolLine.line.shape.preemptible) - Number(b.poolLine.line.shape.preemptible) ||
      freshnessOf(a) - freshnessOf(b),
  );
  const groups = splitAllocationGroups({
    allocations: runs.map(({ poolLine }) => poolLine.need),
    total: pool.capacity,
    shareKeys: tree.keys,
    fairShare,
    demandShare,
    preemptionThreshold: settings.preemptionSatisfactionThreshold,
    aggressiveThreshold: settings.aggressivePreemptionSatisfactionThreshold,
    protectedUsage: pool.keys.map((key) => settings.nonPreemptibleUsageThreshold[key]),
  });
  return runs.map((run, index) => ({
    run,
    operation,
    group: groups[index] as AllocationGroup,
    freshness: freshnessOf(run),
  }));
}

/** The start of its current work or its last completed checkpoint, whichever is later, by the journal. */
function freshnessOf({ token, request }: Run): number {
  return Math.max(token, request.progress.lastCheckpointSeq);
}
