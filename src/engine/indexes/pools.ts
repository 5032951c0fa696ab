// Pools, groups, policies and components, with everything about them that follows from their records.

import type { LineStanding } from "../disciplines/discipline.ts";
import { disciplineOf } from "../disciplines/disciplines.ts";
import { Few } from "../few.ts";
import { poolCapacity } from "../placement/capacity.ts";
import { emptyNodes, setAside } from "../placement/occupancy.ts";
import { type ComponentName, type GroupRecord, type PolicyRecord, TERMINAL_STATUSES } from "../records.ts";
import { amountOf, toVector } from "../resources.ts";
import {
  CLASS_MAX,
  type Component,
  type EngineState,
  type Group,
  type Line,
  NO_KINDS,
  NO_RUNS,
  noKinds,
  type Policy,
  type Pool,
  type PoolLine,
  type Request,
  requirePool,
  runsByEnd,
  runsByReserve,
} from "../state.ts";
import { createPoolLine, joinLine, leaveLine, releaseComponent } from "./lines.ts";
import { forgetOrder } from "./order.ts";
import { indexRun } from "./running.ts";
import { forgetShares } from "./shares.ts";
import { dequeue, enqueue } from "./waiting.ts";

/** Takes everything about a pool anew from the records: its keys, limits, shares, lines and runs. */
export function rebuildPool(state: EngineState, pool: Pool): void {
  const { undo } = state;
  const runs = [...pool.policies.values()].flatMap((policy) => [...policy.runs]);
  forgetShares(state, pool);
  forgetOrder(state, pool);
  const { keys, capacity } = poolCapacity(pool);
  const zeros = () => keys.map(() => 0);
  undo.set(pool, "keys", keys);
  undo.set(pool, "capacity", capacity);
  undo.set(pool, "usage", zeros());
  undo.set(pool, "stopping", zeros());
  undo.set(pool, "runCount", 0);
  undo.set(pool, "ends", runsByEnd());
  undo.set(pool, "runsByPrice", new Map());
  undo.set(pool, "isReserved", reservedKeys(pool, keys));
  undo.set(pool, "gapKinds", new Few());
  undo.set(pool, "kindsOfClass", noKinds());

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
    undo.set(policy, "runs", runsByReserve());
    undo.set(policy, "runKinds", new Few());
    undo.set(policy, "kindsWithout", zeros());
    for (const line of policyComponent(state, policy).lines) {
      const poolLine = line.pools.get(pool.record.name) as PoolLine;
      undo.set(poolLine, "runKinds", NO_KINDS);
      undo.set(poolLine, "stoppingRuns", NO_RUNS);
      redescribe(state, poolLine);
    }
  }
  for (const run of runs) indexRun(state, run);
  for (const request of pool.promised) {
    setAside(request, pool, 1);
    undo.done(giveBack, request, pool);
  }
  state.unsettled.add(pool);
}

function giveBack(request: Request, pool: Pool): void {
  setAside(request, pool, -1);
}

/** Whether some policy reserves each key. */
function reservedKeys({ policies }: Pool, keys: readonly string[]): boolean[] {
  const isReserved = keys.map(() => false);
  for (const { record } of policies.values()) {
    if (record.closing) continue;
    for (let i = 0; i < keys.length; i++)
      if (amountOf(record.reserved, keys[i] as string) > 0) isReserved[i] = true;
  }
  return isReserved;
}

/** A policy came, went or has other quotas: nothing changes for others, unless a key is reserved now and was not. */
function settlePolicy(state: EngineState, policy: Policy, isOnlyQuotas: boolean): void {
  const { pool } = policy;
  const isReserved = reservedKeys(pool, pool.keys);
  if (!isOnlyQuotas || isReserved.some((is, i) => is !== pool.isReserved[i])) return rebuildPool(state, pool);
  const { lines } = policyComponent(state, policy);
  forgetShares(state, pool);
  forgetOrder(state, pool);
  setQuotas(state, policy, pool.keys);
  for (const { pools } of lines) {
    const poolLine = pools.get(pool.record.name);
    if (poolLine !== undefined) redescribe(state, poolLine);
  }
  state.unsettled.add(pool);
}

export function changePolicy(state: EngineState, policy: Policy, record: PolicyRecord): void {
  const { record: before, pool } = policy;
  state.undo.set(policy, "record", record);
  judgePolicies(state, policyComponent(state, policy));
  const isSamePlace =
    before.group === record.group &&
    isNobodysHome(before) &&
    isNobodysHome(record) &&
    !before.closing &&
    !record.closing;
  const { standingOf } = disciplineOf(pool);
  const standsAsBefore = ({ shape, pools }: Line) => {
    const poolLine = pools.get(pool.record.name) as PoolLine;
    const next = Object.entries(standingOf(shape, record)) as [keyof LineStanding, unknown][];
    return next.every(([field, value]) => poolLine[field] === value);
  };
  const isOnlyQuotas = isSamePlace && [...policyComponent(state, policy).lines].every(standsAsBefore);
  settlePolicy(state, policy, isOnlyQuotas);
}

function isNobodysHome({ home }: PolicyRecord): boolean {
  return home === null;
}

/** A group came, or has other amounts; one that moves takes everything below it along. */
export function setGroup(state: EngineState, record: GroupRecord): void {
  const pool = requirePool(state, record.pool);
  const known = pool.groups.get(record.name);
  if (known !== undefined) {
    const isMoved = known.record.parent !== record.parent;
    state.undo.set(known, "record", record);
    return isMoved ? rebuildPool(state, pool) : refreshPool(state, pool);
  }
  const parent = record.parent === null ? null : (pool.groups.get(record.parent) as Group);
  const usage = pool.keys.map(() => 0);
  const group: Group = { record, parent, limit: limitVector(record.limit, pool.keys), usage };
  state.undo.put(pool.groups, record.name, group);
  forgetShares(state, pool);
  state.unsettled.add(pool);
}

/** A change that leaves keys and kinds of work as they are, such as new amounts: the runs stay where they are. */
export function refreshPool(state: EngineState, pool: Pool): void {
  const { undo } = state;
  const { keys, capacity } = poolCapacity(pool);
  if (keys.join() !== pool.keys.join()) return rebuildPool(state, pool);
  forgetShares(state, pool);
  forgetOrder(state, pool);
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

/** Another node can only let in what was too large: whatever is admitted already stays so (N4). */
export function growPool(state: EngineState, pool: Pool): void {
  const { keys, capacity } = poolCapacity(pool);
  if (keys.join() !== pool.keys.join()) return rebuildPool(state, pool);
  forgetShares(state, pool);
  state.undo.set(pool, "capacity", capacity);
  let isAnyLetIn = false;
  for (const policy of pool.policies.values()) {
    for (const { pools } of policyComponent(state, policy).lines) {
      const poolLine = pools.get(pool.record.name) as PoolLine;
      if (poolLine.verdict === null) continue;
      redescribe(state, poolLine);
      if (poolLine.verdict === null) isAnyLetIn = true;
    }
  }
  if (isAnyLetIn) forgetOrder(state, pool);
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

/** What pool and policy make of a line. */
const DESCRIBED = ["need", "ask", "verdict", "preemptionClass", "sensitive", "firm", "reserveRank"] as const;

/** A line's standing in a pool changed; it may appear in the pool's queue or vanish from it. */
function redescribe(state: EngineState, poolLine: PoolLine): void {
  const { undo } = state;
  const { pool, line } = poolLine;
  const described = createPoolLine(line, poolLine.policy);
  if (described.verdict !== null && poolLine.verdict === null) undo.addTo(state.dismissed, line);
  for (const field of DESCRIBED) undo.set(poolLine, field, described[field]);
  placeInQueue(state, poolLine);
  for (const request of heldMembers(line)) {
    if (request.progress.hold?.pool === pool.record.name) continue;
    if (described.verdict === null) state.undo.addTo(pool.passers, request);
    else state.undo.removeFrom(pool.passers, request);
  }
}

function placeInQueue(state: EngineState, poolLine: PoolLine): void {
  const { waiting } = poolLine.pool;
  const shouldShow = poolLine.verdict === null && poolLine.line.members.size > 0;
  if (shouldShow) state.undo.addTo(waiting, poolLine);
  else state.undo.removeFrom(waiting, poolLine);
}

/** Members of a line that hold units in some pool. */
function heldMembers(line: Line): Request[] {
  const held: Request[] = [];
  for (const poolLine of line.poolLines) {
    for (const request of poolLine.pool.promised) if (request.line === line) held.push(request);
  }
  return held;
}

function policyComponent(state: EngineState, policy: Policy): Component {
  return ensureComponent(state, policy.record.component);
}

export function ensureComponent(state: EngineState, name: ComponentName): Component {
  const known = state.components.get(name);
  if (known !== undefined) return known;
  const created: Component = {
    name,
    policies: new Map(),
    lines: new Set(),
    classMax: CLASS_MAX,
    isServedByOperation: false,
    joinedLast: null,
  };
  state.undo.put(state.components, name, created);
  return created;
}

/** Its policies are others, or say something else. */
function judgePolicies({ undo }: EngineState, component: Component): void {
  const policies = [...component.policies.values()];
  const classes = policies.map(({ record }) => record.maxClass);
  undo.set(component, "classMax", classes.length === 0 ? CLASS_MAX : Math.max(...classes));
  const isServedByOperation = policies.some(({ pool }) => disciplineOf(pool).hasShares);
  undo.set(component, "isServedByOperation", isServedByOperation);
}

export function addPolicy(state: EngineState, record: PolicyRecord): void {
  const pool = requirePool(state, record.pool);
  const component = ensureComponent(state, record.component);
  const wasServedByOperation = component.isServedByOperation;
  const policy: Policy = {
    record,
    pool,
    group: null,
    reserved: [],
    limit: [],
    usage: pool.keys.map(() => 0),
    firmUsage: pool.keys.map(() => 0),
    runs: runsByReserve(),
    holders: new Set(),
    runKinds: new Few(),
    kindsWithout: pool.keys.map(() => 0),
  };
  state.undo.put(pool.policies, record.component, policy);
  state.undo.put(component.policies, record.pool, policy);
  judgePolicies(state, component);
  for (const line of component.lines) {
    const poolLine = createPoolLine(line, policy);
    state.undo.set(line, "poolLines", [...line.poolLines, poolLine]);
  }
  settlePolicy(state, policy, isNobodysHome(record));
  if (component.isServedByOperation !== wasServedByOperation) moveToNewLines(state, component);
}

export function removePolicy(state: EngineState, pool: Pool, policy: Policy): void {
  const component = policyComponent(state, policy);
  const wasServedByOperation = component.isServedByOperation;
  const { name } = pool.record;
  for (const line of component.lines) {
    const poolLine = line.pools.get(name) as PoolLine;
    state.undo.removeFrom(pool.waiting, poolLine);
    if (poolLine.verdict === null) state.undo.addTo(state.dismissed, line);
    for (const request of heldMembers(line)) state.undo.removeFrom(pool.passers, request);
    state.undo.set(
      line,
      "poolLines",
      line.poolLines.filter((each) => each !== poolLine),
    );
  }
  state.undo.drop(pool.policies, component.name);
  state.undo.drop(component.policies, name);
  judgePolicies(state, component);
  settlePolicy(state, policy, isNobodysHome(policy.record) && policy.runs.size === 0);
  if (component.isServedByOperation !== wasServedByOperation) moveToNewLines(state, component);
  releaseComponent(state, component);
}

/** What tells lines apart changed for a component: its first pool with shares came, or its last one went. */
function moveToNewLines(state: EngineState, component: Component): void {
  const requests = [...state.requests.values()].filter(
    ({ line, progress }) => line.component === component && !TERMINAL_STATUSES.has(progress.status),
  );
  component.joinedLast = null;
  for (const request of requests) {
    const isWaiting = request.progress.status === "queued";
    const { run } = request;
    if (isWaiting) dequeue(state, request);
    const old = request.line;
    const line = joinLine(state, component, request.spec);
    state.undo.set(request, "line", line);
    if (state.dismissed.has(old)) state.undo.addTo(state.dismissed, line);
    leaveLine(state, old);
    if (isWaiting) enqueue(state, request);
    if (run !== null)
      state.undo.set(run, "poolLine", line.pools.get(run.poolLine.pool.record.name) as PoolLine);
  }
  if (requests.length === 0) return; // As mostly: its policies come before its first request.
  for (const policy of component.policies.values()) rebuildPool(state, policy.pool);
}
