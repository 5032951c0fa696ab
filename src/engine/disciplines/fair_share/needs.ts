// What waiting requests ask of a pool (9.7): those that ask for the same fit in the same places, whoever they are, so
// that a look asks once for all of them, and not again until some node has grown.

import { ANY_NODE } from "../../placement/node-index.ts";
import { covers } from "../../placement/node-list.ts";
import { type Ask, mayServe } from "../../placement/room.ts";
import type { Node, PoolLine } from "../../state.ts";
import type { Space } from "./space.ts";
import type { Peers, PoolTree } from "./tree.ts";

export interface Need {
  readonly key: string;
  /** On each node, or of a pool without nodes. */
  readonly units: readonly number[];
  /** Null in a pool without nodes. */
  readonly ask: Ask | null;
  lineCount: number;
  /** Those with something waiting. */
  readonly peers: Set<Peers>;
  /** There was no room for it on the nodes, and none of them has grown enough since. */
  isMisfit: boolean;
}

/** The need of a line; whoever takes it counts the line. */
export function needOf({ needs, leastUnits }: PoolTree, { need: units, ask }: PoolLine): Need {
  const key = ask === null ? units.join() : `${ask.need.join()}|${ask.count}|${ask.wanted.key}`;
  let need = needs.get(key);
  if (need === undefined) {
    need = { key, units: ask?.need ?? units, ask, lineCount: 0, peers: new Set(), isMisfit: false };
    needs.set(key, need);
    need.units.forEach((amount, i) => (leastUnits[i] = Math.min(leastUnits[i]!, amount)));
  }
  return need;
}

export function dropNeed({ needs }: PoolTree, need: Need): void {
  if (--need.lineCount === 0) needs.delete(need.key);
}

/** Whether there is room for it now. That there is none on nodes is remembered until one of them has grown. */
export function hasRoomFor({ openNeeds }: PoolTree, space: Space, need: Need): boolean {
  if (need.isMisfit) return false;
  const hasRoom = space.fitsNow(need);
  if (!hasRoom && need.ask !== null) {
    need.isMisfit = true;
    openNeeds.delete(need);
  }
  return hasRoom;
}

/** Peers with something waiting come into the tree, or go. */
export function showNeeds({ waiting, openNeeds }: PoolTree, peers: Peers): void {
  waiting.add(peers);
  for (const need of peers.needs) {
    need.peers.add(peers);
    if (!need.isMisfit) openNeeds.add(need);
  }
}

export function hideNeeds({ waiting, openNeeds, searches }: PoolTree, peers: Peers): void {
  waiting.delete(peers);
  searches.preemptive?.forget(peers);
  searches.aggressive?.forget(peers);
  for (const need of peers.needs) {
    need.peers.delete(peers);
    if (need.peers.size === 0) openNeeds.delete(need);
  }
}

/** What is left on a node is another amount: a request that fits there now is no misfit any more. */
export function noteGrowth({ needs, openNeeds, leastUnits }: PoolTree, node: Node): void {
  if (!covers(node.left, leastUnits)) return; // As mostly in a pool that is full.
  for (const need of needs.values()) {
    if (!need.isMisfit || !covers(node.left, need.units) || !isServedBy(need, node)) continue;
    need.isMisfit = false;
    if (need.peers.size > 0) openNeeds.add(need);
  }
}

/** Whether it may be served by a node, whatever is left there. */
export function isServedBy({ ask }: Need, node: Node | null): boolean {
  return ask === null || node === null || ask.wanted === ANY_NODE || mayServe(node, ask);
}
