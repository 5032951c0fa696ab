// The tree over which fair shares are computed (9.1, 9.2): what every element says of itself, and what was drawn for it.
//
// The elements of a pool (`tree.ts`) are such elements themselves; code that changes one says so with a function of
// this file. `updateShares` then draws what is stale, and nothing else.
//
// Invariants
//   1. Whatever changes the curve of an element makes it and all above it stale, except the root.
//   2. `fairShare` and `place` are those of the last update.
//   3. `gangCount` counts the gangs below an element that may still claim something, itself included.

import { BLANK, type Curve, isWasteful, moveTogether, newPaper, type Paper } from "./curves.ts";
import { setGuarantees } from "./guarantees.ts";
import type { Place } from "./levels.ts";
import { type Path, pathOf } from "./paths.ts";

/** The root, a group, a policy, or operations that are alike. All amounts are fractions of the pool. */
export interface ShareElement {
  readonly parent: ShareElement | null;
  readonly weight: number;
  /** How many equal operations it stands for; all others stand for themselves. Its curve and its share are those of each. */
  count: number;
  /** Whether all operations below it stand in one line. */
  readonly isFifo: boolean;
  /** What it reserves per key, undefined where it does not say; undefined as a whole if it reserves nothing. */
  readonly reserved: readonly (number | undefined)[] | undefined;
  readonly limit: readonly number[];
  /** Those among whom it divides its share; of a FIFO group, those whose operations it serves. */
  readonly members: ShareElement[];
  /** Those of them that are stale, drawn anew or others in number, and some that are not any more, or no longer members. */
  readonly renewed: ShareElement[];
  /** Its place among the members of its parent. */
  index: number;

  /** Of operations: the way of each to what it wants; null for all others. */
  path: Path | null;
  isGang: boolean;
  /** Place by original submission, of operations in a line and of gangs. */
  order: number;
  /** A gang that could not have its whole demand (9.2). */
  hasGivenUp: boolean;
  gangCount: number;

  /** Given or inferred, and fitted to what there is. */
  guarantee: readonly number[];
  isOvercommitted: boolean;

  /** As of the last update; while gangs give up, the one without them. */
  curve: Curve;
  /** With all gangs, and where the other one is drawn. */
  fullCurve: Curve;
  settledCurve: Curve;
  /** The one that shares were last handed down by; null: it was drawn since. */
  handedCurve: Curve | null;
  isStale: boolean;
  /** Drawn since shares were last handed down. */
  isRedrawn: boolean;
  /** Of a FIFO group: the operations in their order, as of the last drawing. */
  line: readonly ShareElement[];
  place: Place | null;
  readonly fairShare: number[];
  /** Whether its fair share is another one than before. */
  isChanged: boolean;
}

export interface ShareTree {
  readonly root: ShareElement;
  readonly keyCount: number;
  readonly paper: Paper;
  /** Whose fair share is another one than before, if they bear the mark; cleared by the code that has looked at them. */
  readonly changed: ShareElement[];
  /** The gangs that gave up in the last update, and everything that was drawn without them. */
  givenUp: ShareElement[];
  settled: ShareElement[];
}

/** What an element of shares is made from, besides what its owner knows of it. */
export type ShareFields = Pick<ShareElement, "parent" | "weight" | "isFifo" | "reserved" | "limit">;

/** A class, so that all of them are alike to the runtime: they are made with every change. */
export class ShareNode implements ShareElement {
  readonly parent: ShareElement | null;
  readonly weight: number;
  count = 1;
  readonly isFifo: boolean;
  readonly reserved: readonly (number | undefined)[] | undefined;
  readonly limit: readonly number[];
  readonly members: ShareElement[] = [];
  readonly renewed: ShareElement[] = [];
  index = -1;
  path: Path | null = null;
  isGang = false;
  order = 0;
  hasGivenUp = false;
  gangCount = 0;
  guarantee: readonly number[];
  isOvercommitted = false;
  curve = BLANK;
  fullCurve = BLANK;
  settledCurve = BLANK;
  handedCurve: Curve | null = null;
  isStale = false;
  isRedrawn = false;
  line: readonly ShareElement[] = [];
  place: Place | null = null;
  readonly fairShare: number[];
  isChanged = false;

  constructor({ parent, weight, isFifo, reserved, limit }: ShareFields) {
    this.parent = parent;
    this.weight = weight;
    this.isFifo = isFifo;
    this.reserved = reserved;
    this.limit = limit;
    this.guarantee = limit.map(() => 0);
    this.fairShare = limit.map(() => 0);
  }
}

export function newShareTree(root: ShareElement): ShareTree {
  const keyCount = root.limit.length;
  return { root, keyCount, paper: newPaper(keyCount), changed: [], givenUp: [], settled: [] };
}

/** What an element has, or each of its operations, is something else than before. */
export function noteChanged({ changed }: ShareTree, element: ShareElement): void {
  if (element.isChanged) return;
  element.isChanged = true;
  changed.push(element);
}

/** To be called when all that reserve something are in the tree: guarantees depend on nothing else. */
export function fixGuarantees({ root }: ShareTree, mainKey: number): void {
  setGuarantees(root, mainKey);
}

export function addMember(parent: ShareElement, member: ShareElement): void {
  member.index = parent.members.length;
  parent.members.push(member);
  if (member.gangCount > 0) countGangs(parent, member.gangCount);
  member.isStale = false;
  makeStale(member);
}

/** The last member takes its place. */
export function removeMember(parent: ShareElement, member: ShareElement): void {
  const last = parent.members.pop() as ShareElement;
  if (last !== member) {
    parent.members[member.index] = last;
    last.index = member.index;
  }
  member.index = -1;
  if (member.gangCount > 0) countGangs(parent, -member.gangCount);
  noteOthers(parent, member);
}

/** What each of some operations wants and has, as fractions of the pool. */
export interface Claim {
  readonly demand: readonly number[];
  readonly usage: readonly number[];
  readonly isGang: boolean;
  readonly order: number;
  /** Of its own, where it stands in a line; operations of a pool have none. */
  readonly limit?: readonly (number | undefined)[] | undefined;
}

/** Operations are more or fewer than before. */
export function setCount(element: ShareElement, count: number): void {
  element.count = count;
  if (element.parent !== null) noteOthers(element.parent, element);
}

/** What all members have together is another part, though none of them may have changed. */
function noteOthers(parent: ShareElement, member: ShareElement): void {
  if (parent.parent === null) parent.place = null; // What was left to the others there is not what is left now.
  parent.renewed.push(member);
  makeStale(parent);
}

/** Operations want something else than before. */
export function setClaim(element: ShareElement, claim: Claim): void {
  const { demand, usage, isGang, order, limit } = claim;
  // Gangs grow straight to their demand (9.11).
  const isStraight = isGang || usage.every(isNothing);
  const used = isStraight ? NOTHING : usage.map((share, key) => Math.min(share, demand[key]!));
  // In a line a path ends at the operation's own limit; alone, its curve does.
  element.path = pathOf({ demand, usage: used, limit: isInLine(element) ? limit : undefined });
  element.isGang = isGang;
  element.order = order;
  element.hasGivenUp = false;
  const gangCount = isGang ? 1 : 0;
  if (gangCount !== element.gangCount) countGangs(element, gangCount - element.gangCount);
  makeStale(element);
}

const NOTHING: readonly number[] = [];

export function isNothing(share: number): boolean {
  return share === 0;
}

function isInLine({ parent }: ShareElement): boolean {
  for (let above = parent; above !== null; above = above.parent) if (above.isFifo) return true;
  return false;
}

export function countGangs(element: ShareElement, more: number): void {
  for (let above: ShareElement | null = element; above !== null; above = above.parent)
    above.gangCount += more;
}

/** Invariant 1. */
export function makeStale(element: ShareElement): void {
  for (let above: ShareElement | null = element; above !== null && !above.isStale; above = above.parent) {
    above.isStale = true;
    if (!above.isRedrawn) above.parent?.renewed.push(above);
  }
}

/** Its curve is another one: shares are handed down to it. */
export function noteRedrawn(element: ShareElement): void {
  if (!element.isStale && !element.isRedrawn) element.parent?.renewed.push(element);
  element.isStale = false;
  element.isRedrawn = true;
}

/** Gives back the paper of curves that nobody needs any more. */
export function tidy(tree: ShareTree): void {
  if (isWasteful(tree.paper)) moveCurvesTogether(tree);
}

function moveCurvesTogether({ paper, root }: ShareTree): void {
  const curves: Curve[] = [];
  const collect = ({ fullCurve, settledCurve, members }: ShareElement): void => {
    if (fullCurve.paper === paper) curves.push(fullCurve);
    if (settledCurve.paper === paper) curves.push(settledCurve);
    for (const member of members) collect(member);
  };
  collect(root);
  moveTogether(paper, curves);
}
