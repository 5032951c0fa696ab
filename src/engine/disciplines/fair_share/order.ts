// The order of service (9.6): the least satisfied first, level by level from the root.

import { Heap } from "../../heap.ts";
import type { Pool, PoolLine, Request } from "../../state.ts";
import { satisfaction } from "./satisfaction.ts";
import { SATISFACTION_STEPS } from "./tolerances.ts";
import type { Branch, Operation, Peers, PoolTree, Standing } from "./tree.ts";

export function satisfactionOf(standing: Standing): number {
  if (Number.isNaN(standing.satisfaction)) {
    const { usageShare: usage, demandShare: demand, fairShare } = standing;
    standing.satisfaction = satisfaction({ usage, demand, fairShare });
  }
  return standing.satisfaction;
}

/** Peers come one by one: others that are as satisfied may stand between them. */
interface Turn {
  readonly whose: Branch | Peers;
  readonly satisfaction: number;
  age: number;
  /** The peers that follow; null for those that have operations below them. */
  readonly rest: Iterator<Operation> | null;
  next: Operation | null;
}

/**
 * Operations with something waiting in their order: all, or of some peers as long as they are asked for. Only the branches
 * above those are walked.
 */
export function inOrder(tree: PoolTree, asked?: Asked): Generator<Operation> {
  return asked === undefined
    ? operationsBelow(tree.root, everybodyBelow, () => true)
    : operationsBelow(tree.root, onlyAbove(asked.among), asked.isAskedFor);
}

export interface Asked {
  /** All that may be asked for. */
  readonly among: Iterable<Peers>;
  isAskedFor(this: void, peers: Peers): boolean;
}

/** Who is right below a branch. */
type Below = (branch: Branch) => Iterable<Branch | Peers>;

function* everybodyBelow({ members }: Branch): Generator<Branch | Peers> {
  for (const member of members) {
    if (member.kind === "operations") yield* member.peers.values();
    else yield member;
  }
}

function onlyAbove(among: Iterable<Peers>): Below {
  const below = new Map<Branch, Set<Branch | Peers>>();
  for (const peers of among) {
    let each: Branch | Peers = peers;
    for (let above: Branch | null = peers.leaf.parent; above !== null; above = above.parent) {
      const known = below.get(above);
      known?.add(each);
      if (known !== undefined) break;
      below.set(above, new Set([each]));
      each = above;
    }
  }
  return (branch) => below.get(branch) ?? [];
}

function* operationsBelow(
  branch: Branch,
  below: Below,
  isAskedFor: (peers: Peers) => boolean,
): Generator<Operation> {
  const turns: Turn[] = [];
  collectTurns(branch, below, isAskedFor, turns);
  const heap = new Heap(comesBefore, turns);
  for (let turn = heap.pop(); turn !== undefined; turn = heap.pop()) {
    const { whose, rest } = turn;
    if (whose.kind !== "peers") {
      yield* operationsBelow(whose, below, isAskedFor);
      continue;
    }
    yield turn.next as Operation;
    if (!isAskedFor(whose)) continue;
    const following = rest?.next() as IteratorResult<Operation>;
    if (following.done) continue;
    turn.next = following.value;
    turn.age = following.value.order;
    heap.push(turn);
  }
}

function collectTurns(
  branch: Branch,
  below: Below,
  isAskedFor: (peers: Peers) => boolean,
  turns: Turn[],
): void {
  for (const whose of below(branch)) {
    if (whose.waitingCount === 0) continue;
    if (whose.kind === "peers") {
      if (!isAskedFor(whose)) continue;
      const rest = whose.operations[Symbol.iterator]();
      const next = rest.next().value as Operation;
      turns.push({ whose, satisfaction: stepOf(whose), age: next.order, rest, next });
    }
    // Below a FIFO group operations follow directly (9.11).
    else if (branch.isFifo) collectTurns(whose, below, isAskedFor, turns);
    else turns.push({ whose, satisfaction: stepOf(whose), age: ageOf(whose), rest: null, next: null });
  }
}

/** An element is as old as its oldest operation with something waiting (9.11). */
export function ageOf(branch: Branch): number {
  if (!Number.isNaN(branch.age)) return branch.age;
  let age = Number.POSITIVE_INFINITY;
  for (const member of branch.members) {
    if (member.kind !== "operations") {
      if (member.waitingCount > 0) age = Math.min(age, ageOf(member));
      continue;
    }
    for (const { waitingCount, operations } of member.peers.values()) {
      if (waitingCount > 0) age = Math.min(age, (operations.first() as Operation).order);
    }
  }
  branch.age = age;
  return age;
}

/** Those who are compared with others for it, from below the root down to itself. */
export function wayTo(operation: Operation): (Branch | Operation)[] {
  const way: (Branch | Operation)[] = [operation];
  for (let branch = parentIn(operation); branch.parent !== null; branch = branch.parent) way.unshift(branch);
  return way;
}

/** Below a FIFO group operations follow directly (9.11). */
export function parentIn({ parent }: Operation): Branch {
  let branch = parent;
  if (parent.isInLine) while (!branch.isFifo) branch = branch.parent as Branch;
  return branch;
}

export function stepOf(standing: Standing): number {
  return Math.round(satisfactionOf(standing) * SATISFACTION_STEPS);
}

function comesBefore(a: Turn, b: Turn): boolean {
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
