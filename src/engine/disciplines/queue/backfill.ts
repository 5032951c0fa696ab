// Backfill: a later request may start behind the head if that cannot delay the head (G4). What that means on
// nodes: docs/decisions/placement.md.

import { couldHold } from "../../placement/capacity.ts";
import { covers } from "../../placement/node-list.ts";
import { type Ask, Room } from "../../placement/room.ts";
import { earliestEnd, NodeCover } from "../../scheduling/cover.ts";
import { freeOf, holdNeed, type Pool, type PoolLine, type Request } from "../../state.ts";
import type { Grant, Waiter } from "../discipline.ts";
import type { QueueRules } from "./queue-discipline.ts";
import { QueueWalk } from "./queue-walk.ts";

/** The head of a queue, what it lacks, and the walk that stands at it. */
export interface StuckHead {
  readonly waiter: Waiter;
  readonly shortage: readonly number[];
  readonly walk: QueueWalk;
}

/**
 * The first request, in the order of the queue, that may start behind the head. Of a line only one member
 * comes into question: the first, or where only a short walltime helps, the first that is short enough.
 */
export function findBackfill(
  rules: QueueRules,
  pool: Pool,
  head: StuckHead,
  nowMs: number,
): Grant | undefined {
  const { backfill } = pool.record.settings;
  if (backfill === "none") return undefined;
  let startMs: number | undefined;
  const walltimeMsMax = () => {
    startMs ??= earliestStart(head);
    return startMs - nowMs;
  };
  const leavesEnough = gapOf(pool, head);
  const isShort = ({ spec }: Request) => spec.walltimeMs !== null && spec.walltimeMs <= walltimeMsMax();
  const mayFillGap = (poolLine: PoolLine) => backfill === "opportunistic" && poolLine.line.shape.preemptible;

  const room = new Room(pool);
  const mostLeft = mostLeftIn(pool);
  const walk = new QueueWalk(rules, pool, nowMs, (poolLine) => {
    const { need, ask, line } = poolLine;
    const first = line.members.first() as Request;
    if (ask !== null && (!covers(mostLeft(ask), ask.need) || !room.hasRoomFor(ask))) return null; // Most lines of a full pool.
    if (ask === null) {
      if (need.some((amount, i) => amount > 0 && amount > freeOf(pool, i))) return null;
      const waiter: Waiter = {
        request: first,
        poolLine,
        hold: null,
        borrows: false,
        rank: [],
        score: Number.NaN,
      };
      if (mayFillGap(poolLine) || isShort(first) || leavesEnough(waiter)) return [first];
    }
    const hasWalltimes = line.members.firstRankedAtMost(Number.MAX_VALUE) !== undefined;
    const short = hasWalltimes ? line.members.firstRankedAtMost(walltimeMsMax()) : undefined;
    // Where the first would go on nodes, and whether that leaves enough, is only known at its place.
    const others = short === undefined || short === first ? [] : [short];
    return ask === null ? others : [first, ...others];
  });
  for (const waiter of walk) {
    if (waiter.hold === "here" && waiter.poolLine.ask !== null) continue; // Elsewhere it starts in its turn only (V5).
    if (walk.quotaBlock(waiter) !== null || !walk.fits(waiter)) continue;
    const opportunistic = !isShort(waiter.request) && !leavesEnough(waiter);
    if (!opportunistic || mayFillGap(waiter.poolLine)) return { waiter, opportunistic };
  }
  return undefined;
}

/** What one node at most has left of each key, among those that a request wants; found once for all that want the same. */
function mostLeftIn(pool: Pool): (ask: Ask) => readonly number[] {
  const known = new Map<string, readonly number[]>();
  return ({ wanted }) => {
    let most = known.get(wanted.key);
    if (most === undefined) {
      most = pool.places.mostLeft(pool, wanted);
      known.set(wanted.key, most);
    }
    return most;
  };
}

/** Judges whether enough is left for the head on every key that both ask for, of free units that no hold sets aside. */
function gapOf(pool: Pool, head: StuckHead): (waiter: Waiter) => boolean {
  const { ask, need: wanted } = head.waiter.poolLine;
  if (ask !== null) return gapOnNodes(pool, ask);
  const promised = promisedUnits(pool);
  return ({ request, poolLine }) => {
    const holdsHere = request.progress.hold?.pool === pool.record.name;
    return poolLine.need.every((amount, i) => {
      if (amount === 0 || wanted[i] === 0) return true;
      const setAside = (promised[i] as number) - (holdsHere ? amount : 0);
      return freeOf(pool, i) - setAside - amount >= (wanted[i] as number);
    });
  };
}

function promisedUnits(pool: Pool): number[] {
  const promised = pool.keys.map(() => 0);
  for (const holder of pool.promised) {
    holdNeed(holder, pool).forEach((amount, i) => {
      promised[i] = (promised[i] as number) + amount;
    });
  }
  return promised;
}

/**
 * On nodes enough is left if the head could still be placed as far as the keys go that both ask for. Who stays off
 * the nodes that could ever hold a part of the head takes nothing from it.
 */
function gapOnNodes(pool: Pool, ask: Ask): (waiter: Waiter) => boolean {
  return ({ poolLine, nodes = [] }) => {
    const own = poolLine.ask as Ask;
    const shared = ask.need.map((amount, i) => ((own.need[i] as number) > 0 ? amount : 0));
    if (shared.every((amount) => amount === 0) || !nodes.some((node) => couldHold(node, ask))) return true;
    const room = new Room(pool);
    for (const node of nodes) room.add(node, own.need, -1);
    return room.hasRoomFor({ ...ask, need: shared });
  };
}

/** When the head fits if every run ends at its walltime; minus infinity if it never does, so that nothing ends in time. */
export function earliestStart({ waiter, shortage, walk }: StuckHead): number {
  const { pool, ask } = waiter.poolLine;
  if (ask !== null) return earliestEnd(pool, new NodeCover(walk.roomSoon(waiter.request).copy(), ask));
  let startMs = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < shortage.length; i++) {
    const lacking = shortage[i] as number;
    if (lacking <= 0) continue;
    const last = pool.ends.firstWhereSumExceeds(i, lacking - 1);
    if (last === undefined) return Number.NEGATIVE_INFINITY;
    startMs = Math.max(startMs, last.endMs);
  }
  return startMs;
}
