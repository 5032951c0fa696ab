// Looking at the state from outside: what people and programs may know, computed from the records.

export {
  type ElementView,
  type ShareView,
  scaledGroupsOf,
  shareViewOf,
  teamSharesOf,
} from "./disciplines/fair_share/view.ts";

import { disciplineOf } from "./disciplines/disciplines.ts";
import { teamSharesOf } from "./disciplines/fair_share/view.ts";
import type { Event } from "./events.ts";
import {
  type ComponentName,
  type GroupRecord,
  type NodeName,
  type NodeRecord,
  PLAIN_REQUEST,
  type PolicyRecord,
  type PoolName,
  type PoolRecord,
  type RequestId,
  type RequestProgress,
  type RequestSpec,
} from "./records.ts";
import { amountOf, compareIds, type Resources, toResources } from "./resources.ts";
import { isShielded } from "./scheduling/victims.ts";
import {
  type EngineState,
  freeOf,
  type Node,
  type Policy,
  type Pool,
  type PoolLine,
  queueLengthOf,
  requirePool,
  reserveNeedOf,
  runKindsOf,
} from "./state.ts";

/** How many runs of a pool are shielded, because their requests were preempted too often lately (V6). */
export function shieldedRunsOf(state: EngineState, name: PoolName, nowMs: number): number {
  let count = 0;
  for (const kind of runKindsOf(requirePool(state, name)))
    if (isShielded(kind, nowMs)) count += kind.runs.size;
  return count;
}

export function requestOf(
  state: EngineState,
  id: RequestId,
): { readonly spec: RequestSpec; readonly progress: Readonly<RequestProgress> } | undefined {
  return state.requests.get(id);
}

/** Class and sensitivity as they count (10.7): where it runs, or the highest of the queues in which it waits. */
export function standingOf(
  state: EngineState,
  id: RequestId,
): Pick<PoolLine, "preemptionClass" | "sensitive"> | undefined {
  const request = state.requests.get(id);
  if (request === undefined || request.progress.endedAtMs !== null) return undefined;
  const { allocation } = request.progress;
  return request.line.poolLines
    .filter(({ pool, verdict }) =>
      allocation === null ? verdict === null : pool.record.name === allocation.pool,
    )
    .reduce<PoolLine | undefined>(
      (highest, one) => (highest && highest.preemptionClass >= one.preemptionClass ? highest : one),
      undefined,
    );
}

/** The pools in whose queues a request stands, or will when its delay is over; empty if it does not wait. */
export function queuesOf(state: EngineState, id: RequestId): PoolName[] {
  const request = state.requests.get(id);
  if (request?.progress.status !== "queued") return [];
  return request.line.poolLines.flatMap(({ pool, verdict }) => (verdict === null ? pool.record.name : []));
}

/** The pools that an event concerns: those that it names, and those that admit the request that it is about. */
export function poolsConcerned(state: EngineState, event: Event): readonly PoolName[] {
  switch (event.kind) {
    case "poolSet":
      return [event.pool.name];
    case "poolDeleted":
      return [event.name];
    case "policySet":
      return [event.policy.pool];
    case "groupSet":
      return [event.group.pool];
    case "nodeSet":
      return [event.node.pool];
    case "nodeStateChanged": {
      const node = state.nodes.get(event.name);
      return node === undefined ? [] : [node.record.pool];
    }
    case "nodeRemoved":
      return [...state.pools.keys()]; // Nobody knows any more where it was.
    case "requestSubmitted":
      return admittingPools(state, event.spec.id);
    default:
      if ("pool" in event && event.pool !== null) return [event.pool];
      return "requestId" in event ? admittingPools(state, event.requestId) : [];
  }
}

function admittingPools(state: EngineState, id: RequestId): PoolName[] {
  const names: PoolName[] = [];
  for (const { pool, verdict } of state.requests.get(id)?.line.poolLines ?? []) {
    if (verdict === null) names.push(pool.record.name);
  }
  return names;
}

export function requestIds(state: EngineState): Iterable<RequestId> {
  return state.requests.keys();
}

/** Whether operations of a pool are served by fair shares, and so can start as a gang (9). */
export function hasShares(state: EngineState, name: PoolName): boolean {
  return disciplineOf(requirePool(state, name)).hasShares;
}

export function poolsOf(state: EngineState): PoolRecord[] {
  return sortedPools(state).map(({ record }) => record);
}

export function policiesOf(state: EngineState, pool?: PoolName): PolicyRecord[] {
  return chosenPools(state, pool).flatMap(({ policies }) =>
    [...policies.values()].map(({ record }) => record).sort((a, b) => compareIds(a.component, b.component)),
  );
}

/** Whether a policy makes all its work sensitive, and so bounded by its reserve (10.7, 10.8). */
export function forcesSensitive(state: EngineState, { pool, component }: PolicyRecord): boolean {
  const known = requirePool(state, pool);
  const plain: RequestSpec = { ...PLAIN_REQUEST, id: "" as RequestId, component, resources: {} };
  const policy = known.policies.get(component)?.record;
  return policy !== undefined && disciplineOf(known).standingOf(plain, policy).sensitive;
}

export function groupsOf(state: EngineState, pool?: PoolName): GroupRecord[] {
  return chosenPools(state, pool).flatMap(({ groups }) =>
    [...groups.values()].map(({ record }) => record).sort((a, b) => compareIds(a.name, b.name)),
  );
}

export function nodesOf(state: EngineState, pool?: PoolName): NodeRecord[] {
  return [...state.nodes.values()]
    .map(({ record }) => record)
    .filter((node) => pool === undefined || node.pool === pool)
    .sort((a, b) => compareIds(a.name, b.name));
}

/** A node with what is on it (N1, N2). */
export interface NodeView {
  readonly record: NodeRecord;
  readonly usage: Resources;
  /** Who runs there, in the order of their grants, and on which GPUs. */
  readonly runs: readonly { readonly requestId: RequestId; readonly devices: readonly number[] }[];
}

export function nodeViewsOf(state: EngineState, names: readonly NodeName[]): NodeView[] {
  return names.flatMap((name) => {
    const node = state.nodes.get(name);
    return node === undefined ? [] : [viewOfNode(node)];
  });
}

function viewOfNode({ record, usage, runs, pool }: Node): NodeView {
  const amounts = toResources(usage, pool.keys);
  const byGrant = [...runs].sort((a, b) => a.token - b.token);
  return {
    record,
    usage: Object.fromEntries(Object.keys(record.capacity).map((key) => [key, amounts[key] ?? 0])),
    runs: byGrant.map(({ request: { spec, progress } }) => ({
      requestId: spec.id,
      devices: progress.allocation?.placement.find(({ node }) => node === record.name)?.devices ?? [],
    })),
  };
}

/** Who runs in a pool, in the order of their grants. */
export function runsOf(state: EngineState, pool: PoolName): RequestId[] {
  const runs = [...(state.pools.get(pool)?.policies.values() ?? [])].flatMap((policy) => [...policy.runs]);
  return runs.sort((a, b) => a.token - b.token).map(({ request }) => request.spec.id);
}

/** How many requests of a component wait; nobody counts further than `max`. */
export function waitingCountOf(state: EngineState, component: ComponentName, max: number): number {
  let count = 0;
  for (const { members } of state.components.get(component)?.lines ?? []) {
    count += members.size;
    if (count >= max) return max;
  }
  return count;
}

/** How many requests wait in a pool, per component. Costs one look at each line. */
export function waitingByComponentOf(state: EngineState, name: PoolName): Map<ComponentName, number> {
  const { waiting, promised, passers } = requirePool(state, name);
  const counts = new Map<ComponentName, number>();
  const add = (component: ComponentName, count: number) =>
    counts.set(component, (counts.get(component) ?? 0) + count);
  for (const { line } of waiting) add(line.component.name, line.members.size);
  for (const { line } of promised) add(line.component.name, 1);
  for (const { line } of passers) add(line.component.name, 1);
  return counts;
}

/** Everything that waits in a pool, in the order of section 6. */
export function queueOf(state: EngineState, pool: PoolName, nowMs: number): RequestId[] {
  return queuePageOf(state, pool, nowMs, { start: 0, limit: Number.POSITIVE_INFINITY });
}

/** A part of that order; costs what it shows and what comes before it. */
export function queuePageOf(
  state: EngineState,
  pool: PoolName,
  nowMs: number,
  { start, limit }: { readonly start: number; readonly limit: number },
): RequestId[] {
  const named = requirePool(state, pool);
  const page: RequestId[] = [];
  let place = 0;
  for (const { spec } of disciplineOf(named).queue(state, named, nowMs)) {
    if (place >= start + limit) break;
    if (place++ >= start) page.push(spec.id);
  }
  return page;
}

/** Units held, those of stopping runs included. */
export function usageOf(state: EngineState, pool: PoolName): Resources {
  const { usage, keys } = requirePool(state, pool);
  return toResources(usage, keys);
}

export function capacityOf(state: EngineState, pool: PoolName): Resources {
  const { capacity, keys } = requirePool(state, pool);
  return toResources(capacity, keys);
}

/** What all policies of a pool reserve together. */
export function reservedOf(state: EngineState, pool: PoolName): Resources {
  const { keys, policies } = requirePool(state, pool);
  const sums = keys.map(() => 0);
  for (const { reserved } of policies.values())
    for (const [i, amount] of reserved.entries()) sums[i] = (sums[i] as number) + amount;
  return toResources(sums, keys);
}

/** What a pool has of each key, by kind of use (G6, V5). */
export interface KeyUse {
  readonly key: string;
  readonly capacity: number;
  readonly own: number;
  readonly borrowed: number;
  /** Free, and set aside for requests that wait for the rest. */
  readonly held: number;
  /** Free, and reserved for a component that does not use it. */
  readonly reservedIdle: number;
  readonly free: number;
}

export function keyUseOf(state: EngineState, name: PoolName): KeyUse[] {
  const pool = requirePool(state, name);
  const promised = pool.keys.map(() => 0);
  for (const { line } of pool.promised) {
    const { need } = line.pools.get(name) as PoolLine;
    for (const [i, amount] of need.entries()) promised[i] = (promised[i] as number) + amount;
  }
  return pool.keys.map((key, i) => {
    let [borrowed, idle] = [0, 0];
    for (const policy of pool.policies.values()) {
      borrowed += borrowedBy(policy, i);
      idle += Math.max(0, (policy.reserved[i] as number) - policy.runs.sum(i));
    }
    const left = Math.max(0, freeOf(pool, i));
    const held = Math.min(left, promised[i] as number);
    const reservedIdle = Math.min(left - held, idle);
    const used = pool.usage[i] as number;
    const capacity = pool.capacity[i] as number;
    const free = left - held - reservedIdle;
    return { key, capacity, own: used - borrowed, borrowed, held, reservedIdle, free };
  });
}

/** Above what is reserved, or on home nodes of others (G6, N3). */
export function borrowedBy({ usage, runs, reserved }: Policy, i: number): number {
  const atHome = runs.sum(i);
  return (usage[i] as number) - atHome + Math.max(0, atHome - (reserved[i] as number));
}

/** What a policy or a group has of its pool, in units. */
export interface Account {
  readonly kind: "policy" | "group";
  readonly name: string;
  readonly usage: Resources;
  /** Above what is reserved for it (G6). */
  readonly borrowed: Resources;
  /** Above its limit, which was lowered meanwhile (P7). */
  readonly debt: Resources;
  /** Null outside `fair_share`. */
  readonly fairShare: Resources | null;
}

/** The accounts of a pool: groups, then policies, both by name. */
export function accountsOf(state: EngineState, name: PoolName): Account[] {
  const pool = requirePool(state, name);
  const { keys, capacity } = pool;
  const shares = new Map(
    teamSharesOf(state, name).map((view) => [`${view.kind} ${view.name}`, view.fairShare]),
  );
  const account = (
    kind: Account["kind"],
    named: string,
    of: { usage: number[]; limit: number[]; reserved: number[] },
  ) => {
    const fractions = shares.get(`${kind} ${named}`);
    const above = (bound: readonly number[]) =>
      toResources(
        of.usage.map((used, i) => Math.max(0, used - (bound[i] as number))),
        keys,
      );
    const units = (fraction: number, i: number) => fraction * (capacity[i] as number);
    return {
      ...{ kind, name: named, usage: toResources(of.usage, keys) },
      ...{ borrowed: above(of.reserved), debt: above(of.limit) },
      fairShare: fractions
        ? Object.fromEntries(
            keys.flatMap((key, i) => (key in fractions ? [[key, units(fractions[key] as number, i)]] : [])),
          )
        : null,
    };
  };
  const byName = <Item>(all: ReadonlyMap<string, Item>) => [...all].sort(([a], [b]) => compareIds(a, b));
  return [
    ...byName(pool.groups).map(([group, { usage, limit, record }]) =>
      account("group", group, {
        usage,
        limit,
        reserved: keys.map((key) => amountOf(record.reserved ?? {}, key)),
      }),
    ),
    ...byName(pool.policies).map(([component, policy]) => account("policy", component, policy)),
  ];
}

/** How many requests wait and run in a pool. Looks at what runs only. */
export function countsOf(
  state: EngineState,
  pool: PoolName,
): { readonly queued: number; readonly allocated: number; readonly preempting: number } {
  const held = requirePool(state, pool);
  let preempting = 0;
  for (const { runs } of held.policies.values()) {
    for (const { request } of runs) if (request.progress.status === "preempting") preempting += 1;
  }
  return { queued: queueLengthOf(held), allocated: held.runCount - preempting, preempting };
}

/** The part of a run above its component's reserved share, per key (G6). */
export function borrowedOf(state: EngineState, id: RequestId): Resources {
  const run = state.requests.get(id)?.run ?? null;
  if (run === null) return {};
  const { policy, pool } = run.poolLine;
  const borrowed = reserveNeedOf(run).map((amount, i) => {
    const above = policy.runs.sumThrough(run, i) - (policy.reserved[i] as number);
    const away = run.away?.[i] ?? 0; // On home nodes of others (N3).
    return away + Math.min(amount, Math.max(0, above));
  });
  return toResources(borrowed, pool.keys);
}

function chosenPools(state: EngineState, pool: PoolName | undefined): Pool[] {
  return pool === undefined ? sortedPools(state) : [requirePool(state, pool)];
}

function sortedPools(state: EngineState): Pool[] {
  return [...state.pools.values()].sort((a, b) => compareIds(a.record.name, b.record.name));
}
