// The curves of a share tree, from the leaves up (9.1).

import type { Curve } from "./curves.ts";
import { endOf, growthAt, highestPlace, isSameGrowth, newGrowth, type Place } from "./levels.ts";
import { lineCurve } from "./paths.ts";
import { noteRedrawn, type ShareElement, type ShareTree } from "./share-tree.ts";
import { sumCurve } from "./sum-curve.ts";

/**
 * Draws what has changed and what is above it; but for the root, whose place no level of its own decides. Answers whether
 * the root must still stand where it stood: then none of its members holds anything else there, or would ask for it next.
 */
export function drawChanged(tree: ShareTree, hasGangs: boolean): boolean {
  const { root } = tree;
  const { place } = root;
  let isStill = !hasGangs && !root.isFifo && place !== null && !place.isBelow;
  for (const member of root.isFifo ? [] : root.renewed) {
    if (!member.isStale || member.index < 0) continue;
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

function drawStale(element: ShareElement, tree: ShareTree): void {
  if (!element.isStale) return;
  if (!element.isFifo) for (const member of element.renewed) if (member.index >= 0) drawStale(member, tree);
  element.fullCurve = draw(element, tree, element.fullCurve);
  element.curve = element.fullCurve;
}

/** Draws the curve of an element anew from its members or its line, where the former one was if it fits there. */
export function draw(element: ShareElement, { paper, root }: ShareTree, former: Curve): Curve {
  const { path, members, guarantee, limit, isFifo } = element;
  const drawing = { paper, guarantee, limit, former };
  noteRedrawn(element);
  element.handedCurve = null;
  if (isFifo) {
    element.line = lineOf(element);
    return lineCurve(element.line, drawing);
  }
  if (path !== null) return lineCurve(element.hasGivenUp ? [] : [element], drawing);
  return element === root ? element.curve : sumCurve(members, drawing);
}

/** The operations below a FIFO group in the order of submission, without gangs that cannot be whole. */
export function lineOf(group: ShareElement): ShareElement[] {
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
export function placeOfRoot({ root }: ShareTree): Place {
  if (root.isFifo) return endOf(root.curve);
  return highestPlace(root.members, root.limit, root.place ?? undefined);
}
