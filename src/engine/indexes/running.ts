// Who runs where: runs by kind, and the sums over them.

import { disciplineOf } from "../disciplines/disciplines.ts";
import { awayFromHome, occupyNodes, stopOnNodes } from "../placement/occupancy.ts";
import type { AllocationRecord, Placement } from "../records.ts";
import { addAt, addInto } from "../resources.ts";
import type { SortedList } from "../sorted-list.ts";
import {
  type EngineState,
  NO_RUNS,
  type Node,
  type Pool,
  type PoolLine,
  type Request,
  type Run,
  type RunKind,
  runsByGrant,
} from "../state.ts";
import { touchBorrowers, touchReserve } from "./order.ts";
import { touchShares } from "./shares.ts";
import { shieldEndOf } from "./shields.ts";

/** What is granted outside all pools is no run (A4). */
export function startRun(state: EngineState, request: Request): void {
  const { allocation } = request.progress;
  if (allocation === null || allocation.pool === null) return;
  startRunIn(state, request, allocation, request.line.pools.get(allocation.pool) as PoolLine);
}

export function startRunIn(
  state: EngineState,
  request: Request,
  allocation: AllocationRecord,
  poolLine: PoolLine,
): void {
  const run: Run = {
    request,
    poolLine,
    kind: undefined as unknown as RunKind, // Follows from the rest.
    token: allocation.token,
    startedAtMs: allocation.startedAtMs,
    endMs: allocation.startedAtMs + (request.spec.walltimeMs ?? Number.POSITIVE_INFINITY),
    isStopping: allocation.stop !== null,
    nodes: nodesOf(poolLine.pool, allocation.placement),
    away: null,
  };
  if (run.nodes.length > 0) run.away = awayFromHome(run);
  run.kind = kindOf(run);
  begin(run);
  state.undo.done(cease, run, null);
  touchShares(state, poolLine, request);
  state.unsettled.add(poolLine.pool);
}

const NO_NODES: readonly Node[] = [];

function nodesOf({ nodes }: Pool, placement: readonly Placement[]): readonly Node[] {
  return placement.length === 0 ? NO_NODES : placement.map(({ node }) => nodes.get(node) as Node);
}

/** The run was asked to stop: its units are on their way out and it is nobody's candidate any more. */
export function stopRun(state: EngineState, run: Run): void {
  if (run.isStopping) return;
  state.unsettled.add(run.poolLine.pool);
  setStopping(run, true);
  state.undo.done(setStopping, run, false);
  touchShares(state, run.poolLine, run.request);
}

export function endRun(state: EngineState, request: Request): void {
  const { run } = request;
  if (run === null) return;
  state.unsettled.add(run.poolLine.pool);
  cease(run);
  state.undo.done(resume, run, null);
  touchShares(state, run.poolLine, run.request);
}

/** Enters a run into the sums and lists of its pool, which are made anew. */
export function indexRun(state: EngineState, run: Run): void {
  if (run.nodes.length > 0) state.undo.set(run, "away", awayFromHome(run));
  state.undo.set(run, "kind", kindOf(run));
  enter(run);
  state.undo.done(leave, run, null);
}

/** Something about a run changed that tells kinds apart. */
export function sortRunAnew(state: EngineState, run: Run): void {
  state.unsettled.add(run.poolLine.pool);
  const before = run.kind;
  const kind = kindOf(run);
  if (run.isStopping || kind === before) return;
  setKind(run, kind);
  state.undo.done(setKind, run, before);
}

// --- what these are made of: pairs, of which one takes back what the other has done ------------------------

function begin(run: Run): void {
  run.request.run = run;
  enter(run);
}

function cease(run: Run): void {
  leave(run);
  run.request.run = null;
}

/** It had ended, and that is taken back: whoever comes after it may borrow again. */
function resume(run: Run): void {
  begin(run);
  touchBorrowers(run);
}

function enter(run: Run): void {
  const { pool, policy } = run.poolLine;
  pool.runCount++;
  addUsage(run, 1);
  policy.runs.insert(run);
  if (policy.runs.last() !== run) touchBorrowers(run);
  if (run.isStopping) addStopping(run, 1);
  else addCandidate(run);
  occupyNodes(run, 1);
}

function leave(run: Run): void {
  const { pool, policy } = run.poolLine;
  occupyNodes(run, -1);
  pool.runCount--;
  addUsage(run, -1);
  policy.runs.remove(run);
  if (run.isStopping) addStopping(run, -1);
  else removeCandidate(run);
}

function setStopping(run: Run, isStopping: boolean): void {
  run.isStopping = isStopping;
  if (isStopping) removeCandidate(run);
  addStopping(run, isStopping ? 1 : -1);
  if (!isStopping) addCandidate(run);
  stopOnNodes(run, isStopping ? 1 : -1);
}

function setKind(run: Run, kind: RunKind): void {
  removeCandidate(run);
  run.kind = kind;
  addCandidate(run);
}

function addStopping(run: Run, sign: 1 | -1): void {
  const { poolLine } = run;
  addInto(poolLine.pool.stopping, poolLine.need, sign);
  if (poolLine.stoppingRuns === NO_RUNS) poolLine.stoppingRuns = new Set();
  if (sign > 0) poolLine.stoppingRuns.add(run);
  else poolLine.stoppingRuns.delete(run);
}

function addUsage({ poolLine }: Run, sign: 1 | -1): void {
  const { pool, policy, need } = poolLine;
  touchReserve(policy);
  addInto(pool.usage, need, sign);
  addInto(policy.usage, need, sign);
  if (poolLine.firm) addInto(policy.firmUsage, need, sign);
  for (let group = policy.group; group !== null; group = group.parent) addInto(group.usage, need, sign);
}

function addCandidate(run: Run): void {
  const { kind } = run;
  const { pool } = run.poolLine;
  kind.runs.insert(run);
  if (kind.runs.size === 1) showKind(kind);
  if (run.endMs < Number.POSITIVE_INFINITY) pool.ends.insert(run);
  if (kind.priceKey === null) return;
  let samePrice = pool.runsByPrice.get(kind.priceKey);
  if (samePrice === undefined) {
    samePrice = runsByGrant();
    pool.runsByPrice.set(kind.priceKey, samePrice);
  }
  samePrice.insert(run);
}

function removeCandidate(run: Run): void {
  const { kind } = run;
  const { pool } = run.poolLine;
  kind.runs.remove(run);
  if (kind.runs.size === 0) hideKind(kind);
  if (run.endMs < Number.POSITIVE_INFINITY) pool.ends.remove(run);
  if (kind.priceKey === null) return;
  const samePrice = pool.runsByPrice.get(kind.priceKey) as SortedList<Run>;
  samePrice.remove(run);
  if (samePrice.size === 0) pool.runsByPrice.delete(kind.priceKey);
}

function showKind(kind: RunKind): void {
  const { poolLine } = kind;
  const { pool, policy, runKinds } = poolLine;
  if (!runKinds.includes(kind)) poolLine.runKinds = [...runKinds, kind];
  policy.runKinds.add(kind);
  if (kind.opportunistic) pool.gapKinds.add(kind);
  countKind(kind, 1);
}

function hideKind(kind: RunKind): void {
  const { poolLine } = kind;
  const { pool, policy, runKinds } = poolLine;
  if (runKinds.length > 1) poolLine.runKinds = runKinds.filter((each) => each !== kind);
  policy.runKinds.delete(kind);
  if (kind.opportunistic) pool.gapKinds.delete(kind);
  countKind(kind, -1);
}

function countKind({ poolLine }: RunKind, sign: 1 | -1): void {
  const { need, pool, policy, preemptionClass } = poolLine;
  addAt(pool.kindsOfClass, preemptionClass, sign);
  for (let i = 0; i < need.length; i++) if (need[i] === 0) addAt(policy.kindsWithout, i, sign);
}

function kindOf(run: Run): RunKind {
  const { poolLine, request } = run;
  const opportunistic = (request.progress.allocation as { opportunistic: boolean }).opportunistic;
  const shieldEndsAtMs = shieldEndOf(request.progress.preemptedAtMs, poolLine.pool);
  const { hasWalltime, hasCheckpoint } = disciplineOf(poolLine.pool).tellApart(run);
  const isAway = run.away !== null;
  for (const kind of poolLine.runKinds) {
    const isSame =
      kind.opportunistic === opportunistic &&
      kind.shieldEndsAtMs === shieldEndsAtMs &&
      kind.hasWalltime === hasWalltime &&
      kind.hasCheckpoint === hasCheckpoint &&
      kind.isAway === isAway;
    if (isSame) return kind;
  }
  const kind = {
    poolLine,
    opportunistic,
    shieldEndsAtMs,
    hasWalltime,
    hasCheckpoint,
    isAway,
    priceKey: null as string | null,
    runs: runsByGrant(),
  };
  kind.priceKey = disciplineOf(poolLine.pool).priceKeyOf?.(kind) ?? null;
  return kind;
}
