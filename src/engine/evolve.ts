// Folds one event into the state. The only writer: the live server, recovery, followers, what-if and the
// tests all change the state through here, so that the same events always give the same state.

import { assertNever } from "./assert.ts";
import { assertDecision, assertGrant, assertPlacement } from "./assertions.ts";
import { disciplineOf } from "./disciplines/disciplines.ts";
import type { Event } from "./events.ts";
import { Few } from "./few.ts";
import { joinBlocked, leaveBlocked } from "./indexes/blocked.ts";
import { joinLine, leaveLine } from "./indexes/lines.ts";
import { dropNode, evolveNode } from "./indexes/nodes.ts";
import {
  addPolicy,
  changePolicy,
  ensureComponent,
  rebuildPool,
  refreshPool,
  removePolicy,
  setGroup,
} from "./indexes/pools.ts";
import { endRun, sortRunAnew, startRun, startRunIn, stopRun } from "./indexes/running.ts";
import {
  forgetOperation,
  forgetShares,
  forgetSharesWhenTakenBack,
  recheck,
  recheckWhenTakenBack,
  rememberOperation,
  touchShares,
} from "./indexes/shares.ts";
import { isPreemption, withPreemption } from "./indexes/shields.ts";
import { keepOrderUntil, rewake, unwake } from "./indexes/timers.ts";
import { dequeue, enqueue, unsettleWaiter } from "./indexes/waiting.ts";
import { NodeIndex } from "./placement/node-index.ts";
import type {
  AllocationRecord,
  HoldRecord,
  PoolName,
  PoolRecord,
  RequestId,
  RequestProgress,
  RequestStatus,
  Stop,
} from "./records.ts";
import { TERMINAL_STATUSES } from "./records.ts";
import {
  type EngineState,
  NO_OPERATIONS,
  noKinds,
  type Policy,
  type Pool,
  type Request,
  requirePool,
  requireRequest,
  runsByEnd,
} from "./state.ts";

const EMPTY: readonly number[] = [];

/** `about` is the request that the event names, where the caller has it at hand. */
export function evolve(state: EngineState, event: Event, about?: Request): void {
  countEvent(state, event);
  switch (event.kind) {
    case "poolSet":
      return evolvePoolSet(state, event);
    case "poolDeleted":
      return evolvePoolDeleted(state, event);
    case "groupSet":
      return evolveGroupSet(state, event);
    case "groupDeleted":
      return evolveGroupDeleted(state, event);
    case "policySet":
      return evolvePolicySet(state, event);
    case "policyDetached": {
      const pool = requirePool(state, event.pool);
      forgetDisplacements(state, pool);
      return removePolicy(state, pool, pool.policies.get(event.component) as Policy);
    }
    case "nodeSet":
    case "nodeStateChanged":
    case "nodeRemoved":
      evolveNode(state, event, (pool) => forgetDisplacements(state, pool));
      return;
    case "serverSettingsChanged":
      return state.undo.set(state, "unmanaged", event.unmanaged);
    case "requestChanged":
      return evolveChanged(state, event);
    case "requestSubmitted":
      return evolveSubmitted(state, event);
    case "requestRejected":
      return evolveRejected(state, event);
    case "requestEntered":
      return evolveEntered(state, event);
    case "requestAllocated":
      return evolveAllocated(state, event, about ?? requireRequest(state, event.requestId));
    case "holdTaken":
      return takeHold(state, requireRequest(state, event.requestId), {
        pool: event.pool,
        seq: state.seq,
        placement: event.placement,
      });
    case "holdEnded":
      return evolveHoldEnded(state, event);
    case "preemptionDecided":
      return evolvePreemptionDecided(state, event);
    case "stopChanged":
      return evolveStopChanged(state, event);
    case "phaseChanged":
      return evolvePhase(state, event);
    case "checkpointCompleted":
      return evolveCheckpointCompleted(state, event);
    case "attemptEnded":
      return evolveAttemptEnded(state, event, about ?? requireRequest(state, event.requestId));
    case "requestCancelled":
      return evolveWithdrawn(state, event, "cancelled");
    case "requestExpired":
      return evolveWithdrawn(state, event, "expired");
    case "deletionPlanned":
      return state.undo.set(requireRequest(state, event.requestId).progress, "deletionPlanned", true);
    case "requestDeleted":
      return forgetRequest(state, event.requestId);
    case "endedForgotten":
      for (const id of event.requestIds) forgetRequest(state, id);
      return;
    case "starvationChanged":
      return evolveStarvation(state, event);
    case "overcommitChanged":
      return evolveOvercommit(state, event);
    case "schedulingPaused":
      return leaveUnsettled(state, event.pools);
    case "schedulingSettled":
      return leaveUnsettled(state, []);
    default:
      return assertNever(event);
  }
}

function countEvent(state: EngineState, event: Event): void {
  state.seq++;
  if ("atMs" in event) state.lastEventAtMs = event.atMs;
}

type EventOf<Kind extends Event["kind"]> = Extract<Event, { kind: Kind }>;

// --- pools, groups, policies -------------------------------------------------------------------------

function evolvePoolSet(state: EngineState, { pool: record }: EventOf<"poolSet">): void {
  const known = state.pools.get(record.name);
  if (known !== undefined) {
    forgetDisplacements(state, known);
    const before = known.record.settings;
    state.undo.set(known, "record", record);
    state.undo.set(known, "preemptionsMax", preemptionsMaxOf(record));
    const isAnew =
      record.closing ||
      before.maxPreemptions !== record.settings.maxPreemptions ||
      before.mainKey !== record.settings.mainKey;
    if (isAnew) rebuildPool(state, known);
    else refreshPool(state, known);
    const areTimersAnew =
      before.minRuntimeMs !== record.settings.minRuntimeMs ||
      before.maxPreemptions !== record.settings.maxPreemptions;
    if (areTimersAnew) rewakeRuns(state, known);
    return;
  }
  const pool: Pool = {
    record,
    preemptionsMax: preemptionsMaxOf(record),
    keys: [],
    capacity: [],
    usage: [],
    stopping: [],
    isReserved: [],
    groups: new Map(),
    policies: new Map(),
    nodes: new Map(),
    places: new NodeIndex(),
    waiting: new Set(),
    promised: new Set(),
    passers: new Set(),
    displaced: new Map(),
    gapKinds: new Few(),
    kindsOfClass: noKinds(),
    ends: runsByEnd(),
    runsByPrice: new Map(),
    runCount: 0,
    starvation: new Map(),
    order: null,
    orderUntilMs: Number.POSITIVE_INFINITY,
    preemptiveStartAtMs: new Map(),
    overcommittedSinceMs: new Map(),
    shareTree: null,
    staleRequests: new Few(),
    takenBackRequests: new Few(),
  };
  state.undo.put(state.pools, record.name, pool);
  rebuildPool(state, pool);
}

function preemptionsMaxOf(record: PoolRecord): number {
  return record.settings.maxPreemptions ?? disciplineOf({ record }).preemptionsMax;
}

function rewakeRuns(state: EngineState, pool: Pool): void {
  for (const policy of pool.policies.values()) for (const run of policy.runs) rewake(state, run.request);
}

function evolvePoolDeleted(state: EngineState, { name }: EventOf<"poolDeleted">): void {
  const pool = requirePool(state, name);
  forgetDisplacements(state, pool);
  for (const policy of [...pool.policies.values()]) removePolicy(state, pool, policy);
  for (const node of [...pool.nodes.values()]) dropNode(state, node);
  state.undo.drop(state.pools, name);
  state.unsettled.delete(pool);
  keepOrderUntil(state, pool, Number.POSITIVE_INFINITY);
}

function evolveGroupSet(state: EngineState, { group }: EventOf<"groupSet">): void {
  forgetDisplacements(state, requirePool(state, group.pool));
  setGroup(state, group);
}

function evolveGroupDeleted(state: EngineState, { pool: poolName, name }: EventOf<"groupDeleted">): void {
  const pool = requirePool(state, poolName);
  forgetDisplacements(state, pool);
  state.undo.drop(pool.groups, name);
  forgetShares(state, pool);
}

function evolvePolicySet(state: EngineState, { policy: record }: EventOf<"policySet">): void {
  const pool = requirePool(state, record.pool);
  forgetDisplacements(state, pool);
  const known = pool.policies.get(record.component);
  if (known === undefined) addPolicy(state, record);
  else changePolicy(state, known, record);
}

// --- the life of a request ---------------------------------------------------------------------------

function evolveSubmitted(state: EngineState, { spec, blocked, atMs }: EventOf<"requestSubmitted">): void {
  const isBlocked = blocked === true;
  const component = ensureComponent(state, spec.component);
  // What a grant reads comes first: whoever has waited for long lies in memory that nobody has touched since.
  const progress: RequestProgress = {
    status: "queued",
    seq: state.seq,
    delayed: isBlocked,
    hold: null,
    allocation: null,
    preemptedFor: null,
    preemptedAtMs: EMPTY,
    blocked: isBlocked,
    submittedAtMs: atMs,
    queuedAtMs: atMs,
    attempt: 1,
    furtherAttempts: 0,
    preemptedCount: 0,
    shielded: false,
    resume: false,
    lastCheckpointAtMs: null,
    lastCheckpointSeq: 0,
    cancelledBecause: null,
    rejection: null,
    endedAtMs: null,
    deletionPlanned: false,
  };
  const request: Request = {
    spec,
    progress,
    line: joinLine(state, component, spec),
    run: null,
    wakeAtMs: Number.POSITIVE_INFINITY,
    operations: NO_OPERATIONS,
  };
  state.requests.set(spec.id, request);
  state.undo.done(dropRequest, state, spec.id);
  state.undo.remember(progress, "status", "cancelled"); // Taken back, it waits for nothing.
  forgetWhereAdmitted(state, request);
  rememberOperation(state, request);
  joinBlocked(state, request);
  enqueue(state, request);
  rewake(state, request);
}

function dropRequest({ requests }: EngineState, id: RequestId): void {
  requests.delete(id);
}

/** All that is derived from what a request says is made anew. */
function evolveChanged(state: EngineState, event: EventOf<"requestChanged">): void {
  const { requestId, spec, asksForMore, atMs } = event;
  const request = requireRequest(state, requestId);
  const { progress, run, line } = request;
  if (TERMINAL_STATUSES.has(progress.status)) return state.undo.set(request, "spec", spec);
  if (progress.status === "queued") dequeue(state, request);
  if (run !== null) endRun(state, request);
  unwake(state, request);
  forgetOperation(state, request);
  leaveBlocked(state, request);
  state.undo.set(request, "spec", spec);
  state.undo.set(request, "line", joinLine(state, line.component, spec));
  leaveLine(state, line);
  if (asksForMore) {
    const changed = state.undo.change(progress);
    changed.seq = state.seq;
    changed.submittedAtMs = atMs;
  }
  rememberOperation(state, request);
  joinBlocked(state, request);
  if (progress.status === "queued") enqueue(state, request);
  if (run !== null) startRun(state, request);
  rewake(state, request);
}

function evolveRejected(state: EngineState, event: EventOf<"requestRejected">): void {
  const request = requireRequest(state, event.requestId);
  state.undo.set(request.progress, "rejection", event.reasons);
  endWaiting(state, request, "rejected", event.atMs);
}

function evolveEntered(state: EngineState, { requestId, atMs }: EventOf<"requestEntered">): void {
  const request = requireRequest(state, requestId);
  const { progress } = request;
  dequeue(state, request);
  if (progress.blocked === true) {
    leaveBlocked(state, request);
    state.undo.set(progress, "blocked", false);
    state.undo.set(progress, "queuedAtMs", atMs);
    joinBlocked(state, request);
  } else state.undo.set(progress, "attempt", progress.attempt + 1);
  state.undo.set(progress, "delayed", false);
  enqueue(state, request);
  rewake(state, request);
}

function evolveAllocated(state: EngineState, event: EventOf<"requestAllocated">, request: Request): void {
  const { progress } = request;
  const poolLine = event.pool === null ? null : request.line.pools.get(event.pool);
  assertGrant(request, poolLine);
  if (poolLine) assertPlacement(request, poolLine, event.placement);
  dequeue(state, request);
  const record: AllocationRecord = {
    pool: event.pool,
    token: state.seq,
    startedAtMs: event.atMs,
    opportunistic: event.opportunistic,
    placement: event.placement,
    stop: null,
  };
  const isJob = request.line.shape.isJob === true && event.pool !== null;
  if (progress.hold !== null) state.undo.set(progress, "hold", null);
  if (progress.preemptedFor !== null) state.undo.set(progress, "preemptedFor", null);
  setStatus(state, progress, "allocated");
  const allocation: AllocationRecord = isJob ? { ...record, phase: "assigned" } : record;
  setAllocation(state, progress, allocation);
  if (poolLine) startRunIn(state, request, allocation, poolLine);
  rewake(state, request);
}

function evolveStopChanged(state: EngineState, event: EventOf<"stopChanged">): void {
  const request = requireRequest(state, event.requestId);
  if (event.stop.cause === "cancellation" && request.run !== null) {
    forgetDisplacements(state, request.run.poolLine.pool);
  }
  setStop(state, request, event.stop);
}

function setStop(state: EngineState, request: Request, stop: Stop): void {
  const { allocation } = request.progress;
  if (allocation === null) throw new Error(`${request.spec.id} has nothing to stop`);
  state.undo.set(request.progress, "allocation", { ...allocation, stop });
  if (request.run !== null) {
    stopRun(state, request.run);
    touchShares(state, request.run.poolLine, request); // It may not come back any more (9).
  }
  rewake(state, request);
}

function evolvePhase(state: EngineState, { requestId, phase }: EventOf<"phaseChanged">): void {
  const { progress } = requireRequest(state, requestId);
  if (progress.allocation === null) throw new Error(`${requestId} has no phase`);
  state.undo.set(progress, "allocation", { ...progress.allocation, phase });
}

function evolveCheckpointCompleted(state: EngineState, event: EventOf<"checkpointCompleted">): void {
  const { progress, run } = requireRequest(state, event.requestId);
  const changed = state.undo.change(progress);
  changed.resume = true;
  changed.lastCheckpointAtMs = event.atMs;
  changed.lastCheckpointSeq = state.seq;
  if (run === null) return;
  sortRunAnew(state, run);
  touchShares(state, run.poolLine, run.request); // It is fresher than before (9.5).
}

function evolveAttemptEnded(state: EngineState, event: EventOf<"attemptEnded">, request: Request): void {
  const { progress, run } = request;
  if (event.unasked && run !== null) forgetDisplacements(state, run.poolLine.pool);
  if (isPreemption(request, event.outcome)) {
    const preempted = state.undo.change(progress);
    preempted.preemptedCount++;
    preempted.preemptedAtMs = withPreemption(progress.preemptedAtMs, event.atMs);
  }
  if (event.shielded === true) state.undo.set(progress, "shielded", true);
  endRun(state, request);
  setAllocation(state, progress, null);
  if (event.status !== "queued") return endRequest(state, request, event.status, event.atMs);

  const queuedAtMs = event.queuedAtMs as number;
  const changed = state.undo.change(progress);
  changed.status = "queued";
  changed.furtherAttempts++;
  changed.queuedAtMs = queuedAtMs;
  changed.delayed = queuedAtMs > event.atMs;
  if (!changed.delayed) changed.attempt++;
  enqueue(state, request);
  rewake(state, request);
}

function evolveWithdrawn(
  state: EngineState,
  { requestId, because, atMs }: Omit<EventOf<"requestCancelled">, "kind">,
  status: RequestStatus,
): void {
  const request = requireRequest(state, requestId);
  forgetWhereAdmitted(state, request);
  if (because !== undefined) state.undo.set(request.progress, "cancelledBecause", because);
  endWaiting(state, request, status, atMs);
}

function endWaiting(state: EngineState, request: Request, status: RequestStatus, atMs: number): void {
  dequeue(state, request);
  state.undo.set(request.progress, "hold", null);
  state.undo.set(request.progress, "delayed", false);
  endRequest(state, request, status, atMs);
}

function endRequest(state: EngineState, request: Request, status: RequestStatus, atMs: number): void {
  const { progress } = request;
  leaveBlocked(state, request);
  if (progress.blocked === true) state.undo.set(progress, "blocked", false);
  setStatus(state, progress, status);
  state.undo.remember(progress, "endedAtMs", null);
  progress.endedAtMs = atMs;
  state.undo.insert(state.ended, request);
  rewake(state, request);
  leaveLine(state, request.line);
}

// Every request comes by here several times, so its fields are set one by one, each where all objects are alike.

function setStatus({ undo }: EngineState, progress: RequestProgress, status: RequestStatus): void {
  undo.remember(progress, "status", progress.status);
  progress.status = status;
}

function setAllocation(
  { undo }: EngineState,
  progress: RequestProgress,
  allocation: AllocationRecord | null,
): void {
  undo.remember(progress, "allocation", progress.allocation);
  progress.allocation = allocation;
}

function forgetRequest(state: EngineState, id: RequestId): void {
  const request = state.requests.take(id);
  if (request === undefined || request.progress.endedAtMs === null) throw new Error(`${id} has not ended`);
  state.ended.remove(request);
  state.undo.done(rememberRequest, state, request);
  forgetOperation(state, request);
}

function rememberRequest({ requests, ended }: EngineState, request: Request): void {
  requests.set(request.spec.id, request);
  ended.insert(request);
}

// --- holds and preemption ----------------------------------------------------------------------------

function takeHold(state: EngineState, request: Request, hold: HoldRecord): void {
  dequeue(state, request);
  state.undo.set(request.progress, "hold", hold);
  enqueue(state, request);
}

function evolveHoldEnded(state: EngineState, { requestId, by }: EventOf<"holdEnded">): void {
  const request = requireRequest(state, requestId);
  const pool = state.pools.get(request.progress.hold?.pool as PoolName);
  dequeue(state, request);
  state.undo.set(request.progress, "hold", null);
  enqueue(state, request);
  if (by !== null && pool !== undefined) noteDisplacement(state, pool, by, requestId);
}

function evolvePreemptionDecided(state: EngineState, event: EventOf<"preemptionDecided">): void {
  assertDecision(state, event);
  const pool = requirePool(state, event.pool);
  for (const { requestId, stop } of event.victims) {
    const { progress } = requireRequest(state, requestId);
    state.undo.set(progress, "status", "preempting");
    setStop(state, requireRequest(state, requestId), stop);
    if (event.waiter === null) continue;
    state.undo.set(progress, "preemptedFor", event.waiter);
    noteDisplacement(state, pool, event.waiter, requestId);
  }
  if (event.waiter === null) return;
  takeHold(state, requireRequest(state, event.waiter), {
    pool: event.pool,
    seq: state.seq,
    placement: event.placement,
  });
  notePreemptiveStart(state, event);
}

/** From here on the back-off counts, on every node of the placement (9.7). */
function notePreemptiveStart(state: EngineState, event: EventOf<"preemptionDecided">): void {
  const pool = requirePool(state, event.pool);
  if (!disciplineOf(pool).hasShares) return;
  const { record, preemptiveStartAtMs } = pool;
  const nodes = record.nodeBacked ? event.placement.map(({ node }) => node) : [""];
  for (const node of nodes) state.undo.put(preemptiveStartAtMs, node, event.atMs);
}

function noteDisplacement(state: EngineState, pool: Pool, by: RequestId, displaced: RequestId): void {
  const { undo } = state;
  let all = pool.displaced.get(by);
  if (all === undefined) {
    all = new Set();
    undo.put(pool.displaced, by, all);
    undo.addTo(state.guarded, pool);
  }
  undo.addTo(all, displaced);
}

/** Something new came to a pool from outside: an earlier assignment may come back there now (V6). */
function forgetDisplacements(state: EngineState, pool: Pool): void {
  if (state.guarded.size === 0 || pool.displaced.size === 0) return;
  // Who was displaced here, directly or through others, may preempt again, so it is looked at again where it waits.
  const released = new Set<RequestId>();
  for (const ids of pool.displaced.values()) for (const id of ids) released.add(id);
  for (const id of released) {
    unsettleWaiter(state, state.requests.get(id));
    for (const { displaced } of state.guarded)
      for (const other of displaced.get(id) ?? []) released.add(other);
  }
  state.undo.set(pool, "displaced", new Map());
  state.undo.removeFrom(state.guarded, pool);
}

/** News in every pool that admits a request (V6). */
function forgetWhereAdmitted(state: EngineState, { line }: Request): void {
  if (state.guarded.size === 0) return;
  for (const { pool, verdict } of line.poolLines) if (verdict === null) forgetDisplacements(state, pool);
}

function evolveStarvation(state: EngineState, event: EventOf<"starvationChanged">): void {
  const pool = requirePool(state, event.pool);
  const { starvation } = pool;
  // A look says in the end until when it holds; after a replay there was none yet.
  if (pool.shareTree?.isInLook !== true) {
    keepOrderUntil(state, pool, 0);
    recheck(state, pool, event.changes);
  }
  recheckWhenTakenBack(state, pool, event.changes);
  for (const change of event.changes) {
    if (change.belowSinceMs === null) state.undo.drop(starvation, change.element);
    else state.undo.put(starvation, change.element, change);
  }
}

function evolveOvercommit(state: EngineState, event: EventOf<"overcommitChanged">): void {
  const pool = requirePool(state, event.pool);
  keepOrderUntil(state, pool, 0);
  forgetSharesWhenTakenBack(state, pool);
  for (const { node, sinceMs } of event.changes) {
    if (sinceMs === null) state.undo.drop(pool.overcommittedSinceMs, node);
    else state.undo.put(pool.overcommittedSinceMs, node, sinceMs);
  }
}

// --- the fixed point -----------------------------------------------------------------------------------

/** These pools and no others are still to be looked at. */
function leaveUnsettled(state: EngineState, pools: readonly PoolName[]): void {
  state.undo.set(state, "isPaused", pools.length > 0);
  state.unsettled.clear();
  for (const name of pools) state.unsettled.add(requirePool(state, name));
}
