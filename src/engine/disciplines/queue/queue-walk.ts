// Walking a pool's queue from its front, in the order of section 6, and judging each waiter at its place.
//
// A line stands for all its members: they differ in nothing but their place, so what blocks the first of them
// blocks the others. Waiters that hold units are walked one by one; they count as if they ran when those
// behind them are judged (V1), which is why order and judgement are one walk.

import { isFirmOn } from "../../admission.ts";
import { Heap } from "../../heap.ts";
import { isReady } from "../../placement/node-index.ts";
import { covers } from "../../placement/node-list.ts";
import { placesOf } from "../../placement/occupancy.ts";
import { type Ask, mayServe, Room } from "../../placement/room.ts";
import type { RequestId } from "../../records.ts";
import { headroomOf, Promises, type QuotaBlock, quotaBlockOf, type Usage } from "../../scheduling/quotas.ts";
import {
  bySubmission,
  freeOf,
  holdNeed,
  type Node,
  type Policy,
  type Pool,
  type PoolLine,
  type Request,
} from "../../state.ts";
import type { Waiter } from "../discipline.ts";
import type { QueueRules } from "./queue-discipline.ts";
import { compareRanks, type OrderWalk, QueueOrder } from "./queue-order.ts";
import { fitsWithin, promisedBeside } from "./reserve.ts";

/** Order of a pool's queue at a moment; total, ending on the place in the journal. */
export function compareIn({ scoreOf }: QueueRules, nowMs: number): (a: Waiter, b: Waiter) => number {
  if (scoreOf === undefined)
    return (a, b) => compareRanks(a.rank, b.rank) || bySubmission(a.request, b.request);
  return (a, b) =>
    compareRanks(a.rank, b.rank) ||
    scoreOf(b, nowMs) - scoreOf(a, nowMs) ||
    bySubmission(a.request, b.request);
}

/** Lines, and which of their members are walked, in their order; beside all holders, unless it says which. */
export interface LinesToWalk {
  readonly lines: Iterable<PoolLine>;
  membersOf(poolLine: PoolLine): Iterable<Request>;
  /** Of those who are promised units here. */
  readonly holders?: Iterable<Request>;
}

/** All lines of a pool with the members that somebody wants of each. */
export function allLines({ waiting }: Pool, membersOf: LinesToWalk["membersOf"]): LinesToWalk {
  return { lines: waiting, membersOf };
}

/** Holders that were passed on a walk. */
interface PassedHolders {
  readonly requests: Set<Request>;
  /** Their components: what was promised leaves less headroom to their others. */
  readonly policies: Set<Policy>;
  /** Those whose promises the room that the walk keeps does not know yet: it looks for them when a waiter behind them asks. */
  readonly notInRoom: Request[];
}

const NO_REQUESTS: ReadonlySet<Request> = new Set();

function isAnyWanted(): boolean {
  return true;
}

export class QueueWalk {
  readonly pool: Pool;
  readonly #rules: QueueRules;
  /** To holders that were passed. */
  readonly #promises: Promises;
  /** Made with the first holder that is passed: most walks meet none. */
  #passed: PassedHolders | undefined;
  /** What was promised to them on each node; made when a waiter behind them asks. */
  #passedOn: Map<Node, number[]> | null = null;
  /** All holders by id; made when somebody asks for one. */
  #holders: Map<RequestId, Request> | null = null;
  /** What is left now; made when somebody asks for nodes. */
  #roomNow: Room | undefined;
  /** What one node at most has left of each key, among those that a request wants. */
  #mostLeft: Map<string, readonly number[]> | undefined;
  #soon: Room | null = null;
  /** Those not yet walked, beside those in the kept order; of a line only its next member, since the others follow it. */
  #waiters: Heap<Waiter> | undefined;
  readonly #kept: OrderWalk | null;
  readonly #compare: (a: Waiter, b: Waiter) => number;
  /** What comes after the next member of a line. */
  #followers: Map<PoolLine, Iterator<Request>> | undefined;
  #last: Waiter | undefined;
  /** Whether a promise on the way has changed the places of those behind it. */
  isReordered = false;

  /**
   * `source` says who is walked: the kept order, or the members that somebody wants of each line. Of the kept order a walk
   * may leave out lines: whoever is promised nothing changes nothing for those behind.
   */
  constructor(
    rules: QueueRules,
    pool: Pool,
    nowMs: number,
    source: QueueOrder | LinesToWalk,
    isWanted: (poolLine: PoolLine) => boolean = isAnyWanted,
  ) {
    this.pool = pool;
    this.#rules = rules;
    this.#promises = new Promises(pool.keys.length);
    this.#compare = compareIn(rules, nowMs);
    const isKept = source instanceof QueueOrder;
    if (!isKept) pool.order?.refresh();
    this.#kept = isKept ? source.walk(this.#compare, isWanted) : null;
    if (!isKept) this.#waiters = this.#heapOf(this.#gather(source));
  }

  #heapOf(waiters: readonly Waiter[]): Heap<Waiter> {
    return new Heap((a, b) => this.#compare(a, b) < 0, waiters);
  }

  #push(waiter: Waiter): void {
    this.#waiters ??= this.#heapOf([]);
    this.#waiters.push(waiter);
  }

  get #now(): Room {
    this.#roomNow ??= new Room(this.pool);
    return this.#roomNow;
  }

  #gather(source: LinesToWalk): Waiter[] {
    const { promised, passers, record } = this.pool;
    const waiters: Waiter[] = [];
    for (const poolLine of source.lines) {
      const members = source.membersOf(poolLine);
      const first = this.#follower(poolLine, members[Symbol.iterator]());
      if (first !== undefined) waiters.push(first);
    }
    const lineOf = (request: Request) => request.line.pools.get(record.name) as PoolLine;
    for (const request of source.holders ?? promised)
      waiters.push(this.#waiterOf(request, lineOf(request), "here"));
    for (const request of passers) waiters.push(this.#waiterOf(request, lineOf(request), "elsewhere"));
    return waiters;
  }

  /** With the borrowing and the rank of its kept place, if there is one; promises on the way are looked at in its turn. */
  #waiterOf(request: Request, poolLine: PoolLine, hold: Waiter["hold"]): Waiter {
    const kept = this.pool.order?.placeOf(hold === null ? poolLine : request);
    const borrows = kept?.borrows ?? !this.fitsReserve(poolLine);
    const rank = kept?.rank.numbers ?? this.#rules.rankOf(poolLine, borrows);
    return { request, poolLine, hold, borrows, rank, score: Number.NaN };
  }

  #follower(poolLine: PoolLine, members: Iterator<Request>): Waiter | undefined {
    const { value, done } = members.next();
    if (done === true) {
      this.#followers?.delete(poolLine);
      return undefined;
    }
    this.#followers ??= new Map();
    this.#followers.set(poolLine, members);
    return this.#waiterOf(value, poolLine, null);
  }

  /** The next waiter; a holder counts as passed, and as claiming its units, from the following call on. */
  next(): Waiter | undefined {
    if (this.#last?.hold === "here") this.#promise(this.#last);
    let next = this.#pop();
    while (next !== undefined && this.#hasMovedBack(next)) {
      this.#push(next);
      next = this.#pop();
    }
    this.#last = next;
    if (next?.hold === null) this.#bringFollower(next.poolLine);
    return next;
  }

  /** A member of a line comes into the walk, too, behind the one that was walked last. */
  bring(request: Request, poolLine: PoolLine): void {
    this.#push(this.#waiterOf(request, poolLine, null));
  }

  #pop(): Waiter | undefined {
    const kept = this.#kept?.first();
    const other = this.#waiters?.first();
    const isKeptNext = kept !== undefined && (other === undefined || this.#compare(kept, other) < 0);
    return isKeptNext ? this.#kept?.pop() : this.#waiters?.pop();
  }

  /** Whether promises on the way have left it less headroom than it was put in its place with. */
  #hasMovedBack(waiter: Waiter): boolean {
    const { poolLine, borrows } = waiter;
    if (borrows || this.#passed?.policies.has(poolLine.policy) !== true || this.fitsReserve(poolLine))
      return false;
    waiter.borrows = true;
    waiter.rank = this.#rules.rankOf(poolLine, true);
    this.isReordered = true;
    return true;
  }

  #bringFollower(poolLine: PoolLine): void {
    const members = this.#followers?.get(poolLine);
    const follower = members === undefined ? undefined : this.#follower(poolLine, members);
    if (follower !== undefined) this.#push(follower);
  }

  /** Of those not yet walked, in any order, all whom time can put before the last one, or the first of such a sequence. */
  rest(): readonly Waiter[] {
    const others = this.#waiters?.items ?? [];
    return this.#kept === null ? others : [...this.#kept.nextOfRank(), ...others];
  }

  get passed(): ReadonlySet<Request> {
    return this.#passed?.requests ?? NO_REQUESTS;
  }

  /** All waiters in order. */
  *[Symbol.iterator](): Generator<Waiter> {
    for (let waiter = this.next(); waiter !== undefined; waiter = this.next()) yield waiter;
  }

  /** The own limit, group limit or reserve that blocks it (G3). */
  quotaBlock(waiter: Waiter): QuotaBlock | null {
    const hasRoom = () => waiter.poolLine.ask !== null && this.#placeNow(waiter) !== null;
    return quotaBlockOf(waiter.poolLine, this.#promises, hasRoom);
  }

  /** Whether it could be granted from free units now (G2, N2). */
  fits(waiter: Waiter): boolean {
    const { request, poolLine } = waiter;
    if (poolLine.ask !== null) {
      const nodes = this.#placeNow(waiter);
      if (nodes !== null) waiter.nodes = nodes;
      return nodes !== null;
    }
    const claims = this.#claimsBefore(request);
    const { need } = poolLine;
    for (let i = 0; i < need.length; i++) {
      const amount = need[i] as number;
      if (amount > 0 && amount > freeOf(this.pool, i) - (claims[i] as number)) return false;
    }
    return true;
  }

  /** Whether what is promised to it is free: on nodes, on those of its hold (V5). */
  fitsPromise(waiter: Waiter): boolean {
    if (waiter.poolLine.ask === null) return this.fits(waiter);
    const nodes = this.#freeOnHold(waiter);
    if (nodes !== null) waiter.nodes = nodes;
    return nodes !== null;
  }

  /** A hold starts on its nodes, or else like everybody where nothing is promised to others. */
  #placeNow(waiter: Waiter): readonly Node[] | null {
    const ask = waiter.poolLine.ask as Ask;
    if (waiter.hold !== "here") return this.#now.place(ask);
    if (!this.#mayStartOnHold(waiter))
      return this.mayHaveRoomFor(ask, ask.need) ? this.#now.place(ask) : null;
    return this.#freeOnHold(waiter) ?? this.roomNow(waiter).place(ask);
  }

  /** Whether some node may have so much left: a no is certain. Found once for all that want the same nodes. */
  mayHaveRoomFor({ wanted }: Ask, need: readonly number[]): boolean {
    this.#mostLeft ??= new Map();
    let most = this.#mostLeft.get(wanted.key);
    if (most === undefined) {
      most = this.pool.places.mostLeft(this.pool, wanted);
      this.#mostLeft.set(wanted.key, most);
    }
    return covers(most, need);
  }

  /** Whether what is promised to it may be of use to it now on some node: a no is certain. */
  #mayStartOnHold({ request }: Waiter): boolean {
    const { nodes, places } = this.pool;
    if (places.servable.size === 0) return false;
    for (const { node } of request.progress.hold?.placement ?? []) {
      const known = nodes.get(node);
      if (known !== undefined && places.servable.has(known)) return true;
    }
    return false;
  }

  /** The nodes of its hold, if it has all its units there: free units go to the holds there in the order of the queue. */
  #freeOnHold({ request, poolLine }: Waiter): readonly Node[] | null {
    const { need, count } = poolLine.ask as Ask;
    const nodes = placesOf(this.pool, request.progress.hold);
    const isFree = (node: Node) => isReady(node) && this.#fitsOnHold(node, need);
    return nodes.length === count && nodes.every(isFree) ? nodes : null;
  }

  /** Whether a part of a hold fits on a node of it, with what is free there less what holds before it take. */
  #fitsOnHold(node: Node, need: readonly number[], coming?: readonly number[]): boolean {
    const passed = this.#promisedOn(node);
    for (let i = 0; i < need.length; i++) {
      const amount = need[i] as number;
      const left = (node.free[i] as number) + (coming?.[i] ?? 0) - (passed?.[i] ?? 0);
      if (amount > 0 && amount > left) return false;
    }
    return true;
  }

  /** What was promised on a node to those that were passed. */
  #promisedOn(node: Node): readonly number[] | undefined {
    if (this.#passedOn === null) {
      this.#passedOn = new Map();
      for (const request of this.passed) this.#notePassedOn(this.#passedOn, request);
    }
    return this.#passedOn.get(node);
  }

  #notePassedOn(passedOn: Map<Node, number[]>, { line, progress }: Request): void {
    const { ask } = line.pools.get(this.pool.record.name) as PoolLine;
    if (ask === null) return;
    for (const node of placesOf(this.pool, progress.hold)) {
      const known = passedOn.get(node);
      if (known === undefined) passedOn.set(node, [...ask.need]);
      else for (let i = 0; i < known.length; i++) known[i] = (known[i] as number) + (ask.need[i] as number);
    }
  }

  /**
   * What is lacking per key even when all comes free that is stopping and that it may count on; not positive:
   * nothing (V1). What cannot be placed is short of all that it asks for (N2).
   */
  shortage(waiter: Waiter): number[] {
    const { request, poolLine, hold } = waiter;
    if (poolLine.ask !== null) {
      const isCovered =
        hold === "here" ? this.#isHoldCovered(waiter) : this.roomSoon(request).hasRoomFor(poolLine.ask);
      return poolLine.need.map((amount) => (isCovered ? 0 : amount));
    }
    const claims = this.#claimsBefore(request);
    const { stopping } = this.pool;
    return poolLine.need.map((amount, i) =>
      amount === 0 ? 0 : amount - freeOf(this.pool, i) - (stopping[i] as number) + (claims[i] as number),
    );
  }

  /** A hold is for its nodes: free units there and those that are stopping, less what holds before it take (V5). */
  #isHoldCovered({ request, poolLine }: Waiter): boolean {
    const { need, count } = poolLine.ask as Ask;
    const nodes = placesOf(this.pool, request.progress.hold);
    const isEnough = (node: Node) => this.#fitsOnHold(node, need, node.stopping);
    return nodes.length === count && nodes.every(isEnough);
  }

  /** Whether free units and units that are coming free cover it (V1). */
  isCovered(waiter: Waiter): boolean {
    return this.shortage(waiter).every((lacking) => lacking <= 0);
  }

  /** Whether some of what it lacks now is coming free and not promised to those before it (G5). */
  isHelped(waiter: Waiter): boolean {
    const { ask } = waiter.poolLine;
    if (ask !== null) return this.#isHelpedOnNodes(waiter, ask);
    const claims = this.#claimsBefore(waiter.request);
    const { need } = waiter.poolLine;
    return need.some((amount, i) => {
      const left = freeOf(this.pool, i) - (claims[i] as number);
      return amount > 0 && amount > left && left + (this.pool.stopping[i] as number) > Math.max(0, left);
    });
  }

  #isHelpedOnNodes(waiter: Waiter, ask: Ask): boolean {
    const [now, soon] = [this.roomNow(waiter), this.roomSoon(waiter.request)];
    return [...this.pool.places.withStopping].some((node) => {
      const [before, after] = [now.leftOn(node), soon.leftOn(node)];
      const isHelp = (amount: number, i: number) =>
        amount > 0 && (after[i] as number) > Math.max(0, before[i] as number);
      return mayServe(node, ask) && ask.need.some(isHelp);
    });
  }

  /** The keys on which free units do not cover it, with the amounts; for explanations. */
  shortOf(
    waiter: Waiter,
  ): { key: string; asked: number; free: number; promised: number; comingFree: number }[] {
    const { request, poolLine } = waiter;
    if (poolLine.ask !== null) return this.#shortOnNodes(waiter, poolLine.ask);
    const claims = this.#claimsBefore(request);
    const { keys, stopping } = this.pool;
    return poolLine.need.flatMap((asked, i) => {
      const free = freeOf(this.pool, i);
      const promised = claims[i] as number;
      if (asked === 0 || asked <= free - promised) return [];
      return [{ key: keys[i] as string, asked, free, promised, comingFree: stopping[i] as number }];
    });
  }

  /** What cannot be placed is short of everything; the numbers are those of all nodes together that may serve it and meter the key (R4). */
  #shortOnNodes(waiter: Waiter, ask: Ask): ReturnType<QueueWalk["shortOf"]> {
    const { need } = waiter.poolLine;
    if (this.#placeNow(waiter) !== null) return [];
    const now = this.roomNow(waiter);
    const nodes = [...this.pool.nodes.values()].filter((node) => mayServe(node, ask));
    const sum = (amountsOf: (node: Node) => readonly number[], i: number) =>
      nodes.reduce((total, node) => {
        const amount = amountsOf(node)[i] as number;
        return Number.isFinite(amount) ? total + Math.max(0, amount) : total;
      }, 0);
    return need.flatMap((asked, i) => {
      if (asked === 0) return [];
      const free = sum((node) => node.free, i);
      const promised = free - sum((node) => now.leftOn(node), i);
      const comingFree = sum((node) => node.stopping, i);
      return [{ key: this.pool.keys[i] as string, asked, free, promised, comingFree }];
    });
  }

  /** Whether all that it asks for fits what is left of its component's reserve, with what would be gone (G1, 10.1). */
  fitsReserve(poolLine: PoolLine, gone?: Usage): boolean {
    return fitsWithin(this.#rules, poolLine, (i) => this.headroom(poolLine, i, gone));
  }

  /** What is left of the component's reserve for it on a key (1, headroom). */
  headroom(poolLine: PoolLine, i: number, gone?: Usage): number {
    return headroomOf(poolLine, i, this.#promisedBeside(poolLine, i), gone);
  }

  /** What is promised to others of its component and counts against its reserve: to those before it (V1), or as the rules say. */
  #promisedBeside(poolLine: PoolLine, i: number): number {
    const { policy } = poolLine;
    const { compareReserve } = this.#rules;
    if (compareReserve === undefined || this.pool.promised.size === 0) {
      return isFirmOn(poolLine, i) ? this.#promises.firmTo(policy, i) : this.#promises.to(policy, i);
    }
    return promisedBeside(poolLine, i, (holder, other) => {
      const order = compareReserve(other, poolLine);
      return order < 0 || (order === 0 && this.passed.has(holder));
    });
  }

  /** The one it was preempted for, if that one still holds its units further behind. */
  ownerBehind({ progress }: Request): Request | undefined {
    const { preemptedFor, hold } = progress;
    if (preemptedFor === null || hold?.pool === this.pool.record.name) return undefined;
    const owner = this.pool.order?.holderNamed(preemptedFor) ?? this.#holderNamed(preemptedFor);
    return owner === undefined || this.passed.has(owner) || owner === this.#last?.request ? undefined : owner;
  }

  #holderNamed(id: RequestId): Request | undefined {
    if (this.pool.order !== null) return undefined;
    this.#holders ??= new Map([...this.pool.promised].map((holder) => [holder.spec.id, holder]));
    return this.#holders.get(id);
  }

  /** Holds of those before it come before its own claim, and as long as it has none, that of the one it was preempted for (V5). */
  #claimsBefore(request: Request): readonly number[] {
    const { claimed } = this.#promises;
    const owner = this.ownerBehind(request);
    if (owner === undefined) return claimed;
    const need = holdNeed(owner, this.pool);
    return claimed.map((units, key) => units + (need[key] as number));
  }

  /** What is free on the nodes and promised to nobody else (V5). */
  roomNow({ request, poolLine, hold }: Waiter): Room {
    if (hold !== "here") return this.#now;
    const room = new Room(this.pool);
    for (const node of placesOf(this.pool, request.progress.hold))
      room.add(node, (poolLine.ask as Ask).need, 1);
    return room;
  }

  /** What will be free when all has ended that is stopping, less what was promised to others before it (V5). */
  roomSoon(request: Request): Room {
    this.#soon ??= this.#makeSoon();
    for (const holder of this.#passed?.notInRoom.splice(0) ?? []) promiseIn(this.#soon, holder, -1);
    const owner = this.ownerBehind(request);
    if (owner === undefined) return this.#soon;
    const room = this.#soon.copy();
    promiseIn(room, owner, -1);
    return room;
  }

  /** What is promised to those not yet passed is not set aside before the others. */
  #makeSoon(): Room {
    const room = Room.soon(this.pool);
    const { promised } = this.pool;
    if (this.passed.size < promised.size)
      for (const holder of promised) if (!this.passed.has(holder)) promiseIn(room, holder, 1);
    return room;
  }

  #promise(holder: Waiter): void {
    this.#passed ??= { requests: new Set(), policies: new Set(), notInRoom: [] };
    this.#passed.requests.add(holder.request);
    this.#passed.policies.add(holder.poolLine.policy);
    if (this.#soon !== null) this.#passed.notInRoom.push(holder.request);
    if (this.#passedOn !== null) this.#notePassedOn(this.#passedOn, holder.request);
    this.#promises.add(holder.poolLine);
  }
}

/** The first of every line, where nobody else of it comes into question. */
export function firstOfLines(pool: Pool): LinesToWalk {
  return allLines(pool, ({ line }) => [line.members.first() as Request]);
}

/** Only holders are promised something on the way, so they can be judged without those who stand between them. */
export function walkOverPromised(
  rules: QueueRules,
  pool: Pool,
  nowMs: number,
  holders: Iterable<Request> = pool.promised,
): QueueWalk {
  return new QueueWalk(rules, pool, nowMs, { lines: [], membersOf: () => [], holders });
}

/**
 * The holders that a walk has to meet if only work of certain components is judged on it. What is promised on nodes is set
 * aside there, so that on the way it takes headroom and limits from its own component only, unless there are groups.
 */
export function holdersBeside(pool: Pool, policies: Iterable<Policy>): Iterable<Request> {
  if (!pool.record.nodeBacked) return pool.promised;
  const holders = new Set<Request>();
  for (const policy of policies) {
    if (policy.group !== null) return pool.promised;
    for (const holder of policy.holders) holders.add(holder);
  }
  return holders;
}

/** The same if some holders are judged on it: what is promised to others on their nodes matters as well. */
export function holdersAround(pool: Pool, judged: Iterable<Request>): Iterable<Request> {
  const policies = new Set<Policy>();
  const add = ({ line }: Request) => policies.add((line.pools.get(pool.record.name) as PoolLine).policy);
  for (const request of judged) {
    add(request);
    for (const { holders } of placesOf(pool, request.progress.hold)) holders.forEach(add);
  }
  return holdersBeside(pool, policies);
}

/** Gives what a hold promises back to its nodes, or with sign -1 takes it from them. */
function promiseIn(room: Room, holder: Request, sign: 1 | -1): void {
  const { ask } = holder.line.pools.get(room.pool.record.name) as PoolLine;
  const { need } = ask as Ask;
  for (const node of placesOf(room.pool, holder.progress.hold)) {
    if (isReady(node)) room.add(node, need, sign);
  }
}
