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
  isAskedFor(this: void, peers: Peers): boolean;
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
  return operationsBelow(tree.root, asked ?? null);
}

/** The first operation with something waiting, of all or of those that are asked for; there must be one. */
export function firstInOrder({ root }: PoolTree, asking: number | null): Operation {
  let first: Branch | Peers = root;
  while (first.kind !== "peers") first = firstBelow(first, asking, null) as Branch | Peers;
  return first.operations.first() as Operation;
}

/** Who comes first of those below a branch and another one. */
function firstBelow(
  branch: Branch,
  asking: number | null,
  other: Branch | Peers | null,
): Branch | Peers | null {
  let first = other;
  for (const member of branch.members) {
    if (member.kind === "operations") {
      for (const peers of member.peers.values()) if (isBefore(peers, asking, first)) first = peers;
    } else if (!branch.isFifo) {
      if (isBefore(member, asking, first)) first = member;
    } else if (isOneOf(member, asking)) first = firstBelow(member, asking, first);
  }
  return first;
}

function isBefore(element: Branch | Peers, asking: number | null, other: Branch | Peers | null): boolean {
  if (!isOneOf(element, asking)) return false;
  if (other === null) return true;
  const [step, least] = [stepOf(element), stepOf(other)];
  return step < least || (step === least && ageOf(element) < ageOf(other));
}

function isOneOf({ waitingCount, askedIn }: Standing, asking: number | null): boolean {
  return asking === null ? waitingCount > 0 : askedIn === asking;
}

function* operationsBelow(branch: Branch, asked: Asked | null): Generator<Operation> {
  const turns: Turn[] = [];
  collectTurns(branch, asked, turns);
  const heap = new Heap(comesBefore, turns);
  for (let turn = heap.pop(); turn !== undefined; turn = heap.pop()) {
    const { whose, rest } = turn;
    if (whose.kind !== "peers") {
      yield* operationsBelow(whose, asked);
      continue;
    }
    yield turn.next as Operation;
    if (asked?.isAskedFor(whose) === false) continue;
    const following = rest?.next() as IteratorResult<Operation>;
    if (following.done) continue;
    turn.next = following.value;
    turn.age = following.value.order;
    heap.push(turn);
  }
}

function collectTurns(branch: Branch, asked: Asked | null, turns: Turn[]): void {
  for (const member of branch.members) {
    if (member.kind === "operations") {
      for (const peers of member.peers.values()) {
        if (peers.waitingCount > 0 && isAskedFor(asked, peers)) turns.push(turnOf(peers));
      }
      continue;
    }
    if (member.waitingCount === 0 || !isMarked(asked, member)) continue;
    // Below a FIFO group operations follow directly (9.11).
    if (branch.isFifo) collectTurns(member, asked, turns);
    else
      turns.push({
        whose: member,
        satisfaction: stepOf(member),
        age: ageOf(member),
        rest: null,
        next: null,
      });
  }
}

function isAskedFor(asked: Asked | null, peers: Peers): boolean {
  return asked === null || (isMarked(asked, peers) && asked.isAskedFor(peers));
}

function isMarked(asked: Asked | null, { askedIn }: Standing): boolean {
  return asked === null || askedIn === asked.asking;
}

function turnOf(peers: Peers): Turn {
  const rest = peers.operations[Symbol.iterator]();
  const next = rest.next().value as Operation;
  return { whose: peers, satisfaction: stepOf(peers), age: next.order, rest, next };
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
