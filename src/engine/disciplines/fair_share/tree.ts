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
//   2. The members of a policy are the leaves of its operations; operations of one leaf have the same path to their
//      demand, those of one set of peers also have the same usage, waiting requests and runs.
//   3. Whatever stands otherwise than at the last look is in `touched`, or its operation in `moved`. What has gone may
//      still be there, without the mark.

import { breaksWhen } from "../../breaks.ts";
import type { StarvationChange } from "../../events.ts";
import { empty } from "../../few.ts";
import { compareIds, type Resources } from "../../resources.ts";
import { Promises } from "../../scheduling/quotas.ts";
import type { PoolSettings } from "../../settings.ts";
import { SortedList } from "../../sorted-list.ts";
import type { EngineState, Group, Policy, Pool, PoolLine, Request, Run } from "../../state.ts";
import type { AllocationGroup } from "./allocation-groups.ts";
import type { Allocation } from "./allocations.ts";
import { reservedInLine } from "./guarantees.ts";
import { isWithinMargin, type Margin } from "./margins.ts";
import type { Need } from "./needs.ts";
import { forgetFindings, operationOf, refresh, settleCounts, touch } from "./operations.ts";
import { fraction } from "./satisfaction.ts";
import { leaveMargin, type Search, type Stage } from "./search.ts";
import {
  addMember,
  fixGuarantees,
  makeStale,
  newShareTree,
  type ShareElement,
  type ShareFields,
  ShareNode,
  type ShareTree,
} from "./share-tree.ts";
import { updateSharesBelowRoot } from "./shares.ts";

/** What a group may override for everything below it (P6). */
export type ShareSettings = Pick<
  PoolSettings,
  | "starvationTimeoutMs"
  | "aggressiveStarvationTimeoutMs"
  | "starvationTolerance"
  | "enableAggressiveStarvation"
  | "allowAggressivePreemption"
  | "nonPreemptibleUsageThreshold"
  | "preemptionSatisfactionThreshold"
  | "aggressivePreemptionSatisfactionThreshold"
>;

/** How an element stands: fractions of the pool over the share keys. */
export interface Standing {
  readonly settings: ShareSettings;
  readonly demandShare: readonly number[];
  readonly usageShare: readonly number[];
  readonly fairShare: readonly number[];
  /** Requests that wait below it, those that are promised units included. */
  waitingCount: number;
  /** Usage ÷ fair share (9.6); NaN: to be computed when asked for. */
  satisfaction: number;
  /** Whether it stands otherwise than at the last look. */
  isTouched: boolean;
  /** The number of the last walk for which it, or somebody below it, was asked for (`order.ts`). */
  askedIn: number;
}

/** What can starve. */
export interface Starver {
  /** Unique in the pool; starvation is recorded under it. */
  readonly key: string;
  readonly name: string;
  /** When time alone makes its status another one; infinite: never. */
  wakeAtMs: number;
  /** The number of the last look that judged it. */
  judgedIn: number;
  /** What is recorded of it; null: to be looked up. */
  record: StarvationChange | null;
}

/** The root, a group or a policy. */
export interface Branch extends ShareElement, Standing, Starver {
  readonly kind: "root" | "group" | "policy";
  readonly parent: Branch | null;
  readonly members: TreeNode[];
  readonly group: Group | null;
  readonly policy: Policy | null;
  /** Whether its operations are served in one line, its own or that of the group above it. */
  readonly isInLine: boolean;
  /** Units over the share keys. */
  readonly demand: number[];
  readonly usage: number[];
  readonly demandShare: number[];
  readonly usageShare: number[];
  readonly fairShare: number[];
  /** Of a policy: what its operations are alike in, by what tells leaves apart. */
  readonly leaves: Map<Key, Leaf>;
  /** Of its oldest operation with something waiting (9.11); NaN: to be computed when asked for. */
  age: number;
  /** What its own starvation entitles those below it to, as of the last look. */
  right: Right;
}

/** What tells leaves, or peers, apart. */
export type Key = number | string;

/** Operations with the same path to their demand, so that they have the same fair share. */
export interface Leaf extends ShareElement {
  readonly kind: "operations";
  readonly key: Key;
  readonly parent: Branch;
  /** Of each one of them, in units and as fractions. */
  readonly demand: readonly number[];
  readonly demandShare: readonly number[];
  /** The part of the usage that bends the path to the demand (9.1). */
  readonly pathUsage: readonly number[];
  readonly peers: Map<Key, Peers>;
  operationCount: number;
  /** Whether it may have more or fewer operations than shares know, or others. */
  isRecounted: boolean;
}

/** Operations of a leaf that no rule tells apart, except by their age. The standing is that of each one of them. */
export interface Peers extends Standing {
  readonly kind: "peers";
  readonly key: Key;
  readonly leaf: Leaf;
  readonly usage: readonly number[];
  /** Runs that are not stopping, of each. */
  readonly runCount: number;
  /** The oldest first. */
  readonly operations: SortedList<Operation>;
  /** Whether they were below their fair share at the last look. */
  isBelow: boolean;
  /** How many of them may preempt, and how many of these aggressively, because they starve themselves. */
  starvingCount: number;
  aggressiveCount: number;
  /** What the lines of each of them ask for. */
  readonly needs: readonly Need[];
  /** The groups of the runs of each (9.5); null: to be found when asked for. */
  groups: readonly AllocationGroup[] | null;
  /** Between which shares nothing is found otherwise about them; null: to be found when asked for. */
  margin: Margin | null;
  /** The number of the last walk of the regular stage in which each of them fitted. */
  fitsIn: number;
}

export interface Operation extends Starver {
  /** Null: it has gone. */
  tree: PoolTree | null;
  readonly parent: Branch;
  /** What it consists of if it is a request that names no operation; null: any number of them may belong to it. */
  readonly request: Request | null;
  lines: LineEntry[];
  /** Its place by original submission: that of its first request (9.11). */
  order: number;
  /** Null until it is first looked at, and when it has gone. */
  peers: Peers | null;
  /** Whether it is new, stands elsewhere, or must be looked at again. */
  isMoved: boolean;
  /** Whether one of its requests has changed. */
  isStale: boolean;
  /** Its runs by the groups that its peers had then; null: to be made anew when asked for. */
  allocations: AllocationsOf | null;
  /** What its own starvation entitles it to. */
  right: Right;
}

export interface AllocationsOf {
  readonly groups: readonly AllocationGroup[];
  readonly byRun: ReadonlyMap<Run, Allocation>;
}

/** 0: nothing, 1: to preempt, 2: to preempt aggressively (9.7). */
export type Right = 0 | 1 | 2;

export type TreeNode = Branch | Leaf;

export interface PoolTree extends ShareTree {
  readonly root: Branch;
  readonly changed: TreeNode[];
  /** Which keys of the pool take part, as indices into its keys. */
  readonly keys: readonly number[];
  readonly keyNames: readonly string[];
  readonly total: readonly number[];
  /** Groups and policies by key, parents before what is below them; the root comes first. */
  readonly branches: ReadonlyMap<string, Branch>;
  readonly policies: ReadonlyMap<Policy, Branch>;
  /** Operations that have a name of their own, by key; a request that is one knows it itself. */
  readonly named: Map<string, Operation>;
  /** Operations that are to be taken anew from their requests. */
  readonly stale: Operation[];
  readonly needs: Map<string, Need>;
  /** Those of requests that wait, but for those that were found to fit nowhere. */
  readonly openNeeds: Set<Need>;
  /** No need asks for less of a key. */
  readonly leastUnits: number[];
  /** All peers with something waiting, and all with runs. */
  readonly waiting: Set<Peers>;
  readonly running: Set<Peers>;
  /** Every shape of requests that was met. */
  readonly shapes: Map<string, Shape>;
  /** Leaves that may have more or fewer operations than shares know, or others. */
  readonly recounted: Leaf[];
  /** Elements that stand otherwise than at the last look. */
  readonly touched: (Branch | Peers)[];
  /** Operations that are new, stand elsewhere, or must be looked at again; and those that have gone. */
  readonly moved: Operation[];
  readonly gone: Operation[];
  /** Those who were found to have come below their fair share just now. */
  readonly fresh: (Branch | Operation)[];
  /** Those whose status time alone changes, soonest first. */
  readonly wakes: SortedList<Branch | Operation>;
  /** What is promised to whom. */
  readonly promises: Promises;
  /** Whether no promise can be lost that a look would not find (V5). */
  areHoldsChecked: boolean;
  /** Units may have come free since a look found nobody who fits. */
  hasNewRoom: boolean;
  /** How many operations, policies and groups starve so that they have a right to each preemptive stage. */
  readonly rights: Record<Stage, number>;
  /** What the preemptive stages know; null: nobody has had the right to one since the tree was built. */
  readonly searches: Record<Stage, Search | null>;
  /** Whether statuses were looked at since it was built. */
  isLookedAt: boolean;
  /** Whether somebody looks at them now. */
  isInLook: boolean;
  /** How many looks at statuses there were, and how many walks over those who wait. */
  lookCount: number;
  askCount: number;
  /** Groups that are promised more than there is (9.1). */
  readonly overcommitted: readonly string[];
}

/** Requests of one shape are alike to every rule; the number stands for a long text. */
export interface Shape {
  readonly tree: PoolTree;
  readonly number: number;
  need: Need;
  /** Over the share keys. */
  readonly units: readonly number[];
  /** Whether usage bends the path to the demand: on one key every path is straight. */
  readonly isBent: boolean;
  readonly isGang: boolean;
}

/** The requests of an operation that are of one line, and how many of them were where when they were last counted. */
export interface LineEntry {
  readonly poolLine: PoolLine;
  readonly shape: Shape;
  readonly need: Need;
  readonly operation: Operation;
  /** Requests that wait in this pool, wherever they are promised units. */
  waiting: number;
  /** Those of them that are promised units here, and elsewhere. */
  promised: number;
  passing: number;
  running: number;
  /** Stopping, and those of them that come back. */
  stopping: number;
  returning: number;
}

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
  updateSharesBelowRoot(tree);
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
function touchStanding(pool: Pool, tree: PoolTree, node: TreeNode): void {
  node.isChanged = false;
  if (node.kind !== "operations") {
    node.satisfaction = Number.NaN;
    return touch(tree, node);
  }
  for (const peers of node.peers.values()) {
    peers.satisfaction = Number.NaN;
    if (isWithinMargin(tree, peers)) continue;
    touch(tree, peers);
    leaveMargin(pool, tree, peers);
  }
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
  const builder = new TreeBuilder(pool, keyNames, total);
  const { root, branches, policies } = builder;
  const { keyCount, paper, givenUp, settled } = newShareTree(root);
  const tree: PoolTree = {
    root,
    keyCount,
    paper,
    changed: [] as TreeNode[],
    givenUp,
    settled,
    keys,
    keyNames,
    total,
    branches,
    policies,
    named: new Map(),
    stale: [],
    needs: new Map(),
    openNeeds: new Set(),
    leastUnits: pool.keys.map(() => Number.POSITIVE_INFINITY),
    waiting: new Set(),
    running: new Set(),
    shapes: new Map(),
    recounted: [],
    touched: [],
    moved: [],
    gone: [],
    fresh: [],
    wakes: new SortedList<Branch | Operation>(byWake, { key: ({ wakeAtMs }) => wakeAtMs }),
    promises: new Promises(pool.keys.length),
    areHoldsChecked: false,
    hasNewRoom: true,
    rights: { preemptive: 0, aggressive: 0 },
    searches: { preemptive: null, aggressive: null },
    isLookedAt: false,
    isInLook: false,
    lookCount: 0,
    askCount: 0,
    overcommitted: [],
  };
  for (const branch of branches.values()) touch(tree, branch);
  const mainKey = [pool.record.settings.mainKey, "gpu", "mcpu"]
    .map((key) => keyNames.indexOf(key ?? ""))
    .find((index) => index >= 0);
  fixGuarantees(tree, mainKey ?? 0);
  makeStale(root);
  const overcommitted = [...branches.values()].filter(({ isOvercommitted }) => isOvercommitted);
  return { ...tree, overcommitted: overcommitted.map(({ name }) => name) };
}

function byWake(a: Branch | Operation, b: Branch | Operation): number {
  return a.wakeAtMs - b.wakeAtMs || compareIds(a.key, b.key);
}

class TreeBuilder {
  readonly #pool: Pool;
  readonly #keyNames: readonly string[];
  readonly #total: readonly number[];
  readonly root: Branch;
  readonly branches = new Map<string, Branch>();
  readonly policies = new Map<Policy, Branch>();
  readonly #groups = new Map<Group | null, Branch>();
  readonly #settings = new Map<Group | null, ShareSettings>();

  constructor(pool: Pool, keyNames: readonly string[], total: readonly number[]) {
    this.#pool = pool;
    this.#keyNames = keyNames;
    this.#total = total;
    this.root = this.#add({ kind: "root", key: "root", name: "", parent: null, group: null, policy: null });
    this.#groups.set(null, this.root);
    for (const group of byName(pool.groups)) this.#addGroup(group);
    for (const policy of byName(pool.policies)) {
      const { component, closing } = policy.record;
      if (closing || pool.record.closing) continue;
      const parent = this.#addGroup(policy.group);
      const { group } = policy;
      const key = `policy ${component}`;
      this.policies.set(policy, this.#add({ kind: "policy", key, name: component, parent, group, policy }));
    }
  }

  #addGroup(group: Group | null): Branch {
    const known = this.#groups.get(group);
    if (known !== undefined || group === null) return known as Branch;
    const { name } = group.record;
    const parent = this.#addGroup(group.parent);
    const made = this.#add({ kind: "group", key: `group ${name}`, name, parent, group, policy: null });
    this.#groups.set(group, made);
    return made;
  }

  #add(fields: BranchFields): Branch {
    const { kind, parent, group, policy } = fields;
    const record = kind === "root" ? undefined : (policy ?? group)?.record;
    const isFifo = kind === "group" && group?.record.mode === "fifo";
    const reserved =
      isFifo && !group?.record.reserved ? this.#reservedInLine(group) : this.#given(record?.reserved);
    const limit = this.#limitOf(record?.limit ?? {});
    const branch = new BranchNode(fields, {
      settings: this.#settingsBelow(group),
      shares: { parent, weight: record?.weight ?? 1, isFifo, reserved, limit },
    });
    if (parent !== null) addMember(parent, branch);
    this.branches.set(branch.key, branch);
    return branch;
  }

  /** The same for all of a group: most policies share theirs. */
  #settingsBelow(group: Group | null): ShareSettings {
    let settings = this.#settings.get(group);
    if (settings === undefined) {
      settings = settingsBelow(this.#pool, group);
      this.#settings.set(group, settings);
    }
    return settings;
  }

  #reservedInLine(group: Group | null): (number | undefined)[] | undefined {
    const policies = byName(this.#pool.policies).filter((policy) => policy.group === group);
    return reservedInLine(policies.map(({ record }) => this.#given(record.reserved)));
  }

  /** Fractions; undefined for keys that are not named, and as a whole if none is. */
  #given(given: Resources | null | undefined): (number | undefined)[] | undefined {
    if (!given || !this.#keyNames.some((key) => Object.hasOwn(given, key))) return undefined;
    return this.#keyNames.map((key, i) =>
      Object.hasOwn(given, key) ? fraction(given[key] as number, this.#total[i]!) : undefined,
    );
  }

  #limitOf(limit: Resources): number[] {
    return this.#keyNames.map((key, i) =>
      Object.hasOwn(limit, key) ? Math.min(1, fraction(limit[key] as number, this.#total[i]!)) : 1,
    );
  }
}

type BranchFields = Pick<Branch, "kind" | "key" | "name" | "parent" | "group" | "policy">;

class BranchNode extends ShareNode implements Branch {
  declare readonly parent: Branch | null;
  declare readonly members: TreeNode[];
  readonly kind: Branch["kind"];
  readonly key: string;
  readonly name: string;
  readonly group: Group | null;
  readonly policy: Policy | null;
  readonly settings: ShareSettings;
  readonly isInLine: boolean;
  readonly demand: number[];
  readonly usage: number[];
  readonly demandShare: number[];
  readonly usageShare: number[];
  waitingCount = 0;
  satisfaction = Number.NaN;
  isTouched = false;
  askedIn = 0;
  readonly leaves = new Map<Key, Leaf>();
  age = Number.NaN;
  right: Right = 0;
  wakeAtMs = Number.POSITIVE_INFINITY;
  judgedIn = 0;
  record: StarvationChange | null = null;

  constructor(
    { kind, key, name, parent, group, policy }: BranchFields,
    { settings, shares }: { readonly settings: ShareSettings; readonly shares: ShareFields },
  ) {
    super(shares);
    this.kind = kind;
    this.key = key;
    this.name = name;
    this.group = group;
    this.policy = policy;
    this.settings = settings;
    this.isInLine = shares.isFifo || (parent?.isInLine ?? false);
    this.demand = shares.limit.map(() => 0);
    this.usage = shares.limit.map(() => 0);
    this.demandShare = shares.limit.map(() => 0);
    this.usageShare = shares.limit.map(() => 0);
  }
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
