// Vector fair share: which part of a pool everybody is entitled to (9.1, 9.2).
//
// From the leaves up, every element gets a curve: what it holds at each level of the water. From the root
// down, every group finds the level inside that its own share allows and hands it to its members. Break
// points are sorted, never searched by trial, so all of it is exact up to rounding.
//
// Only what is stale is drawn, and shares are handed down only to those who stand elsewhere than before or were drawn
// anew: the outcome is that of a tree that is drawn from nothing. Where the owner of the tree has said that a small step
// of the water makes no difference below an element, its members get their shares when somebody asks for them.

import { drawChanged, placeOfRoot } from "./drawing.ts";
import { settleGangs, tryGangsAgain } from "./gangs.ts";
import { isSamePlace, type Place, placeAt, positionAt, valueAt } from "./levels.ts";
import { type Path, pathAt } from "./paths.ts";
import { noteChanged, type ShareElement, type ShareTree, tidy } from "./share-tree.ts";

export function updateShares(tree: ShareTree): void {
  const { root } = tree;
  if (!root.isStale && root.place !== null) return;
  const hasGangs = root.gangCount > 0 || tree.settled.length > 0;
  if (hasGangs) tryGangsAgain(tree);
  const isStill = drawChanged(tree, hasGangs);
  if (root.gangCount > 0) settleGangs(tree);
  handDown(root, isStill ? (root.place as Place) : placeOfRoot(tree), tree);
  tidy(tree);
}

/** Hands the level down and sums the shares up. An element that stands where it stood, on the same curve, has what it had. */
function handDown(element: ShareElement, place: Place, tree: ShareTree): void {
  const isMoved = element.place === null || !isSamePlace(element.place, place);
  if (!isMoved && !element.isRedrawn) return;
  if (isMoved) element.place = place;
  element.wasRedrawn = element.isRedrawn;
  element.isRedrawn = false;
  element.handedCurve = element.curve;
  element.span = null;
  if (element.isFifo) return handDownLine(element, place, tree);
  if (element.path !== null) return setShareAt(element, place.position, tree);
  handDownToMembers(element, isMoved || element.isBehind, tree);
  sumShares(element, tree);
}

function handDownToMembers(element: ShareElement, isMoved: boolean, tree: ShareTree): void {
  const { position, isBelow } = element.place as Place;
  element.isBehind = false;
  for (const member of element.members) {
    if (!isMoved && !member.isRedrawn) continue;
    const level = member.weight * position;
    const place = placeAt(member.curve, level, isBelow);
    if (!isBelow && isWithinSpan(member, place)) stayBehind(member, place, level, tree);
    else handDown(member, place, tree);
  }
}

function isWithinSpan({ span, isRedrawn }: ShareElement, { position, isBelow }: Place): boolean {
  return span !== null && !isRedrawn && !isBelow && position >= span.from && position <= span.to;
}

const VALUE: number[] = [];

/** Takes a place without its members. What they have together there is known from the curve. */
function stayBehind(element: ShareElement, place: Place, level: number, tree: ShareTree): void {
  if (isSamePlace(element.place as Place, place)) return;
  element.place = place;
  element.isBehind = true;
  valueAt(element.curve, level, VALUE);
  for (let key = 0; key < element.fairShare.length; key++) setShare(element, key, VALUE[key]!, tree);
}

/** The members of an element that stayed behind get their shares. */
export function catchUp(element: ShareElement, tree: ShareTree): void {
  if (element.isBehind) handDownToMembers(element, true, tree);
}

/** What each operation of a member would have if the element stood elsewhere. */
export function shareThere(member: ShareElement, position: number, share: number[]): void {
  const { curve, weight, path } = member;
  const at = positionAt(curve, weight * position, false);
  for (let key = 0; key < member.fairShare.length; key++) share[key] = pathAt(path as Path, at, key) / weight;
}

/** What operations have at a place of their path; gangs that are still in it are whole. */
function setShareAt(element: ShareElement, place: number, tree: ShareTree): void {
  const { path, isGang, hasGivenUp, fairShare } = element;
  const at = hasGivenUp ? 0 : isGang ? Math.round(place) : place;
  for (let key = 0; key < fairShare.length; key++)
    setShare(element, key, pathAt(path as Path, at, key), tree);
}

function sumShares(element: ShareElement, tree: ShareTree): void {
  const { members, fairShare } = element;
  for (let key = 0; key < fairShare.length; key++) {
    let sum = 0;
    for (let index = 0; index < members.length; index++) sum += members[index]!.fairShare[key]!;
    setShare(element, key, sum, tree);
  }
}

/** In a line, operations that were not reached have nothing, and policies the sum of their operations. */
function handDownLine(group: ShareElement, { position }: Place, tree: ShareTree): void {
  const reached = new Map<ShareElement, number>();
  for (let index = 0; index < group.line.length && index < position; index++) {
    reached.set(group.line[index] as ShareElement, Math.min(1, position - index));
  }
  const assign = (element: ShareElement): void => {
    element.isRedrawn = false;
    element.handedCurve = element.curve;
    if (element.path !== null) return setShareAt(element, reached.get(element) ?? 0, tree);
    for (const member of element.members) assign(member);
    sumShares(element, tree);
  };
  assign(group);
}

function setShare(element: ShareElement, key: number, share: number, tree: ShareTree): void {
  if (element.fairShare[key] === share) return;
  element.fairShare[key] = share;
  noteChanged(tree, element);
}
