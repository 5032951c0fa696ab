// The share tree of a pool: root, groups, policies, operations (9), with demand, usage and fair share of each.
//
// It is a cache over the records and never part of them. Who owns what:
//   - the indexes (`indexes/shares.ts`) mark lines whose requests changed, and forget the whole tree when the pool, a
//     group, a policy or a node did;
//   - `shareTreeOf` takes marked lines over (`operations.ts`) and computes shares (`shares.ts`);
//   - a look (`starvation.ts`) clears `touched`, `moved` and `gone`, and keeps rights and wakes.
//
// What is to be looked at again stands in a list, with a mark on the element: a look meets few of them, and sets that
// are filled and cleared with every look would cost more than the look.
//
// Invariants (checked by `checks.ts`)
//   1. Demand, usage and the number of waiting requests of a branch are sums over its operations.
//   2. The members of a policy are the peers of its operations: those of one set have the same demand, usage, waiting
//      requests and runs.
//   3. Whatever stands otherwise than at the last look is in `touched`, or its operation in `moved`. What has gone may
//      still be there, without the mark.

import { breaksWhen } from "../../breaks.ts";
import { empty } from "../../few.ts";
import { compareIds, type Resources } from "../../resources.ts";
import { SortedList } from "../../sorted-list.ts";
import type { EngineState, Group, Policy, Pool, Request } from "../../state.ts";
import {
  Branch,
  type BranchFields,
  type Operation,
  type Peers,
  PoolTree,
  type ShareSettings,
} from "./elements.ts";
import { reservedInLine, setGuarantees } from "./guarantees.ts";
import { isWithinMargin } from "./margins.ts";
import { forgetFindings, operationOf, refresh, settleCounts, touch } from "./operations.ts";
import { fraction } from "./satisfaction.ts";
import { leaveMargin } from "./search.ts";
import { addMember, makeStale } from "./share-tree.ts";
import { updateShares } from "./shares.ts";

/** The tree as the records have it now, with fair shares. */
export function shareTreeOf(state: EngineState, pool: Pool): PoolTree {
  return shareTreeInTime(state, pool, () => false) as PoolTree;
}

/** The same; null: the time was up before all was taken over from the records, and the next call goes on. */
export function shareTreeInTime(state: EngineState, pool: Pool, isTimeUp: () => boolean): PoolTree | null {
  const known = pool.shareTree;
  const { staleRequests, takenBackRequests } = pool;
  if (known !== null && staleRequests.size + takenBackRequests.size === 0 && !isUnfinished(known))
    return known;
  const tree = known ?? newTree(pool);
  pool.shareTree = tree;
  const { stale, changed } = tree;
  if (known === null) noteStale(pool, tree, requestsIn(state, pool));
  if (takenBackRequests.size > 0) {
    forgetFindings(tree);
    noteStale(pool, tree, takenBackRequests);
    takenBackRequests.clear();
  }
  noteStale(pool, tree, staleRequests);
  staleRequests.clear();
  const isBreak = breaksWhen(isTimeUp);
  for (let operation = stale.shift(); operation !== undefined; operation = stale.shift()) {
    refresh(state, tree, operation, pool);
    if (isBreak()) return null;
  }
  settleCounts(tree);
  updateShares(tree);
  for (const node of changed) {
    if (!node.isChanged) continue;
    touchStanding(pool, tree, node);
    if (isBreak()) return null;
  }
  empty(changed);
  return tree;
}

/** Their operations are to be taken anew. */
function noteStale(pool: Pool, tree: PoolTree, requests: Iterable<Request>): void {
  for (const request of requests) {
    const operation = operationOf(pool, tree, request);
    if (operation === undefined || operation.isStale) continue;
    operation.isStale = true;
    tree.stale.push(operation);
  }
}

function isUnfinished({ stale, changed }: PoolTree): boolean {
  return stale.length + changed.length > 0;
}

/** All that wait or run in a pool. */
function* requestsIn(state: EngineState, pool: Pool): Generator<Request> {
  yield* pool.promised;
  yield* pool.passers;
  for (const { record, runs } of pool.policies.values()) {
    for (const { request } of runs) yield request;
    for (const line of state.components.get(record.component)?.lines ?? []) yield* line.members;
  }
}

/** Its fair share is another one. */
function touchStanding(pool: Pool, tree: PoolTree, node: Branch | Peers): void {
  node.isChanged = false;
  node.satisfaction = Number.NaN;
  if (node.kind === "peers" && isWithinMargin(tree, node)) return;
  touch(tree, node);
  if (node.kind === "peers") leaveMargin(pool, tree, node);
}

/** Those of gpu, mcpu and memory_mb that the pool meters, or if none, all its keys but `step_run` (9). */
function shareKeysOf({ keys, record }: Pool): number[] {
  const { shareKeys } = record.settings;
  const indicesOf = (takesPart: (key: string) => boolean) =>
    keys.flatMap((key, index) => (takesPart(key) ? [index] : []));
  if (shareKeys !== null) return indicesOf((key) => shareKeys.includes(key));
  const usual = indicesOf((key) => key === "gpu" || key === "mcpu" || key === "memory_mb");
  return usual.length > 0 ? usual : indicesOf((key) => key !== "step_run");
}

/** Groups and policies by name, so that nothing depends on who came first. */
function newTree(pool: Pool): PoolTree {
  const keys = shareKeysOf(pool);
  const keyNames = keys.map((key) => pool.keys[key] as string);
  const total = keys.map((key) => pool.capacity[key] as number);
  const { mainKey } = pool.record.settings;
  const root = new Branch(
    { kind: "root", key: "root", name: "", parent: null, group: null, policy: null },
    pool.record.settings,
    { weight: 1, isFifo: false, reserved: undefined, limit: keys.map(() => 1) },
  );
  const wakes = new SortedList<Branch | Operation>(byWake, { key: ({ wakeAtMs }) => wakeAtMs });
  const tree = new PoolTree(root, { keys, keyNames, total, wakes, poolKeyCount: pool.keys.length });
  tree.branches.set(root.key, root);
  for (const group of byName(pool.groups)) branchOf(pool, tree, group);
  for (const policy of pool.record.closing ? [] : byName(pool.policies)) {
    const { group, record } = policy;
    const { component: name, closing } = record;
    if (closing) continue;
    const parent = branchOf(pool, tree, group);
    const key = `policy ${name}`;
    tree.policies.set(policy, addBranch(pool, tree, { kind: "policy", key, name, parent, group, policy }));
  }
  for (const branch of tree.branches.values()) touch(tree, branch);
  const main = [mainKey, "gpu", "mcpu"].map((key) => keyNames.indexOf(key ?? "")).find((index) => index >= 0);
  setGuarantees(root, main ?? 0);
  makeStale(root);
  return tree;
}

function byWake(a: Branch | Operation, b: Branch | Operation): number {
  return a.wakeAtMs - b.wakeAtMs || compareIds(a.key, b.key);
}

/** Made with those above it if it is new. */
function branchOf(pool: Pool, tree: PoolTree, group: Group | null): Branch {
  if (group === null) return tree.root;
  const { name } = group.record;
  const known = tree.branches.get(`group ${name}`);
  if (known !== undefined) return known;
  const parent = branchOf(pool, tree, group.parent);
  return addBranch(pool, tree, { kind: "group", key: `group ${name}`, name, parent, group, policy: null });
}

function addBranch(pool: Pool, tree: PoolTree, fields: BranchFields): Branch {
  const { group, policy } = fields;
  const { record } = (policy ?? group) as Policy | Group;
  const isFifo = fields.kind === "group" && group?.record.mode === "fifo";
  const reserved =
    isFifo && !record.reserved
      ? reservedInLine(
          byName(pool.policies).flatMap((each) =>
            each.group === group ? [fractionsOf(tree, each.record.reserved)] : [],
          ),
        )
      : fractionsOf(tree, record.reserved);
  const limit = tree.keyNames.map((_, i) => Math.min(1, fractionsOf(tree, record.limit)?.[i] ?? 1));
  const settings = settingsBelow(pool, group);
  const branch = new Branch(fields, settings, { weight: record.weight ?? 1, isFifo, reserved, limit });
  addMember(branch.parent as Branch, branch);
  tree.branches.set(branch.key, branch);
  return branch;
}

/** Undefined for keys that are not named, and as a whole if none is. */
function fractionsOf(
  { keyNames, total }: PoolTree,
  given: Resources | null | undefined,
): (number | undefined)[] | undefined {
  if (!given || !keyNames.some((key) => Object.hasOwn(given, key))) return undefined;
  return keyNames.map((key, i) =>
    Object.hasOwn(given, key) ? fraction(given[key] as number, total[i]!) : undefined,
  );
}

function byName<Item>(items: ReadonlyMap<string, Item>): Item[] {
  return [...items].sort(([a], [b]) => compareIds(a, b)).map(([, item]) => item);
}

/** Inherited from the nearest group that sets them (9.4, P6). */
function settingsBelow({ record }: Pool, group: Group | null): ShareSettings {
  const chain: Group[] = [];
  for (let above = group; above !== null; above = above.parent) chain.unshift(above);
  return Object.assign({}, record.settings, ...chain.map(({ record: { settings } }) => settings));
}
