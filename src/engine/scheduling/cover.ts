// Whether what a set of victims holds is enough for the waiter, with what it can count on anyway (V3, V4). In a
// pool without nodes that is a sum; on nodes it is a placement (N2).

import type { VictimSearch } from "../disciplines/queue/queue-discipline.ts";
import { memoised } from "../memoised.ts";
import { covers } from "../placement/node-list.ts";
import { type Ask, mayServe, type Room } from "../placement/room.ts";
import type { Node, Pool, PoolLine, Run } from "../state.ts";

export interface Cover {
  readonly isEnough: boolean;
  /** Whether it matters at all that this run is taken, too. */
  isHelpedBy(run: Run): boolean;
  /** Whether it may matter that a run that was taken is put back: a no is certain. */
  mayNeed(run: Run): boolean;
  take(run: Run): void;
  putBack(run: Run): void;
  /** Where the waiter will go when they have stopped; in a pool without nodes nowhere. */
  places(): readonly Node[];
}

export function coverFor({ head, walk, shortage }: VictimSearch): Cover {
  const { ask } = head.poolLine;
  return ask === null ? new Sum(shortage) : new NodeCover(walk.roomSoon(head.request).copy(), ask);
}

/** When the cover is enough if every run ends at its walltime; minus infinity if it never is, or is already. */
export function earliestEnd(pool: Pool, cover: Cover): number {
  if (cover.isEnough) return Number.NEGATIVE_INFINITY;
  for (const run of pool.ends) {
    cover.take(run);
    if (cover.isEnough) return run.endMs;
  }
  return Number.NEGATIVE_INFINITY;
}

export class Sum implements Cover {
  readonly #lacking: number[];
  readonly #heldBy: (poolLine: PoolLine) => readonly number[];

  constructor(
    shortage: readonly number[],
    heldBy: (poolLine: PoolLine) => readonly number[] = ({ need }) => need,
  ) {
    this.#lacking = [...shortage];
    this.#heldBy = heldBy;
  }

  get isEnough(): boolean {
    return this.#lacking.every((amount) => amount <= 0);
  }

  isHelpedBy({ poolLine }: Run): boolean {
    return this.#heldBy(poolLine).some((amount, i) => amount > 0 && (this.#lacking[i] as number) > 0);
  }

  mayNeed(): boolean {
    return true;
  }

  take(run: Run): void {
    this.#add(run, -1);
  }

  putBack(run: Run): void {
    this.#add(run, 1);
  }

  #add({ poolLine }: Run, sign: number): void {
    const held = this.#heldBy(poolLine);
    const lacking = this.#lacking;
    for (let i = 0; i < held.length; i++) lacking[i] = (lacking[i] as number) + sign * (held[i] as number);
  }

  places(): Node[] {
    return [];
  }
}

/** Enough are as many nodes with room as the waiter asks for: topology is a preference, not a condition. */
export class NodeCover implements Cover {
  readonly #room: Room;
  readonly #ask: Ask;
  /** How many more nodes must have room. */
  missing: number;

  constructor(room: Room, ask: Ask) {
    this.#room = room;
    this.#ask = ask;
    this.missing = ask.count - room.countFitting(ask);
  }

  get isEnough(): boolean {
    return this.missing <= 0;
  }

  isHelpedBy({ nodes }: Run): boolean {
    return nodes.some((node) => mayServe(node, this.#ask) && !this.#hasRoom(node));
  }

  mayNeed({ nodes }: Run): boolean {
    return nodes.some((node) => mayServe(node, this.#ask) && this.#hasRoom(node));
  }

  take(run: Run): void {
    this.#add(run, 1);
  }

  putBack(run: Run): void {
    this.#add(run, -1);
  }

  places(): Node[] {
    return this.#room.place(this.#ask) ?? [];
  }

  /** Whether a run helps if only those go that may: not on nodes that would not have room even with all of them gone. */
  helpers(mayGo: (run: Run) => boolean): (run: Run) => boolean {
    const { need } = this.#ask;
    const isClearable = memoised((node: Node) => this.#room.isEnoughWithout(node, need, mayGo));
    const helpsOn = (node: Node) => mayServe(node, this.#ask) && !this.#hasRoom(node) && isClearable(node);
    return ({ nodes }) => nodes.some(helpsOn);
  }

  /** Whether some node has so much left. */
  couldServe(need: readonly number[]): boolean {
    return this.#room.hasRoomFor({ ...this.#ask, need, count: 1 });
  }

  leftOn(node: Node): readonly number[] {
    return this.#room.leftOn(node);
  }

  #add({ nodes, poolLine }: Run, sign: 1 | -1): void {
    const { need } = poolLine.ask as Ask;
    for (const node of nodes) {
      if (!mayServe(node, this.#ask)) continue;
      const before = this.#hasRoom(node);
      this.#room.add(node, need, sign);
      this.missing += Number(before) - Number(this.#hasRoom(node));
    }
  }

  #hasRoom(node: Node): boolean {
    return covers(this.#room.leftOn(node), this.#ask.need);
  }
}
