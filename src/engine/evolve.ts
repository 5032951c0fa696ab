// Folds one event into the state. The only writer: the live server, recovery, followers, what-if and the
// tests all change the state through here, so that the same events always give the same state.

import { assertNever } from "./assert.ts";
import { assertDecision, assertGrant, assertPlacement } from "./assertions.ts";
import { disciplineOf } from "./disciplines/disciplines.ts";
import type { Event } from "./events.ts";
import { joinLine, leaveLine } from "./indexes/lines.ts";
import { dropNode, evolveNode } from "./indexes/nodes.ts";
import {
  addPolicy,
  ensureComponent,
  rebuildPool,
  refreshPool,
  releaseComponent,
  removePolicy,
} from "./indexes/pools.ts";
import { endRun, sortRunAnew, startRun, stopRun } from "./indexes/running.ts";
import {
  forgetOperation,
  forgetShares,
  recheckWhenTakenBack,
  rememberOperation,
  touchShares,
} from "./indexes/shares.ts";
import { keepOrderUntil, rewake } from "./indexes/timers.ts";
import { dequeue, enqueue, unsettleWaiter } from "./indexes/waiting.ts";
import { NodeIndex } from "./placement/node-index.ts";
import type { HoldRecord, RequestId, RequestProgress, RequestStatus, Stop } from "./records.ts";
import { TERMINAL_STATUSES } from "./records.ts";
import { SortedList } from "./sorted-list.ts";
import {
  byEnd,
  type EngineState,
  type Group,
  needOf,
  type Policy,
  type Pool,
  type Request,
  type Run,
  requirePool,
  requireRequest,
} from "./state.ts";

const EMPTY: readonly number[] = [];

export function evolve(state: EngineState, event: Event): void {
  state.undo.set(state, "seq", state.seq + 1);
  if ("atMs" in event) state.undo.set(state, "lastEventAtMs", event.atMs);
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
      forgetDisplacements(state);
      const pool = requirePool(state, event.pool);
      return removePolicy(state, pool, pool.policies.get(event.component) as Policy);
    }
    case "nodeSet":
    case "nodeStateChanged":
    case "nodeRemoved":
      // That its last run has ended is no event from outside (V6).
      if (event.kind !== "nodeStateChanged" || event.state !== "drained") forgetDisplacements(state);
      return evolveNode(state, event);
    case "serverSettingsChanged":
      return state.undo.set(state, "unmanaged", event.unmanaged);
    case "requestSubmitted":
      return evolveSubmitted(state, event);
    case "requestRejected":
      return evolveRejected(state, event);
    case "requestEntered":
      return evolveEntered(state, event);
    case "requestAllocated":
      return evolveAllocated(state, event);
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
    case "checkpointCompleted":
      return evolveCheckpointCompleted(state, event);
    case "attemptEnded":
      return evolveAttemptEnded(state, event);
    case "requestCancelled":
      forgetDisplacements(state);
      return endWaiting(state, requireRequest(state, event.requestId), "cancelled", event.atMs);
    case "requestExpired":
      forgetDisplacements(state);
      return endWaiting(state, requireRequest(state, event.requestId), "expired", event.atMs);
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
    default:
      return assertNever(event);
  }
}

type EventOf<Kind extends Event["kind"]> = Extract<Event, { kind: Kind }>;

// --- pools, groups, policies -------------------------------------------------------------------------

function evolvePoolSet(state: EngineState, { pool: record }: EventOf<"poolSet">): void {
  forgetDisplacements(state);
  const known = state.pools.get(record.name);
  if (known !== undefined) {
    const before = known.record.settings;
    state.undo.set(known, "record", record);
    const isAnew =
      record.closing ||
      before.maxPreemptions !== record.settings.maxPreemptions ||
      before.mainKey !== record.settings.mainKey;
    if (isAnew) rebuildPool(state, known);
    else refreshPool(state, known);
    if (before.minRuntimeMs !== record.settings.minRuntimeMs) rewakeRuns(state, known);
    return;
  }
  const pool: Pool = {
    record,
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
    runKinds: new Set(),
    ends: new SortedList<Run>(byEnd, { weigh: needOf }),
    runCount: 0,
    starvation: new Map(),
    orderUntilMs: Number.POSITIVE_INFINITY,
    preemptiveStartAtMs: new Map(),
    overcommittedSinceMs: new Map(),
    shareTree: null,
    staleLines: new Set(),
  };
  state.undo.run(
    () => state.pools.set(record.name, pool),
    () => state.pools.delete(record.name),
  );
  rebuildPool(state, pool);
}

function rewakeRuns(state: EngineState, pool: Pool): void {
  for (const policy of pool.policies.values()) for (const run of policy.runs) rewake(state, run.request);
}

function evolvePoolDeleted(state: EngineState, { name }: EventOf<"poolDeleted">): void {
  forgetDisplacements(state);
  const pool = requirePool(state, name);
  for (const policy of [...pool.policies.values()]) removePolicy(state, pool, policy);
  for (const node of [...pool.nodes.values()]) dropNode(state, node);
  state.undo.run(
    () => state.pools.delete(name),
    () => state.pools.set(name, pool),
  );
  state.undo.removeFrom(state.unsettled, pool);
  keepOrderUntil(state, pool, Number.POSITIVE_INFINITY);
}

function evolveGroupSet(state: EngineState, { group: record }: EventOf<"groupSet">): void {
  forgetDisplacements(state);
  const pool = requirePool(state, record.pool);
  const known = pool.groups.get(record.name);
  if (known !== undefined) state.undo.set(known, "record", record);
  else {
    const group: Group = { record, parent: null, limit: [], usage: [] };
    state.undo.run(
      () => pool.groups.set(record.name, group),
      () => pool.groups.delete(record.name),
    );
  }
  rebuildPool(state, pool);
}

function evolveGroupDeleted(state: EngineState, { pool: poolName, name }: EventOf<"groupDeleted">): void {
  forgetDisplacements(state);
  const pool = requirePool(state, poolName);
  const group = pool.groups.get(name) as Group;
  state.undo.run(
    () => pool.groups.delete(name),
    () => pool.groups.set(name, group),
  );
  forgetShares(state, pool);
}

function evolvePolicySet(state: EngineState, { policy: record }: EventOf<"policySet">): void {
  forgetDisplacements(state);
  const pool = requirePool(state, record.pool);
  const known = pool.policies.get(record.component);
  if (known === undefined) return addPolicy(state, record);
  state.undo.set(known, "record", record);
  rebuildPool(state, pool);
}

// --- the life of a request ---------------------------------------------------------------------------

function evolveSubmitted(state: EngineState, { spec, atMs }: EventOf<"requestSubmitted">): void {
  forgetDisplacements(state);
  const component = ensureComponent(state, spec.component);
  const progress: RequestProgress = {
    status: "queued",
    seq: state.seq,
    submittedAtMs: atMs,
    attempt: 1,
    preemptedCount: 0,
    preemptedFor: null,
    preemptedAtMs: EMPTY,
    shielded: false,
    resume: false,
    lastCheckpointAtMs: null,
    lastCheckpointSeq: 0,
    furtherAttempts: 0,
    queuedAtMs: atMs,
    delayed: false,
    allocation: null,
    hold: null,
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
  };
  state.undo.run(
    () => state.requests.set(spec.id, request),
    () => state.requests.delete(spec.id),
  );
  rememberOperation(state, request);
  enqueue(state, request);
  rewake(state, request);
}

function evolveRejected(state: EngineState, event: EventOf<"requestRejected">): void {
  const request = requireRequest(state, event.requestId);
  state.undo.set(request.progress, "rejection", event.reasons);
  endWaiting(state, request, "rejected", event.atMs);
}

function evolveEntered(state: EngineState, { requestId }: EventOf<"requestEntered">): void {
  const request = requireRequest(state, requestId);
  dequeue(state, request);
  state.undo.set(request.progress, "delayed", false);
  state.undo.set(request.progress, "attempt", request.progress.attempt + 1);
  enqueue(state, request);
  rewake(state, request);
}

function evolveAllocated(state: EngineState, event: EventOf<"requestAllocated">): void {
  const request = requireRequest(state, event.requestId);
  const { progress } = request;
  assertGrant(state, request, event.pool);
  if (event.pool !== null) assertPlacement(requirePool(state, event.pool), request, event.placement);
  dequeue(state, request);
  state.undo.set(progress, "hold", null);
  state.undo.set(progress, "preemptedFor", null);
  state.undo.set(progress, "status", "allocated");
  state.undo.set(progress, "allocation", {
    pool: event.pool,
    token: state.seq,
    startedAtMs: event.atMs,
    opportunistic: event.opportunistic,
    placement: event.placement,
    stop: null,
  });
  startRun(state, request);
  rewake(state, request);
}

function evolveStopChanged(state: EngineState, event: EventOf<"stopChanged">): void {
  if (event.stop.cause === "cancellation") forgetDisplacements(state);
  setStop(state, requireRequest(state, event.requestId), event.stop);
}

function setStop(state: EngineState, request: Request, stop: Stop): void {
  const { allocation } = request.progress;
  if (allocation === null) throw new Error(`${request.spec.id} has nothing to stop`);
  state.undo.set(request.progress, "allocation", { ...allocation, stop });
  if (request.run !== null) {
    stopRun(state, request.run);
    touchShares(state, request.run.poolLine); // It may not come back any more (9).
  }
  rewake(state, request);
}

function evolveCheckpointCompleted(state: EngineState, event: EventOf<"checkpointCompleted">): void {
  const { progress, run } = requireRequest(state, event.requestId);
  state.undo.set(progress, "resume", true);
  state.undo.set(progress, "lastCheckpointAtMs", event.atMs);
  state.undo.set(progress, "lastCheckpointSeq", state.seq);
  if (run !== null) sortRunAnew(state, run);
}

function evolveAttemptEnded(state: EngineState, event: EventOf<"attemptEnded">): void {
  if (event.unasked) forgetDisplacements(state);
  const request = requireRequest(state, event.requestId);
  const { progress } = request;
  // What an administrator stops was not preempted by anybody (P8).
  const isCounted = event.outcome === "preempted" && progress.allocation?.stop?.reason !== "administration";
  if (isCounted) state.undo.set(progress, "preemptedCount", progress.preemptedCount + 1);
  endRun(state, request);
  state.undo.set(progress, "allocation", null);
  if (event.status !== "queued") return endRequest(state, request, event.status, event.atMs);

  const queuedAtMs = event.queuedAtMs as number;
  const delayed = queuedAtMs > event.atMs;
  state.undo.set(progress, "status", "queued");
  state.undo.set(progress, "furtherAttempts", progress.furtherAttempts + 1);
  state.undo.set(progress, "queuedAtMs", queuedAtMs);
  state.undo.set(progress, "delayed", delayed);
  if (!delayed) state.undo.set(progress, "attempt", progress.attempt + 1);
  enqueue(state, request);
  rewake(state, request);
}

function endWaiting(state: EngineState, request: Request, status: RequestStatus, atMs: number): void {
  dequeue(state, request);
  state.undo.set(request.progress, "hold", null);
  state.undo.set(request.progress, "delayed", false);
  endRequest(state, request, status, atMs);
}

function endRequest(state: EngineState, request: Request, status: RequestStatus, atMs: number): void {
  state.undo.set(request.progress, "status", status);
  state.undo.set(request.progress, "endedAtMs", atMs);
  state.undo.run(
    () => state.ended.add(request),
    () => state.ended.delete(request),
  );
  rewake(state, request);
  leaveLine(state, request.line);
  releaseComponent(state, request.line.component);
}

function forgetRequest(state: EngineState, id: RequestId): void {
  const request = requireRequest(state, id);
  if (!TERMINAL_STATUSES.has(request.progress.status)) throw new Error(`forgetting ${id}, which is alive`);
  forgetOperation(state, request);
  state.undo.run(
    () => {
      state.requests.delete(id);
      state.ended.delete(request);
    },
    () => {
      state.requests.set(id, request);
      state.ended.add(request);
    },
  );
}

// --- holds and preemption ----------------------------------------------------------------------------

function takeHold(state: EngineState, request: Request, hold: HoldRecord): void {
  dequeue(state, request);
  state.undo.set(request.progress, "hold", hold);
  enqueue(state, request);
}

function evolveHoldEnded(state: EngineState, { requestId, by }: EventOf<"holdEnded">): void {
  const request = requireRequest(state, requestId);
  dequeue(state, request);
  state.undo.set(request.progress, "hold", null);
  enqueue(state, request);
  if (by !== null) noteDisplacement(state, by, requestId);
}

function evolvePreemptionDecided(state: EngineState, event: EventOf<"preemptionDecided">): void {
  assertDecision(state, event);
  for (const { requestId, reason, stop, shielded } of event.victims) {
    const { progress } = requireRequest(state, requestId);
    state.undo.set(progress, "status", "preempting");
    state.undo.set(progress, "shielded", shielded);
    if (reason !== "administration") {
      state.undo.set(progress, "preemptedAtMs", [...progress.preemptedAtMs, event.atMs]);
    }
    setStop(state, requireRequest(state, requestId), stop);
    if (event.waiter === null) continue;
    state.undo.set(progress, "preemptedFor", event.waiter);
    noteDisplacement(state, event.waiter, requestId);
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
  for (const node of nodes) setEntry(state, preemptiveStartAtMs, node, event.atMs);
}

function noteDisplacement(state: EngineState, by: RequestId, displaced: RequestId): void {
  let all = state.displaced.get(by);
  if (all === undefined) {
    all = new Set();
    const created = all;
    state.undo.run(
      () => state.displaced.set(by, created),
      () => state.displaced.delete(by),
    );
  }
  const set = all;
  if (set.has(displaced)) return;
  state.undo.run(
    () => set.add(displaced),
    () => set.delete(displaced),
  );
}

/** Something new came from outside: an earlier assignment may come back now (V6). */
function forgetDisplacements(state: EngineState): void {
  if (state.displaced.size === 0) return;
  // Who was displaced may preempt again, so it is looked at again where it waits.
  for (const displaced of state.displaced.values()) {
    for (const id of displaced) unsettleWaiter(state, state.requests.get(id));
  }
  const entries = [...state.displaced];
  state.undo.run(
    () => state.displaced.clear(),
    () => {
      for (const [by, displaced] of entries) state.displaced.set(by, displaced);
    },
  );
}

function evolveStarvation(state: EngineState, event: EventOf<"starvationChanged">): void {
  const pool = requirePool(state, event.pool);
  const { starvation } = pool;
  keepOrderUntil(state, pool, 0); // Whoever looks says until when it holds; after a replay nobody has looked yet.
  recheckWhenTakenBack(
    state,
    pool,
    event.changes.map(({ element }) => element),
  );
  for (const change of event.changes) {
    setEntry(state, starvation, change.element, change.belowSinceMs === null ? null : change);
  }
}

function evolveOvercommit(state: EngineState, event: EventOf<"overcommitChanged">): void {
  const pool = requirePool(state, event.pool);
  keepOrderUntil(state, pool, 0);
  for (const { node, sinceMs } of event.changes) setEntry(state, pool.overcommittedSinceMs, node, sinceMs);
}

/** Sets an entry of a map; null removes it. */
function setEntry<Key, Value>(state: EngineState, map: Map<Key, Value>, key: Key, value: Value | null): void {
  const before = map.get(key);
  const put = (entry: Value | null | undefined) => () => {
    if (entry === null || entry === undefined) map.delete(key);
    else map.set(key, entry);
  };
  state.undo.run(put(value), put(before));
}
