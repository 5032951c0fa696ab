// Where the units of a fair-share pool are: free, set aside for holds, or stopping for nobody (9.7). A pool without
// nodes counts as one node.

import { ANY_NODE, isReady } from "../../placement/node-index.ts";
import { covers } from "../../placement/node-list.ts";
import { type Ask, Room } from "../../placement/room.ts";
import { compareIds } from "../../resources.ts";
import type { Promises } from "../../scheduling/quotas.ts";
import { freeOf, type Node, type Pool, type PoolLine } from "../../state.ts";

export interface Space {
  /** Whether it fits on free units that no hold sets aside. */
  fitsNow(need: Fitting): boolean;
  /** Where it would go now, by best fit; null: nowhere. */
  placeNow(poolLine: PoolLine): readonly Node[] | null;
  /** Where it would go once all that stops for nobody has come free; null: nowhere. */
  placeSoon(poolLine: PoolLine): readonly Node[] | null;
  /** The nodes that take work, by name. */
  nodes(): readonly Node[];
}

/** What is to fit: units, in a pool of nodes as a request asks for them there. */
interface Fitting {
  readonly units: readonly number[];
  readonly ask: Ask | null;
}

export function spaceOf(pool: Pool, promises: Promises): Space {
  return pool.record.nodeBacked ? new NodeSpace(pool) : new QuotaSpace(pool, promises);
}

class QuotaSpace implements Space {
  readonly #pool: Pool;
  readonly #claimed: readonly number[];

  constructor(pool: Pool, { claimed }: Promises) {
    this.#pool = pool;
    this.#claimed = claimed;
  }

  fitsNow({ units }: Fitting): boolean {
    const pool = this.#pool;
    for (let i = 0; i < units.length; i++) {
      if (units[i]! > 0 && units[i]! > freeOf(pool, i) - this.#claimed[i]!) return false;
    }
    return true;
  }

  placeNow({ need }: PoolLine): readonly Node[] | null {
    return this.fitsNow({ units: need, ask: null }) ? NOWHERE : null;
  }

  placeSoon({ need }: PoolLine): readonly Node[] | null {
    const pool = this.#pool;
    const soon = need.map((_, i) => freeOf(pool, i) - this.#claimed[i]! + pool.stopping[i]!);
    return covers(soon, need) ? NOWHERE : null;
  }

  nodes(): readonly Node[] {
    return NOWHERE;
  }
}

const NOWHERE: readonly Node[] = [];

export class NodeSpace implements Space {
  readonly #pool: Pool;
  #now: Room | undefined;
  #soon: Room | undefined;
  readonly #fitsNow = new Set<Ask>();
  readonly #misfitsNow = new Misfits();
  readonly #misfitsSoon = new Misfits();
  #ready: readonly Node[] | undefined;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** What is free, less what holds set aside. */
  get now(): Room {
    this.#now ??= new Room(this.#pool);
    return this.#now;
  }

  /** What will be free once all that stops for nobody has gone, less what holds set aside. */
  get soon(): Room {
    this.#soon ??= Room.soon(this.#pool);
    return this.#soon;
  }

  fitsNow({ ask }: Fitting): boolean {
    if (ask === null || this.#fitsNow.has(ask)) return ask !== null;
    const hasRoom = this.#misfitsNow.test(ask, () => this.now.hasRoomFor(ask));
    if (hasRoom) this.#fitsNow.add(ask);
    return hasRoom;
  }

  placeNow({ ask }: PoolLine): readonly Node[] | null {
    return ask === null ? null : this.now.place(ask);
  }

  /** One node by name (9.7); several close together (N2). */
  placeSoon({ ask }: PoolLine): readonly Node[] | null {
    if (ask === null || !this.#misfitsSoon.test(ask, () => this.soon.hasRoomFor(ask))) return null;
    if (ask.count > 1) return this.soon.place(ask);
    let first: Node | undefined;
    for (const node of this.#pool.nodes.values()) {
      if (!this.soon.canHold(node, ask)) continue;
      if (first === undefined || compareIds(node.record.name, first.record.name) < 0) first = node;
    }
    return first === undefined ? null : [first];
  }

  /** By name. */
  nodes(): readonly Node[] {
    this.#ready ??= [...this.#pool.nodes.values()]
      .filter(isReady)
      .sort((a, b) => compareIds(a.record.name, b.record.name));
    return this.#ready;
  }
}

/** Asks for which there was no room: what asks for as much or more of the same nodes, or of fewer, has none either. */
class Misfits {
  readonly #byNodes = new Map<string, Ask[]>();

  test(ask: Ask, hasRoom: () => boolean): boolean {
    const { key } = ask.wanted;
    const isKnown = this.#has(ANY_NODE.key, ask) || (key !== ANY_NODE.key && this.#has(key, ask));
    if (isKnown) return false;
    if (hasRoom()) return true;
    const known = this.#byNodes.get(key);
    if (known === undefined) this.#byNodes.set(key, [ask]);
    else known.push(ask);
    return false;
  }

  #has(key: string, { need, count }: Ask): boolean {
    const known = this.#byNodes.get(key);
    return known?.some((misfit) => count >= misfit.count && covers(need, misfit.need)) ?? false;
  }
}
