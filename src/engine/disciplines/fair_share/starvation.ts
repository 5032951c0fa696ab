// Who is below its fair share, since when, and what that entitles it to (9.3, 9.4).

import type { StarvationChange } from "../../events.ts";
import { empty } from "../../few.ts";
import { compareIds } from "../../resources.ts";
import type { Pool } from "../../state.ts";
import type { Transaction } from "../../transaction.ts";
import { operationBy, operationsIn } from "./entries.ts";
import { noteMoved, setRight, setRightBelow, touch, wakeAt } from "./operations.ts";
import { isBelowFairShare } from "./satisfaction.ts";
import type { Branch, Operation, Peers, PoolTree, Right, ShareSettings, Standing } from "./tree.ts";

export type StarvationStatus = StarvationChange["status"];

/** One look at everybody's status. */
export interface Evaluation {
  readonly transaction: Transaction;
  readonly pool: Pool;
  readonly tree: PoolTree;
  changes: StarvationChange[];
}

/**
 * An element that is found normal begins anew. Peers are above or below together, so that only those operations are
 * looked at singly that moved, whose peers changed, or whose time has come.
 *
 * Who has just come below its fair share has no right from that yet, and mostly gets what it lacks at the same moment.
 * So that is left for the last look of the moment (`finishEvaluation`).
 */
export function evaluate(transaction: Transaction, pool: Pool, tree: PoolTree): Evaluation {
  const evaluation: Evaluation = { transaction, pool, tree, changes: NO_CHANGES };
  tree.lookCount++;
  empty(tree.fresh); // A look that failed may have left some.
  judgeTouched(evaluation);
  judgeMoved(evaluation);
  judgeDue(evaluation);
  clearGone(evaluation);
  tree.isLookedAt = true;
  emit(evaluation);
  return evaluation;
}

/** `isLast`: nothing more is to be done now. Answers when time alone changes a status next; infinite: never. */
export function finishEvaluation(evaluation: Evaluation, isLast: boolean): number {
  const { tree } = evaluation;
  const { fresh, moved } = tree;
  empty(moved);
  for (const element of fresh) {
    if (isLast) begin(evaluation, element, NORMAL);
    else if (isOperation(element)) noteMoved(tree, element);
    else touch(tree, element);
  }
  empty(fresh);
  emit(evaluation);
  return tree.wakes.first()?.wakeAtMs ?? Number.POSITIVE_INFINITY;
}

/** Elements that stand otherwise than at the last look. The root never starves. */
function judgeTouched(evaluation: Evaluation): void {
  const { touched } = evaluation.tree;
  for (const each of touched) {
    if (!each.isTouched) continue; // It has gone since.
    each.isTouched = false;
    if (each.kind !== "peers") {
      if (each.kind !== "root") judge(evaluation, each);
      continue;
    }
    const isNowBelow = isBelow(each);
    if (isNowBelow === each.isBelow) continue;
    each.isBelow = isNowBelow;
    for (const operation of each.operations) judge(evaluation, operation);
  }
  empty(touched);
}

function judgeMoved(evaluation: Evaluation): void {
  for (const operation of evaluation.tree.moved) {
    if (!operation.isMoved) continue;
    operation.isMoved = false;
    judge(evaluation, operation);
  }
}

/** Those whose time has come; who was judged has another time by now. */
function judgeDue(evaluation: Evaluation): void {
  const { wakes } = evaluation.tree;
  for (let next = wakes.first(); next !== undefined; next = wakes.first()) {
    if (next.wakeAtMs > evaluation.transaction.nowMs) return;
    judge(evaluation, next);
  }
}

function judge(evaluation: Evaluation, element: Branch | Operation): void {
  const { tree, pool } = evaluation;
  if (element.judgedIn === tree.lookCount) return;
  element.judgedIn = tree.lookCount;
  element.record ??= pool.starvation.get(element.key) ?? NORMAL;
  const { record } = element;
  const standing = standingOf(element);
  if (!(isOperation(element) ? (element.peers as Peers).isBelow : isBelow(standing))) {
    if (record !== NORMAL) {
      note(evaluation, { element: element.key, belowSinceMs: null, status: "normal" });
      element.record = NORMAL;
    }
    return setStatus(tree, element, "normal", Number.POSITIVE_INFINITY);
  }
  if (record !== NORMAL || statusAfter(standing.settings, 0) !== "below_fair_share")
    return begin(evaluation, element, record);
  // What a look that was taken back has left of a right does not count.
  setStatus(tree, element, "below_fair_share", Number.POSITIVE_INFINITY);
  tree.fresh.push(element);
}

const NO_CHANGES: StarvationChange[] = [];

/** Mostly there is one, and no room is made for more. */
function note(evaluation: Evaluation, change: StarvationChange): void {
  if (evaluation.changes.length === 0) evaluation.changes = [change];
  else evaluation.changes.push(change);
}

const NORMAL: StarvationChange = { element: "", belowSinceMs: null, status: "normal" };

/** It is below its fair share, since now or since the time that is recorded. */
function begin(evaluation: Evaluation, element: Branch | Operation, record: StarvationChange): void {
  const { tree, transaction } = evaluation;
  const { nowMs } = transaction;
  const { settings } = standingOf(element);
  const belowSinceMs = record.belowSinceMs ?? nowMs;
  const status = statusAfter(settings, nowMs - belowSinceMs);
  if (record.status !== status) {
    element.record = { element: element.key, belowSinceMs, status };
    note(evaluation, element.record);
  }
  setStatus(tree, element, status, nextChange(settings, belowSinceMs, nowMs));
}

function setStatus(
  tree: PoolTree,
  element: Branch | Operation,
  status: StarvationStatus,
  wakeAtMs: number,
): void {
  if (isOperation(element)) setRight(tree, element, rightOf(status));
  else setRightBelow(tree, element, rightOf(status));
  wakeAt(tree, element, wakeAtMs);
}

/** Records of elements that went since the last look; before the first one of a tree all records are gone through. */
function clearGone(evaluation: Evaluation): void {
  const { gone, isLookedAt } = evaluation.tree;
  if (!isLookedAt) for (const key of evaluation.pool.starvation.keys()) clear(evaluation, key);
  else for (const { key, record } of gone) if (record !== NORMAL) clear(evaluation, key);
  empty(gone);
}

function clear(evaluation: Evaluation, key: string): void {
  const { transaction, pool, tree } = evaluation;
  if (!pool.starvation.has(key) || tree.branches.has(key)) return;
  if (operationBy(transaction.state, tree, key) !== undefined) return;
  note(evaluation, { element: key, belowSinceMs: null, status: "normal" });
}

function emit(evaluation: Evaluation): void {
  const { transaction, pool, changes } = evaluation;
  if (changes.length === 0) return;
  evaluation.changes = NO_CHANGES;
  if (changes.length > 1) changes.sort((a, b) => compareIds(a.element, b.element)); // However they were found.
  const { nowMs: atMs } = transaction;
  transaction.emit({ kind: "starvationChanged", pool: pool.record.name, changes, atMs });
}

function isOperation(element: Branch | Operation): element is Operation {
  return "lines" in element;
}

function standingOf(element: Branch | Operation): Standing {
  return isOperation(element) ? (element.peers as Peers) : element;
}

/** Where nothing waits nobody lacks anything (9.3). */
function isBelow(standing: Standing): boolean {
  if (standing.waitingCount === 0) return false;
  const { usageShare: usage, demandShare: demand, fairShare, settings } = standing;
  return isBelowFairShare({ usage, demand, fairShare }, settings.starvationTolerance);
}

function statusAfter(settings: ShareSettings, belowForMs: number): StarvationStatus {
  if (settings.enableAggressiveStarvation && belowForMs >= settings.aggressiveStarvationTimeoutMs) {
    return "aggressively_starving";
  }
  return belowForMs >= settings.starvationTimeoutMs ? "starving" : "below_fair_share";
}

/** When time alone makes it another status. */
function nextChange(settings: ShareSettings, sinceMs: number, nowMs: number): number {
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

/** What an element's own starvation entitles it to, by what is recorded. */
export function ownRight(pool: Pool, element: { readonly key: string }): Right {
  return rightOf(statusOf(pool, element));
}

function rightOf(status: StarvationStatus): Right {
  return status === "aggressively_starving" ? 2 : status === "starving" ? 1 : 0;
}

/** What a starving group or policy passes on to those below it (9.4). */
export function rightFrom(pool: Pool, branch: Branch): Right {
  let right: Right = 0;
  for (let each: Branch | null = branch; each !== null; each = each.parent) {
    const own = rightOf(statusOf(pool, each));
    if (own > right) right = own;
  }
  return right;
}

/** What the tree keeps of statuses and their times, beside what is recorded; for checks. */
export function statusViolations(pool: Pool, tree: PoolTree, nowMs: number): string[] {
  if (!tree.isLookedAt) return [];
  const found: string[] = [];
  const elements = [...tree.branches.values(), ...operationsIn(tree)];
  let wakeCount = 0;
  for (const element of elements) {
    const { key, wakeAtMs } = element;
    if (wakeAtMs < Number.POSITIVE_INFINITY) wakeCount++;
    const isPending = isOperation(element)
      ? element.isMoved || (element.peers as Peers).isTouched
      : element.isTouched || element.kind === "root";
    if (isPending) continue;
    const record = pool.starvation.get(key);
    const isNowBelow = isBelow(standingOf(element));
    if (isNowBelow !== (record !== undefined)) found.push(`${key} was not looked at again`);
    if (isOperation(element)) {
      const right = rightOf(statusOf(pool, element));
      if (element.right !== right) found.push(`${key} has right ${element.right} instead of ${right}`);
      if ((element.peers as Peers).isBelow !== isNowBelow)
        found.push(`the peers of ${key} were not looked at again`);
    }
    const { settings } = standingOf(element);
    const sinceMs = record?.belowSinceMs ?? null;
    const due = sinceMs === null ? Number.POSITIVE_INFINITY : nextChange(settings, sinceMs, nowMs);
    // What is due by now is looked at with the next tick.
    if (wakeAtMs > nowMs && wakeAtMs !== due) found.push(`${key} wakes at ${wakeAtMs} instead of ${due}`);
  }
  if (wakeCount !== tree.wakes.size)
    found.push(`${tree.wakes.size} wakes are kept for ${wakeCount} elements`);
  return found;
}
