// The order of service (9.6): the least satisfied first, level by level from the root.

import type { Pool, PoolLine, Request } from "../../state.ts";
import { Heap } from "./heap.ts";
import { satisfaction } from "./satisfaction.ts";
import type { InnerNode, Operation, OperationKind, ShareNode, ShareTree } from "./tree.ts";

/** Ratios that differ by less are equal: rounding must not decide whose turn it is. */
const STEPS = 1e9;

export function satisfactionOf({ usageShare, demandShare, fairShare }: ShareNode): number {
  return satisfaction({ usage: usageShare, demand: demandShare, fairShare });
}

interface InnerPlace {
  readonly node: InnerNode;
  readonly satisfaction: number;
  /** An element is as old as its oldest operation with something waiting (9.11). */
  age: number;
  readonly children: Place[];
}

/** Operations of one kind come one by one: others that are as satisfied may stand between them. */
interface KindPlace {
  readonly node: OperationKind;
  readonly satisfaction: number;
  age: number;
  readonly rest: Iterator<Operation>;
  next: Operation;
}

type Place = InnerPlace | KindPlace;

/** Operations with something waiting in their order, of the kinds that are asked for as long as they are. */
export function* inOrder(
  tree: ShareTree,
  isAskedFor: (kind: OperationKind) => boolean = () => true,
): Generator<Operation> {
  const places = new Map<InnerNode, InnerPlace>();
  const placeOf = (node: InnerNode): InnerPlace => {
    let place = places.get(node);
    if (place === undefined) {
      place = { node, satisfaction: stepOf(node), age: Number.POSITIVE_INFINITY, children: [] };
      places.set(node, place);
      if (node.parent !== null) placeOf(node.parent).children.push(place);
    }
    return place;
  };
  for (const kind of tree.kinds) {
    if (kind.waitingCount === 0 || !isAskedFor(kind)) continue;
    const rest = kind.operations[Symbol.iterator]();
    const next = rest.next().value as Operation;
    placeOf(parentIn(kind)).children.push({
      node: kind,
      satisfaction: stepOf(kind),
      age: next.order,
      rest,
      next,
    });
  }
  // Who is not asked for still makes those above it older.
  for (const kind of tree.kinds) {
    if (kind.waitingCount === 0) continue;
    const { order } = kind.operations.first() as Operation;
    for (let node: InnerNode | null = kind.parent; node !== null; node = node.parent) {
      const place = places.get(node);
      if (place !== undefined) place.age = Math.min(place.age, order);
    }
  }
  const root = places.get(tree.root);
  if (root !== undefined) yield* operationsBelow(root, isAskedFor);
}

function* operationsBelow(
  { children }: InnerPlace,
  isAskedFor: (kind: OperationKind) => boolean,
): Generator<Operation> {
  const heap = new Heap(comesBefore, children);
  for (let place = heap.pop(); place !== undefined; place = heap.pop()) {
    if ("children" in place) {
      yield* operationsBelow(place, isAskedFor);
      continue;
    }
    yield place.next;
    const following = place.rest.next();
    if (following.done || !isAskedFor(place.node)) continue;
    place.next = following.value;
    place.age = following.value.order;
    heap.push(place);
  }
}

/** Below a FIFO group operations follow directly (9.11). */
function parentIn({ parent }: OperationKind): InnerNode {
  let node = parent;
  if (parent.isFifo) while (node.kind !== "group") node = node.parent as InnerNode;
  return node;
}

/** Those who are compared with others for it, from below the root down to itself. */
export function wayTo(operation: Operation): (InnerNode | Operation)[] {
  const way: (InnerNode | Operation)[] = [operation];
  for (let node = parentIn(operation.kind); node.parent !== null; node = node.parent) way.unshift(node);
  return way;
}

function stepOf(node: ShareNode): number {
  return Math.round(satisfactionOf(node) * STEPS);
}

function comesBefore(a: Place, b: Place): boolean {
  return a.satisfaction < b.satisfaction || (a.satisfaction === b.satisfaction && a.age < b.age);
}

/** All requests of an operation that wait in the pool, by original submission. */
export function waitersOf(pool: Pool, { lines }: Operation): { request: Request; poolLine: PoolLine }[] {
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
