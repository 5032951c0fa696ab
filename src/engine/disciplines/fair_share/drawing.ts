// The curves of a share tree, from the leaves up (9.1).

import { endOf, growthAt, highestPlace, isSameGrowth, newGrowth, type Place } from "./levels.ts";
import { lineCurve } from "./paths.ts";
import type { ShareElement, ShareTree } from "./share-tree.ts";
import { sumCurve } from "./sum-curve.ts";

/**
 * Draws what has changed and what is above it; but for the root, whose place no level of its own decides. Answers whether
 * the root must still stand where it stood: then none of its members holds anything else there, or would ask for it next.
 */
export function drawChanged(tree: ShareTree, hasGangs: boolean): boolean {
  const { root } = tree;
  const { place } = root;
  let isStill = !hasGangs && !root.isFifo && place !== null && !place.isBelow;
  for (const member of root.isFifo ? [] : root.members) {
    if (!member.isStale) continue;
    const level = member.weight * (place?.position ?? 0);
    // Nothing was drawn yet for operations that are new.
    const mayStay = isStill && member.path === null;
    if (mayStay) growthAt(member.curve, level, BEFORE);
    drawStale(member, tree);
    isStill = mayStay && isSameGrowth(BEFORE, growthAt(member.curve, level, AFTER));
  }
  drawStale(root, tree);
  return isStill;
}

const BEFORE = newGrowth();
const AFTER = newGrowth();

/** Draws what is stale. */
export function drawStale(element: ShareElement, tree: ShareTree): void {
  if (!element.isStale) return;
  if (!element.isFifo) for (const member of element.members) drawStale(member, tree);
  draw(element, tree);
}

/** Draws the curve of an element anew from its members or its line. */
export function draw(element: ShareElement, tree: ShareTree): void {
  const { path, members, isFifo } = element;
  element.isStale = false;
  element.isRedrawn = true;
  if (isFifo) element.line = lineOf(element);
  if (isFifo || path !== null) element.curve = lineCurve(isFifo ? element.line : [element], element);
  else if (element !== tree.root) element.curve = sumCurve(takingPart(members, tree), element);
}

function takingPart(members: readonly ShareElement[], { givenUp }: ShareTree): readonly ShareElement[] {
  return givenUp.length === 0 ? members : members.filter(({ hasGivenUp }) => !hasGivenUp);
}

/** The operations below a FIFO group in the order of submission, without gangs that cannot be whole. */
function lineOf(group: ShareElement): ShareElement[] {
  const line: ShareElement[] = [];
  const collect = (element: ShareElement): void => {
    element.isStale = false;
    if (element.path === null) for (const member of element.members) collect(member);
    else if (!element.hasGivenUp && (!element.isGang || element.path.reach === 1)) line.push(element);
  };
  collect(group);
  return line.sort((a, b) => a.order - b.order);
}

/** The root may fill the whole pool; no level of its own decides where it stands. */
export function placeOfRoot(tree: ShareTree): Place {
  const { root } = tree;
  if (root.isFifo) return endOf(root.curve);
  return highestPlace(takingPart(root.members, tree), root.limit, root.place ?? undefined);
}
