// Backfill: a later request may start behind the head if that cannot delay the head (G4). What that means on
// nodes: docs/decisions/placement.md.

import { memoised } from "../../memoised.ts";
import { bothOf, couldHold, nodeVector } from "../../placement/capacity.ts";
import type { Wanted } from "../../placement/node-index.ts";
import { covers } from "../../placement/node-list.ts";
import { type Ask, Room } from "../../placement/room.ts";
import { earliestEnd, NodeCover } from "../../scheduling/cover.ts";
import { freeOf, holdNeed, type Pool, type PoolLine, type Request } from "../../state.ts";
import type { Grant, Waiter } from "../discipline.ts";
import type { Part } from "./line-index.ts";
import type { QueueRules } from "./queue-discipline.ts";
import type { QueueOrder } from "./queue-order.ts";
import { holdersBeside, QueueWalk } from "./queue-walk.ts";

/** The head of a queue, what it lacks, and the walk that stands at it. */
export interface StuckHead {
  readonly waiter: Waiter;
  readonly shortage: readonly number[];
  readonly walk: QueueWalk;
}

/** With no more lines in question than these it costs less to ask each of them than to walk the queue. */
const LINES_ASKED_MAX = 64;

/**
 * The first request, in the order of the queue, that may start behind the head. Of a line only one member
 * comes into question: the first, or where only a short walltime helps, the first that is short enough.
 */
export function findBackfill(
  rules: QueueRules,
  order: QueueOrder,
  head: StuckHead,
  nowMs: number,
): Grant | undefined {
  const { pool } = head.walk;
  if (pool.record.settings.backfill === "none") return undefined;
  const gap = new Gap(pool, head, nowMs);
  const roomy = order.lines.parts().filter((part) => gap.mayHaveRoomFor(part));
  const mayServe = memoised((part: Part) => gap.mayServe(part)); // Mostly somebody is found before all were asked.
  if (!roomy.some(mayServe) && !hasHolders(pool)) return undefined;
  const isFew = roomy.reduce((count, { lines }) => count + lines.size, 0) <= LINES_ASKED_MAX;
  const isServed = (poolLine: PoolLine) => mayServe(order.lines.partOf(poolLine));
  const walk = isFew
    ? walkOver(rules, gap, roomy.filter(mayServe), nowMs)
    : new QueueWalk(rules, pool, nowMs, order, isServed);
  for (const waiter of walk) {
    if (waiter.hold === "here" && waiter.poolLine.ask !== null) continue; // Elsewhere it starts in its turn only (V5).
    if (!isFew && waiter.hold === null && !isAsked(gap, walk, waiter)) continue;
    if (walk.quotaBlock(waiter) !== null || !walk.fits(waiter)) continue;
    const opportunistic = !gap.isShort(waiter.request) && !gap.leavesEnough(waiter);
    if (!opportunistic || gap.mayFill(waiter.poolLine)) return { waiter, opportunistic };
  }
  return undefined;
}

/** A walk over those alone that come into question. */
function walkOver(rules: QueueRules, gap: Gap, parts: readonly Part[], nowMs: number): QueueWalk {
  const candidates = new Map<PoolLine, Request[]>();
  for (const { lines } of parts) {
    for (const poolLine of lines) {
      const members = gap.candidatesOf(poolLine);
      if (members.length > 0) candidates.set(poolLine, members);
    }
  }
  const membersOf = (poolLine: PoolLine) => candidates.get(poolLine) as Request[];
  const judged = Array.from(candidates.keys(), ({ policy }) => policy);
  for (const { line } of gap.pool.passers) {
    const here = line.pools.get(gap.pool.record.name);
    if (here !== undefined) judged.push(here.policy);
  }
  const holders = holdersBeside(gap.pool, judged);
  return new QueueWalk(rules, gap.pool, nowMs, { lines: candidates.keys(), membersOf, holders });
}

/** Whether one in the walk over the whole queue comes into question; a member that does later is brought into the walk. */
function isAsked(gap: Gap, walk: QueueWalk, { request, poolLine }: Waiter): boolean {
  if (request !== poolLine.line.members.first()) return true; // It was brought.
  const members = gap.candidatesOf(poolLine);
  for (const member of members) if (member !== request) walk.bring(member, poolLine);
  return members[0] === request;
}

/** Whether some holder could start behind the head: on nodes only one that holds its units elsewhere (V5, G5). */
function hasHolders({ record, promised, passers }: Pool): boolean {
  return passers.size > 0 || (promised.size > 0 && !record.nodeBacked);
}

/** What is free while the head is stuck, and who may use it. Mostly nobody may, so what is found out later is made later. */
class Gap {
  readonly pool: Pool;
  readonly #head: StuckHead;
  readonly #nowMs: number;
  readonly #isOpportunistic: boolean;
  #roomNow: Room | undefined;
  /** What is free, in a pool without nodes. */
  readonly #free: number[] = [];
  #judge: ((waiter: Waiter) => boolean) | undefined;
  #isForHead: Map<string, boolean> | undefined;
  #startMs: number | undefined;

  constructor(pool: Pool, head: StuckHead, nowMs: number) {
    this.pool = pool;
    this.#head = head;
    this.#nowMs = nowMs;
    this.#isOpportunistic = pool.record.settings.backfill === "opportunistic";
    for (let i = 0; i < pool.keys.length; i++) this.#free.push(freeOf(pool, i));
  }

  get #room(): Room {
    this.#roomNow ??= new Room(this.pool);
    return this.#roomNow;
  }

  /** Whether enough is left for the head when a waiter has started. */
  leavesEnough(waiter: Waiter): boolean {
    this.#judge ??= gapOf(this.pool, this.#head);
    return this.#judge(waiter);
  }

  /** Longer walltimes than this may delay the head. */
  #walltimeMsMax(): number {
    this.#startMs ??= earliestStart(this.#head);
    return this.#startMs - this.#nowMs;
  }

  isShort({ spec }: Request): boolean {
    return spec.walltimeMs !== null && spec.walltimeMs <= this.#walltimeMsMax();
  }

  mayFill({ line }: PoolLine): boolean {
    return this.#isOpportunistic && line.shape.preemptible;
  }

  /** Whether there may be room for a request in this part of the queue: a no is certain. */
  mayHaveRoomFor({ any: { ask }, least }: Part): boolean {
    return ask === null ? covers(this.#free, least) : this.#head.walk.mayHaveRoomFor(ask, least);
  }

  /** Whether one of them may start: a no is certain. */
  mayServe(part: Part): boolean {
    if (!this.mayHaveRoomFor(part)) return false;
    if (this.#isOpportunistic) return true;
    const { any, least } = part;
    const { ask } = any;
    // What takes longer to find out comes second.
    return ask === null
      ? this.leavesEnough(waiterOf(any, least)) || this.#mayBeShort(part)
      : this.#mayBeShort(part) || !this.#takesFromHead(ask, least, part.most);
  }

  #mayBeShort({ shortestMs }: Part): boolean {
    return shortestMs < Number.POSITIVE_INFINITY && shortestMs <= this.#walltimeMsMax();
  }

  /** The members of a line that may start, in their order. */
  candidatesOf(poolLine: PoolLine): Request[] {
    const { need, ask, line } = poolLine;
    const first = line.members.first() as Request;
    if (ask === null) {
      if (!covers(this.#free, need)) return [];
      const isServed =
        this.mayFill(poolLine) || this.isShort(first) || this.leavesEnough(waiterOf(poolLine, need));
      if (isServed) return [first];
    } else if (!this.#head.walk.mayHaveRoomFor(ask, ask.need) || !this.#room.hasRoomFor(ask)) return [];
    const hasWalltimes = line.members.rankMin() < Number.POSITIVE_INFINITY;
    const short = hasWalltimes ? line.members.firstRankedAtMost(this.#walltimeMsMax()) : undefined;
    // Where the first would go on nodes, and whether that leaves enough, is only known at its place.
    const isFirstNeeded =
      ask !== null && (this.mayFill(poolLine) || !this.#takesFromHead(ask, ask.need, ask.need));
    const others = short === undefined || (isFirstNeeded && short === first) ? [] : [short];
    return isFirstNeeded ? [first, ...others] : others;
  }

  /**
   * Whether all that ask for no less than `least` and no more than `most` of the same nodes would certainly take a
   * place from the head: they ask for all that it asks for, and go where it could.
   */
  #takesFromHead(ask: Ask, least: readonly number[], most: readonly number[]): boolean {
    const own = this.#head.waiter.poolLine.ask as Ask;
    if (own.need.some((amount, i) => amount > 0 && least[i] === 0)) return false;
    if (this.#isAlwaysForHead(ask.wanted, own)) return true;
    if (ask.count > 1 || ask.home !== null) return false;
    // Best fit takes the first node that fits: what suits the least and the most of them suits all between.
    if (this.pool.places.select(this.pool, ask.wanted).groups.size !== 1) return false;
    const [node] = this.#room.place({ ...ask, need: most }) ?? [];
    if (node === undefined || !couldHold(node, own)) return false;
    return least === most || this.#room.place({ ...ask, need: least })?.[0] === node;
  }

  /** Whether every node with certain labels could hold the head. */
  #isAlwaysForHead(wanted: Wanted, own: Ask): boolean {
    this.#isForHead ??= new Map();
    let isForHead = this.#isForHead.get(wanted.key);
    if (isForHead === undefined) {
      isForHead = areAllFor(this.pool, wanted, own);
      this.#isForHead.set(wanted.key, isForHead);
    }
    return isForHead;
  }
}

/** Whether every registered node with certain labels could hold a part of a request when it is empty. */
function areAllFor(pool: Pool, wanted: Wanted, ask: Ask): boolean {
  const both = bothOf(wanted.labels, ask.wanted.labels);
  if (both === null) return false;
  const those = pool.places.select(pool, both).counts;
  for (const [shape, count] of pool.places.select(pool, wanted).counts) {
    if (those.get(shape) !== count) return false;
    if (!covers(nodeVector(shape.resources, pool.keys), ask.need)) return false;
  }
  return true;
}

/** A member of a line that asks for so much, before anything is known about its place. */
function waiterOf(poolLine: PoolLine, need: readonly number[]): Waiter {
  const request = poolLine.line.members.first() as Request;
  const asking = { ...poolLine, need: [...need] };
  return { request, poolLine: asking, hold: null, borrows: false, rank: [], score: Number.NaN };
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
