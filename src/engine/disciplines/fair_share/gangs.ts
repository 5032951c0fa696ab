// Gangs have their whole demand or nothing (9.2). While some gang has a part of its demand, the one with the smallest
// part gives up, and the water flows anew.

import { draw, lineOf, placeOfRoot } from "./drawing.ts";
import { isSatisfiedAt, type Place, placeAt } from "./levels.ts";
import { countGangs, type ShareElement, type ShareTree } from "./share-tree.ts";
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
    element.isRedrawn = true;
    if (element.isFifo) element.line = lineOf(element);
  }
  tree.givenUp = [];
  tree.settled = [];
}

export function settleGangs(tree: ShareTree): void {
  for (;;) {
    const partial = smallestPart(tree.root, placeOfRoot(tree), undefined);
    if (partial === undefined) return;
    giveUp(partial.gang, tree);
  }
}

function giveUp(gang: ShareElement, tree: ShareTree): void {
  gang.hasGivenUp = true;
  countGangs(gang, -1);
  tree.givenUp.push(gang);
  let line: ShareElement | null = null;
  for (let above: ShareElement | null = gang; above !== null; above = above.parent)
    if (above.isFifo) line = above;
  for (let above: ShareElement | null = line ?? gang; above !== null; above = above.parent) {
    above.settledCurve = draw(above, tree, above.settledCurve);
    above.curve = above.settledCurve;
    tree.settled.push(above);
  }
}

interface PartialGang {
  readonly gang: ShareElement;
  readonly part: number;
}

function smallestPart(
  element: ShareElement,
  { position, isBelow }: Place,
  found: PartialGang | undefined,
): PartialGang | undefined {
  const { isFifo, path, line, members } = element;
  if (isFifo || path !== null) {
    const index = isFifo ? Math.floor(position) : 0;
    const gang = isFifo ? line[index] : element;
    if (gang === undefined || !gang.isGang) return found;
    const part = position - index;
    if (part <= SHARE_EPSILON || part >= 1 - SHARE_EPSILON) return found;
    return found === undefined || givesUpBefore(gang, part, found) ? { gang, part } : found;
  }
  let smallest = found;
  for (const member of members) {
    if (member.gangCount === 0) continue;
    const level = member.weight * position;
    if (isSatisfiedAt(member.curve, level)) continue;
    smallest = smallestPart(member, placeAt(member.curve, level, isBelow), smallest);
  }
  return smallest;
}

/** The smaller part, or of equal ones the gang that was submitted later. */
function givesUpBefore(gang: ShareElement, part: number, other: PartialGang): boolean {
  if (Math.abs(part - other.part) > SHARE_EPSILON) return part < other.part;
  return gang.order > other.gang.order;
}
