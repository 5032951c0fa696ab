// Where the units of a fair-share pool are: free, set aside for holds, or stopping for nobody (9.7). A pool without
// nodes counts as one node.

import { isReady } from "../../placement/node-index.ts";
import { covers } from "../../placement/node-list.ts";
import { placesOf } from "../../placement/occupancy.ts";
import { mayServe, Room } from "../../placement/room.ts";
import { compareIds } from "../../resources.ts";
import { freeOf, type Node, type Pool, type PoolLine, type Request } from "../../state.ts";
import type { Allocation } from "./allocations.ts";
import { type Lack, unitsOn } from "./victims.ts";

/** A hold in its place; units that are free go to the holds in the order of the decisions. */
export interface Held {
  readonly request: Request;
  readonly poolLine: PoolLine;
  readonly nodes: readonly Node[];
  /** Whether all its units are there. */
  readonly isServed: boolean;
}

export interface Space {
  /** In the order of the decisions. */
  readonly holds: readonly Held[];
  /** Whether it fits on free units that no hold sets aside. */
  fitsNow(poolLine: PoolLine): boolean;
  /** Where it would go now, by best fit; null: nowhere. */
  placeNow(poolLine: PoolLine): readonly Node[] | null;
  /** Where it would go once all that stops for nobody has come free; null: nowhere. */
  placeSoon(poolLine: PoolLine): readonly Node[] | null;
  /** What is lacking in each place that may serve it, those that it has already left out; in order of name. */
  lacks(poolLine: PoolLine, victims: readonly Allocation[], taken: readonly Node[]): Iterable<Lack>;
}

export function lineIn(pool: Pool, request: Request): PoolLine {
  return request.line.pools.get(pool.record.name) as PoolLine;
}

function holdersOf(pool: Pool): { request: Request; poolLine: PoolLine }[] {
  return [...pool.promised]
    .sort((a, b) => (a.progress.hold?.seq ?? 0) - (b.progress.hold?.seq ?? 0))
    .map((request) => ({ request, poolLine: lineIn(pool, request) }));
}

export class QuotaSpace implements Space {
  readonly holds: readonly Held[];
  readonly #free: number[];
  readonly #soon: number[];

  constructor(pool: Pool) {
    const free = pool.keys.map((_, i) => freeOf(pool, i));
    this.holds = holdersOf(pool).map(({ request, poolLine }) => {
      const isServed = covers(free, poolLine.need);
      poolLine.need.forEach((amount, i) => (free[i]! -= amount));
      return { request, poolLine, nodes: [], isServed };
    });
    this.#free = free;
    this.#soon = free.map((amount, i) => amount + pool.stopping[i]!);
  }

  fitsNow({ need }: PoolLine): boolean {
    return covers(this.#free, need);
  }

  placeNow(poolLine: PoolLine): readonly Node[] | null {
    return this.fitsNow(poolLine) ? [] : null;
  }

  placeSoon({ need }: PoolLine): readonly Node[] | null {
    return covers(this.#soon, need) ? [] : null;
  }

  lacks({ need }: PoolLine): Lack[] {
    return [{ node: null, shortage: need.map((amount, i) => (amount === 0 ? 0 : amount - this.#soon[i]!)) }];
  }
}

export class NodeSpace implements Space {
  readonly holds: readonly Held[];
  /** What is free, and what will be once all that stops for nobody has come free; both less what holds set aside. */
  readonly now: Room;
  readonly soon: Room;
  #ready: readonly Node[] | undefined;

  constructor(pool: Pool) {
    this.now = new Room(pool);
    this.soon = Room.soon(pool);
    const free = new Room(pool);
    for (const node of pool.places.withPromises) free.add(node, node.promised, 1);
    this.holds = holdersOf(pool).map(({ request, poolLine }) => {
      const need = poolLine.ask?.need ?? [];
      const nodes = placesOf(pool, request.progress.hold);
      const isServed = nodes.every((node) => isReady(node) && covers(free.leftOn(node), need));
      for (const node of nodes) free.add(node, need, -1);
      return { request, poolLine, nodes, isServed };
    });
  }

  fitsNow({ ask }: PoolLine): boolean {
    return ask !== null && this.now.hasRoomFor(ask);
  }

  placeNow({ ask }: PoolLine): readonly Node[] | null {
    return ask === null ? null : this.now.place(ask);
  }

  /** One node by name (9.7); several close together (N2). */
  placeSoon({ ask }: PoolLine): readonly Node[] | null {
    if (ask === null) return null;
    if (ask.count > 1) return this.soon.place(ask);
    const node = this.#readyNodes().find((each) => this.soon.canHold(each, ask));
    return node === undefined ? null : [node];
  }

  *lacks({ ask }: PoolLine, victims: readonly Allocation[], taken: readonly Node[]): Generator<Lack> {
    if (ask === null) return;
    for (const node of this.#readyNodes()) {
      if (taken.includes(node) || !mayServe(node, ask) || !covers(node.capacity, ask.need)) continue;
      const left = [...this.soon.leftOn(node)];
      for (const { run } of victims) unitsOn(run, node).forEach((amount, i) => (left[i]! += amount));
      yield { node, shortage: ask.need.map((amount, i) => (amount === 0 ? 0 : amount - left[i]!)) };
    }
  }

  #readyNodes(): readonly Node[] {
    this.#ready ??= [...this.now.pool.nodes.values()]
      .filter(isReady)
      .sort((a, b) => compareIds(a.record.name, b.record.name));
    return this.#ready;
  }
}
