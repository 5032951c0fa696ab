// Who runs where: runs by kind, and the sums over them.

import { disciplineOf } from "../disciplines/disciplines.ts";
import { awayFromHome, occupyNodes, stopOnNodes, vacateNodes } from "../placement/occupancy.ts";
import type { AllocationRecord, Placement } from "../records.ts";
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
import { touchBorrowers, touchBorrowersIfUndone, touchReserve } from "./order.ts";
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
  const { undo } = state;
  const { pool } = poolLine;
  const run: Run = {
    request,
    poolLine,
    kind: undefined as unknown as RunKind, // Set by `indexRun`.
    token: allocation.token,
    startedAtMs: allocation.startedAtMs,
    endMs: allocation.startedAtMs + (request.spec.walltimeMs ?? Number.POSITIVE_INFINITY),
    isStopping: allocation.stop !== null,
    nodes: nodesOf(pool, allocation.placement),
    away: null,
  };
  undo.remember(request, "run", null);
  request.run = run;
  undo.remember(pool, "runCount", pool.runCount);
  pool.runCount++;
  indexRun(state, run);
  occupyNodes(state, run);
  touchShares(state, poolLine, request);
  undo.addTo(state.unsettled, pool);
}

const NO_NODES: readonly Node[] = [];

function nodesOf({ nodes }: Pool, placement: readonly Placement[]): readonly Node[] {
  return placement.length === 0 ? NO_NODES : placement.map(({ node }) => nodes.get(node) as Node);
}

/** The run was asked to stop: its units are on their way out and it is nobody's candidate any more. */
export function stopRun(state: EngineState, run: Run): void {
  if (run.isStopping) return;
  state.undo.addTo(state.unsettled, run.poolLine.pool);
  removeCandidate(state, run);
  state.undo.set(run, "isStopping", true);
  noteStopping(state, run);
  touchShares(state, run.poolLine, run.request);
  stopOnNodes(state, run);
  state.undo.add(run.poolLine.pool.stopping, run.poolLine.need, 1);
}

export function endRun(state: EngineState, request: Request): void {
  const { run } = request;
  if (run === null) return;
  const { pool } = run.poolLine;
  state.undo.addTo(state.unsettled, pool);
  vacateNodes(state, run);
  addUsage(state, run, -1);
  state.undo.remove(run.poolLine.policy.runs, run);
  touchBorrowersIfUndone(state, run);
  touchShares(state, run.poolLine, run.request);
  state.undo.removeFrom(run.poolLine.stoppingRuns, run);
  if (run.isStopping) state.undo.add(pool.stopping, run.poolLine.need, -1);
  else removeCandidate(state, run);
  state.undo.remember(pool, "runCount", pool.runCount);
  pool.runCount--;
  state.undo.remember(request, "run", run);
  request.run = null;
}

/** Enters a run into the sums and lists of its pool. */
export function indexRun(state: EngineState, run: Run): void {
  const { poolLine } = run;
  addUsage(state, run, 1);
  if (run.nodes.length > 0) state.undo.set(run, "away", awayFromHome(run));
  const kind = kindOf(run);
  state.undo.remember(run, "kind", run.kind);
  run.kind = kind;
  state.undo.insert(poolLine.policy.runs, run);
  if (poolLine.policy.runs.last() !== run) touchBorrowers(state, run);
  if (run.isStopping) {
    state.undo.add(poolLine.pool.stopping, poolLine.need, 1);
    noteStopping(state, run);
  } else addCandidate(state, run);
}

/** Something about a run changed that tells kinds apart. */
export function sortRunAnew(state: EngineState, run: Run): void {
  state.undo.addTo(state.unsettled, run.poolLine.pool);
  const kind = kindOf(run);
  if (run.isStopping || kind === run.kind) return;
  removeCandidate(state, run);
  state.undo.set(run, "kind", kind);
  addCandidate(state, run);
}

function noteStopping({ undo }: EngineState, run: Run): void {
  const { poolLine } = run;
  if (poolLine.stoppingRuns === NO_RUNS) undo.set(poolLine, "stoppingRuns", new Set());
  undo.addTo(poolLine.stoppingRuns, run);
}

function addUsage(state: EngineState, { poolLine }: Run, sign: 1 | -1): void {
  const { pool, policy, need } = poolLine;
  touchReserve(state, policy);
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
  if (kind.runs.size === 1) showKind(state, kind);
  if (run.endMs < Number.POSITIVE_INFINITY) state.undo.insert(pool.ends, run);
  if (kind.priceKey === null) return;
  let samePrice = pool.runsByPrice.get(kind.priceKey);
  if (samePrice === undefined) {
    samePrice = runsByGrant();
    state.undo.putNew(pool.runsByPrice, kind.priceKey, samePrice);
  }
  state.undo.insert(samePrice, run);
}

function removeCandidate(state: EngineState, run: Run): void {
  const { kind } = run;
  const { pool } = run.poolLine;
  state.undo.remove(kind.runs, run);
  if (kind.runs.size === 0) hideKind(state, kind);
  if (run.endMs < Number.POSITIVE_INFINITY) state.undo.remove(pool.ends, run);
  if (kind.priceKey === null) return;
  const samePrice = pool.runsByPrice.get(kind.priceKey) as SortedList<Run>;
  state.undo.remove(samePrice, run);
  if (samePrice.size === 0) state.undo.drop(pool.runsByPrice, kind.priceKey);
}

function showKind({ undo }: EngineState, kind: RunKind): void {
  const { poolLine } = kind;
  const { pool, policy, preemptionClass, runKinds } = poolLine;
  if (!runKinds.includes(kind)) undo.set(poolLine, "runKinds", [...runKinds, kind]);
  undo.addTo(policy.runKinds, kind);
  if (lacksKeys(kind)) undo.add(policy.kindsWithout, keysWithout(kind), 1);
  if (kind.opportunistic) undo.addTo(pool.gapKinds, kind);
  undo.addAt(pool.kindsOfClass, preemptionClass, 1);
}

function hideKind({ undo }: EngineState, kind: RunKind): void {
  const { poolLine } = kind;
  const { pool, policy, preemptionClass, runKinds } = poolLine;
  if (runKinds.length > 1) {
    const others = runKinds.filter((each) => each !== kind);
    undo.set(poolLine, "runKinds", others);
  }
  undo.removeFrom(policy.runKinds, kind);
  if (lacksKeys(kind)) undo.add(policy.kindsWithout, keysWithout(kind), -1);
  if (kind.opportunistic) undo.removeFrom(pool.gapKinds, kind);
  undo.addAt(pool.kindsOfClass, preemptionClass, -1);
}

function lacksKeys({ poolLine }: RunKind): boolean {
  return poolLine.need.includes(0);
}

/** One for each key of which a kind holds nothing. */
function keysWithout({ poolLine }: RunKind): number[] {
  return poolLine.need.map((amount) => (amount === 0 ? 1 : 0));
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
