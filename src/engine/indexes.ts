// The indexes of the state: who waits where, who runs where, and the sums. Only `evolve` and a restored
// snapshot call these; every change goes through the undo log.

import { createPoolLine, describe, joinLine, leaveLine, operationKey, usesFairShare } from "./lines.ts";
import { poolCapacity } from "./placement/capacity.ts";
import {
  awayFromHome,
  emptyNodes,
  fillNodes,
  occupyNodes,
  stopOnNodes,
  vacateNodes,
} from "./placement/occupancy.ts";
import type { ComponentName, PolicyRecord } from "./records.ts";
import { TERMINAL_STATUSES } from "./records.ts";
import { amountOf, compareIds, toVector } from "./resources.ts";
import { SortedList } from "./sorted-list.ts";
import {
  byEnd,
  byGrant,
  byShareOrder,
  bySubmission,
  type Component,
  type EngineState,
  freeOf,
  type Group,
  type Line,
  type Node,
  needOf,
  type Policy,
  type Pool,
  type PoolLine,
  type Request,
  type Run,
  type RunKind,
  requirePool,
  shareNeedOf,
} from "./state.ts";

const DAY_MS = 86_400_000;

// --- waiting -----------------------------------------------------------------------------------------

/** Puts a waiting request where it belongs: among the holders or into its line; a delayed one is nowhere yet. */
export function enqueue(state: EngineState, request: Request): void {
  const { line, progress } = request;
  if (progress.delayed) return;
  touchLine(state, line);
  if (progress.hold !== null) {
    const holdPool = requirePool(state, progress.hold.pool);
    addTo(state, holdPool.holders, request);
    state.unsettled.add(holdPool);
    for (const { pool, verdict } of line.pools.values()) {
      if (pool !== holdPool && verdict === null) addTo(state, pool.passers, request);
    }
  } else {
    state.undo.insert(line.members, request);
    if (line.members.size === 1) showLine(state, line);
    else if (line.members.first() !== request) return unsettleBehind(state, request);
  }
  unsettleLine(state, line);
}

/**
 * Who joins a line behind others can change nothing where those could not start either, so that a deep queue
 * costs nothing. The exception is backfill by walltime, which may prefer a later member.
 */
function unsettleBehind(state: EngineState, { line, spec }: Request): void {
  for (const { pool, need, ask, verdict } of line.pools.values()) {
    const mayPass = spec.walltimeMs !== null && pool.record.settings.backfill !== "none";
    if (verdict === null && mayPass && (ask !== null || need.every((amount, i) => amount <= freeOf(pool, i))))
      state.unsettled.add(pool);
  }
}

export function dequeue(state: EngineState, request: Request): void {
  const { line, progress } = request;
  if (progress.delayed) return;
  unsettleLine(state, line);
  touchLine(state, line);
  if (progress.hold !== null) {
    const holdPool = requirePool(state, progress.hold.pool);
    removeFrom(state, holdPool.holders, request);
    state.unsettled.add(holdPool); // Even if it does not admit the request any more.
    for (const { pool } of line.pools.values()) removeFrom(state, pool.passers, request);
  } else {
    if (line.members.size === 1) hideLine(state, line);
    state.undo.remove(line.members, request);
  }
}

function showLine(state: EngineState, line: Line): void {
  for (const poolLine of line.pools.values()) {
    if (poolLine.verdict !== null) continue;
    const { waiting } = poolLine.pool;
    state.undo.run(
      () => waiting.push(poolLine),
      () => removeLine(waiting, poolLine),
    );
  }
}

function hideLine(state: EngineState, line: Line): void {
  for (const poolLine of line.pools.values()) {
    const { waiting } = poolLine.pool;
    if (!waiting.includes(poolLine)) continue;
    state.undo.run(
      () => removeLine(waiting, poolLine),
      () => waiting.push(poolLine),
    );
  }
}

function removeLine(waiting: PoolLine[], poolLine: PoolLine): void {
  waiting.splice(waiting.indexOf(poolLine), 1);
}

/** Something about a request changed that may let it start, or others. */
export function unsettleWaiter(state: EngineState, request: Request | undefined): void {
  if (request?.progress.status === "queued") unsettleLine(state, request.line);
}

function unsettleLine(state: EngineState, line: Line): void {
  for (const poolLine of line.pools.values()) {
    if (poolLine.verdict === null) state.unsettled.add(poolLine.pool);
  }
}

// --- running -----------------------------------------------------------------------------------------

export function startRun(state: EngineState, request: Request): void {
  const allocation = request.progress.allocation;
  if (allocation === null || allocation.pool === null) return; // Granted outside all pools (A4).
  const poolLine = request.line.pools.get(allocation.pool) as PoolLine;
  const run: Run = {
    request,
    poolLine,
    kind: undefined as unknown as RunKind, // Set by `indexRun`.
    token: allocation.token,
    startedAtMs: allocation.startedAtMs,
    endMs: allocation.startedAtMs + (request.spec.walltimeMs ?? Number.POSITIVE_INFINITY),
    isStopping: allocation.stop !== null,
    nodes: allocation.placement.map(({ node }) => poolLine.pool.nodes.get(node) as Node),
    away: null,
  };
  state.undo.set(request, "run", run);
  state.undo.set(poolLine.pool, "runCount", poolLine.pool.runCount + 1);
  indexRun(state, run);
  occupyNodes(state, run);
  touchShares(state, poolLine);
  state.unsettled.add(poolLine.pool);
}

/** The run was told to stop: its units are on their way out and it is nobody's candidate any more. */
export function stopRun(state: EngineState, run: Run): void {
  if (run.isStopping) return;
  state.unsettled.add(run.poolLine.pool);
  removeCandidate(state, run);
  state.undo.set(run, "isStopping", true);
  addTo(state, run.poolLine.stoppingRuns, run);
  touchShares(state, run.poolLine);
  stopOnNodes(state, run);
  state.undo.add(run.poolLine.pool.stopping, run.poolLine.need, 1);
}

export function endRun(state: EngineState, request: Request): void {
  const { run } = request;
  if (run === null) return;
  const { pool } = run.poolLine;
  state.unsettled.add(pool);
  vacateNodes(state, run);
  addUsage(state, run, -1);
  state.undo.remove(run.poolLine.policy.runs, run);
  touchShares(state, run.poolLine);
  removeFrom(state, run.poolLine.stoppingRuns, run);
  if (run.isStopping) state.undo.add(pool.stopping, run.poolLine.need, -1);
  else removeCandidate(state, run);
  state.undo.set(pool, "runCount", pool.runCount - 1);
  state.undo.set(request, "run", null);
}

/** Enters a run into the sums and lists of its pool. */
function indexRun(state: EngineState, run: Run): void {
  const { poolLine } = run;
  addUsage(state, run, 1);
  if (run.nodes.length > 0) state.undo.set(run, "away", awayFromHome(run));
  state.undo.set(run, "kind", kindOf(run));
  state.undo.insert(poolLine.policy.runs, run);
  if (run.isStopping) {
    state.undo.add(poolLine.pool.stopping, poolLine.need, 1);
    addTo(state, poolLine.stoppingRuns, run);
  } else addCandidate(state, run);
}

/** Something about a run changed that tells kinds apart. */
export function sortRunAnew(state: EngineState, run: Run): void {
  state.unsettled.add(run.poolLine.pool);
  const kind = kindOf(run);
  if (run.isStopping || kind === run.kind) return;
  removeCandidate(state, run);
  state.undo.set(run, "kind", kind);
  addCandidate(state, run);
}

function addUsage(state: EngineState, { poolLine }: Run, sign: 1 | -1): void {
  const { pool, policy, need } = poolLine;
  state.undo.add(pool.usage, need, sign);
  state.undo.add(policy.usage, need, sign);
  if (poolLine.firm) state.undo.add(policy.firmUsage, need, sign);
  for (let group = policy.group; group !== null; group = group.parent)
    state.undo.add(group.usage, need, sign);
}

function addCandidate(state: EngineState, run: Run): void {
  const { kind } = run;
  const { pool } = run.poolLine;
  state.undo.insert(kind.runs, run);
  if (kind.runs.size === 1) addTo(state, pool.runKinds, kind);
  if (run.endMs < Number.POSITIVE_INFINITY) state.undo.insert(pool.ends, run);
}

function removeCandidate(state: EngineState, run: Run): void {
  const { kind } = run;
  const { pool } = run.poolLine;
  state.undo.remove(kind.runs, run);
  if (kind.runs.size === 0) removeFrom(state, pool.runKinds, kind);
  if (run.endMs < Number.POSITIVE_INFINITY) state.undo.remove(pool.ends, run);
}

function kindOf(run: Run): RunKind {
  const { poolLine, request } = run;
  const opportunistic = (request.progress.allocation as { opportunistic: boolean }).opportunistic;
  const shielded = isShielded(request, poolLine.pool, run.startedAtMs);
  const isClass = poolLine.pool.record.discipline === "class";
  const hasWalltime = isClass && run.endMs < Number.POSITIVE_INFINITY;
  const savedAtMs = request.progress.lastCheckpointAtMs ?? Number.NEGATIVE_INFINITY;
  const hasCheckpoint = isClass && request.spec.checkpoint === "none" && savedAtMs > run.startedAtMs;
  const isAway = run.away !== null;
  const key = `${opportunistic ? "o" : ""}${shielded ? "s" : ""}${hasWalltime ? "w" : ""}${hasCheckpoint ? "c" : ""}${isAway ? "a" : ""}`;
  let kind = poolLine.runKinds.get(key);
  if (kind === undefined) {
    const runs = new SortedList<Run>(byGrant);
    kind = { poolLine, opportunistic, shielded, hasWalltime, hasCheckpoint, isAway, runs };
    poolLine.runKinds.set(key, kind);
  }
  return kind;
}

/** Preempted as often as the pool allows within 24 hours (V6). */
export function isShielded(request: Request, pool: Pool, nowMs: number): boolean {
  const { shielded, preemptedAtMs } = request.progress;
  const recent = preemptedAtMs.filter((atMs) => atMs > nowMs - DAY_MS).length;
  return shielded || recent >= pool.record.settings.maxPreemptions;
}

// --- pools, groups, policies -------------------------------------------------------------------------

/** Takes everything about a pool anew from the records: its keys, limits, shares, lines and runs. */
export function rebuildPool(state: EngineState, pool: Pool): void {
  const { undo } = state;
  const runs = [...pool.policies.values()].flatMap((policy) => [...policy.runs]);
  forgetShares(state, pool);
  const { keys, capacity } = poolCapacity(pool);
  const zeros = () => keys.map(() => 0);
  undo.set(pool, "keys", keys);
  undo.set(pool, "capacity", capacity);
  undo.set(pool, "usage", zeros());
  undo.set(pool, "stopping", zeros());
  undo.set(pool, "ends", new SortedList<Run>(byEnd, { weigh: needOf }));
  undo.set(
    pool,
    "isReserved",
    keys.map((key) =>
      [...pool.policies.values()].some(({ record }) => !record.closing && amountOf(record.reserved, key) > 0),
    ),
  );
  const kinds = [...pool.runKinds];
  undo.run(
    () => pool.runKinds.clear(),
    () => kinds.forEach((kind) => pool.runKinds.add(kind)),
  );

  emptyNodes(state, pool);
  for (const group of pool.groups.values()) {
    undo.set(
      group,
      "parent",
      group.record.parent === null ? null : (pool.groups.get(group.record.parent) as Group),
    );
    undo.set(group, "limit", limitVector(group.record.limit, keys));
    undo.set(group, "usage", zeros());
  }
  for (const policy of pool.policies.values()) {
    setQuotas(state, policy, keys);
    undo.set(policy, "usage", zeros());
    undo.set(policy, "firmUsage", zeros());
    undo.set(policy, "runs", new SortedList<Run>(byShareOrder, { weigh: shareNeedOf }));
    for (const line of policyComponent(state, policy).lines) {
      const poolLine = line.pools.get(pool.record.name) as PoolLine;
      const oldKinds = [...poolLine.runKinds];
      undo.run(
        () => poolLine.runKinds.clear(),
        () => {
          poolLine.runKinds.clear();
          for (const [key, kind] of oldKinds) poolLine.runKinds.set(key, kind);
        },
      );
      for (const run of [...poolLine.stoppingRuns]) removeFrom(state, poolLine.stoppingRuns, run);
      redescribe(state, poolLine);
    }
  }
  fillNodes(state, pool, runs);
  for (const run of runs) indexRun(state, run);
  state.unsettled.add(pool);
}

/** A change that leaves keys and kinds of work as they are, such as new amounts: the runs stay where they are. */
export function refreshPool(state: EngineState, pool: Pool): void {
  const { undo } = state;
  const { keys, capacity } = poolCapacity(pool);
  if (keys.join() !== pool.keys.join()) return rebuildPool(state, pool);
  forgetShares(state, pool);
  undo.set(pool, "capacity", capacity);
  for (const group of pool.groups.values()) undo.set(group, "limit", limitVector(group.record.limit, keys));
  for (const policy of pool.policies.values()) {
    setQuotas(state, policy, keys);
    for (const line of policyComponent(state, policy).lines) {
      redescribe(state, line.pools.get(pool.record.name) as PoolLine);
    }
  }
  state.unsettled.add(pool);
}

/** What is removed by force has no share and no group any more; only its last runs keep it alive (P8). */
function setQuotas({ undo }: EngineState, policy: Policy, keys: readonly string[]): void {
  const { record, pool } = policy;
  const isLeaving = record.closing || pool.record.closing;
  undo.set(
    policy,
    "group",
    isLeaving || record.group === null ? null : (pool.groups.get(record.group) as Group),
  );
  undo.set(policy, "reserved", toVector(isLeaving ? {} : record.reserved, keys));
  undo.set(policy, "limit", limitVector(record.limit, keys));
}

function limitVector(limit: Readonly<Record<string, number>>, keys: readonly string[]): number[] {
  return keys.map((key) => (Object.hasOwn(limit, key) ? (limit[key] as number) : Number.POSITIVE_INFINITY));
}

/** A line's standing in a pool changed; it may appear in the pool's queue or vanish from it. */
function redescribe(state: EngineState, poolLine: PoolLine): void {
  const { undo } = state;
  const { pool, line } = poolLine;
  const described = describe(poolLine);
  undo.set(poolLine, "need", described.need);
  undo.set(poolLine, "ask", described.ask);
  undo.set(poolLine, "verdict", described.verdict);
  undo.set(poolLine, "preemptionClass", described.preemptionClass);
  undo.set(poolLine, "sensitive", described.sensitive);
  undo.set(poolLine, "firm", described.firm);
  undo.set(poolLine, "shareRank", described.shareRank);
  placeInQueue(state, poolLine);
  for (const request of heldMembers(line)) {
    if (request.progress.hold?.pool === pool.record.name) continue;
    if (described.verdict === null) addTo(state, pool.passers, request);
    else removeFrom(state, pool.passers, request);
  }
}

function placeInQueue(state: EngineState, poolLine: PoolLine): void {
  const { waiting } = poolLine.pool;
  const isShown = waiting.includes(poolLine);
  const shouldShow = poolLine.verdict === null && poolLine.line.members.size > 0;
  if (shouldShow && !isShown) {
    state.undo.run(
      () => waiting.push(poolLine),
      () => removeLine(waiting, poolLine),
    );
  } else if (isShown && !shouldShow) {
    state.undo.run(
      () => removeLine(waiting, poolLine),
      () => waiting.push(poolLine),
    );
  }
}

/** Members of a line that hold units in some pool. */
function heldMembers(line: Line): Request[] {
  const held: Request[] = [];
  for (const poolLine of line.pools.values()) {
    for (const request of poolLine.pool.holders) if (request.line === line) held.push(request);
  }
  return held;
}

export function policyComponent(state: EngineState, policy: Policy): Component {
  return ensureComponent(state, policy.record.component);
}

export function ensureComponent(state: EngineState, name: ComponentName): Component {
  let component = state.components.get(name);
  if (component === undefined) {
    component = { name, policies: new Map(), lines: new Set() };
    const created = component;
    state.undo.run(
      () => state.components.set(name, created),
      () => state.components.delete(name),
    );
  }
  return component;
}

/** A component that nobody speaks of any more is forgotten. */
export function releaseComponent(state: EngineState, component: Component): void {
  if (component.policies.size > 0 || component.lines.size > 0) return;
  state.undo.run(
    () => state.components.delete(component.name),
    () => state.components.set(component.name, component),
  );
}

export function addPolicy(state: EngineState, record: PolicyRecord): void {
  const pool = requirePool(state, record.pool);
  const component = ensureComponent(state, record.component);
  const usedFairShare = usesFairShare(component);
  const policy: Policy = {
    record,
    pool,
    group: null,
    reserved: [],
    limit: [],
    usage: pool.keys.map(() => 0),
    firmUsage: pool.keys.map(() => 0),
    runs: new SortedList<Run>(byShareOrder, { weigh: shareNeedOf }),
  };
  state.undo.run(
    () => {
      pool.policies.set(record.component, policy);
      component.policies.set(record.pool, policy);
    },
    () => {
      pool.policies.delete(record.component);
      component.policies.delete(record.pool);
    },
  );
  for (const line of component.lines) {
    const poolLine = createPoolLine(line, policy);
    state.undo.run(
      () => line.pools.set(record.pool, poolLine),
      () => line.pools.delete(record.pool),
    );
  }
  rebuildPool(state, pool);
  if (usesFairShare(component) !== usedFairShare) moveToNewLines(state, component);
}

export function removePolicy(state: EngineState, pool: Pool, policy: Policy): void {
  const component = policyComponent(state, policy);
  const usedFairShare = usesFairShare(component);
  const { name } = pool.record;
  for (const line of component.lines) {
    const poolLine = line.pools.get(name) as PoolLine;
    if (pool.waiting.includes(poolLine)) {
      state.undo.run(
        () => removeLine(pool.waiting, poolLine),
        () => pool.waiting.push(poolLine),
      );
    }
    for (const request of heldMembers(line)) removeFrom(state, pool.passers, request);
    state.undo.run(
      () => line.pools.delete(name),
      () => line.pools.set(name, poolLine),
    );
  }
  state.undo.run(
    () => {
      pool.policies.delete(component.name);
      component.policies.delete(name);
    },
    () => {
      pool.policies.set(component.name, policy);
      component.policies.set(name, policy);
    },
  );
  rebuildPool(state, pool);
  if (usesFairShare(component) !== usedFairShare) moveToNewLines(state, component);
  releaseComponent(state, component);
}

/** What tells lines apart changed for a component: its first fair-share pool came, or its last one went. */
function moveToNewLines(state: EngineState, component: Component): void {
  const requests = [...state.requests.values()].filter(
    ({ line, progress }) => line.component === component && !TERMINAL_STATUSES.has(progress.status),
  );
  for (const request of requests) {
    const isWaiting = request.progress.status === "queued";
    const { run } = request;
    if (isWaiting) dequeue(state, request);
    const old = request.line;
    const line = joinLine(state, component, request.spec);
    state.undo.set(request, "line", line);
    leaveLine(state, old);
    if (isWaiting) enqueue(state, request);
    if (run !== null)
      state.undo.set(run, "poolLine", line.pools.get(run.poolLine.pool.record.name) as PoolLine);
  }
  for (const policy of component.policies.values()) rebuildPool(state, policy.pool);
}

// --- shares ------------------------------------------------------------------------------------------

/** Demand or usage of a line changed: the shares of its pool are looked at again (9). */
export function touchShares(state: EngineState, poolLine: PoolLine): void {
  const { pool } = poolLine;
  if (pool.record.discipline !== "fair_share") return;
  state.unsettled.add(pool);
  const touch = () => pool.staleLines.add(poolLine);
  state.undo.run(touch, touch);
}

function touchLine(state: EngineState, line: Line): void {
  for (const poolLine of line.pools.values()) touchShares(state, poolLine);
}

/** Something about the pool itself changed: nothing of what was computed holds any more. */
export function forgetShares(state: EngineState, pool: Pool, when: "now" | "when taken back" = "now"): void {
  const forget = () => {
    pool.shareTree = null;
  };
  state.undo.run(when === "now" ? forget : () => {}, forget);
}

/** An operation is as old as its first request, also when that has ended (9.11). */
export function rememberOperation(state: EngineState, request: Request): void {
  if (request.spec.operation === null) return;
  const key = operationKey(request.spec);
  let requests = state.operations.get(key);
  if (requests === undefined) {
    requests = new SortedList(bySubmission);
    const created = requests;
    state.undo.run(
      () => state.operations.set(key, created),
      () => state.operations.delete(key),
    );
  }
  const list = requests;
  state.undo.run(
    () => list.insert(request),
    () => list.remove(request),
  );
}

/** An operation that goes on becomes younger with the record of its first request. */
function touchOperation(state: EngineState, { spec, line }: Request): void {
  for (const { pool } of line.component.policies.values()) {
    for (const poolLine of pool.shareTree?.operations.get(operationKey(spec))?.lines ?? []) {
      touchShares(state, poolLine);
    }
  }
}

export function forgetOperation(state: EngineState, request: Request): void {
  const key = operationKey(request.spec);
  const requests = state.operations.get(key);
  if (requests === undefined || request.spec.operation === null) return;
  if (requests.first() === request) touchOperation(state, request);
  state.undo.run(
    () => requests.remove(request),
    () => requests.insert(request),
  );
  if (requests.size > 0) return;
  state.undo.run(
    () => state.operations.delete(key),
    () => state.operations.set(key, requests),
  );
}

// --- timers ------------------------------------------------------------------------------------------

/** Sets the request's timer to the next moment at which time alone changes something about it. */
export function rewake(state: EngineState, request: Request): void {
  const wakeAtMs = nextWakeOf(state, request);
  const before = request.wakeAtMs;
  if (wakeAtMs === before) return;
  if (before < Number.POSITIVE_INFINITY) state.undo.remove(state.timers, request);
  state.undo.set(request, "wakeAtMs", wakeAtMs);
  if (wakeAtMs < Number.POSITIVE_INFINITY) state.undo.insert(state.timers, request);
}

function nextWakeOf(state: EngineState, { spec, progress }: Request): number {
  const never = Number.POSITIVE_INFINITY;
  if (progress.status === "queued") {
    return progress.delayed ? progress.queuedAtMs : progress.queuedAtMs + (spec.waitTimeoutMs ?? never);
  }
  const { allocation } = progress;
  if (allocation === null) return never;
  const walltimeEndMs = allocation.startedAtMs + (spec.walltimeMs ?? never);
  const { stop } = allocation;
  if (stop !== null) {
    if (stop.phase === "kill") return never;
    return stop.phase === "checkpoint" ? Math.min(stop.deadlineMs, walltimeEndMs) : stop.deadlineMs;
  }
  // The moment at which a run has run long enough to be a victim is a moment of scheduling (V2).
  const pool = allocation.pool === null ? undefined : state.pools.get(allocation.pool);
  const minRuntimeMs = pool?.record.settings.minRuntimeMs ?? 0;
  const matureAtMs = allocation.startedAtMs + minRuntimeMs;
  return minRuntimeMs > 0 && matureAtMs > state.clockMs ? Math.min(matureAtMs, walltimeEndMs) : walltimeEndMs;
}

/** Until when the order of a pool's queue holds as it was just seen (10.6). */
export function keepOrderUntil(state: EngineState, pool: Pool, untilMs: number): void {
  const before = pool.orderUntilMs;
  if (untilMs === before) return;
  const move = (fromMs: number, toMs: number) => {
    if (fromMs < Number.POSITIVE_INFINITY) state.moving.remove(pool);
    pool.orderUntilMs = toMs;
    if (toMs < Number.POSITIVE_INFINITY) state.moving.insert(pool);
  };
  state.undo.run(
    () => move(before, untilMs),
    () => move(untilMs, before),
  );
}

/** Pools whose order may have changed because time has passed are looked at again. */
export function unsettleMoved(state: EngineState, nowMs: number): void {
  for (const pool of state.moving) {
    if (pool.orderUntilMs > nowMs) return;
    state.unsettled.add(pool);
  }
}

// --- sets --------------------------------------------------------------------------------------------

function addTo<Item>(state: EngineState, set: Set<Item>, item: Item): void {
  if (set.has(item)) return;
  state.undo.run(
    () => set.add(item),
    () => set.delete(item),
  );
}

function removeFrom<Item>(state: EngineState, set: Set<Item>, item: Item): void {
  if (!set.has(item)) return;
  state.undo.run(
    () => set.delete(item),
    () => set.add(item),
  );
}

/** Pools by name: the order in which they are served (G5). */
export function poolsByName(pools: Iterable<Pool>): Pool[] {
  const sorted = [...pools];
  if (sorted.length > 1) sorted.sort((a, b) => compareIds(a.record.name, b.record.name));
  return sorted;
}
