// What is remembered of heads on nodes for which nobody could be stopped (V3), so that the next look asks only about the
// nodes on which something changed.
//
// A head is hopeless while no node would have room for a part of it, even with all gone there that its rights could
// ever permit it to stop: shields, run times, costs and bounds are left out of account, so time cannot give it hope. What
// can is a change on a node, or more runs of a component that borrow; both are named by whoever makes them, and again when
// they are taken back. Heads with the same rights that want the same nodes share one memory: what is not enough for one is
// not enough for another that asks for as much or more.

import { breaksWhen } from "../../breaks.ts";
import { covers } from "../../placement/node-list.ts";
import { placesOf } from "../../placement/occupancy.ts";
import { type Ask, mayServe } from "../../placement/room.ts";
import type { Vector } from "../../resources.ts";
import { shortKeys } from "../../scheduling/victims.ts";
import type { Node, Policy, PoolLine, Request } from "../../state.ts";
import type { QueueRules, VictimSearch } from "./queue-discipline.ts";

/** The one that was not asked for longest is given up for a new one. */
const MEMORIES_MAX = 32;
/** A memory that has missed more changes is made anew when it is needed. */
const CHANGES_MAX = 4_096;

/** How many needs one remembers. */
const NEEDS_MAX = 16;

interface Memory {
  /** Which changes it knows: all before this one. */
  position: number;
  /** Those whose holds came first. */
  holders: ReadonlySet<Request>;
  /** What one node could be cleared to at most, per key. */
  readonly most: number[];
  /** Needs for which no node could be cleared, none of them more than another. */
  hopeless: Vector[];
  /** For whom all nodes were asked, and whether one of them gives it hope. */
  readonly poolLine: PoolLine;
  hasHope: boolean;
  /** Nodes that are still to be asked: that may take more than one look. */
  readonly unasked: Node[];
  /** A search has failed since: the next look asks all nodes, so that no look does both. */
  isDue: boolean;
}

export class Hopelessness {
  readonly #rules: QueueRules;
  /** Null: a search has failed once. Most never come again, so that only the next one looks at all nodes. */
  readonly #memories = new Map<string, Memory | null>();
  /** Nodes on which something changed, and components of which more may borrow; the latest last. */
  #changes: (Node | Policy)[] = [];
  /** How many changes came before those. */
  #dropped = 0;
  /** Up to where some memory knows the changes. */
  #known = 0;

  constructor(rules: QueueRules) {
    this.#rules = rules;
  }

  /** Something changed on a node, or more runs of a component may borrow. */
  noteChange(change: Node | Policy): void {
    const changes = this.#changes;
    if (this.#memories.size === 0) return;
    if (changes[changes.length - 1] === change && this.#known < this.#now) return;
    changes.push(change);
    if (changes.length <= 2 * CHANGES_MAX) return;
    this.#dropped += CHANGES_MAX;
    this.#changes = changes.slice(CHANGES_MAX);
    for (const [key, memory] of this.#memories) {
      if (memory !== null && memory.position < this.#dropped) this.#memories.delete(key);
    }
  }

  /** Whether it is certain that nobody can be stopped for the head; null: the time was up before that was known. */
  isHopeless(search: VictimSearch, isTimeUp: () => boolean): boolean | null {
    const { ask } = search.head.poolLine;
    if (ask === null || this.#memories.size === 0) return false;
    const key = this.#keyOf(search, ask);
    let memory = this.#memories.get(key);
    if (memory === undefined) return false;
    if (memory === null) memory = this.#begin(search, ask);
    this.#keep(key, memory);
    if (!this.#askNodes(memory, search, isTimeUp)) return null;
    this.#catchUp(memory, search);
    if (isKnownHopeless(memory, ask)) return true;
    if (!memory.isDue) return false;
    const anew = this.#begin(search, ask, memory.hopeless);
    this.#keep(key, anew);
    return this.#askNodes(anew, search, isTimeUp) ? isKnownHopeless(anew, ask) : null;
  }

  /** Nobody could be stopped. */
  noteFailure(search: VictimSearch): void {
    const { poolLine } = search.head;
    const { ask } = poolLine;
    if (ask === null) return;
    const key = this.#keyOf(search, ask);
    const known = this.#memories.get(key);
    if (known === undefined || known === null) this.#keep(key, null);
    else if (!known.hasHope || known.poolLine !== poolLine) known.isDue = true;
  }

  /** Every node is to be asked that may serve the head. What changes before all are asked is caught up with afterwards. */
  #begin(search: VictimSearch, ask: Ask, hopeless: readonly Vector[] = []): Memory {
    const { head, walk } = search;
    this.#known = this.#now;
    return {
      position: this.#known,
      holders: holdersFirst(search),
      most: ask.need.map(() => 0),
      hopeless: [...hopeless],
      poolLine: head.poolLine,
      hasHope: false,
      unasked: [...walk.roomSoon(head.request).candidates(ask)].flatMap((nodes) => [...nodes]),
      isDue: false,
    };
  }

  /** Answers whether all were asked before the time was up. */
  #askNodes(memory: Memory, search: VictimSearch, isTimeUp: () => boolean): boolean {
    const { unasked, most, poolLine } = memory;
    if (unasked.length === 0) return true;
    const { need } = poolLine.ask as Ask;
    const clearedTo = this.#clearedTo(search);
    const isBreak = breaksWhen(isTimeUp);
    for (let node = unasked.pop(); node !== undefined; node = unasked.pop()) {
      const left = clearedTo(node);
      raise(most, left);
      memory.hasHope ||= covers(left, need);
      if (unasked.length > 0 && isBreak()) return false;
    }
    if (memory.hasHope) return true;
    memory.hopeless = memory.hopeless.filter((other) => !isAsMuch(other, need));
    memory.hopeless.push(need);
    if (memory.hopeless.length > NEEDS_MAX) memory.hopeless.shift();
    return true;
  }

  /** As the one that was asked for last. */
  #keep(key: string, memory: Memory | null): void {
    this.#memories.delete(key);
    this.#memories.set(key, memory);
    const [oldest] = this.#memories.keys();
    if (this.#memories.size > MEMORIES_MAX) this.#memories.delete(oldest as string);
  }

  get #now(): number {
    return this.#dropped + this.#changes.length;
  }

  #keyOf(search: VictimSearch, { wanted }: Ask): string {
    return `${this.#rules.rightsOf(search)} ${shortKeys(search.shortage)} ${wanted.key}`;
  }

  /** Nodes on which something changed may give more than was remembered. */
  #catchUp(memory: Memory, search: VictimSearch): void {
    const nodes = new Set(this.#changedSince(memory, search));
    this.#known = this.#now;
    memory.position = this.#known;
    if (nodes.size === 0) return;
    const clearedTo = this.#clearedTo(search);
    const ask = search.head.poolLine.ask as Ask;
    for (const node of nodes) {
      if (!mayServe(node, ask)) continue;
      const left = clearedTo(node);
      raise(memory.most, left);
      memory.hopeless = memory.hopeless.filter((need) => !covers(left, need));
    }
  }

  /** Nodes on which something changed, those of components of which more may borrow, and those of holds that now come first, or no longer. */
  *#changedSince(memory: Memory, search: VictimSearch): Generator<Node> {
    for (let at = memory.position - this.#dropped; at < this.#changes.length; at++) {
      const change = this.#changes[at] as Node | Policy;
      if (!("runKinds" in change)) yield change;
      else for (const run of change.runs) yield* run.nodes;
    }
    const [before, after] = [memory.holders, holdersFirst(search)];
    memory.holders = after;
    let stayed = 0; // Mostly all of them: there may be thousands.
    for (const holder of after) {
      if (before.has(holder)) stayed++;
      else yield* placesOf(search.pool, holder.progress.hold);
    }
    if (stayed === before.size) return;
    for (const holder of before) if (!after.has(holder)) yield* placesOf(search.pool, holder.progress.hold);
  }

  /** What a node would have left with all gone that the head's rights could permit it to stop, until the next is asked. */
  #clearedTo(search: VictimSearch): (node: Node) => Vector {
    const room = search.walk.roomSoon(search.head.request);
    const mayStop = this.#rules.mayEverStop(search);
    const left: number[] = [];
    return (node) => room.leftWithout(node, mayStop, left);
  }
}

/** Those whose holds come before the claim of the head (V5). */
function holdersFirst({ walk, head }: VictimSearch): ReadonlySet<Request> {
  const holders = new Set(walk.passed);
  const owner = walk.ownerBehind(head.request);
  return owner === undefined ? holders : holders.add(owner);
}

function isKnownHopeless({ most, hopeless }: Memory, { need }: Ask): boolean {
  return !covers(most, need) || hopeless.some((other) => isAsMuch(need, other));
}

function raise(most: number[], left: Vector): void {
  for (let i = 0; i < most.length; i++) most[i] = Math.max(most[i] as number, left[i] as number);
}

function isAsMuch(need: Vector, other: Vector): boolean {
  for (let i = 0; i < need.length; i++) if ((need[i] as number) < (other[i] as number)) return false;
  return true;
}
