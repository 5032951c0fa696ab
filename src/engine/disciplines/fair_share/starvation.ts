// Who is below its fair share, since when, and what that entitles it to (9.3, 9.4).

import type { StarvationChange } from "../../events.ts";
import { compareIds } from "../../resources.ts";
import type { Pool } from "../../state.ts";
import type { Transaction } from "../../transaction.ts";
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

  for (const element of toLookAt(tree, nowMs)) {
    const isOperation = "lines" in element;
    const { settings } = isOperation ? element.kind : element;
    const change = note(element.key, settings, isOperation ? element.kind.isBelow : isBelow(element));
    if (isOperation) setRight(element, rightOf(change?.status ?? "normal"));
    if (change === undefined) continue;
    const atMs = nextChange(settings, change, nowMs);
    const sinceMs = change.belowSinceMs as number;
    if (atMs < Number.POSITIVE_INFINITY) tree.wakes.push({ atMs, element, sinceMs });
  }
  for (const key of tree.gone) if (!tree.operations.has(key)) note(key, tree.root.settings, false);
  tree.moved.clear();
  tree.gone.clear();
  tree.touched.clear();
  const isFirstLook = !tree.isLookedAt;
  tree.isLookedAt = true;
  if (isFirstLook) changes.push(...leftOver(pool, tree));
  if (changes.length > 0) {
    changes.sort((a, b) => compareIds(a.element, b.element)); // However they were found.
    transaction.emit({ kind: "starvationChanged", pool: pool.record.name, changes, atMs: nowMs });
  }
  return nextWake(pool, tree);
}

/** Elements whose status may be another one than at the last look. The root never starves. */
function toLookAt(tree: ShareTree, nowMs: number): Set<InnerNode | Operation> {
  const found = new Set<InnerNode | Operation>(tree.moved);
  for (const node of tree.touched) {
    if (node.kind === "root") continue;
    if (node.kind !== "operations") {
      found.add(node);
      continue;
    }
    const isKindBelow = isBelow(node);
    if (isKindBelow === node.isBelow) continue;
    node.isBelow = isKindBelow;
    for (const operation of node.operations) found.add(operation);
  }
  for (let wake = tree.wakes.first(); wake !== undefined && wake.atMs <= nowMs; wake = tree.wakes.first()) {
    tree.wakes.pop();
    if (isPresent(tree, wake.element)) found.add(wake.element);
  }
  return found;
}

function isPresent({ operations }: ShareTree, element: InnerNode | Operation): boolean {
  return !("lines" in element) || operations.get(element.key) === element;
}

/** Wakes of those who are no longer below, or anew, are forgotten. */
function nextWake({ starvation }: Pool, tree: ShareTree): number {
  for (let wake = tree.wakes.first(); wake !== undefined; wake = tree.wakes.first()) {
    const { element, sinceMs, atMs } = wake;
    if (starvation.get(element.key)?.belowSinceMs === sinceMs && isPresent(tree, element)) return atMs;
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

/** Whom the tree takes for something else than what is recorded of them, or what they are; for checks. */
export function rightViolations(pool: Pool, tree: ShareTree): string[] {
  const { operations, inner, kinds, isLookedAt, touched } = tree;
  if (!isLookedAt) return [];
  const wrongRights = [...operations.values()]
    .filter(({ key, right }) => right !== rightOf(statusOf(pool, { key })))
    .map(({ key, right }) => `${key} has right ${right} but is ${statusOf(pool, { key })}`);
  const wrongKinds = [...kinds].filter((kind) => kind.isBelow !== isBelow(kind));
  const wrongNodes = inner.filter(
    (node) => node.kind !== "root" && isBelow(node) !== pool.starvation.has(node.key),
  );
  const overlooked = [...wrongKinds, ...wrongNodes].filter((node) => !touched.has(node));
  return [...wrongRights, ...overlooked.map(({ key }) => `${key} was not looked at again`)];
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
