// Who is below its fair share, since when, and what that entitles it to (9.3, 9.4).

import type { StarvationChange } from "../../events.ts";
import { emit, type Transaction } from "../../scheduling/transaction.ts";
import type { Pool } from "../../state.ts";
import { isBelowFairShare } from "./satisfaction.ts";
import {
  type InnerNode,
  type Operation,
  type OperationKind,
  type Right,
  type ShareNode,
  type ShareSettings,
  type ShareTree,
  setRight,
} from "./tree.ts";

export type StarvationStatus = StarvationChange["status"];

/**
 * One look at everybody's status; an element that is found normal begins anew. Operations of one kind are above or
 * below together, so that only those are looked at singly that changed, whose kind did, or whose time has come.
 * Answers when time alone changes a status next; infinite: never.
 */
export function evaluate(transaction: Transaction, pool: Pool, tree: ShareTree): number {
  const { nowMs } = transaction;
  const changes: StarvationChange[] = [];
  const note = (element: string, settings: ShareSettings, isBelow: boolean): StarvationChange | undefined => {
    const before = pool.starvation.get(element);
    if (!isBelow) {
      if (before !== undefined) changes.push({ element, belowSinceMs: null, status: "normal" });
      return undefined;
    }
    const belowSinceMs = before?.belowSinceMs ?? nowMs;
    const now: StarvationChange = {
      element,
      belowSinceMs,
      status: statusAfter(settings, nowMs - belowSinceMs),
    };
    if (before?.status !== now.status) changes.push(now);
    return now;
  };

  let untilMs = Number.POSITIVE_INFINITY;
  for (const node of tree.inner) {
    if (node.kind === "root") continue; // The root never starves.
    const change = note(node.key, node.settings, isBelow(node));
    if (change !== undefined) untilMs = Math.min(untilMs, nextChange(node.settings, change, nowMs));
  }
  for (const operation of toLookAt(tree, nowMs)) {
    const { settings, isBelow: isKindBelow } = operation.kind;
    const change = note(operation.key, settings, isKindBelow);
    setRight(operation, rightOf(change?.status ?? "normal"));
    if (change === undefined) continue;
    const atMs = nextChange(settings, change, nowMs);
    const sinceMs = change.belowSinceMs as number;
    if (atMs < Number.POSITIVE_INFINITY) tree.wakes.push({ atMs, operation, sinceMs });
  }
  for (const key of tree.gone) if (!tree.operations.has(key)) note(key, tree.root.settings, false);
  tree.moved.clear();
  tree.gone.clear();
  const isFirstLook = !tree.isLookedAt;
  tree.isLookedAt = true;
  if (isFirstLook) changes.push(...leftOver(pool, tree));
  if (changes.length > 0) {
    emit(transaction, { kind: "starvationChanged", pool: pool.record.name, changes, atMs: nowMs });
  }
  return Math.min(untilMs, nextWake(pool, tree));
}

/** Operations whose status may be another one than at the last look. */
function toLookAt(tree: ShareTree, nowMs: number): Set<Operation> {
  const operations = new Set(tree.moved);
  for (const kind of tree.kinds) {
    const isKindBelow = isBelow(kind);
    if (isKindBelow === kind.isBelow) continue;
    kind.isBelow = isKindBelow;
    for (const operation of kind.operations) operations.add(operation);
  }
  for (let wake = tree.wakes.first(); wake !== undefined && wake.atMs <= nowMs; wake = tree.wakes.first()) {
    tree.wakes.pop();
    if (tree.operations.get(wake.operation.key) === wake.operation) operations.add(wake.operation);
  }
  return operations;
}

/** Wakes of those who are no longer below, or anew, are forgotten. */
function nextWake({ starvation }: Pool, tree: ShareTree): number {
  for (let wake = tree.wakes.first(); wake !== undefined; wake = tree.wakes.first()) {
    const { key } = wake.operation;
    const isDue = starvation.get(key)?.belowSinceMs === wake.sinceMs;
    if (isDue && tree.operations.get(key) === wake.operation) return wake.atMs;
    tree.wakes.pop();
  }
  return Number.POSITIVE_INFINITY;
}

/** Records of elements that went while nobody looked. */
function leftOver({ starvation }: Pool, tree: ShareTree): StarvationChange[] {
  const present = new Set(tree.inner.map(({ key }) => key));
  return [...starvation.keys()]
    .filter((element) => !present.has(element) && !tree.operations.has(element))
    .map((element) => ({ element, belowSinceMs: null, status: "normal" }));
}

/** Where nothing waits nobody lacks anything (9.3). */
function isBelow(node: InnerNode | OperationKind): boolean {
  if (node.waitingCount === 0) return false;
  const { usageShare, demandShare, fairShare, settings } = node;
  return isBelowFairShare(
    { usage: usageShare, demand: demandShare, fairShare },
    settings.starvationTolerance,
  );
}

function statusAfter(settings: ShareSettings, belowForMs: number): StarvationStatus {
  if (settings.enableAggressiveStarvation && belowForMs >= settings.aggressiveStarvationTimeoutMs) {
    return "aggressively_starving";
  }
  return belowForMs >= settings.starvationTimeoutMs ? "starving" : "below_fair_share";
}

/** When time alone makes it another status. */
function nextChange(settings: ShareSettings, { belowSinceMs }: StarvationChange, nowMs: number): number {
  const sinceMs = belowSinceMs as number;
  const { starvationTimeoutMs, aggressiveStarvationTimeoutMs, enableAggressiveStarvation } = settings;
  let nextMs = Number.POSITIVE_INFINITY;
  if (sinceMs + starvationTimeoutMs > nowMs) nextMs = sinceMs + starvationTimeoutMs;
  const aggressiveAtMs = sinceMs + aggressiveStarvationTimeoutMs;
  if (enableAggressiveStarvation && aggressiveAtMs > nowMs) nextMs = Math.min(nextMs, aggressiveAtMs);
  return nextMs;
}

export function statusOf({ starvation }: Pool, { key }: { readonly key: string }): StarvationStatus {
  return starvation.get(key)?.status ?? "normal";
}

function rightOf(status: StarvationStatus): Right {
  return status === "aggressively_starving" ? 2 : status === "starving" ? 1 : 0;
}

/** Operations that the tree takes for something else than what is recorded of them; for checks. */
export function rightViolations(pool: Pool, { operations, isLookedAt }: ShareTree): string[] {
  if (!isLookedAt) return [];
  return [...operations.values()]
    .filter(({ key, right }) => right !== rightOf(statusOf(pool, { key })))
    .map(({ key, right }) => `${key} has right ${right} but is ${statusOf(pool, { key })}`);
}

/** What a starving group or policy passes on to those below it (9.4). */
export function rightFrom(pool: Pool, node: InnerNode): Right {
  let right: Right = 0;
  for (let each: ShareNode | null = node; each !== null; each = each.parent) {
    const own = rightOf(statusOf(pool, each));
    if (own > right) right = own;
  }
  return right;
}
