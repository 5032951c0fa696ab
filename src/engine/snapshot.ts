// Snapshots: the records alone, in a fixed order, so that equal states have equal text. Restoring one builds
// all indexes anew; state = replay of all events = snapshot + the rest of them.
//
// A large state is neither copied nor restored at once: `createSlicer` hands out its requests in slices while the
// state goes on (`snapshot-slices.ts`), and `beginRestore` takes them one by one.

import type { StarvationChange } from "./events.ts";
import { evolve } from "./evolve.ts";
import { joinBlocked } from "./indexes/blocked.ts";
import { joinLine, leaveLine } from "./indexes/lines.ts";
import { ensureComponent } from "./indexes/pools.ts";
import { startRun } from "./indexes/running.ts";
import { rememberOperation } from "./indexes/shares.ts";
import { dueRequests, keepOrderUntil, rewake } from "./indexes/timers.ts";
import { enqueue } from "./indexes/waiting.ts";
import type {
  GroupRecord,
  NodeName,
  NodeRecord,
  PolicyRecord,
  PoolName,
  PoolRecord,
  RequestId,
  RequestProgress,
  RequestSpec,
} from "./records.ts";
import { TERMINAL_STATUSES } from "./records.ts";
import { compareIds } from "./resources.ts";
import {
  bySubmission,
  createState,
  type EngineState,
  NO_OPERATIONS,
  poolsByName,
  type Request,
  requirePool,
} from "./state.ts";
import { groupsOf, nodesOf, policiesOf, poolsOf } from "./views.ts";

/** The form of snapshots that this version writes. */
const SNAPSHOT_VERSION = 1;

export interface Snapshot extends SnapshotFrame {
  readonly requests: readonly SnapshotRequest[];
}

export interface SnapshotRequest {
  readonly spec: RequestSpec;
  readonly progress: Readonly<RequestProgress>;
}

/** All but the requests: small, whatever waits. */
export interface SnapshotFrame {
  readonly version: number;
  readonly seq: number;
  readonly lastEventAtMs: number;
  readonly unmanaged: "reject" | "allow";
  readonly pools: readonly PoolRecord[];
  readonly groups: readonly GroupRecord[];
  readonly policies: readonly PolicyRecord[];
  readonly nodes: readonly NodeRecord[];
  /** Left out by older versions, which remembered them for all pools together. */
  readonly displacements?: readonly (readonly [
    PoolName,
    readonly (readonly [RequestId, readonly RequestId[]])[],
  ])[];
  readonly starvation: readonly (readonly [PoolName, readonly StarvationChange[]])[];
  readonly preemptiveStarts: readonly (readonly [PoolName, readonly (readonly [string, number])[]])[];
  readonly overcommitted: readonly (readonly [PoolName, readonly (readonly [NodeName, number])[]])[];
  /** Only while scheduling is paused: the pools that are still to be looked at. */
  readonly unsettled?: readonly PoolName[];
}

export function snapshotOf(state: EngineState): Snapshot {
  const requests = bySubmissions(state).map(({ spec, progress }) => ({ spec, progress: { ...progress } }));
  return { ...frameOf(state), requests };
}

/** They are in this order already, unless a deletion was taken back or one has moved to the end. */
export function bySubmissions(state: EngineState): Request[] {
  const requests = state.requests.toArray();
  const isInOrder = requests.every((request, i) => i === 0 || bySubmission(requests[i - 1]!, request) < 0);
  return isInOrder ? requests : requests.sort(bySubmission);
}

export function frameOf(state: EngineState): SnapshotFrame {
  const pools = poolsOf(state).map(({ name }) => requirePool(state, name));
  return {
    version: SNAPSHOT_VERSION,
    seq: state.seq,
    lastEventAtMs: state.lastEventAtMs,
    unmanaged: state.unmanaged,
    pools: poolsOf(state),
    groups: groupsOf(state),
    policies: policiesOf(state),
    nodes: nodesOf(state),
    displacements: pools
      .filter(({ displaced }) => displaced.size > 0)
      .map(({ record, displaced }) => [
        record.name,
        byName(displaced).map(([by, ids]) => [by, [...ids].sort(compareIds)]),
      ]),
    starvation: pools
      .filter(({ starvation }) => starvation.size > 0)
      .map(({ record, starvation }) => [record.name, byName(starvation).map(([, change]) => change)]),
    preemptiveStarts: pools
      .filter(({ preemptiveStartAtMs }) => preemptiveStartAtMs.size > 0)
      .map(({ record, preemptiveStartAtMs }) => [record.name, byName(preemptiveStartAtMs)]),
    overcommitted: pools
      .filter(({ overcommittedSinceMs }) => overcommittedSinceMs.size > 0)
      .map(({ record, overcommittedSinceMs }) => [record.name, byName(overcommittedSinceMs)]),
    ...(state.isPaused && { unsettled: poolsByName(state.unsettled).map(({ record }) => record.name) }),
  };
}

function byName<Value>(map: ReadonlyMap<string, Value>): [never, Value][] {
  return ([...map] as [never, Value][]).sort(([a], [b]) => compareIds(a, b));
}

export function restoreState(snapshot: Snapshot): EngineState {
  const restore = beginRestore(snapshot);
  for (const { spec, progress } of snapshot.requests) restore.add({ spec, progress: { ...progress } });
  return restore.finish();
}

export interface Restore {
  /** In the order of submission. What is given becomes part of the state. */
  add(request: { readonly spec: RequestSpec; readonly progress: RequestProgress }): void;
  finish(): EngineState;
}

export function beginRestore(snapshot: SnapshotFrame): Restore {
  if (snapshot.version !== SNAPSHOT_VERSION) {
    throw new Error(`this version reads snapshots of form ${SNAPSHOT_VERSION}, not ${snapshot.version}`);
  }
  const state = createState();
  for (const pool of snapshot.pools) evolve(state, { kind: "poolSet", pool });
  for (const group of parentsFirst(snapshot.groups)) evolve(state, { kind: "groupSet", group });
  for (const policy of snapshot.policies) evolve(state, { kind: "policySet", policy });
  for (const node of snapshot.nodes) evolve(state, { kind: "nodeSet", node });
  return {
    add({ spec, progress }) {
      const request = restoreRequest(state, spec, progress);
      if (progress.endedAtMs !== null) state.ended.insert(request);
    },
    finish() {
      restoreLooks(state, snapshot);
      return state;
    },
  };
}

/** What the last look at each pool has found, and what is left of the past. */
function restoreLooks(state: EngineState, snapshot: SnapshotFrame): void {
  for (const [name, displacements] of snapshot.displacements ?? []) {
    const pool = requirePool(state, name);
    state.guarded.add(pool);
    for (const [by, displaced] of displacements) pool.displaced.set(by, new Set(displaced));
  }
  for (const [pool, changes] of snapshot.starvation) {
    for (const change of changes) requirePool(state, pool).starvation.set(change.element, change);
  }
  for (const [pool, starts] of snapshot.preemptiveStarts) {
    for (const [node, atMs] of starts) requirePool(state, pool).preemptiveStartAtMs.set(node, atMs);
  }
  for (const [pool, nodes] of snapshot.overcommitted) {
    for (const [node, sinceMs] of nodes) requirePool(state, pool).overcommittedSinceMs.set(node, sinceMs);
  }
  state.seq = snapshot.seq;
  state.lastEventAtMs = snapshot.lastEventAtMs;
  state.unmanaged = snapshot.unmanaged;
  state.isPaused = snapshot.unsettled !== undefined;
  state.unsettled.clear();
  for (const name of snapshot.unsettled ?? []) state.unsettled.add(requirePool(state, name));
  resume(state, snapshot.lastEventAtMs);
}

/**
 * The state is the fold of a journal up to a moment, and commands follow from there on. Until when time leaves the
 * order of a pool as it is was found by looking and is not written down, so every pool is looked at once more with
 * the next command; where nothing changed, nothing happens.
 */
export function resume(state: EngineState, atMs: number): void {
  state.clockMs = atMs;
  if (!state.isPaused) state.unsettled.clear();
  state.dismissed.clear();
  // What has come of age since is not written down either.
  for (const request of dueRequests(state, atMs)) rewake(state, request);
  for (const pool of state.pools.values()) keepOrderUntil(state, pool, 0);
}

function restoreRequest(state: EngineState, spec: RequestSpec, progress: RequestProgress): Request {
  const component = ensureComponent(state, spec.component);
  const line = joinLine(state, component, spec);
  const request: Request = {
    spec,
    progress,
    line,
    run: null,
    wakeAtMs: Number.POSITIVE_INFINITY,
    operations: NO_OPERATIONS,
  };
  state.requests.set(spec.id, request);
  rememberOperation(state, request);
  if (TERMINAL_STATUSES.has(progress.status)) {
    leaveLine(state, line);
    return request;
  }
  joinBlocked(state, request);
  if (progress.status === "queued") enqueue(state, request);
  else startRun(state, request);
  rewake(state, request);
  return request;
}

/** A group can only be set below a parent that exists. */
function parentsFirst(groups: readonly GroupRecord[]): GroupRecord[] {
  const ordered: GroupRecord[] = [];
  const isPlaced = (group: GroupRecord) =>
    group.parent === null ||
    ordered.some((other) => other.pool === group.pool && other.name === group.parent);
  let rest = [...groups];
  while (rest.length > 0) {
    ordered.push(...rest.filter(isPlaced));
    rest = rest.filter((group) => !ordered.includes(group));
  }
  return ordered;
}
