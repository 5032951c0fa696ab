// Who is below its fair share, since when, and what that entitles it to (9.3, 9.4).

import type { StarvationChange } from "../../events.ts";
import type { Pool } from "../../state.ts";
import { isBelowFairShare } from "./satisfaction.ts";
import type { OperationNode, ShareNode, ShareTree } from "./tree.ts";

export type StarvationStatus = StarvationChange["status"];

export interface Evaluation {
  readonly changes: readonly StarvationChange[];
  /** When time alone changes a status next; infinite: never. */
  readonly untilMs: number;
}

/** One look at everybody's status. An element that is found normal begins anew. */
export function evaluate({ starvation }: Pool, tree: ShareTree, nowMs: number): Evaluation {
  const changes: StarvationChange[] = [];
  let untilMs = Number.POSITIVE_INFINITY;
  let seen = 0;
  const look = (node: ShareNode) => {
    const before = starvation.get(node.key);
    if (before !== undefined) seen++;
    if (!isBelow(node)) {
      if (before !== undefined) changes.push({ element: node.key, belowSinceMs: null, status: "normal" });
      return;
    }
    const belowSinceMs = before?.belowSinceMs ?? nowMs;
    const status = statusAfter(node, nowMs - belowSinceMs);
    if (before?.status !== status) changes.push({ element: node.key, belowSinceMs, status });
    untilMs = Math.min(untilMs, belowSinceMs + nextChangeAfter(node, nowMs - belowSinceMs));
  };
  for (const node of tree.inner) if (node.kind !== "root") look(node); // The root never starves.
  for (const node of tree.operations.values()) look(node);
  if (seen < starvation.size) changes.push(...gone(starvation, tree));
  return { changes, untilMs };
}

/** Where nothing waits nobody lacks anything (9.3). */
function isBelow(node: ShareNode): boolean {
  if (node.waitingCount === 0) return false;
  const { usageShare, demandShare, fairShare, settings } = node;
  return isBelowFairShare(
    { usage: usageShare, demand: demandShare, fairShare },
    settings.starvationTolerance,
  );
}

function statusAfter({ settings }: ShareNode, belowForMs: number): StarvationStatus {
  if (settings.enableAggressiveStarvation && belowForMs >= settings.aggressiveStarvationTimeoutMs) {
    return "aggressively_starving";
  }
  return belowForMs >= settings.starvationTimeoutMs ? "starving" : "below_fair_share";
}

function nextChangeAfter({ settings }: ShareNode, belowForMs: number): number {
  const { starvationTimeoutMs, aggressiveStarvationTimeoutMs, enableAggressiveStarvation } = settings;
  const timeouts = [starvationTimeoutMs];
  if (enableAggressiveStarvation) timeouts.push(aggressiveStarvationTimeoutMs);
  return Math.min(...timeouts.filter((timeoutMs) => timeoutMs > belowForMs), Number.POSITIVE_INFINITY);
}

/** Elements that are no longer there. */
function gone(starvation: Pool["starvation"], tree: ShareTree): StarvationChange[] {
  const present = new Set([...tree.inner.map(({ key }) => key), ...tree.operations.keys()]);
  return [...starvation.keys()]
    .filter((element) => !present.has(element))
    .map((element) => ({ element, belowSinceMs: null, status: "normal" }));
}

export function statusOf({ starvation }: Pool, node: ShareNode): StarvationStatus {
  return starvation.get(node.key)?.status ?? "normal";
}

/** An operation that starves itself is left in peace (9.8). */
export function isStarving(pool: Pool, node: OperationNode): boolean {
  return rightOf(statusOf(pool, node)) > 0;
}

/** 0: none, 1: to preempt, 2: to preempt aggressively. It is passed on from above (9.4). */
export function rightToPreempt(pool: Pool, operation: OperationNode): 0 | 1 | 2 {
  let right: 0 | 1 | 2 = 0;
  for (let node: ShareNode | null = operation; node !== null; node = node.parent) {
    const own = rightOf(statusOf(pool, node));
    if (own > right) right = own;
  }
  return right;
}

function rightOf(status: StarvationStatus): 0 | 1 | 2 {
  return status === "aggressively_starving" ? 2 : status === "starving" ? 1 : 0;
}
