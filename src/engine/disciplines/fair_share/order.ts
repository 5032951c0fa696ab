// The order of service (9.6): the least satisfied first, level by level from the root.

import { Heap } from "../../heap.ts";
import type { Pool, PoolLine, Request } from "../../state.ts";
import { satisfaction } from "./satisfaction.ts";
import type { InnerNode, Operation, OperationKind, ShareNode, ShareTree } from "./tree.ts";

/** Ratios that differ by less are equal: rounding must not decide whose turn it is. */
const STEPS = 1e9;

export function satisfactionOf(node: ShareNode): number {
  if (Number.isNaN(node.satisfaction)) {
    const { usageShare: usage, demandShare: demand, fairShare } = node;
    node.satisfaction = satisfaction({ usage, demand, fairShare });
  }
  return node.satisfaction;
}

/** Operations of one kind come one by one: others that are as satisfied may stand between them. */
interface Place {
  readonly node: ShareNode;
  readonly satisfaction: number;
  age: number;
  /** The operations of a kind that follow; null for those that have operations below them. */
  readonly rest: Iterator<Operation> | null;
  next: Operation | null;
}

/** Operations with something waiting in their order, of the kinds that are asked for as long as they are. */
export function inOrder(
  tree: ShareTree,
  isAskedFor: (kind: OperationKind) => boolean = () => true,
): Generator<Operation> {
  return operationsBelow(tree.root, isAskedFor);
}

function* operationsBelow(
  node: InnerNode,
  isAskedFor: (kind: OperationKind) => boolean,
): Generator<Operation> {
  const heap = new Heap(comesBefore, placesBelow(node, isAskedFor));
  for (let place = heap.pop(); place !== undefined; place = heap.pop()) {
    const { node: below, rest } = place;
    if (below.kind !== "operations") {
      yield* operationsBelow(below, isAskedFor);
      continue;
    }
    yield place.next as Operation;
    const following = rest?.next() as IteratorResult<Operation>;
    if (following.done || !isAskedFor(below)) continue;
    place.next = following.value;
    place.age = following.value.order;
    heap.push(place);
  }
}

function placesBelow({ children, isFifo }: InnerNode, isAskedFor: (kind: OperationKind) => boolean): Place[] {
  const places: Place[] = [];
  for (const node of children.values()) {
    if (node.waitingCount === 0) continue;
    if (node.kind === "operations") {
      if (!isAskedFor(node)) continue;
      const rest = node.operations[Symbol.iterator]();
      const next = rest.next().value as Operation;
      places.push({ node, satisfaction: stepOf(node), age: next.order, rest, next });
    } else if (isFifo) {
      places.push(...placesBelow(node, isAskedFor)); // Below a FIFO group operations follow directly (9.11).
    } else places.push({ node, satisfaction: stepOf(node), age: ageOf(node), rest: null, next: null });
  }
  return places;
}

/** An element is as old as its oldest operation with something waiting (9.11). */
export function ageOf(node: InnerNode): number {
  if (!Number.isNaN(node.age)) return node.age;
  let age = Number.POSITIVE_INFINITY;
  for (const child of node.children.values()) {
    if (child.waitingCount === 0) continue;
    const order = child.kind === "operations" ? child.operations.first()?.order : ageOf(child);
    age = Math.min(age, order ?? age);
  }
  node.age = age;
  return age;
}

/** Those who are compared with others for it, from below the root down to itself. */
export function wayTo(operation: Operation): (InnerNode | Operation)[] {
  const way: (InnerNode | Operation)[] = [operation];
  for (let node = parentIn(operation.kind); node.parent !== null; node = node.parent) way.unshift(node);
  return way;
}

/** Below a FIFO group operations follow directly (9.11). */
function parentIn({ parent }: OperationKind): InnerNode {
  let node = parent;
  if (parent.isFifo) while (node.kind !== "group") node = node.parent as InnerNode;
  return node;
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
    for (const holder of pool.promised) if (holder.line === line) add(holder);
    if (verdict !== null) continue;
    for (const passer of pool.passers) if (passer.line === line) add(passer);
    for (const request of line.members) add(request);
  }
  return waiters.sort((a, b) => a.request.progress.seq - b.request.progress.seq);
}
