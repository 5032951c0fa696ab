// The order of a pool's queue, kept between looks (6): the first of every line, and those that hold units here or
// elsewhere, each at the place that it has as long as nothing is promised on the way. A walk starts from it.
//
// Invariants
//   1. Whoever changes what a place rests on names it in `stale` sets, also when the change is taken back; the next
//      look puts those, and only those, in their places again.
//   2. Places with one rank and one standing follow each other by submission, however much time passes. So time
//      moves whole sequences against each other, and a walk merges them by the score of the moment (10.6).
//   3. What is in here can be thrown away at any time (`forgetOrder`).

import { Few } from "../../few.ts";
import { Heap } from "../../heap.ts";
import type { RequestId } from "../../records.ts";
import { SortedList } from "../../sorted-list.ts";
import type { EngineState, Policy, Pool, PoolLine, Request } from "../../state.ts";
import type { Waiter } from "../discipline.ts";
import { Hopelessness } from "./hopeless.ts";
import { LineIndex } from "./line-index.ts";
import type { QueueRules } from "./queue-discipline.ts";
import { fitsReserveAtFirst } from "./reserve.ts";

/** Where somebody stands. Lists are sorted by it, so it changes only while it is in none. */
interface Place {
  readonly owner: PoolLine | Request;
  request: Request;
  readonly poolLine: PoolLine;
  readonly hold: Waiter["hold"];
  readonly borrows: boolean;
  seq: number;
  /** Tells places of one request apart: it may have come to a new one before it has left the old. */
  readonly number: number;
  readonly rank: Rank;
  readonly standing: string;
  /** All of this rank and standing. */
  readonly sequence: SortedList<Place>;
}

/** All with the same rank, by standing. */
interface Rank {
  readonly numbers: readonly number[];
  /** A line that has or had this rank: what the numbers were made of is the same for all. */
  readonly example: PoolLine;
  readonly sequences: Map<string, SortedList<Place>>;
}

export class QueueOrder {
  /** Lines whose first member, or admission, changed. */
  readonly staleLines = new Few<PoolLine>();
  /** Components whose usage or holds changed, and with them what is left of their reserve. */
  readonly stalePolicies = new Few<Policy>();
  /** Requests that began or ceased to hold units. */
  readonly staleHolders = new Few<Request>();
  /** The lines by what they ask for. */
  readonly lines: LineIndex;
  readonly hopeless: Hopelessness;
  readonly #rules: QueueRules;
  readonly #pool: Pool;
  #policies: readonly Policy[] | null = null;
  readonly #ranks: Rank[] = [];
  readonly #places = new Map<PoolLine | Request, Place>();
  readonly #holders = new Map<RequestId, Request>();
  readonly #byPolicy = new Map<Policy, Few<PoolLine | Request>>();
  #nextNumber = 0;
  /** Components whose holds were not looked at since something about them changed. */
  readonly #uncheckedPolicies = new Set<Policy>();
  #areHoldsSuspect = true;

  constructor(rules: QueueRules, pool: Pool) {
    this.#rules = rules;
    this.#pool = pool;
    this.lines = new LineIndex(pool);
    this.hopeless = new Hopelessness(rules);
    for (const poolLine of pool.waiting) this.#settleLine(poolLine);
    for (const request of pool.promised) this.#settleHolder(request);
    for (const request of pool.passers) this.#settleHolder(request);
  }

  /** Puts those in their places about whom something changed. */
  refresh(): void {
    this.stalePolicies.drain(this.#settlePolicy);
    this.staleLines.drain(this.#settleLine);
    this.staleHolders.drain(this.#settleHolder);
  }

  /** Nodes have come, gone or changed otherwise than by what is on them, or a promise that had ended is back. */
  suspectHolds(): void {
    this.#areHoldsSuspect = true;
  }

  /** The holders that may have lost their units (V5), whatever their order: that the others have not is certain. */
  suspectHolders(): ReadonlySet<Request> {
    const { record, places, promised } = this.#pool;
    if (promised.size === 0 || !record.nodeBacked || this.#areHoldsSuspect) return promised;
    const suspects = new Set<Request>();
    for (const { holders } of places.strained) for (const holder of holders) suspects.add(holder);
    for (const policy of this.#uncheckedPolicies) {
      if (mayBlockHold(policy)) for (const holder of policy.holders) suspects.add(holder);
      else this.#uncheckedPolicies.delete(policy);
    }
    return suspects;
  }

  /** No hold was lost. */
  noteHoldsChecked(): void {
    this.#areHoldsSuspect = false;
    for (const policy of this.#uncheckedPolicies) {
      if (!mayBlockHold(policy)) this.#uncheckedPolicies.delete(policy);
    }
  }

  /** Where somebody stands as long as nothing is promised on the way; undefined: nowhere yet. */
  placeOf(owner: PoolLine | Request): Pick<Place, "borrows" | "rank"> | undefined {
    return this.#places.get(owner);
  }

  /** The components of the pool, those of the lowest priority first. */
  get policies(): readonly Policy[] {
    this.#policies ??= [...this.#pool.policies.values()].sort(
      (a, b) => a.record.priority - b.record.priority,
    );
    return this.#policies;
  }

  /** All ranks that somebody has who waits, or is promised something, here. */
  get ranks(): readonly Pick<Rank, "example">[] {
    return this.#ranks;
  }

  /** Whether somebody may overtake another as time passes, be it without any change. */
  get isMovedByTime(): boolean {
    return this.#ranks.some(({ sequences }) => sequences.size > 1);
  }

  /** The first in the queue as long as nothing is promised on the way; undefined: nobody, or time decides who it is. */
  first(): Waiter | undefined {
    const sequences = this.#ranks[0]?.sequences;
    if (sequences?.size !== 1) return undefined;
    for (const sequence of sequences.values()) return waiterAt(sequence.first() as Place);
    return undefined;
  }

  /** The queue from its front, at a moment; of the lines only those that are wanted. */
  walk(compare: (a: Waiter, b: Waiter) => number, isWanted: (poolLine: PoolLine) => boolean): OrderWalk {
    return new OrderWalk(this.#ranks, compare, isWanted);
  }

  /** The request of this name, if it is promised units here. */
  holderNamed(id: RequestId): Request | undefined {
    return this.#holders.get(id);
  }

  // Functions that are made once: they are handed over with every look.

  readonly #settlePolicy = (policy: Policy): void => {
    if (policy.holders.size > 0) this.#uncheckedPolicies.add(policy);
    if (!hasReserve(policy)) return; // All its work borrows, whatever runs.
    for (const owner of this.#byPolicy.get(policy) ?? []) {
      if ("policy" in owner) this.staleLines.add(owner);
      else this.staleHolders.add(owner);
    }
  };

  readonly #settleLine = (poolLine: PoolLine): void => {
    const first = this.#pool.waiting.has(poolLine) ? poolLine.line.members.first() : undefined;
    if (first === undefined) return this.#leave(poolLine);
    const place = this.#places.get(poolLine);
    // Where nothing is reserved, rank and standing of a line stay as they are.
    if (place !== undefined && !hasReserve(poolLine.policy)) this.#move(place, first);
    else this.#settle(poolLine, first, poolLine, null);
  };

  /** Another one is the first of its line now. */
  #move(place: Place, first: Request): void {
    const { seq } = first.progress;
    if (place.request === first && place.seq === seq) return;
    place.sequence.remove(place);
    place.request = first;
    place.seq = seq;
    place.sequence.insert(place);
  }

  readonly #settleHolder = (request: Request): void => {
    const { promised, passers, record } = this.#pool;
    const hold = promised.has(request) ? "here" : passers.has(request) ? "elsewhere" : null;
    if (hold === "here") this.#holders.set(request.spec.id, request);
    else this.#holders.delete(request.spec.id);
    const poolLine = request.line.pools.get(record.name);
    if (hold === null || poolLine === undefined) this.#leave(request);
    else this.#settle(request, request, poolLine, hold);
  };

  #settle(owner: Place["owner"], request: Request, poolLine: PoolLine, hold: Waiter["hold"]): void {
    const borrows = !fitsReserveAtFirst(this.#rules, poolLine);
    const numbers = this.#rules.rankOf(poolLine, borrows);
    const standing = this.#rules.standing?.(poolLine) ?? "";
    const { seq } = request.progress;
    const before = this.#places.get(owner);
    if (before !== undefined) {
      const isSame =
        before.request === request &&
        before.seq === seq &&
        before.poolLine === poolLine &&
        before.hold === hold &&
        before.standing === standing &&
        compareRanks(before.rank.numbers, numbers) === 0;
      if (isSame) return;
      this.#leave(owner);
    }
    const rank = this.#rankWith(numbers, poolLine);
    let sequence = rank.sequences.get(standing);
    if (sequence === undefined) {
      sequence = new SortedList<Place>(bySeq, { key: seqOf });
      rank.sequences.set(standing, sequence);
    }
    const number = this.#nextNumber++;
    const place = { owner, request, poolLine, hold, borrows, seq, number, rank, standing, sequence };
    sequence.insert(place);
    this.#places.set(owner, place);
    let ofPolicy = this.#byPolicy.get(poolLine.policy);
    if (ofPolicy === undefined) {
      ofPolicy = new Few();
      this.#byPolicy.set(poolLine.policy, ofPolicy);
    }
    ofPolicy.add(owner);
  }

  #leave(owner: Place["owner"]): void {
    const place = this.#places.get(owner);
    if (place === undefined) return;
    this.#places.delete(owner);
    const { rank, standing, sequence, poolLine } = place;
    sequence.remove(place);
    if (sequence.size === 0) rank.sequences.delete(standing);
    if (rank.sequences.size === 0) this.#ranks.splice(this.#ranks.indexOf(rank), 1);
    const ofPolicy = this.#byPolicy.get(poolLine.policy) as Few<Place["owner"]>;
    ofPolicy.delete(owner);
    if (ofPolicy.size === 0) this.#byPolicy.delete(poolLine.policy);
  }

  /** There are few: as many as there are priorities and classes. */
  #rankWith(numbers: readonly number[], example: PoolLine): Rank {
    let at = 0;
    for (; at < this.#ranks.length; at++) {
      const known = this.#ranks[at] as Rank;
      const order = compareRanks(known.numbers, numbers);
      if (order === 0) return known;
      if (order > 0) break;
    }
    const rank: Rank = { numbers, example, sequences: new Map() };
    this.#ranks.splice(at, 0, rank);
    return rank;
  }
}

/** The next of one sequence, and those that follow it. */
interface Head {
  readonly waiter: Waiter;
  readonly places: Iterator<Place>;
}

export class OrderWalk {
  readonly #ranks: readonly Rank[];
  readonly #heads: Heap<Head>;
  readonly #isWanted: (poolLine: PoolLine) => boolean;
  /** The rank that comes after those in hand. */
  #next = 0;
  /** The sequence of the one that was taken last: mostly nobody asks for the next of it. */
  #unread: Iterator<Place> | null = null;

  constructor(
    ranks: readonly Rank[],
    compare: (a: Waiter, b: Waiter) => number,
    isWanted: (poolLine: PoolLine) => boolean,
  ) {
    this.#ranks = ranks;
    this.#isWanted = isWanted;
    this.#heads = new Heap<Head>((a, b) => compare(a.waiter, b.waiter) < 0);
  }

  first(): Waiter | undefined {
    this.#read();
    while (this.#heads.first() === undefined) {
      const rank = this.#ranks[this.#next];
      if (rank === undefined) return undefined;
      this.#next++;
      for (const sequence of rank.sequences.values()) this.#bring(sequence[Symbol.iterator]());
    }
    return this.#heads.first()?.waiter;
  }

  pop(): Waiter | undefined {
    const waiter = this.first();
    this.#unread = this.#heads.pop()?.places ?? null;
    return waiter;
  }

  #read(): void {
    if (this.#unread === null) return;
    const places = this.#unread;
    this.#unread = null;
    this.#bring(places);
  }

  /** The next of every sequence in the rank of the last one: whoever time can put before the others is among them. */
  nextOfRank(): Waiter[] {
    this.#read();
    return this.#heads.items.map(({ waiter }) => waiter);
  }

  #bring(places: Iterator<Place>): void {
    for (let next = places.next(); next.done !== true; next = places.next()) {
      const { poolLine, hold } = next.value;
      if (hold === null && !this.#isWanted(poolLine)) continue;
      this.#heads.push({ waiter: waiterAt(next.value), places });
      return;
    }
  }
}

function waiterAt({ request, poolLine, hold, borrows, rank }: Place): Waiter {
  return { request, poolLine, hold, borrows, rank: rank.numbers, score: Number.NaN };
}

/** The order as it is now; made if nobody has asked for it since it was thrown away. */
export function orderOf(state: EngineState, rules: QueueRules, pool: Pool): QueueOrder {
  const { order } = pool;
  if (order === null) return makeOrder(state, rules, pool);
  order.refresh();
  return order;
}

function makeOrder(state: EngineState, rules: QueueRules, pool: Pool): QueueOrder {
  const made = new QueueOrder(rules, pool);
  pool.order = made;
  state.undo.done(forgetAgain, pool, null); // What happened before it was made is not known to it.
  return made;
}

function forgetAgain(pool: Pool): void {
  pool.order = null;
}

function hasReserve({ reserved }: Policy): boolean {
  for (const amount of reserved) if (amount > 0) return true;
  return false;
}

/** Whether a quota may block a hold of a component, even if all of them come first; a no is certain. */
function mayBlockHold({ holders, usage, firmUsage, limit, reserved, group, pool }: Policy): boolean {
  if (holders.size === 0) return false;
  if (group !== null) return true;
  const [all, firm] = [[...usage], [...firmUsage]];
  for (const { line } of holders) {
    const poolLine = line.pools.get(pool.record.name) as PoolLine;
    for (const [i, amount] of poolLine.need.entries()) {
      all[i] = (all[i] as number) + amount;
      if (poolLine.firm) firm[i] = (firm[i] as number) + amount;
    }
  }
  const isOver = (sum: readonly number[], bound: readonly number[]) =>
    sum.some((amount, i) => amount > (bound[i] as number));
  return isOver(all, limit) || isOver(firm, reserved);
}

function seqOf({ seq }: Place): number {
  return seq;
}

function bySeq(a: Place, b: Place): number {
  return a.seq - b.seq || a.number - b.number;
}

/** Lower numbers first, from left to right. */
export function compareRanks(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < a.length; i++) {
    const difference = (a[i] as number) - (b[i] as number);
    if (difference !== 0) return difference;
  }
  return 0;
}
