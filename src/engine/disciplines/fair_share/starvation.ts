// Who is below its fair share, since when, and what that entitles it to (9.3, 9.4).

import type { StarvationChange } from "../../events.ts";
import { compareIds } from "../../resources.ts";
import type { Pool } from "../../state.ts";
import type { Transaction } from "../../transaction.ts";
import { operationBy, operationsIn } from "./entries.ts";
import { noteMoved, setRight, setRightBelow, touch, wakeAt } from "./operations.ts";
import { isBelowFairShare } from "./satisfaction.ts";
import type { Branch, Operation, Peers, PoolTree, Right, ShareSettings, Standing } from "./tree.ts";

export type StarvationStatus = StarvationChange["status"];

/**
 * One look at everybody's status; an element that is found normal begins anew. Peers are above or below together, so
 * that only those operations are looked at singly that moved, whose peers changed, or whose time has come.
 *
 * Who has just come below its fair share has no right from that yet, and mostly gets what it lacks at the same moment.
 * So that is left for the last look of the moment: `isLast` says whether the caller found nothing more to do.
 */
export class Evaluation {
  readonly #transaction: Transaction;
  readonly #pool: Pool;
  readonly #tree: PoolTree;
  #changes: StarvationChange[] = [];
  /** Those who have just come below their fair share. */
  readonly #fresh: (Branch | Operation)[] = [];
  /** Operations that stand otherwise than at the last look. */
  readonly moved: readonly Operation[];

  constructor(transaction: Transaction, pool: Pool, tree: PoolTree) {
    this.#transaction = transaction;
    this.#pool = pool;
    this.#tree = tree;
    tree.lookCount++;
    this.#judgeTouched();
    this.moved = this.#judgeMoved();
    this.#judgeDue();
    this.#clearGone();
    tree.isLookedAt = true;
    this.#emit();
  }

  /** Answers when time alone changes a status next; infinite: never. */
  finish(isLast: boolean): number {
    for (const element of this.#fresh) {
      if (isLast) this.#begin(element, undefined);
      else if (isOperation(element)) noteMoved(this.#tree, element);
      else touch(this.#tree, element);
    }
    this.#emit();
    return this.#tree.wakes.first()?.wakeAtMs ?? Number.POSITIVE_INFINITY;
  }

  /** Elements that stand otherwise than at the last look. The root never starves. */
  #judgeTouched(): void {
    const { touched } = this.#tree;
    for (const each of touched) {
      if (!each.isTouched) continue; // It has gone since.
      each.isTouched = false;
      if (each.kind !== "peers") {
        if (each.kind !== "root") this.#judge(each);
        continue;
      }
      const isNowBelow = isBelow(each);
      if (isNowBelow === each.isBelow) continue;
      each.isBelow = isNowBelow;
      for (const operation of each.operations) this.#judge(operation);
    }
    touched.length = 0;
  }

  #judgeMoved(): readonly Operation[] {
    const { moved } = this.#tree;
    if (moved.length === 0) return moved;
    this.#tree.moved = [];
    for (const operation of moved) {
      if (!operation.isMoved) continue;
      operation.isMoved = false;
      this.#judge(operation);
    }
    return moved;
  }

  /** Those whose time has come; who was judged has another time by now. */
  #judgeDue(): void {
    const { wakes } = this.#tree;
    for (let next = wakes.first(); next !== undefined; next = wakes.first()) {
      if (next.wakeAtMs > this.#transaction.nowMs) return;
      this.#judge(next);
    }
  }

  #judge(element: Branch | Operation): void {
    if (element.judgedIn === this.#tree.lookCount) return;
    element.judgedIn = this.#tree.lookCount;
    const standing = standingOf(element);
    const { settings } = standing;
    const record = this.#pool.starvation.get(element.key);
    if (!(isOperation(element) ? (element.peers as Peers).isBelow : isBelow(standing))) {
      if (record !== undefined) this.#noteNormal(element.key);
      this.#setStatus(element, "normal", Number.POSITIVE_INFINITY);
      return;
    }
    const sinceMs = record?.belowSinceMs ?? null;
    if (sinceMs !== null || statusAfter(settings, 0) !== "below_fair_share")
      return this.#begin(element, record);
    // What a look that was taken back has left of a right does not count.
    this.#setStatus(element, "below_fair_share", Number.POSITIVE_INFINITY);
    this.#fresh.push(element);
  }

  /** It is below its fair share, since now or since the time that is recorded. */
  #begin(element: Branch | Operation, record: StarvationChange | undefined): void {
    const { nowMs } = this.#transaction;
    const { settings } = standingOf(element);
    const belowSinceMs = record?.belowSinceMs ?? nowMs;
    const status = statusAfter(settings, nowMs - belowSinceMs);
    if (record?.status !== status) this.#changes.push({ element: element.key, belowSinceMs, status });
    this.#setStatus(element, status, nextChange(settings, belowSinceMs, nowMs));
  }

  #setStatus(element: Branch | Operation, status: StarvationStatus, wakeAtMs: number): void {
    if (isOperation(element)) setRight(this.#tree, element, rightOf(status));
    else setRightBelow(this.#tree, element, rightOf(status));
    wakeAt(this.#tree, element, wakeAtMs);
  }

  #noteNormal(element: string): void {
    this.#changes.push({ element, belowSinceMs: null, status: "normal" });
  }

  /** Records of elements that went since the last look; before the first one of a tree all records are gone through. */
  #clearGone(): void {
    const { branches, gone, isLookedAt } = this.#tree;
    const { starvation } = this.#pool;
    for (const key of isLookedAt ? gone.map(({ key }) => key) : starvation.keys()) {
      if (!starvation.has(key) || branches.has(key)) continue;
      if (operationBy(this.#transaction.state, this.#tree, key) === undefined) this.#noteNormal(key);
    }
    gone.length = 0;
  }

  #emit(): void {
    const changes = this.#changes;
    if (changes.length === 0) return;
    this.#changes = [];
    if (changes.length > 1) changes.sort((a, b) => compareIds(a.element, b.element)); // However they were found.
    const { nowMs: atMs } = this.#transaction;
    this.#transaction.emit({ kind: "starvationChanged", pool: this.#pool.record.name, changes, atMs });
  }
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
