// What the tree of a pool keeps, beside what the records give; for the invariants of a simulation.

import type { EngineState, Pool } from "../../state.ts";
import { groupsAt } from "./allocations.ts";
import { knowOperation, operationsIn } from "./entries.ts";
import { leafKeyOf, peersKeyOf } from "./operations.ts";
import { ageOf, satisfactionOf } from "./order.ts";
import { Stages, takeOverChanges } from "./stages.ts";
import { statusViolations } from "./starvation.ts";
import {
  type Branch,
  type Operation,
  type Peers,
  type PoolTree,
  type Standing,
  shareTreeOf,
} from "./tree.ts";

/** How what is kept differs from what the records give, in words. */
export function shareViolations(state: EngineState, pool: Pool, nowMs: number): string[] {
  const kept = shareTreeOf(state, pool);
  pool.shareTree = null;
  const fresh = shareTreeOf(state, pool);
  pool.shareTree = kept;
  for (const operation of operationsIn(kept))
    if (operation.request !== null) knowOperation(operation.request, operation);
  takeOverChanges(pool, kept, nowMs);
  const [has, should] = [describe(kept), describe(fresh)];
  const differences = [...new Set([...has.keys(), ...should.keys()])]
    .filter((key) => has.get(key) !== should.get(key))
    .map((key) => `${key} is kept as ${has.get(key)} but the records give ${should.get(key)}`);
  return [
    ...differences,
    ...indexViolations(kept),
    ...marginViolations(pool, kept),
    ...statusViolations(pool, kept, nowMs),
    ...new Stages(state, pool, kept, nowMs).violations(),
  ];
}

/** Every element in one line of text; shares to seven digits, since their last ones depend on what came before. */
function describe(tree: PoolTree): Map<string, string> {
  const { branches, overcommitted, promises } = tree;
  const rounded = (numbers: readonly number[]) => numbers.map((number) => Math.round(number * 1e7));
  const standing = (each: Standing) => {
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
    const { leaf, operations: alike } = peers as Peers;
    const { demand, pathUsage, operationCount } = leaf;
    const counts = lines.map(({ waiting, promised, passing, running }) => [
      waiting,
      promised,
      passing,
      running,
    ]);
    const place = `${demand} by ${pathUsage} of ${operationCount}, ${counts.sort().join()} of ${alike.size}`;
    const occupied = lines.reduce((sum, each) => sum + each.running + each.promised + each.stopping, 0);
    found.set(key, `${place}, ${order}, ${occupied}, ${standing(peers as Peers)}`);
  }
  return found;
}

/** What is known of peers is what their shares give now. */
function* marginViolations(pool: Pool, tree: PoolTree): Generator<string> {
  for (const { key, peers } of operationsIn(tree)) {
    const { fairShare, margin, groups } = peers as Peers;
    if (margin !== null && fairShare.some((share, i) => share < margin.low[i]! || share > margin.high[i]!))
      yield `${key} has left its margin`;
    if (groups !== null && groups.join() !== groupsAt(pool, tree, peers as Peers, fairShare).join())
      yield `the runs of ${key} are protected otherwise`;
  }
}

/** Peers are where they belong, and counted right. */
function indexViolations(tree: PoolTree): string[] {
  const found: string[] = [];
  const peersOf = new Set<Peers>();
  for (const operation of operationsIn(tree)) {
    const peers = operation.peers as Peers;
    peersOf.add(peers);
    if (peers.leaf.key !== leafKeyOf(tree, operation) || peers.key !== peersKeyOf(operation))
      found.push(`${operation.key} is among others than its like`);
  }
  for (const peers of peersOf) {
    const { key, waitingCount, runCount, operations, leaf } = peers;
    const where = `${leaf.key} (${key})`;
    if (tree.waiting.has(peers) !== waitingCount > 0)
      found.push(`${where} is not rightly among those that wait`);
    if (tree.running.has(peers) !== runCount > 0) found.push(`${where} is not rightly among those that run`);
    if (leaf.parent.leaves.get(leaf.key) !== leaf || leaf.peers.get(key) !== peers)
      found.push(`${where} is lost`);
    const count = (right: number) =>
      [...operations].filter((operation: Operation) => operation.right >= right).length;
    if (peers.starvingCount !== count(1) || peers.aggressiveCount !== count(2))
      found.push(`${where} miscounts rights`);
  }
  for (const need of tree.needs.values()) {
    const { key, peers, isMisfit, units } = need;
    if (tree.openNeeds.has(need) !== (peers.size > 0 && !isMisfit))
      found.push(`${key} is not rightly among the open needs`);
    if (units.some((amount, i) => amount < tree.leastUnits[i]!))
      found.push(`${key} is less than the least need`);
  }
  if ([...tree.openNeeds].some(({ key }) => !tree.needs.has(key)))
    found.push("needs that have gone are kept");
  if ([...tree.waiting, ...tree.running].some((peers) => !peersOf.has(peers)))
    found.push("peers that have gone are kept");
  return found;
}
