// The order of service (9.6): the least satisfied first, level by level from the root.

import { Heap } from "../../heap.ts";
import type { Pool, PoolLine, Request } from "../../state.ts";
import { holdersIn, membersIn, passersIn } from "./entries.ts";
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

/** Some of those that wait: peers that were asked for with `ask` under this number, as long as they are asked for. */
export interface Asked {
  readonly asking: number;
  isAskedFor?(this: void, peers: Peers): boolean;
}

/** Asks for peers, so that a walk passes over all branches without anybody who is asked for. */
export function ask(peers: Peers, asking: number): void {
  peers.askedIn = asking;
  let above: Branch | null = peers.leaf.parent;
  while (above !== null && above.askedIn !== asking) {
    above.askedIn = asking;
    above = above.parent;
  }
}

/** Operations with something waiting in their order: all, or only of those that are asked for. */
export function inOrder(tree: PoolTree, asked?: Asked): Generator<Operation> {
  return operationsBelow(tree.root, asked);
}

/** The first operation with something waiting, of all or of those that are asked for; there must be one. */
export function firstInOrder({ root }: PoolTree, asked?: Asked): Operation {
  let first: Branch | Peers = root;
  while (first.kind !== "peers") first = firstOf(candidatesBelow(first, asked, []));
  return first.operations.first() as Operation;
}

/** The least satisfied, and of several the oldest; ages are asked for only where they decide. */
function firstOf(candidates: readonly (Branch | Peers)[]): Branch | Peers {
  let least = Number.POSITIVE_INFINITY;
  for (const each of candidates) least = Math.min(least, stepOf(each));
  let first: Branch | Peers | undefined;
  for (const each of candidates) {
    if (stepOf(each) === least && (first === undefined || ageOf(each) < ageOf(first))) first = each;
  }
  return first as Branch | Peers;
}

/** Those who are compared with each other right below a branch. */
function candidatesBelow(
  branch: Branch,
  asked: Asked | undefined,
  found: (Branch | Peers)[],
): (Branch | Peers)[] {
  for (const member of branch.members) {
    if (member.kind === "operations") {
      for (const peers of member.peers.values())
        if (isCandidate(peers, asked) && asked?.isAskedFor?.(peers) !== false) found.push(peers);
    } else if (isCandidate(member, asked)) {
      // Below a FIFO group operations follow directly (9.11).
      if (branch.isFifo) candidatesBelow(member, asked, found);
      else found.push(member);
    }
  }
  return found;
}

function isCandidate({ waitingCount, askedIn }: Standing, asked: Asked | undefined): boolean {
  return waitingCount > 0 && (asked === undefined || askedIn === asked.asking);
}

function* operationsBelow(branch: Branch, asked: Asked | undefined): Generator<Operation> {
  const heap = new Heap(comesBefore, candidatesBelow(branch, asked, []).map(turnOf));
  for (let turn = heap.pop(); turn !== undefined; turn = heap.pop()) {
    const { whose, rest } = turn;
    if (whose.kind !== "peers") {
      yield* operationsBelow(whose, asked);
      continue;
    }
    yield turn.next as Operation;
    if (asked?.isAskedFor?.(whose) === false) continue;
    const following = rest?.next() as IteratorResult<Operation>;
    if (following.done) continue;
    turn.next = following.value;
    turn.age = following.value.order;
    heap.push(turn);
  }
}

function turnOf(whose: Branch | Peers): Turn {
  const [satisfaction, age] = [stepOf(whose), ageOf(whose)];
  if (whose.kind !== "peers") return { whose, satisfaction, age, rest: null, next: null };
  const rest = whose.operations[Symbol.iterator]();
  return { whose, satisfaction, age, rest, next: rest.next().value as Operation };
}

/** An element is as old as its oldest operation with something waiting (9.11). */
export function ageOf(element: Branch | Peers): number {
  if (element.kind === "peers") return (element.operations.first() as Operation).order;
  return Number.isNaN(element.age) ? ageOfBranch(element) : element.age;
}

function ageOfBranch(branch: Branch): number {
  let age = Number.POSITIVE_INFINITY;
  for (const member of branch.members) {
    if (member.kind !== "operations") {
      if (member.waitingCount > 0) age = Math.min(age, ageOf(member));
      continue;
    }
    for (const peers of member.peers.values()) {
      if (peers.waitingCount > 0) age = Math.min(age, ageOf(peers));
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
  for (const entry of lines) {
    const { poolLine } = entry;
    const add = (request: Request) => waiters.push({ request, poolLine });
    for (const holder of holdersIn(pool, entry)) add(holder);
    if (poolLine.verdict !== null) continue;
    for (const passer of passersIn(pool, entry)) add(passer);
    for (const request of membersIn(entry)) add(request);
  }
  return waiters.sort((a, b) => a.request.progress.seq - b.request.progress.seq);
}
