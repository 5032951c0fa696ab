// What the tree of a pool keeps is a cache: a tree that is made anew must have the same shares and statuses, and a look at it
// must find nothing to do where the last look at the kept one found nothing any more. For the invariants of a simulation.

import { neverUp } from "../../breaks.ts";
import type { EngineState, Pool } from "../../state.ts";
import type { Transaction } from "../../transaction.ts";
import type { Branch, Peers, PoolTree } from "./elements.ts";
import { knowOperation, operationsIn } from "./entries.ts";
import { ageOf, satisfactionOf } from "./order.ts";
import { lookAtShares, takeOverChanges } from "./stages.ts";
import { shareTreeOf } from "./tree.ts";

/** How what is kept differs from what the records give, in words. */
export function shareViolations(state: EngineState, pool: Pool, nowMs: number): string[] {
  const kept = shareTreeOf(state, pool);
  takeOverChanges(pool, kept, nowMs);
  pool.shareTree = null;
  const fresh = shareTreeOf(state, pool);
  // What is left for the next slices, statuses among them, is not what a look would find.
  const found = state.isPaused ? [] : [...findings(state, pool)];
  pool.shareTree = kept;
  for (const operation of operationsIn(kept))
    if (operation.request !== null) knowOperation(operation.request, operation);
  const [has, should] = [describe(kept), describe(fresh)];
  for (const key of new Set([...has.keys(), ...should.keys()])) {
    if (has.get(key) === should.get(key)) continue;
    found.push(`${key} is kept as ${has.get(key)} but the records give ${should.get(key)}`);
  }
  return found;
}

/** What the first look at the tree of a pool finds. */
function* findings(state: EngineState, pool: Pool): Generator<string> {
  const { clockMs: nowMs } = state;
  const events: Transaction["events"] = [];
  const emit: Transaction["emit"] = (event) => events.push(event);
  const transaction = { state, nowMs, events, isTimeUp: neverUp, mayGoOn: true, isCut: false, emit };
  const look = lookAtShares(transaction, pool, neverUp);
  const { grant, enforce, promise, preempt } = { ...look };
  for (const event of events) yield `a look from the beginning notes ${JSON.stringify(event)}`;
  for (const { request } of [grant?.waiter, promise, preempt?.waiter].flatMap((each) => each ?? []))
    yield `a look from the beginning serves ${request.spec.id}`;
  if (enforce !== undefined) yield "a look from the beginning enforces a limit";
}

/** Every element in one line of text; shares to seven digits, since their last ones depend on what came before. */
function describe(tree: PoolTree): Map<string, string> {
  const { branches, overcommitted, promises } = tree;
  const rounded = (numbers: readonly number[]) => numbers.map((number) => Math.round(number * 1e7));
  const standing = (each: Branch | Peers) => {
    const { demandShare, usageShare, fairShare, waitingCount } = each;
    return JSON.stringify([
      rounded([...demandShare, ...usageShare, ...fairShare, satisfactionOf(each)]),
      waitingCount,
    ]);
  };
  const found = new Map([["overcommitted", overcommitted.join()]]);
  found.set("promises", promises.claimed.join());
  const promised = ({ policy, group }: Branch) =>
    promises.claimed.map((_, i) => {
      if (policy !== null) return [promises.to(policy, i), promises.firmTo(policy, i)];
      return group === null ? 0 : promises.to(group, i);
    });
  for (const [key, branch] of branches) {
    const { demand, usage } = branch;
    found.set(key, `${ageOf(branch)}, ${demand}, ${usage}, ${promised(branch)}, ${standing(branch)}`);
  }
  for (const { key, peers, order, lines } of operationsIn(tree)) {
    const { demand, usage, count, operations: alike } = peers as Peers;
    const counts = lines.map(({ waiting, promised, passing, running }) => [
      waiting,
      promised,
      passing,
      running,
    ]);
    const place = `${demand} by ${usage} of ${count}, ${counts.sort().join()} of ${alike.size}`;
    const occupied = lines.reduce((sum, each) => sum + each.running + each.promised + each.stopping, 0);
    found.set(key, `${place}, ${order}, ${occupied}, ${standing(peers as Peers)}`);
  }
  return found;
}
