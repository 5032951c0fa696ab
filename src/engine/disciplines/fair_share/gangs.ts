// Gangs have their whole demand or nothing (9.2). While some gang has a part of its demand, the one with the smallest
// part gives up, and the water flows anew.

import { BLANK } from "./curves.ts";
import { draw, lineOf, placeOfRoot } from "./drawing.ts";
import {
  growthAt,
  isSameGrowth,
  isSatisfiedAt,
  newGrowth,
  type Place,
  placeAt,
  positionAt,
} from "./levels.ts";
import { countGangs, noteRedrawn, type ShareElement, type ShareTree } from "./share-tree.ts";
import { SHARE_EPSILON } from "./tolerances.ts";

/** Every gang that gave up at the last update has its chance again. */
export function tryGangsAgain(tree: ShareTree): void {
  for (const gang of tree.givenUp) {
    if (!gang.hasGivenUp || gang.index < 0) continue; // Another one by now, or gone.
    gang.hasGivenUp = false;
    countGangs(gang, 1);
  }
  for (const element of tree.settled) {
    if (element.isStale) continue; // Drawn anew in any case.
    element.curve = element.fullCurve;
    noteRedrawn(element);
    if (element.isFifo) element.line = lineOf(element);
  }
  tree.givenUp = [];
  tree.settled = [];
}

/**
 * One gang after another, in the order of the rule. Most of them change nothing outside the element right above them:
 * their siblings take what they leave, and nobody else stands otherwise. Then only that element is drawn anew, and those
 * above it when a gang gives up whose siblings cannot take it all, or when none is left.
 */
export function settleGangs(tree: ShareTree): void {
  giveUpInTurn(tree);
  for (const element of tree.settled) if (element.curve === element.handedCurve) element.isRedrawn = false;
}

function giveUpInTurn(tree: ShareTree): void {
  for (;;) {
    const corners: Corner[] = [];
    collectCorners(tree.root, placeOfRoot(tree), null, corners);
    const stale = new Set<ShareElement>();
    let isQuiet = true;
    const parts = corners.map(partIn);
    while (isQuiet) {
      const first = firstToGiveUp(corners, parts);
      if (first < 0) break;
      const corner = corners[first]!;
      isQuiet = giveUpIn(corner, tree);
      parts[first] = partIn(corner);
      stale.add(corner.element);
    }
    if (stale.size === 0) return;
    drawAbove(stale, tree);
  }
}

/** An element with gangs right below it, or a line, at the level that those above it leave it. */
interface Corner {
  readonly element: ShareElement;
  readonly gangs: readonly ShareElement[];
  readonly level: Level | null;
  /** Whether what it divides depends on its own operations alone. */
  readonly isLast: boolean;
  smallest: PartialGang | undefined;
}

/** Null for the root, which no level decides. */
interface Level {
  readonly level: number;
  readonly isBelow: boolean;
}

function collectCorners(element: ShareElement, place: Place, level: Level | null, found: Corner[]): void {
  const gangs = gangsRightBelow(element);
  const smallest = smallestPart(element, gangs, place);
  if (smallest !== undefined) found.push({ element, gangs, level, isLast: isLastBranch(element), smallest });
  if (element.isFifo) return;
  for (const member of element.members) {
    if (member.gangCount === 0 || member.path !== null) continue;
    const own = { level: member.weight * place.position, isBelow: place.isBelow };
    if (isSatisfiedAt(member.curve, own.level)) continue;
    collectCorners(member, placeAt(member.curve, own.level, own.isBelow), own, found);
  }
}

/** The smallest part of a gang in a corner; infinite: all of them are whole. */
function partIn({ smallest }: Corner): number {
  return smallest?.part ?? Number.POSITIVE_INFINITY;
}

/** Its place among the corners, below 0: none. There are many of both, so that parts are kept beside the corners. */
function firstToGiveUp(corners: readonly Corner[], parts: readonly number[]): number {
  let first = -1;
  for (let index = 0; index < parts.length; index++) {
    const part = parts[index]!;
    if (part === Number.POSITIVE_INFINITY || (first >= 0 && part > parts[first]! + SHARE_EPSILON)) continue;
    const { gang } = corners[index]!.smallest as PartialGang;
    if (first < 0 || givesUpBefore(gang, part, corners[first]!.smallest as PartialGang)) first = index;
  }
  return first;
}

/** The smallest gang of a corner gives up. Answers whether nobody outside the corner stands otherwise for that. */
function giveUpIn(corner: Corner, tree: ShareTree): boolean {
  const { element, gangs, level, isLast, smallest } = corner;
  const { gang } = smallest as PartialGang;
  // The water inside rises: elements with gangs farther below would stand otherwise.
  const hasOthersBelow =
    !isLast && element.members.some(({ path, gangCount }) => path === null && gangCount > 0);
  const isQuietBefore = level !== null && !level.isBelow && !element.isFifo && !hasOthersBelow;
  if (isQuietBefore) growthAt(element.curve, level.level, BEFORE);
  gang.hasGivenUp = true;
  countGangs(gang, -1);
  tree.givenUp.push(gang);
  if (!element.isFifo) settleGang(gang, tree);
  settle(element, tree);
  if (!isQuietBefore || !isSameGrowth(BEFORE, growthAt(element.curve, level.level, AFTER))) return false;
  corner.smallest = smallestPart(element, gangs, placeAt(element.curve, level.level, false));
  return true;
}

const BEFORE = newGrowth();
const AFTER = newGrowth();

function isLastBranch({ parent, isFifo, members }: ShareElement): boolean {
  return parent !== null && !isFifo && members.every(({ path }) => path !== null);
}

/** Who has given up holds nothing at any level, however often that happens. */
function settleGang(gang: ShareElement, tree: ShareTree): void {
  if (gang.settledCurve === BLANK) return settle(gang, tree);
  gang.curve = gang.settledCurve;
  noteRedrawn(gang);
  tree.settled.push(gang);
}

function settle(element: ShareElement, tree: ShareTree): void {
  element.settledCurve = draw(element, tree, element.settledCurve);
  element.curve = element.settledCurve;
  tree.settled.push(element);
}

/** Everything above some elements that were drawn, from below. */
function drawAbove(elements: ReadonlySet<ShareElement>, tree: ShareTree): void {
  const byDepth: Set<ShareElement>[] = [];
  for (const element of elements) {
    let depth = 0;
    for (let above = element.parent; above !== null; above = above.parent) depth++;
    for (let above = element.parent; above !== null; above = above.parent) {
      byDepth[--depth] ??= new Set();
      byDepth[depth]?.add(above);
    }
  }
  for (const level of byDepth.toReversed()) for (const element of level ?? []) settle(element, tree);
}

interface PartialGang {
  readonly gang: ShareElement;
  readonly part: number;
}

function gangsRightBelow({ isFifo, path, members }: ShareElement): ShareElement[] {
  return isFifo || path !== null ? [] : members.filter(({ isGang, gangCount }) => isGang && gangCount > 0);
}

/** Of the gangs right below an element, or in its line. */
function smallestPart(
  { isFifo, line }: ShareElement,
  gangs: readonly ShareElement[],
  { position, isBelow }: Place,
): PartialGang | undefined {
  if (isFifo) {
    const index = Math.floor(position);
    return partialOf(line[index], position - index, undefined);
  }
  let smallest: PartialGang | undefined;
  for (const gang of gangs) {
    if (gang.hasGivenUp) continue;
    const level = gang.weight * position;
    if (isSatisfiedAt(gang.curve, level)) continue;
    smallest = partialOf(gang, positionAt(gang.curve, level, isBelow), smallest);
  }
  return smallest;
}

function partialOf(
  gang: ShareElement | undefined,
  part: number,
  smallest: PartialGang | undefined,
): PartialGang | undefined {
  if (gang === undefined || !gang.isGang) return smallest;
  if (part <= SHARE_EPSILON || part >= 1 - SHARE_EPSILON) return smallest;
  return smallest === undefined || givesUpBefore(gang, part, smallest) ? { gang, part } : smallest;
}

/** The smaller part, or of equal ones the gang that was submitted later. */
function givesUpBefore(gang: ShareElement, part: number, other: PartialGang): boolean {
  if (Math.abs(part - other.part) > SHARE_EPSILON) return part < other.part;
  return gang.order > other.gang.order;
}
