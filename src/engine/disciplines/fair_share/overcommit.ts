// Nodes whose allocations exceed their resources, because they were made smaller (9.9).

import type { NodeName } from "../../records.ts";
import { compareIds } from "../../resources.ts";
import type { Node, Pool } from "../../state.ts";
import type { Transaction } from "../../transaction.ts";

/** For so long a node may hold more than it has. */
const OVERCOMMIT_MS_MAX = 15_000;

/** Notes since when nodes have held too much; answers when the next of them must lose something. */
export function lookForOvercommit(transaction: Transaction, pool: Pool, isFirstLook: boolean): number {
  if (!isFirstLook && pool.overcommittedSinceMs.size === 0) return Number.POSITIVE_INFINITY;
  noteOvercommit(transaction, pool, isFirstLook);
  let untilMs = Number.POSITIVE_INFINITY;
  for (const sinceMs of pool.overcommittedSinceMs.values()) {
    const dueMs = sinceMs + OVERCOMMIT_MS_MAX;
    if (dueMs > transaction.nowMs) untilMs = Math.min(untilMs, dueMs);
  }
  return untilMs;
}

function noteOvercommit(transaction: Transaction, pool: Pool, isFirstLook: boolean): void {
  const { nowMs } = transaction;
  const { overcommittedSinceMs, nodes, record } = pool;
  const changes: { node: NodeName; sinceMs: number | null }[] = [];
  // A change of a node brings a new tree; afterwards what runs there can only become less than it has.
  const suspects = isFirstLook
    ? nodes.values()
    : Array.from(overcommittedSinceMs.keys(), (name) => nodes.get(name));
  for (const node of suspects) {
    if (node === undefined) continue;
    const isOver = holdsTooMuch(node);
    if (!isOver && overcommittedSinceMs.size === 0) continue;
    const { name } = node.record;
    if (isOver !== overcommittedSinceMs.has(name))
      changes.push({ node: name, sinceMs: isOver ? nowMs : null });
  }
  for (const name of overcommittedSinceMs.keys()) {
    if (!nodes.has(name)) changes.push({ node: name, sinceMs: null });
  }
  if (changes.length > 0) {
    transaction.emit({ kind: "overcommitChanged", pool: record.name, changes, atMs: nowMs });
  }
}

/** Asked of every node of the pool by the first look at a new tree. */
function holdsTooMuch({ usage, stopping, capacity }: Node): boolean {
  for (let i = 0; i < usage.length; i++) if (usage[i]! - stopping[i]! > capacity[i]!) return true;
  return false;
}

/** What is stopping is on its way out already. */
export function excessOn({ usage, stopping, capacity }: Node): number[] {
  return usage.map((units, i) => units - stopping[i]! - capacity[i]!);
}

const NONE: readonly Node[] = [];

/** Nodes that have held too much for too long, by name. */
export function overcommittedFor({ overcommittedSinceMs, nodes }: Pool, nowMs: number): readonly Node[] {
  if (overcommittedSinceMs.size === 0) return NONE;
  return [...overcommittedSinceMs]
    .filter(([, sinceMs]) => nowMs - sinceMs >= OVERCOMMIT_MS_MAX)
    .map(([name]) => nodes.get(name) as Node)
    .sort((a, b) => compareIds(a.record.name, b.record.name));
}
