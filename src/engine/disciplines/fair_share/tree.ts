// The share tree of a pool: root, groups, policies, operations (9), with demand, usage and fair share of each.
//
// It is a cache over the records and never part of them. Lines whose requests changed are marked by the
// indexes; a look takes over everything else, so that its cost follows what has changed.

import { operationKey } from "../../lines.ts";
import { compareIds, type Resources } from "../../resources.ts";
import type { PoolSettings } from "../../settings.ts";
import {
  type EngineState,
  type Group,
  type Policy,
  type Pool,
  type PoolLine,
  requireRequest,
} from "../../state.ts";
import { comesBack } from "../../stopping.ts";
import {
  computeFairShares,
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

interface NodeFields {
  /** Unique in the pool; starvation is recorded under it. */
  readonly key: string;
  readonly name: string;
  readonly parent: InnerNode | null;
  readonly settings: ShareSettings;
  /** Units over the share keys. */
  demand: readonly number[];
  usage: readonly number[];
  /** The same as fractions of the pool. */
  demandShare: readonly number[];
  usageShare: readonly number[];
  fairShare: readonly number[];
  /** Requests that wait below it, those that hold units included. */
  waitingCount: number;
  /** As the shares see it; null: to be made anew. */
  element: ShareElement | null;
}

/** The root, a group or a policy. */
export interface InnerNode extends NodeFields {
  readonly kind: "root" | "group" | "policy";
  readonly group: Group | null;
  readonly policy: Policy | null;
  readonly isFifo: boolean;
  readonly children: Map<string, ShareNode>;
}

export interface OperationNode extends NodeFields {
  readonly kind: "operation";
  readonly parent: InnerNode;
  readonly lines: Set<PoolLine>;
  /** Its place by original submission: that of its first request (9.11). */
  order: number;
  isGang: boolean;
  runCount: number;
}

export type ShareNode = InnerNode | OperationNode;

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
  readonly operations: Map<string, OperationNode>;
  readonly cache: ShareCache;
  /** Groups that are promised more than there is (9.1). */
  overcommitted: readonly string[];
}

/** The tree as the records have it now, with fair shares. */
export function shareTreeOf(state: EngineState, pool: Pool): ShareTree {
  let tree = pool.shareTree;
  let isChanged = pool.staleLines.size > 0;
  if (tree === null) {
    tree = buildTree(state, pool);
    pool.shareTree = tree;
    isChanged = true;
  } else {
    const stale = new Set<OperationNode>();
    for (const poolLine of pool.staleLines) {
      const operation = operationOf(state, tree, poolLine);
      if (operation !== undefined) stale.add(operation);
    }
    for (const operation of stale) refresh(tree, operation, pool);
  }
  pool.staleLines.clear();
  if (isChanged) share(tree);
  return tree;
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

function buildTree(state: EngineState, pool: Pool): ShareTree {
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
    const node: InnerNode = { ...fields, settings, children: new Map(), ...emptyStanding(zeros) };
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
  const tree: ShareTree = {
    keys,
    keyNames: names,
    total: keys.map((key) => pool.capacity[key] as number),
    mainKey: mainKey ?? 0,
    root,
    inner,
    policies,
    operations: new Map(),
    cache: newShareCache(),
    overcommitted: [],
  };
  for (const policy of policies.keys()) {
    for (const line of state.components.get(policy.record.component)?.lines ?? []) {
      const poolLine = line.pools.get(pool.record.name);
      if (poolLine !== undefined) operationOf(state, tree, poolLine);
    }
  }
  for (const operation of [...tree.operations.values()]) refresh(tree, operation, pool);
  return tree;
}

/** By name, so that nothing depends on who was there first. */
function byName<Item>(items: ReadonlyMap<string, Item>): Item[] {
  return [...items].sort(([a], [b]) => compareIds(a, b)).map(([, item]) => item);
}

function emptyStanding(zeros: readonly number[]): Omit<NodeFields, "key" | "name" | "parent" | "settings"> {
  return {
    demand: zeros,
    usage: zeros,
    demandShare: zeros,
    usageShare: zeros,
    fairShare: zeros,
    waitingCount: 0,
    element: null,
  };
}

/** Inherited from the nearest group that sets them (9.4, P6). */
function settingsBelow({ record }: Pool, group: Group | null): ShareSettings {
  const chain: Group[] = [];
  for (let above = group; above !== null; above = above.parent) chain.unshift(above);
  return Object.assign({}, record.settings, ...chain.map(({ record: { settings } }) => settings));
}

/** The operation that a line belongs to, made if it is the first of its kind. Nobody's below a policy that is removed by force (P8). */
function operationOf(state: EngineState, tree: ShareTree, poolLine: PoolLine): OperationNode | undefined {
  const { shape } = poolLine.line;
  const key = operationKey(shape);
  let node = tree.operations.get(key);
  if (node === undefined) {
    const parent = tree.policies.get(poolLine.policy);
    if (parent === undefined) return undefined;
    const first = state.operations.get(key)?.first() ?? requireRequest(state, shape.id);
    node = {
      kind: "operation",
      key,
      name: shape.operation ?? shape.id,
      parent,
      settings: parent.settings,
      lines: new Set(),
      order: first.progress.seq,
      isGang: false,
      runCount: 0,
      ...emptyStanding(tree.total.map(() => 0)),
    };
    tree.operations.set(key, node);
    parent.children.set(key, node);
  }
  node.lines.add(poolLine);
  return node;
}

/** Takes demand and usage of an operation anew from its lines, and passes the difference on to those above. */
function refresh(tree: ShareTree, node: OperationNode, pool: Pool): void {
  const size = pool.keys.length;
  const demand = new Array<number>(size).fill(0);
  const usage = new Array<number>(size).fill(0);
  let waitingCount = 0;
  node.isGang = false;
  node.runCount = 0;
  for (const poolLine of node.lines) {
    const { line, need } = poolLine;
    const held = countOf(pool.holders, poolLine);
    const admitted = poolLine.verdict === null;
    const waiting = (admitted ? line.members.size + countOf(pool.passers, poolLine) : 0) + held;
    const running = countRuns(poolLine);
    const returning = [...poolLine.stoppingRuns].filter(({ request }) => comesBack(request)).length;
    const wanted = waiting + running + returning;
    if (wanted + poolLine.stoppingRuns.size === 0) {
      node.lines.delete(poolLine);
      continue;
    }
    waitingCount += waiting;
    node.runCount += running;
    if (line.shape.gang || line.shape.nodes > 1) node.isGang = true;
    for (let i = 0; i < size; i++) {
      demand[i]! += wanted * need[i]!;
      usage[i]! += (running + held) * need[i]!;
    }
  }
  const standing = {
    demand: tree.keys.map((key) => demand[key]!),
    usage: tree.keys.map((key) => usage[key]!),
    waitingCount,
  };
  const before = { demand: node.demand, usage: node.usage, waitingCount: node.waitingCount };
  setStanding(tree, node, standing);
  for (let above: InnerNode | null = node.parent; above !== null; above = above.parent) {
    setStanding(tree, above, {
      demand: moved(above.demand, before.demand, standing.demand),
      usage: moved(above.usage, before.usage, standing.usage),
      waitingCount: above.waitingCount - before.waitingCount + waitingCount,
    });
  }
  if (node.lines.size > 0) return;
  tree.operations.delete(node.key);
  node.parent.children.delete(node.key);
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

function moved(sum: readonly number[], from: readonly number[], to: readonly number[]): number[] {
  return sum.map((units, key) => units - from[key]! + to[key]!);
}

function setStanding(
  { total }: ShareTree,
  node: ShareNode,
  { demand, usage, waitingCount }: Pick<NodeFields, "demand" | "usage" | "waitingCount">,
): void {
  node.demand = demand;
  node.usage = usage;
  node.demandShare = demand.map((units, key) => fraction(units, total[key]!));
  node.usageShare = usage.map((units, key) => fraction(units, total[key]!));
  node.waitingCount = waitingCount;
  node.element = null;
}

/** A pool without units of a key has no fractions of it. */
function fraction(units: number, total: number): number {
  return total > 0 ? units / total : 0;
}

/** Fair shares for everybody (9.1, 9.2). */
function share(tree: ShareTree): void {
  const root = elementOf(tree, tree.root) as ShareGroup;
  const { shares, overcommitted } = computeFairShares(
    { total: tree.total, mainKey: tree.mainKey, root },
    tree.cache,
  );
  const assign = (node: ShareNode) => {
    node.fairShare = shares.get(node.element as ShareElement)!.fairShare;
  };
  for (const node of tree.inner) assign(node);
  for (const node of tree.operations.values()) assign(node);
  tree.overcommitted = overcommitted.map(({ name }) => name);
}

function elementOf(tree: ShareTree, node: ShareNode): ShareElement {
  if (node.element !== null) return node.element;
  if (node.kind === "operation") {
    const { name, isGang, demand, usage, order } = node;
    node.element = { kind: "operation", name, isGang, demand, usage, order };
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
  return node.element;
}

/** Undefined for keys that are not named, and as a whole if none is. */
function givenUnits({ keyNames }: ShareTree, given: Resources): (number | undefined)[] | undefined {
  if (!keyNames.some((key) => Object.hasOwn(given, key))) return undefined;
  return keyNames.map((key) => (Object.hasOwn(given, key) ? given[key] : undefined));
}
