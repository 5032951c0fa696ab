// Whether what a set of victims holds is enough for the waiter, with what it can count on anyway (V3, V4). In a
// pool without nodes that is a sum; on nodes it is a placement (N2).

import type { VictimSearch } from "../disciplines/queue/queue-discipline.ts";
import { covers } from "../placement/node-list.ts";
import { type Ask, mayServe, type Room } from "../placement/room.ts";
import { addInto } from "../resources.ts";
import { byEnd, type Node, type Pool, type PoolLine, type Run } from "../state.ts";

export interface Cover {
  readonly isEnough: boolean;
  take(run: Run): void;
  putBack(run: Run): void;
  /** Where the waiter will go when they have stopped; in a pool without nodes nowhere. */
  places(): readonly Node[];
}

export function coverFor({ head, walk, shortage }: VictimSearch): Sum | NodeCover {
  const { ask } = head.poolLine;
  return ask === null ? new Sum(shortage) : new NodeCover(walk.roomSoon(head.request).copy(), ask);
}

/** When the cover is enough if every run ends at its walltime; minus infinity if it never is, or is already. */
export function earliestEnd(pool: Pool, cover: Cover): number {
  if (cover.isEnough) return Number.NEGATIVE_INFINITY;
  if (cover instanceof NodeCover) {
    const cleared = cover.firstCleared({ inOrder: pool.ends, byOrder: byEnd, mayGo: hasWalltime });
    return cleared === null ? Number.NEGATIVE_INFINITY : lastOf(cleared.at(-1) as readonly Run[]).endMs;
  }
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

  /** Whether it matters at all that this run is taken, too. */
  isHelpedBy({ poolLine }: Run): boolean {
    return this.#heldBy(poolLine).some((amount, i) => amount > 0 && (this.#lacking[i] as number) > 0);
  }

  take(run: Run): void {
    this.#add(run, -1);
  }

  putBack(run: Run): void {
    this.#add(run, 1);
  }

  #add({ poolLine }: Run, sign: 1 | -1): void {
    addInto(this.#lacking, this.#heldBy(poolLine), sign);
  }

  places(): Node[] {
    return [];
  }
}

/** With more than these it costs less to ask all nodes than to bring them in order. */
export const RUNS_WALKED_MAX = 256;

/** Runs that may go, and the order in which they do. */
export interface Going {
  /** All of them, and maybe others. */
  readonly inOrder: Iterable<Run>;
  byOrder(this: void, a: Run, b: Run): number;
  mayGo(this: void, run: Run): boolean;
}

function hasWalltime({ endMs }: Run): boolean {
  return endMs < Number.POSITIVE_INFINITY;
}

function lastOf(runs: readonly Run[]): Run {
  return runs[runs.length - 1] as Run;
}

/** What each of its nodes gives a run. */
export function partOf({ ask }: PoolLine): readonly number[] {
  return (ask as Ask).need;
}

/** Enough are as many nodes with room as the waiter asks for: topology is a preference, not a condition. */
export class NodeCover implements Cover {
  readonly #room: Room;
  readonly #ask: Ask;
  /** What would be left on the node in hand: a search asks many nodes. */
  readonly #scratch: number[] = [];
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

  take(run: Run): void {
    this.#add(run, 1);
  }

  putBack(run: Run): void {
    this.#add(run, -1);
  }

  places(): Node[] {
    return this.#room.place(this.#ask) ?? [];
  }

  /**
   * The nodes that would have room first if runs went one after the other, and who goes on each of them: in order, the last one
   * makes the room. As many nodes as are missing, and others that have room at the same time; null: there are not so many.
   *
   * When a node has room depends on the runs on it alone. So the first runs bring their nodes, and each of these is asked;
   * the others need not be once the last run that is needed comes before all that are left.
   */
  firstCleared(going: Going): readonly (readonly Run[])[] | null {
    const { missing } = this;
    const first: (readonly Run[])[] = [];
    const compare = (a: readonly Run[], b: readonly Run[]) => going.byOrder(lastOf(a), lastOf(b));
    const asked = new Set<Node>();
    const ask = (node: Node) => {
      const last = first[missing - 1];
      const runs = this.#clear(node, going, last === undefined ? undefined : lastOf(last));
      if (runs === null) return;
      const place = first.findIndex((other) => compare(runs, other) < 0);
      first.splice(place < 0 ? first.length : place, 0, runs);
      while (first.length > missing && compare(first[missing - 1] as Run[], first.at(-1) as Run[]) < 0)
        first.pop();
    };
    let walked = 0;
    for (const run of going.inOrder) {
      const last = first[missing - 1];
      if (last !== undefined && going.byOrder(lastOf(last), run) < 0) return first;
      if (++walked > RUNS_WALKED_MAX) {
        for (const nodes of this.#room.candidates(this.#ask))
          for (const node of nodes) if (!asked.has(node)) ask(node);
        break;
      }
      for (const node of run.nodes) {
        if (asked.has(node) || !mayServe(node, this.#ask)) continue;
        asked.add(node);
        ask(node);
      }
    }
    return first.length < missing ? null : first;
  }

  /** Those who go on a node until it has room, in order; null: it has none when the last one has gone, or has it already. */
  #clear(node: Node, { byOrder, mayGo }: Going, last: Run | undefined): Run[] | null {
    const { need } = this.#ask;
    const now = this.#room.leftOn(node);
    if (covers(now, need)) return null;
    const left = this.#scratch;
    for (let i = 0; i < need.length; i++) {
      left[i] = (now[i] as number) + (node.usage[i] as number) - (node.stopping[i] as number);
    }
    if (!covers(left, need)) return null;
    let gone: Run[] | undefined;
    for (const run of node.runs) {
      if (run.isStopping) continue;
      if ((last === undefined || byOrder(run, last) <= 0) && mayGo(run)) {
        gone ??= [];
        gone.push(run);
      } else {
        addInto(left, partOf(run.poolLine), -1);
        if (!covers(left, need)) return null; // As mostly: those who stay hold too much.
      }
    }
    if (gone === undefined) return null;
    gone.sort(byOrder);
    for (;;) {
      addInto(left, partOf(lastOf(gone).poolLine), -1);
      if (!covers(left, need)) return gone;
      gone.pop();
    }
  }

  /** Whether the waiter may go to a node, whatever is left there. */
  mayServe(node: Node): boolean {
    return mayServe(node, this.#ask);
  }

  /** What a node lacks for its part of the waiter, per key; not positive where nothing is. */
  lackingOn(node: Node): number[] {
    const left = this.#room.leftOn(node);
    return this.#ask.need.map((amount, i) => (amount === 0 ? 0 : amount - (left[i] as number)));
  }

  #add(run: Run, sign: 1 | -1): void {
    for (const node of run.nodes) {
      if (!mayServe(node, this.#ask)) continue;
      const before = this.#hasRoom(node);
      this.#room.add(node, partOf(run.poolLine), sign);
      this.missing += Number(before) - Number(this.#hasRoom(node));
    }
  }

  #hasRoom(node: Node): boolean {
    return covers(this.#room.leftOn(node), this.#ask.need);
  }
}
