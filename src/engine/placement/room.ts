// What is left on the nodes of a pool beside what is set aside (V5), now or when certain runs have ended, and where in it a request would go.
// A room is a thought: it remembers only how some nodes differ from the state.

import { compareIds, type Vector } from "../resources.ts";
import type { Node, Pool, Run } from "../state.ts";
import { hasLabels, isReady, type Wanted } from "./node-index.ts";
import { compareFit, covers, type NodeList } from "./node-list.ts";

/** What a request wants of the nodes of a pool (N2). */
export interface Ask {
  /** Per node. */
  readonly need: Vector;
  readonly count: number;
  readonly wanted: Wanted;
  /** Where it goes if there is room for all of it (10.8). */
  readonly home: Wanted | null;
}

export class Room {
  readonly pool: Pool;
  readonly #left: Map<Node, Vector>;
  /** Is not where a list has it. */
  readonly #isChanged = (node: Node) => this.#left.has(node);

  constructor(pool: Pool, left: Iterable<readonly [Node, Vector]> = []) {
    this.pool = pool;
    this.#left = new Map(left);
  }

  /** The room there will be when everything has ended that is stopping, beside what is set aside for holds. */
  static soon(pool: Pool): Room {
    const room = new Room(pool);
    for (const node of pool.places.withStopping) room.add(node, node.stopping, 1);
    return room;
  }

  copy(): Room {
    return new Room(this.pool, this.#left);
  }

  leftOn(node: Node): Vector {
    return this.#left.get(node) ?? node.left;
  }

  /** What would be left on a node with all gone that may go, written into `left`; what is stopping is left out of account. */
  leftWithout(node: Node, mayGo: (run: Run) => boolean, left: number[]): Vector {
    const now = this.leftOn(node);
    for (let i = 0; i < now.length; i++) left[i] = now[i] as number;
    for (const run of node.runs) {
      if (run.isStopping || !mayGo(run)) continue;
      const { need } = run.poolLine.ask as Ask;
      for (let i = 0; i < left.length; i++) left[i] = (left[i] as number) + (need[i] as number);
    }
    return left;
  }

  /** The nodes that may be asked, whatever is left on them, by topology group. */
  candidates({ wanted }: Ask): Iterable<Iterable<Node>> {
    return this.pool.places.select(this.pool, wanted).groups.values();
  }

  /** Gives units to a node, or with sign -1 takes them from it. */
  add(node: Node, amounts: Vector, sign: 1 | -1): void {
    this.#left.set(
      node,
      this.leftOn(node).map((left, i) => left + sign * (amounts[i] as number)),
    );
  }

  /** Whether a part of the request fits on a node. */
  canHold(node: Node, ask: Ask): boolean {
    return mayServe(node, ask) && covers(this.leftOn(node), ask.need);
  }

  /** Where the request would go: all of its nodes, or null if there is no room for all of them (N2). */
  place(ask: Ask): Node[] | null {
    return (ask.home === null ? null : this.#placeAmong(ask.home, ask)) ?? this.#placeAmong(ask.wanted, ask);
  }

  /** Whether there is room for the request. */
  hasRoomFor(ask: Ask): boolean {
    return this.countFitting(ask) === ask.count;
  }

  /** On how many nodes a part of the request fits; what it does not ask for is not counted. */
  countFitting({ need, count, wanted }: Ask): number {
    let found = this.#changed(wanted, need).length;
    for (const list of this.pool.places.select(this.pool, wanted).groups.values()) {
      if (found >= count) return count;
      found += list.fitting(need, count - found, this.#isChanged).length;
    }
    return Math.min(found, count);
  }

  /** By best fit within as few topology groups as possible. */
  #placeAmong(wanted: Wanted, { need, count }: Ask): Node[] | null {
    const { groups } = this.pool.places.select(this.pool, wanted);
    const changed = this.#changed(wanted, need);
    const roomIn = ([topology, list]: [string, NodeList]): [string, number] => {
      const changedThere = changed.filter(({ record }) => record.topology === topology);
      return [topology, changedThere.length + list.countFitting(need, this.#isChanged)];
    };
    const chosen = groups.size <= 1 ? [...groups.keys()] : fewestGroups([...groups].map(roomIn), count);
    if (chosen === null) return null;
    const lists = chosen.map((topology) => groups.get(topology) as NodeList);
    const changedThere = changed.filter(({ record }) => chosen.includes(record.topology));
    const found = this.#bestIn(lists, changedThere, need, count);
    return found.length < count ? null : found;
  }

  #bestIn(lists: readonly NodeList[], changed: readonly Node[], need: Vector, countMax: number): Node[] {
    const found = lists.flatMap((list) => list.fitting(need, countMax, this.#isChanged));
    if (lists.length <= 1 && changed.length === 0) return found;
    const order = this.pool.places.order(this.pool);
    found.push(...changed);
    found.sort((a, b) => compareFit(a, this.leftOn(a), b, this.leftOn(b), order));
    return found.slice(0, countMax);
  }

  /** Nodes that differ from the state and have room. */
  #changed({ labels }: Wanted, need: Vector): Node[] {
    const found: Node[] = [];
    for (const [node, left] of this.#left) {
      if (isReady(node) && covers(left, need) && hasLabels(node.record, labels)) found.push(node);
    }
    return found;
  }
}

/** Whether a node is among those that may be asked, whatever is left on it. */
export function mayServe(node: Node, { wanted }: Ask): boolean {
  return isReady(node) && hasLabels(node.record, wanted.labels);
}

/**
 * As few groups as possible; of equally few, one after the other the group with the least room that is enough
 * together with the largest of the others, then by name (N2). Null: all of them together are not enough.
 */
export function fewestGroups(rooms: readonly (readonly [string, number])[], count: number): string[] | null {
  const rest = rooms.filter(([, room]) => room > 0).sort(([a, x], [b, y]) => x - y || compareIds(a, b));
  const largest = (groups: typeof rest, number: number) =>
    number === 0 ? 0 : groups.slice(-number).reduce((sum, [, room]) => sum + room, 0);
  let number = 1;
  while (largest(rest, number) < count) if (++number > rest.length) return null;
  const chosen: string[] = [];
  for (let missing = count; number > 0; number--) {
    const isEnough = (group: (typeof rest)[number]) =>
      group[1] +
        largest(
          rest.filter((other) => other !== group),
          number - 1,
        ) >=
      missing;
    const [[name, room]] = rest.splice(rest.findIndex(isEnough), 1) as [[string, number]];
    chosen.push(name);
    missing -= room;
  }
  return chosen;
}
