// What is remembered of heads on nodes for which nobody could be stopped (V3), so that the next look asks only about the
// nodes on which something changed.
//
// A head is hopeless while no node would have room for a part of it, even with all gone there that its rights could
// ever permit it to stop: shields, run times, costs and bounds are left out of account, so time cannot give it hope. What
// can is a change on a node, or more runs of a component that borrow; both are named by whoever makes them, and again when
// they are taken back. Heads with the same rights that want the same nodes share one memory: what is not enough for one is
// not enough for another that asks for as much or more.

import { covers } from "../../placement/node-list.ts";
import { placesOf } from "../../placement/occupancy.ts";
import { type Ask, mayServe } from "../../placement/room.ts";
import type { Vector } from "../../resources.ts";
import { shortKeys } from "../../scheduling/victims.ts";
import type { Node, Policy, PoolLine, Request } from "../../state.ts";
import type { QueueRules, VictimSearch } from "./queue-discipline.ts";
import { permitsRun, withoutShields } from "./victims.ts";

/** The one that was not asked for longest is given up for a new one. */
const MEMORIES_MAX = 16;

/** How many needs one remembers. */
const NEEDS_MAX = 16;

interface Memory {
  /** Nodes on which something changed since they were asked, and components of which more may borrow. */
  readonly changes: Set<Node | Policy>;
  /** Those whose holds came first. */
  holders: ReadonlySet<Request>;
  /** What one node could be cleared to at most, per key. */
  readonly most: number[];
  /** Needs for which no node could be cleared, none of them more than another. */
  hopeless: readonly Vector[];
  /** For whom all nodes were asked, and whether one of them gives it hope. */
  readonly poolLine: PoolLine;
  readonly hasHope: boolean;
}

export class Hopelessness {
  readonly #rules: QueueRules;
  readonly #memories = new Map<string, Memory>();

  constructor(rules: QueueRules) {
    this.#rules = rules;
  }

  /** Something changed on a node, or more runs of a component may borrow. */
  noteChange(change: Node | Policy): void {
    for (const { changes } of this.#memories.values()) changes.add(change);
  }

  /** Whether it is certain that nobody can be stopped for the head. */
  isHopeless(search: VictimSearch): boolean {
    const { ask } = search.head.poolLine;
    if (ask === null || this.#memories.size === 0) return false;
    const key = this.#keyOf(search, ask);
    const memory = this.#memories.get(key);
    if (memory === undefined) return false;
    this.#keep(key, memory);
    this.#catchUp(memory, search);
    return isKnownHopeless(memory, ask);
  }

  /** Nobody could be stopped: all nodes are asked whether anybody ever could. */
  noteFailure(search: VictimSearch): void {
    const { poolLine } = search.head;
    const { ask } = poolLine;
    if (ask === null) return;
    const key = this.#keyOf(search, ask);
    const known = this.#memories.get(key);
    if (known?.hasHope !== true || known.poolLine !== poolLine)
      this.#keep(key, this.#askAll(search, ask, known?.hopeless ?? []));
  }

  #askAll(search: VictimSearch, ask: Ask, known: readonly Vector[]): Memory {
    const { head, walk } = search;
    const { need } = ask;
    const most = need.map(() => 0);
    let hasHope = false;
    const clearedTo = this.#clearedTo(search);
    for (const nodes of walk.roomSoon(head.request).candidates(ask)) {
      for (const node of nodes) {
        const left = clearedTo(node);
        raise(most, left);
        hasHope ||= covers(left, need);
      }
    }
    const hopeless = hasHope ? known : [...known.filter((other) => !isAsMuch(other, need)), need];
    return {
      changes: new Set(),
      holders: holdersFirst(search),
      most,
      hopeless: hopeless.slice(-NEEDS_MAX),
      poolLine: head.poolLine,
      hasHope,
    };
  }

  /** As the one that was asked for last. */
  #keep(key: string, memory: Memory): void {
    this.#memories.delete(key);
    this.#memories.set(key, memory);
    const [oldest] = this.#memories.keys();
    if (this.#memories.size > MEMORIES_MAX) this.#memories.delete(oldest as string);
  }

  #keyOf(search: VictimSearch, { wanted }: Ask): string {
    return `${this.#rules.rightsOf(search)} ${shortKeys(search.shortage)} ${wanted.key}`;
  }

  /** Nodes on which something changed may give more than was remembered. */
  #catchUp(memory: Memory, search: VictimSearch): void {
    const nodes = new Set(changedNodes(memory, search));
    memory.changes.clear();
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

  /** What a node would have left with all gone that the head's rights could permit it to stop, until the next is asked. */
  #clearedTo(search: VictimSearch): (node: Node) => Vector {
    const room = search.walk.roomSoon(search.head.request);
    const mayStop = permitsRun(this.#rules.fieldOf(withoutShields(search)));
    const left: number[] = [];
    return (node) => room.leftWithout(node, mayStop, left);
  }
}

/** Nodes on which something changed, those of components of which more may borrow, and those of holds that now come first, or no longer. */
function* changedNodes(memory: Memory, search: VictimSearch): Generator<Node> {
  for (const change of memory.changes) {
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

/** Those whose holds come before the claim of the head (V5). */
function holdersFirst({ walk, head }: VictimSearch): ReadonlySet<Request> {
  const holders = new Set(walk.passed);
  const owner = walk.ownerBehind(head.request);
  return owner === undefined ? holders : holders.add(owner);
}

function isKnownHopeless({ most, hopeless }: Memory, { need }: Ask): boolean {
  return !covers(most, need) || hopeless.some((other) => isAsMuch(need, other));
}

function isAsMuch(need: Vector, other: Vector): boolean {
  for (let i = 0; i < need.length; i++) if ((need[i] as number) < (other[i] as number)) return false;
  return true;
}

function raise(most: number[], left: Vector): void {
  for (let i = 0; i < most.length; i++) most[i] = Math.max(most[i] as number, left[i] as number);
}
