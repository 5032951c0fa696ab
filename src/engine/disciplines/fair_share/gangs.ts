// Gangs have their whole demand or nothing (9.2). While some gang has a part of its demand, the one with the smallest
// part gives up, and the water flows anew.

import { BLANK, isSameCurve } from "./curves.ts";
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

/** Gangs of one element that have the same part of their demand at every level, by submission: the latest gives up first. */
type Alike = ShareElement[];

/** An element with gangs right below it, or a line, at the level that those above it leave it. */
interface Corner {
  readonly element: ShareElement;
  readonly gangs: readonly Alike[];
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
  if (isLast) settleWithout(element, gang, tree);
  else settle(element, tree);
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

/** How many curves of an element are kept: together they need the square of that. */
const WITHOUTS_MAX = 64;

/** With every change all gangs have their chance, and mostly the same ones give up in the same order. */
function settleWithout(element: ShareElement, gang: ShareElement, tree: ShareTree): void {
  const { curve, fullCurve, settledCurve } = element;
  element.withouts ??= [];
  const { withouts } = element;
  const step = curve === fullCurve ? 0 : withouts.findIndex((each) => each.curve === curve) + 1;
  if (step >= WITHOUTS_MAX || (curve === settledCurve && step === 0)) return settle(element, tree);
  if (step === 0) tree.settled.push(element);
  const known = withouts[step];
  if (known?.gang === gang) {
    element.curve = known.curve;
    noteRedrawn(element);
  } else {
    for (const later of withouts.slice(step)) later.gang = null;
    element.curve = draw(element, tree, known?.curve ?? BLANK);
    withouts[step] = { gang, curve: element.curve };
  }
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

/** More are not told apart: each of the others stands alone. */
const ALIKE_MAX = 16;

function gangsRightBelow({ isFifo, path, members }: ShareElement): Alike[] {
  const gangs: Alike[] = [];
  if (isFifo || path !== null) return gangs;
  for (const member of members) {
    if (!member.isGang || member.gangCount === 0) continue;
    const toldApart = Math.min(gangs.length, ALIKE_MAX);
    let at = 0;
    while (at < toldApart && !isAlike(member, gangs[at]![0]!)) at++;
    if (at < toldApart) gangs[at]!.push(member);
    else gangs.push([member]);
  }
  for (const alike of gangs) alike.sort((a, b) => a.order - b.order);
  return gangs;
}

function isAlike(a: ShareElement, b: ShareElement): boolean {
  return a.weight === b.weight && isSameCurve(a.curve, b.curve);
}

/** Of the gangs right below an element, or in its line. */
function smallestPart(
  { isFifo, line }: ShareElement,
  gangs: readonly Alike[],
  { position, isBelow }: Place,
): PartialGang | undefined {
  if (isFifo) {
    const index = Math.floor(position);
    return partialOf(line[index], position - index, undefined);
  }
  let smallest: PartialGang | undefined;
  for (let index = 0; index < gangs.length; index++) {
    const alike = gangs[index]!;
    while (alike.at(-1)?.hasGivenUp === true) alike.pop();
    const gang = alike.at(-1);
    if (gang === undefined) continue;
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
