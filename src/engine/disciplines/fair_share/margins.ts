// How far the fair share of peers may move before anything is found otherwise about them. Every change in a full pool
// moves the water a little for everybody, and mostly nobody's status, protection or chances are others by that.
//
// Whether peers are below their fair share, how their runs are protected, how satisfied they are: each of these goes
// one way only as the share rises (9.3, 9.5, 9.6). So what is the same at both ends of a margin is the same within it.

import type { Pool } from "../../state.ts";
import { groupsAt } from "./allocations.ts";
import { isBelowFairShare, satisfaction } from "./satisfaction.ts";
import { SHARE_EPSILON } from "./tolerances.ts";
import type { Peers, PoolTree } from "./tree.ts";

export interface Margin {
  /** Fair shares of each of the peers, over the share keys. */
  readonly low: readonly number[];
  readonly high: readonly number[];
  /** How satisfied they are at least, as long as they stay within it. */
  readonly satisfactionMin: number;
  /** Whether the groups of their runs are the same within it, too: only searches ask for them all the time. */
  readonly coversGroups: boolean;
}

/** As parts of the share: the first one is taken within which nothing changes. */
const WIDTHS: readonly number[] = [0.03, 0.003];
/** As long as nobody searches, nothing but being below the share counts. */
const WIDTHS_WITHOUT_SEARCHES: readonly number[] = [0.5, 0.1, ...WIDTHS];

/** Whether all that is known of peers still holds, though their share has moved. */
export function isWithinMargin(tree: PoolTree, { margin, fairShare }: Peers): boolean {
  if (margin === null || (!margin.coversGroups && hasSearches(tree))) return false;
  return isBetween(fairShare, margin);
}

function isBetween(share: readonly number[], { low, high }: Margin): boolean {
  for (let key = 0; key < share.length; key++)
    if (share[key]! < low[key]! || share[key]! > high[key]!) return false;
  return true;
}

/** To be called when what is known of peers no longer holds, or nothing is known yet. */
export function forgetMargin(peers: Peers): void {
  peers.groups = null;
  peers.margin = null;
}

export function marginIn(pool: Pool, tree: PoolTree, peers: Peers): Margin {
  if (peers.margin !== null) return peers.margin;
  const margin = marginOf(pool, tree, peers);
  peers.margin = margin;
  if (!margin.coversGroups) peers.groups = null;
  return margin;
}

function marginOf(pool: Pool, tree: PoolTree, peers: Peers): Margin {
  const { fairShare, usageShare: usage, demandShare: demand, runCount } = peers;
  const coversGroups = hasSearches(tree);
  const isUniform = (low: readonly number[], high: readonly number[]) => {
    if (isBelowAt(peers, low) !== isBelowAt(peers, high)) return false;
    if (!coversGroups || runCount === 0) return true;
    const groups = groupsAt(pool, tree, peers, low);
    return groupsAt(pool, tree, peers, high).every((group, index) => group === groups[index]);
  };
  const between = (low: readonly number[], high: readonly number[]): Margin => {
    return { low, high, satisfactionMin: satisfaction({ usage, demand, fairShare: high }), coversGroups };
  };
  for (const width of coversGroups ? WIDTHS : WIDTHS_WITHOUT_SEARCHES) {
    const low = fairShare.map((share) => moved(share, -width));
    const high = fairShare.map((share) => moved(share, width));
    if (isUniform(low, high)) return between(low, high);
  }
  return between(fairShare.slice(), fairShare.slice());
}

/** Where a share ends and is none, ratios jump: no margin reaches that far. */
function moved(share: number, part: number): number {
  const there = share * (1 + part);
  return Math.min(share, there) > SHARE_EPSILON ? there : share;
}

function isBelowAt(
  { usageShare, demandShare, waitingCount, settings }: Peers,
  fairShare: readonly number[],
): boolean {
  if (waitingCount === 0) return false;
  return isBelowFairShare(
    { usage: usageShare, demand: demandShare, fairShare },
    settings.starvationTolerance,
  );
}

function hasSearches({ searches }: PoolTree): boolean {
  return searches.preemptive !== null || searches.aggressive !== null;
}

/** Somebody searches: from now on margins have to cover the groups of runs. */
export function forgetMarginsWithoutGroups({ running, waiting }: PoolTree): void {
  for (const some of [running, waiting])
    for (const peers of some) if (peers.margin?.coversGroups === false) peers.margin = null;
}
