// Vector fair share: which part of a pool everybody is entitled to (9.1, 9.2).
//
// From the leaves up, every element gets a curve: what it holds at each level of the water. From the root
// down, every group finds the level inside that its own share allows and hands it to its members. Break
// points are sorted, never searched by trial, so all of it is exact up to rounding.
//
// Only what is stale is drawn, and shares are handed down only to those who stand elsewhere than before or were drawn
// anew: the outcome is that of a tree that is drawn from nothing.

import { drawStale, placeOfRoot } from "./drawing.ts";
import { settleGangs, tryGangsAgain } from "./gangs.ts";
import { isSamePlace, type Place, placeAt } from "./levels.ts";
import { type Path, pathAt } from "./paths.ts";
import { type ShareElement, type ShareTree, tidy } from "./share-tree.ts";

export function updateShares(tree: ShareTree): void {
  const { root } = tree;
  if (!root.isStale && root.place !== null) return;
  tryGangsAgain(tree);
  drawStale(root, tree);
  if (root.gangCount > 0) settleGangs(tree);
  handDown(root, placeOfRoot(tree), tree);
  tidy(tree);
}

/** Hands the level down and sums the shares up. An element that stands where it stood, on the same curve, has what it had. */
function handDown(element: ShareElement, place: Place, tree: ShareTree): void {
  const isMoved = element.place === null || !isSamePlace(element.place, place);
  if (!isMoved && !element.isRedrawn) return;
  if (isMoved) element.place = place;
  element.isRedrawn = false;
  if (element.isFifo) return handDownLine(element, place, tree);
  if (element.path !== null) return setShare(element, shareOf(element, place.position), tree);
  const { position, isBelow } = element.place as Place;
  const sum = element.limit.map(() => 0);
  for (const member of element.members) {
    if (isMoved || member.isRedrawn) {
      handDown(member, placeAt(member.curve, member.weight * position, isBelow), tree);
    }
    addInto(sum, member.fairShare);
  }
  setShare(element, sum, tree);
}

/** What operations have at a place of their path; gangs that are still in it are whole. */
function shareOf({ path, isGang, hasGivenUp }: ShareElement, at: number): number[] {
  return pathAt(path as Path, hasGivenUp ? 0 : isGang ? Math.round(at) : at);
}

/** In a line, operations that were not reached have nothing, and policies the sum of their operations. */
function handDownLine(group: ShareElement, { position }: Place, tree: ShareTree): void {
  const reached = new Map<ShareElement, number>();
  for (let index = 0; index < group.line.length && index < position; index++) {
    reached.set(group.line[index] as ShareElement, Math.min(1, position - index));
  }
  const assign = (element: ShareElement): void => {
    element.isRedrawn = false;
    if (element.path !== null) return setShare(element, shareOf(element, reached.get(element) ?? 0), tree);
    const sum = element.limit.map(() => 0);
    for (const member of element.members) {
      assign(member);
      addInto(sum, member.fairShare);
    }
    setShare(element, sum, tree);
  };
  assign(group);
}

function setShare(element: ShareElement, share: readonly number[], { changed }: ShareTree): void {
  const { fairShare } = element;
  for (let key = 0; key < share.length; key++) {
    if (fairShare[key] === share[key]) continue;
    fairShare[key] = share[key]!;
    changed.add(element);
  }
}

function addInto(sum: number[], shares: readonly number[]): void {
  for (let key = 0; key < sum.length; key++) sum[key]! += shares[key]!;
}
