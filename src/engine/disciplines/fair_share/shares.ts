// Vector fair share: which part of a pool everybody is entitled to (9.1, 9.2).
//
// From the leaves up, every element gets a curve: what it holds at each level of the water. From the root
// down, every group finds the level inside that its own share allows and hands it to its members. Break
// points are sorted, never searched by trial, so all of it is exact up to rounding.
//
// Only what is stale is drawn, and shares are handed down only to those who stand elsewhere than before or were drawn
// anew: the outcome is that of a tree that is drawn from nothing.

import { empty } from "../../few.ts";
import { drawChanged, placeOfRoot } from "./drawing.ts";
import { settleGangs, tryGangsAgain } from "./gangs.ts";
import { isSamePlace, type Place, placeAt } from "./levels.ts";
import { type Path, pathAt } from "./paths.ts";
import { noteChanged, type ShareElement, type ShareTree, tidy } from "./share-tree.ts";

export function updateShares(tree: ShareTree): void {
  updateSharesBelowRoot(tree);
  sumShares(tree.root, tree);
}

/** All but what the root's members have together, which mostly nobody asks for. */
export function updateSharesBelowRoot(tree: ShareTree): void {
  const { root } = tree;
  if (!root.isStale && root.place !== null) return;
  const hasGangs = root.gangCount > 0 || tree.settled.length > 0;
  if (hasGangs) tryGangsAgain(tree);
  const isStill = drawChanged(tree, hasGangs);
  if (root.gangCount > 0) settleGangs(tree);
  handDown(root, isStill ? (root.place as Place) : placeOfRoot(tree), tree);
  tidy(tree);
}

/**
 * Hands the level down and sums the shares up; answers whether the element has another one. One that stands where it
 * stood, on the same curve, has what it had.
 */
function handDown(element: ShareElement, place: Place, tree: ShareTree): boolean {
  const isMoved = element.place === null || !isSamePlace(element.place, place);
  if (!isMoved && !element.isRedrawn) return false;
  if (isMoved) element.place = place;
  element.isRedrawn = false;
  element.handedCurve = element.curve;
  if (element.isFifo) return handDownLine(element, place, tree);
  if (element.path !== null) return setShareAt(element, place.position, tree);
  const isOther = handDownToMembers(element, isMoved, tree);
  empty(element.renewed);
  return isOther && element.parent !== null && sumShares(element, tree);
}

/** Answers whether one of them may have another share, or they are others. */
function handDownToMembers(element: ShareElement, isMoved: boolean, tree: ShareTree): boolean {
  const { position, isBelow } = element.place as Place;
  let isOther = isMoved;
  for (const member of isMoved ? element.members : element.renewed) {
    if (member.index < 0 || (!isMoved && !member.isRedrawn)) {
      isOther = true; // They may be fewer, or more.
      continue;
    }
    if (handDown(member, placeAt(member.curve, member.weight * position, isBelow), tree)) isOther = true;
  }
  return isOther;
}

const VALUE: number[] = [];

/** What operations have at a place of their path; gangs that are still in it are whole. */
function setShareAt(element: ShareElement, place: number, tree: ShareTree): boolean {
  const { path, isGang, hasGivenUp, fairShare } = element;
  const at = hasGivenUp ? 0 : isGang ? Math.round(place) : place;
  for (let key = 0; key < fairShare.length; key++) VALUE[key] = pathAt(path as Path, at, key);
  return setShares(element, VALUE, tree);
}

function sumShares(element: ShareElement, tree: ShareTree): boolean {
  const { members, fairShare } = element;
  for (let key = 0; key < fairShare.length; key++) {
    let sum = 0;
    for (let index = 0; index < members.length; index++)
      sum += members[index]!.count * members[index]!.fairShare[key]!;
    VALUE[key] = sum;
  }
  return setShares(element, VALUE, tree);
}

/** In a line, operations that were not reached have nothing, and policies the sum of their operations. */
function handDownLine(group: ShareElement, { position }: Place, tree: ShareTree): boolean {
  const reached = new Map<ShareElement, number>();
  for (let index = 0; index < group.line.length && index < position; index++) {
    reached.set(group.line[index] as ShareElement, Math.min(1, position - index));
  }
  const assign = (element: ShareElement): boolean => {
    element.isRedrawn = false;
    empty(element.renewed);
    element.handedCurve = element.curve;
    if (element.path !== null) return setShareAt(element, reached.get(element) ?? 0, tree);
    for (const member of element.members) assign(member);
    return sumShares(element, tree);
  };
  return assign(group);
}

function setShares(element: ShareElement, shares: readonly number[], tree: ShareTree): boolean {
  const { fairShare } = element;
  let isOther = false;
  for (let key = 0; key < fairShare.length; key++) {
    if (fairShare[key] === shares[key]) continue;
    fairShare[key] = shares[key]!;
    isOther = true;
  }
  if (isOther) noteChanged(tree, element);
  return isOther;
}
