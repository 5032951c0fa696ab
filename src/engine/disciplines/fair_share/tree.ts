// The share tree of a pool: root, groups, policies, operations (9), with demand, usage and fair share of each.
//
// It is a cache over the records and never part of them. Lines whose requests changed are marked by the
// indexes; a look takes over everything else, so that its cost follows what has changed.

import { Heap } from "../../heap.ts";
import { operationKey, shapeKeyOf } from "../../lines.ts";
import { compareIds, type Resources } from "../../resources.ts";
import type { PoolSettings } from "../../settings.ts";
import { SortedList } from "../../sorted-list.ts";
import {
  type EngineState,
  type Group,
  type Policy,
  type Pool,
  type PoolLine,
  requireRequest,
} from "../../state.ts";
import { comesBack } from "../../stopping.ts";
import { ageOf, satisfactionOf } from "./order.ts";
import {
  computeFairShares,
  type ElementShare,
  newShareCache,
  type ShareCache,
  type ShareElement,
  type ShareGroup,
} from "./shares.ts";

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

/** How an element stands; units and fractions of the pool over the share keys. */
interface Standing {
  demand: readonly number[];
  usage: readonly number[];
  demandShare: readonly number[];
  usageShare: readonly number[];
  fairShare: readonly number[];
  /** Requests that wait below it, those that hold units included. */
  waitingCount: number;
  /** As the shares see it; null: to be made anew. */
  element: ShareElement | null;
  /** Usage ÷ fair share (9.6); NaN: to be computed when asked for. */
  satisfaction: number;
}

/** The root, a group or a policy. */
export interface InnerNode extends Standing {
  readonly kind: "root" | "group" | "policy";
  /** Unique in the pool; starvation is recorded under it. */
  readonly key: string;
  readonly name: string;
  readonly parent: InnerNode | null;
  readonly settings: ShareSettings;
  readonly group: Group | null;
  readonly policy: Policy | null;
  readonly isFifo: boolean;
  readonly children: Map<string, ShareNode>;
  /** Given or inferred, and fitted to what there is. */
  guarantee: readonly number[];
  /** Of its oldest operation with something waiting (9.11); NaN: to be computed when asked for. */
  age: number;
}

/** Operations that no rule tells apart, except by their age. The standing is that of each one of them. */
export interface OperationKind extends Standing {
  readonly kind: "operations";
  readonly key: string;
  readonly parent: InnerNode;
  readonly settings: ShareSettings;
  readonly isGang: boolean;
  /** Runs that are not stopping, of each. */
  readonly runCount: number;
  /** The oldest first. */
  readonly operations: SortedList<Operation>;
  /** Whether they were below their fair share at the last look. */
  isBelow: boolean;
  /** How many of them may preempt, and how many of these aggressively, because they starve themselves. */
  starvingCount: number;
  aggressiveCount: number;
}

export interface Operation {
  /** Unique in the pool; starvation is recorded under it. */
  readonly key: string;
  readonly name: string;
  readonly parent: InnerNode;
  readonly lines: Set<PoolLine>;
  /** Its place by original submission: that of its first request (9.11). */
  order: number;
  kind: OperationKind;
  /** What its own starvation entitles it to. */
  right: Right;
}

/** 0: nothing, 1: to preempt, 2: to preempt aggressively (9.7). */
export type Right = 0 | 1 | 2;

export type ShareNode = InnerNode | OperationKind;

export interface ShareTree {
  /** Which keys of the pool take part, as indices into its keys. */
  readonly keys: readonly number[];
  readonly keyNames: readonly string[];
  readonly total: readonly number[];
  readonly mainKey: number;
  readonly root: InnerNode;
  /** Parents before children. */
  readonly inner: readonly InnerNode[];
  readonly policies: ReadonlyMap<Policy, InnerNode>;
  readonly operations: Map<string, Operation>;
  readonly kinds: Set<OperationKind>;
  readonly cache: ShareCache;
  /** Whose share an element is. */
  readonly owners: Map<ShareElement, ShareNode>;
  /** Whoever stands otherwise than at the last look. */
  readonly touched: Set<ShareNode>;
  /** Operations that are new or of another kind than at the last look, and those that are gone. */
  readonly moved: Set<Operation>;
  readonly gone: Set<string>;
  /** When those that are below their fair share become more than that. */
  readonly wakes: Heap<Wake>;
  /** Whether somebody has looked at statuses since it was built. */
  isLookedAt: boolean;
  /** Groups that are promised more than there is (9.1). */
  overcommitted: readonly string[];
}

/** Has no members; an operation belongs to it until it is first looked at. */
const NO_KIND = { kind: "operations", demand: [], usage: [], waitingCount: 0 } as unknown as OperationKind;

/** When a status changes by time alone, if the element has been below its fair share since then. */
export interface Wake {
  readonly atMs: number;
  readonly element: InnerNode | Operation;
  readonly sinceMs: number;
}

/** The tree as the records have it now, with fair shares. */
export function shareTreeOf(state: EngineState, pool: Pool): ShareTree {
  const known = pool.shareTree;
  if (known !== null && pool.staleLines.size === 0) return known;
  const tree = known ?? newTree(pool);
  pool.shareTree = tree;
  const stale = new Set<Operation>();
  for (const poolLine of known === null ? linesOf(state, pool) : pool.staleLines) {
    const operation = operationOf(tree, poolLine);
    if (operation !== undefined) stale.add(operation);
  }
  for (const operation of stale) refresh(state, tree, operation, pool);
  pool.staleLines.clear();
  share(tree);
  return tree;
}

function* linesOf(state: EngineState, pool: Pool): Generator<PoolLine> {
  for (const { record } of pool.policies.values()) {
    for (const line of state.components.get(record.component)?.lines ?? []) {
      const poolLine = line.pools.get(pool.record.name);
      if (poolLine !== undefined) yield poolLine;
    }
  }
}

/** How what is kept differs from what the records give, in words; for checks. */
export function treeViolations(state: EngineState, pool: Pool): string[] {
  const kept = shareTreeOf(state, pool);
  pool.shareTree = null;
  const fresh = shareTreeOf(state, pool);
  pool.shareTree = kept;
  const describe = ({ operations, inner }: ShareTree) => {
    const rounded = (shares: readonly number[]) => shares.map((share) => Math.round(share * 1e7));
    const standing = (node: ShareNode) => {
      const { demand, usage, fairShare, waitingCount } = node;
      return JSON.stringify([demand, usage, rounded([...fairShare, satisfactionOf(node)]), waitingCount]);
    };
    const found = new Map(inner.map((node) => [node.key, `${ageOf(node)}, ${standing(node)}`]));
    for (const { key, kind, order } of operations.values()) {
      found.set(key, `${kind.key} of ${kind.operations.size}, ${order}, ${standing(kind)}`);
    }
    return found;
  };
  const [has, should] = [describe(kept), describe(fresh)];
  return [...new Set([...has.keys(), ...should.keys()])]
    .filter((key) => has.get(key) !== should.get(key))
    .map((key) => `${key} is kept as ${has.get(key)} but the records give ${should.get(key)}`);
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

function newTree(pool: Pool): ShareTree {
  const keys = shareKeysOf(pool);
  const names = keys.map((key) => pool.keys[key] as string);
  const mainKey = [pool.record.settings.mainKey, "gpu", "mcpu"]
    .map((key) => names.indexOf(key ?? ""))
    .find((index) => index >= 0);
  const inner: InnerNode[] = [];
  const add = (
    fields: Pick<InnerNode, "key" | "name" | "parent" | "kind" | "group" | "policy" | "isFifo">,
  ) => {
    const zeros = keys.map(() => 0);
    const settings = settingsBelow(pool, fields.group);
    const node: InnerNode = {
      ...fields,
      settings,
      children: new Map(),
      guarantee: zeros,
      age: Number.NaN,
      ...emptyStanding(zeros),
    };
    fields.parent?.children.set(node.key, node);
    inner.push(node);
    return node;
  };
  const root = add({
    key: "root",
    name: "",
    parent: null,
    kind: "root",
    group: null,
    policy: null,
    isFifo: false,
  });
  const groups = new Map<Group | null, InnerNode>([[null, root]]);
  const groupNode = (group: Group | null): InnerNode => {
    const known = groups.get(group);
    if (known !== undefined || group === null) return known as InnerNode;
    const { name, mode } = group.record;
    const parent = groupNode(group.parent);
    const node = add({
      key: `group ${name}`,
      name,
      parent,
      kind: "group",
      group,
      policy: null,
      isFifo: mode === "fifo" || parent.isFifo,
    });
    groups.set(group, node);
    return node;
  };
  for (const group of byName(pool.groups)) groupNode(group);
  const policies = new Map<Policy, InnerNode>();
  for (const policy of byName(pool.policies)) {
    const { component, closing } = policy.record;
    if (closing || pool.record.closing) continue;
    const parent = groupNode(policy.group);
    const kind = "policy" as const;
    const { group } = policy;
    const node = add({
      key: `policy ${component}`,
      name: component,
      parent,
      kind,
      group,
      policy,
      isFifo: parent.isFifo,
    });
    policies.set(policy, node);
  }
  return {
    keys,
    keyNames: names,
    total: keys.map((key) => pool.capacity[key] as number),
    mainKey: mainKey ?? 0,
    root,
    inner,
    policies,
    operations: new Map(),
    kinds: new Set(),
    cache: newShareCache(),
    owners: new Map(),
    touched: new Set(),
    moved: new Set(),
    gone: new Set(),
    wakes: new Heap<Wake>((a, b) => a.atMs < b.atMs),
    isLookedAt: false,
    overcommitted: [],
  };
}

/** By name, so that nothing depends on who was there first. */
function byName<Item>(items: ReadonlyMap<string, Item>): Item[] {
  return [...items].sort(([a], [b]) => compareIds(a, b)).map(([, item]) => item);
}

function emptyStanding(zeros: readonly number[]): Standing {
  return {
    demand: zeros,
    usage: zeros,
    demandShare: zeros,
    usageShare: zeros,
    fairShare: zeros,
    waitingCount: 0,
    element: null,
    satisfaction: Number.NaN,
  };
}

/** Inherited from the nearest group that sets them (9.4, P6). */
function settingsBelow({ record }: Pool, group: Group | null): ShareSettings {
  const chain: Group[] = [];
  for (let above = group; above !== null; above = above.parent) chain.unshift(above);
  return Object.assign({}, record.settings, ...chain.map(({ record: { settings } }) => settings));
}

/** The operation that a line belongs to, made if it is the first. Nobody's below a policy that is removed by force (P8). */
function operationOf(tree: ShareTree, poolLine: PoolLine): Operation | undefined {
  const { shape } = poolLine.line;
  const key = operationKey(shape);
  let operation = tree.operations.get(key);
  if (operation === undefined) {
    const parent = tree.policies.get(poolLine.policy);
    if (parent === undefined) return undefined;
    const name = shape.operation ?? shape.id;
    operation = { key, name, parent, lines: new Set(), order: 0, kind: NO_KIND, right: 0 };
    tree.operations.set(key, operation);
  }
  operation.lines.add(poolLine);
  return operation;
}

/** Takes an operation anew from its lines, puts it among its like, and tells those above it the difference. */
function refresh(state: EngineState, tree: ShareTree, operation: Operation, pool: Pool): void {
  const before = operation.kind;
  leaveKind(tree, operation);
  const after = describeLines(tree, operation, pool);
  for (let above: InnerNode | null = operation.parent; above !== null; above = above.parent) {
    setStanding(tree, above, {
      demand: moved(above.demand, before.demand, after.demand),
      usage: moved(above.usage, before.usage, after.usage),
      waitingCount: above.waitingCount - before.waitingCount + after.waitingCount,
    });
    above.age = Number.NaN;
  }
  if (operation.lines.size === 0) {
    tree.operations.delete(operation.key);
    tree.moved.delete(operation);
    tree.gone.add(operation.key);
    return;
  }
  const first = [...operation.lines][0] as PoolLine;
  operation.order = (
    state.operations.get(operation.key)?.first() ?? requireRequest(state, first.line.shape.id)
  ).progress.seq;
  joinKind(tree, operation, after);
  tree.moved.add(operation);
}

/** What the lines of an operation amount to. */
interface Described extends Pick<Standing, "demand" | "usage" | "waitingCount"> {
  readonly runCount: number;
  readonly isGang: boolean;
  /** The same for operations that no rule tells apart; null: there is none like it. */
  readonly kindKey: string | null;
}

function describeLines(tree: ShareTree, { lines, parent }: Operation, pool: Pool): Described {
  const demand = tree.keys.map(() => 0);
  const usage = tree.keys.map(() => 0);
  let [waitingCount, runCount, heldCount, passerCount] = [0, 0, 0, 0];
  let isGang = false;
  let counts = "";
  for (const poolLine of lines) {
    const { line, need } = poolLine;
    const held = countOf(pool.promised, poolLine);
    const passing = poolLine.verdict === null ? countOf(pool.passers, poolLine) : 0;
    const waiting = (poolLine.verdict === null ? line.members.size : 0) + passing + held;
    const running = countRuns(poolLine);
    const returning = countReturning(poolLine);
    const wanted = waiting + running + returning;
    if (wanted + poolLine.stoppingRuns.size === 0) {
      lines.delete(poolLine);
      continue;
    }
    waitingCount += waiting;
    runCount += running;
    heldCount += held;
    passerCount += passing;
    if (line.shape.gang || line.shape.nodes > 1) isGang = true;
    counts = `${waiting} ${running} ${wanted}`;
    tree.keys.forEach((key, i) => {
      demand[i]! += wanted * need[key]!;
      usage[i]! += (running + held) * need[key]!;
    });
  }
  const isSpecial = lines.size > 1 || isGang || heldCount + passerCount > 0 || parent.isFifo;
  const [only] = lines;
  const kindKey = isSpecial || only === undefined ? null : `${counts}|${shapeKeyOf(only.line.shape)}`;
  return { demand, usage, waitingCount, runCount, isGang, kindKey };
}

function joinKind(tree: ShareTree, operation: Operation, described: Described): void {
  const { parent } = operation;
  const key = described.kindKey ?? operation.key;
  let kind = parent.children.get(key) as OperationKind | undefined;
  if (kind === undefined) {
    const { demand, usage, waitingCount, runCount, isGang } = described;
    kind = {
      kind: "operations",
      key,
      parent,
      settings: parent.settings,
      isGang,
      runCount,
      operations: new SortedList(byAge),
      isBelow: false,
      starvingCount: 0,
      aggressiveCount: 0,
      ...emptyStanding(tree.total.map(() => 0)),
    };
    setStanding(tree, kind, { demand, usage, waitingCount });
    parent.children.set(key, kind);
    tree.kinds.add(kind);
  }
  operation.kind = kind;
  kind.operations.insert(operation);
  forgetElement(tree, kind);
  countRight(operation, 1);
}

function leaveKind(tree: ShareTree, operation: Operation): void {
  const { kind } = operation;
  if (kind === NO_KIND) return;
  countRight(operation, -1);
  kind.operations.remove(operation);
  forgetElement(tree, kind);
  if (kind.operations.size > 0) return;
  kind.parent.children.delete(kind.key);
  tree.kinds.delete(kind);
  tree.touched.delete(kind);
}

/** What an operation may do because it starves itself. */
export function setRight(operation: Operation, right: Right): void {
  if (operation.right === right) return;
  countRight(operation, -1);
  operation.right = right;
  countRight(operation, 1);
}

function countRight({ kind, right }: Operation, more: 1 | -1): void {
  if (right > 0) kind.starvingCount += more;
  if (right > 1) kind.aggressiveCount += more;
}

function byAge(a: Operation, b: Operation): number {
  return a.order - b.order;
}

function countOf(requests: Iterable<{ readonly line: unknown }>, { line }: PoolLine): number {
  let count = 0;
  for (const request of requests) if (request.line === line) count++;
  return count;
}

function countRuns({ runKinds }: PoolLine): number {
  let count = 0;
  for (const { runs } of runKinds.values()) count += runs.size;
  return count;
}

function countReturning({ stoppingRuns }: PoolLine): number {
  let count = 0;
  for (const { request } of stoppingRuns) if (comesBack(request)) count++;
  return count;
}

function moved(sum: readonly number[], from: readonly number[], to: readonly number[]): number[] {
  return sum.map((units, key) => units - (from[key] ?? 0) + to[key]!);
}

/** The next shares are computed with a new one. */
function forgetElement({ owners }: ShareTree, node: ShareNode): void {
  if (node.element !== null) owners.delete(node.element);
  node.element = null;
}

function setStanding(
  tree: ShareTree,
  node: ShareNode,
  { demand, usage, waitingCount }: Pick<Standing, "demand" | "usage" | "waitingCount">,
): void {
  const { total } = tree;
  node.demand = demand;
  node.usage = usage;
  node.demandShare = demand.map((units, key) => fraction(units, total[key]!));
  node.usageShare = usage.map((units, key) => fraction(units, total[key]!));
  node.waitingCount = waitingCount;
  node.satisfaction = Number.NaN;
  tree.touched.add(node);
  forgetElement(tree, node);
}

/** A pool without units of a key has no fractions of it. */
function fraction(units: number, total: number): number {
  return total > 0 ? units / total : 0;
}

/** Fair shares for everybody (9.1, 9.2); only those that have changed are taken over. */
function share(tree: ShareTree): void {
  const root = elementOf(tree, tree.root) as ShareGroup;
  const { shares, changed, overcommitted } = computeFairShares(
    { total: tree.total, mainKey: tree.mainKey, root },
    tree.cache,
  );
  for (const element of changed) {
    const node = tree.owners.get(element) as ShareNode;
    const { fairShare, guarantee } = shares.get(element) as ElementShare;
    if (node.kind !== "operations") {
      node.fairShare = fairShare;
      node.guarantee = guarantee;
    } else {
      const { size } = node.operations;
      node.fairShare = size === 1 ? fairShare : fairShare.map((fraction) => fraction / size);
    }
    node.satisfaction = Number.NaN;
    tree.touched.add(node);
  }
  tree.overcommitted = overcommitted.map(({ name }) => name);
}

function elementOf(tree: ShareTree, node: ShareNode): ShareElement {
  if (node.element !== null) return node.element;
  if (node.kind === "operations") {
    // As many equal operations with equal weights are one that is as many times as large and as heavy.
    const { key, isGang, demand, usage, operations } = node;
    const { size: weight } = operations;
    const times = (units: readonly number[]) => (weight === 1 ? units : units.map((each) => each * weight));
    const { order } = operations.first() as Operation;
    const kind = "operation";
    node.element = { kind, name: key, isGang, demand: times(demand), usage: times(usage), order, weight };
    tree.owners.set(node.element, node);
    return node.element;
  }
  const record = node.kind === "root" ? undefined : (node.policy ?? node.group)?.record;
  const reserved = record?.reserved ? givenUnits(tree, record.reserved) : undefined;
  const limit = record === undefined ? undefined : givenUnits(tree, record.limit);
  node.element = {
    kind: "group",
    name: node.name,
    weight: record?.weight ?? 1,
    mode: node.kind === "group" && node.isFifo ? "fifo" : "fair_share",
    members: Array.from(node.children.values(), (child) => elementOf(tree, child)),
    ...(reserved === undefined ? {} : { reserved }),
    ...(limit === undefined ? {} : { limit }),
  };
  tree.owners.set(node.element, node);
  return node.element;
}

/** Undefined for keys that are not named, and as a whole if none is. */
function givenUnits({ keyNames }: ShareTree, given: Resources): (number | undefined)[] | undefined {
  if (!keyNames.some((key) => Object.hasOwn(given, key))) return undefined;
  return keyNames.map((key) => (Object.hasOwn(given, key) ? given[key] : undefined));
}
