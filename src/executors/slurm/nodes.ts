// Slurm's nodes as the nodes of a pool. Pure.

import type { WireReportedNode } from "../../protocol/index.ts";
import type { SlurmNode } from "./commands.ts";

const DOWN = new Set([
  ...["DOWN", "FAIL", "FAILING", "ERROR", "UNKNOWN", "FUTURE", "INVAL", "NOT_RESPONDING", "NO_RESPOND"],
  ...["POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP", "REBOOT_ISSUED"],
]);
const DRAINING = new Set(["DRAIN", "DRAINED", "DRAINING", "MAINT", "MAINTENANCE", "REBOOT_REQUESTED"]);

/** Those of the partition; undefined: all. What has nothing to give is left out. */
export function reportedNodes(
  nodes: readonly SlurmNode[],
  partition: string | undefined,
): WireReportedNode[] {
  return nodes
    .filter(({ partitions }) => partition === undefined || partitions.includes(partition))
    .map((node) => ({ name: node.name, capacity: capacityOf(node), state: stateOf(node) }))
    .filter(({ capacity }) => Object.keys(capacity).length > 0);
}

function capacityOf({ cpus, memoryMb, gres }: SlurmNode): Record<string, number> {
  const amounts = { ...gres, mcpu: cpus * 1000, memory_mb: memoryMb };
  return Object.fromEntries(Object.entries(amounts).filter(([, amount]) => amount > 0));
}

function stateOf({ states }: SlurmNode): WireReportedNode["state"] {
  if (states.some((state) => DOWN.has(state))) return "down";
  return states.some((state) => DRAINING.has(state)) ? "draining" : "ready";
}
