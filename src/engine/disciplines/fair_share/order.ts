// The order of service (9.6): the least satisfied first, level by level from the root.

import type { Pool, PoolLine, Request } from "../../state.ts";
import { satisfaction } from "./satisfaction.ts";
import type { InnerNode, OperationNode, ShareNode, ShareTree } from "./tree.ts";

/** Ratios that differ by less are equal: rounding must not decide whose turn it is. */
const STEPS = 1e9;

export function satisfactionOf({ usageShare, demandShare, fairShare }: ShareNode): number {
  return satisfaction({ usage: usageShare, demand: demandShare, fairShare });
}

interface Place {
  readonly node: ShareNode;
  readonly satisfaction: number;
  /** An element is as old as its oldest operation with something waiting (9.11). */
  age: number;
  readonly children: Place[];
}

/** Operations with something waiting in their order, of those that are asked for. */
export function* inOrder(
  tree: ShareTree,
  isAskedFor: (operation: OperationNode) => boolean = () => true,
): Generator<OperationNode> {
  const places = new Map<ShareNode, Place>();
  const placeOf = (node: ShareNode): Place => {
    let place = places.get(node);
    if (place === undefined) {
      place = { node, satisfaction: stepOf(node), age: Number.POSITIVE_INFINITY, children: [] };
      places.set(node, place);
      const above = placeAbove(node);
      if (above !== null) placeOf(above).children.push(place);
    }
    return place;
  };
  for (const operation of tree.operations.values()) {
    if (operation.waitingCount === 0 || !isAskedFor(operation)) continue;
    placeOf(operation);
  }
  // Who is not asked for still makes those above it older.
  for (const operation of tree.operations.values()) {
    if (operation.waitingCount === 0) continue;
    for (let node: ShareNode | null = operation; node !== null; node = node.parent) {
      const place = places.get(node);
      if (place !== undefined) place.age = Math.min(place.age, operation.order);
    }
  }
  const root = places.get(tree.root);
  if (root !== undefined) yield* operationsBelow(root);
}

function* operationsBelow(place: Place): Generator<OperationNode> {
  if (place.node.kind === "operation") {
    yield place.node;
    return;
  }
  const heap = new Heap(place.children);
  for (let next = heap.pop(); next !== undefined; next = heap.pop()) yield* operationsBelow(next);
}

/** Below a FIFO group operations follow directly (9.11). */
function placeAbove(node: ShareNode): InnerNode | null {
  const { parent } = node;
  if (node.kind !== "operation" || parent === null || !parent.isFifo) return parent;
  let group: InnerNode = parent;
  while (group.kind !== "group") group = group.parent as InnerNode;
  return group;
}

function stepOf(node: ShareNode): number {
  return Math.round(satisfactionOf(node) * STEPS);
}

function comesBefore(a: Place, b: Place): boolean {
  return a.satisfaction < b.satisfaction || (a.satisfaction === b.satisfaction && a.age < b.age);
}

/** Mostly only the first few are wanted, so that sorting all would be a waste. */
class Heap {
  readonly #places: Place[];

  constructor(places: readonly Place[]) {
    this.#places = [...places];
    for (let i = (places.length >> 1) - 1; i >= 0; i--) this.#sink(i);
  }

  pop(): Place | undefined {
    const places = this.#places;
    const first = places[0];
    const last = places.pop();
    if (places.length > 0) {
      places[0] = last as Place;
      this.#sink(0);
    }
    return first;
  }

  #sink(from: number): void {
    const places = this.#places;
    const place = places[from] as Place;
    let i = from;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= places.length) break;
      if (child + 1 < places.length && comesBefore(places[child + 1] as Place, places[child] as Place))
        child++;
      if (!comesBefore(places[child] as Place, place)) break;
      places[i] = places[child] as Place;
      i = child;
    }
    places[i] = place;
  }
}

/** All requests of an operation that wait in the pool, by original submission. */
export function waitersOf(pool: Pool, { lines }: OperationNode): { request: Request; poolLine: PoolLine }[] {
  const waiters: { request: Request; poolLine: PoolLine }[] = [];
  for (const poolLine of lines) {
    const { line, verdict } = poolLine;
    const add = (request: Request) => waiters.push({ request, poolLine });
    for (const holder of pool.holders) if (holder.line === line) add(holder);
    if (verdict !== null) continue;
    for (const passer of pool.passers) if (passer.line === line) add(passer);
    for (const request of line.members) add(request);
  }
  return waiters.sort((a, b) => a.request.progress.seq - b.request.progress.seq);
}
