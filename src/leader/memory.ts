// What the leader holds in memory: the engine's state, and beside it what people see of requests but no rule
// depends on. Both are folds of the journal, so a restart gives back the same.

import {
  createState,
  type EngineState,
  type Event,
  evolve,
  type PoolName,
  type PreemptionReason,
  poolsConcerned,
  type RequestId,
  requestIds,
  requestOf,
} from "../engine/index.ts";
import { createHistory, foldInto, type History } from "../history/index.ts";
import type { EndedAttempt } from "./interface.ts";

export interface Memory {
  readonly state: EngineState;
  /** Requests submitted so far: the small number of the latest one. */
  submitted: number;
  readonly numbers: Map<RequestId, number>;
  readonly ids: Map<number, RequestId>;
  readonly attempts: Map<RequestId, readonly EndedAttempt[]>;
  /** Attempts that run. */
  readonly open: Map<RequestId, OpenAttempt>;
  /** The last event that concerned a pool, of those that this memory has seen (X3). */
  readonly poolSeqs: Map<PoolName, number>;
  /** What pools gave, to whom, and when (H6). */
  history: History;
  /** Where this memory began: nothing is known of the events up to here. */
  readonly baseSeq: number;
  /** Called right before what is kept beside a request changes or goes: a snapshot may not have it yet. */
  watch: ((requestId: RequestId) => void) | null;
}

interface OpenAttempt {
  readonly pool: string | null;
  readonly token: number;
  readonly startedAtMs: number;
  readonly preemptedFor: RequestId | null;
  readonly reason: PreemptionReason | null;
  readonly nodes: readonly string[];
  /** When it was first asked to stop. */
  readonly toldAtMs: number | null;
  /** When its last checkpoint was complete. */
  readonly savedAtMs: number | null;
}

/** The history of a request that fails for ever must not grow for ever. */
const ATTEMPTS_KEPT_MAX = 100;

export function createMemory(state: EngineState = createState()): Memory {
  const open = new Map<RequestId, OpenAttempt>();
  for (const id of requestIds(state)) {
    const { allocation = null, lastCheckpointAtMs = null } = requestOf(state, id)?.progress ?? {};
    if (allocation === null) continue;
    const { pool, token, startedAtMs, stop } = allocation;
    const reason = stop?.reason ?? null;
    const nodes = allocation.placement.map(({ node }) => node);
    const isOfThis = lastCheckpointAtMs !== null && lastCheckpointAtMs >= startedAtMs;
    open.set(id, {
      ...{ pool, token, startedAtMs, preemptedFor: stop?.forRequest ?? null, reason, nodes },
      ...{ toldAtMs: stop?.toldAtMs ?? null, savedAtMs: isOfThis ? lastCheckpointAtMs : null },
    });
  }
  return {
    ...{ state, submitted: 0, numbers: new Map(), ids: new Map(), attempts: new Map(), open },
    ...{ poolSeqs: new Map(), baseSeq: state.seq, watch: null, history: createHistory(state) },
  };
}

/** Folds an event of the journal into everything. The server that committed it has written what was due of its history. */
export function replay(memory: Memory, event: Event, atMs: number): void {
  evolve(memory.state, event);
  note(memory, event, { seq: memory.state.seq, atMs });
  memory.history.due = [];
}

/** Folds an event that the engine knows already. */
export function note(memory: Memory, event: Event, { seq, atMs }: { seq: number; atMs: number }): void {
  foldInto(memory.history, memory.state, event, atMs);
  for (const pool of poolsConcerned(memory.state, event)) memory.poolSeqs.set(pool, seq);
  switch (event.kind) {
    case "requestSubmitted":
      memory.submitted++;
      return numberRequest(memory, event.spec.id, memory.submitted);
    case "requestAllocated": {
      const { requestId, pool, atMs } = event;
      memory.open.set(requestId, {
        pool,
        token: seq,
        startedAtMs: atMs,
        preemptedFor: null,
        reason: null,
        nodes: event.placement.map(({ node }) => node),
        ...{ toldAtMs: null, savedAtMs: null },
      });
      return;
    }
    case "stopChanged":
      return noteOpen(memory, event.requestId, ({ toldAtMs }) => ({
        toldAtMs: toldAtMs ?? event.stop.toldAtMs,
      }));
    case "checkpointCompleted":
      return noteOpen(memory, event.requestId, () => ({ savedAtMs: event.atMs }));
    case "preemptionDecided":
      for (const { requestId, reason } of event.victims)
        noteOpen(memory, requestId, ({ toldAtMs }) => ({
          ...{ reason, preemptedFor: event.waiter, toldAtMs: toldAtMs ?? event.atMs },
        }));
      return;
    case "attemptEnded":
      return endAttempt(memory, event);
    case "requestDeleted":
      return forget(memory, event.requestId);
    case "endedForgotten":
      for (const id of event.requestIds) forget(memory, id);
      return;
    default:
      return;
  }
}

function noteOpen(
  memory: Memory,
  id: RequestId,
  change: (attempt: OpenAttempt) => Partial<OpenAttempt>,
): void {
  const attempt = memory.open.get(id);
  if (attempt !== undefined) memory.open.set(id, { ...attempt, ...change(attempt) });
}

export function numberRequest(memory: Memory, id: RequestId, number: number): void {
  memory.numbers.set(id, number);
  memory.ids.set(number, id);
}

function endAttempt(
  memory: Memory,
  { requestId, outcome, end, atMs }: Extract<Event, { kind: "attemptEnded" }>,
): void {
  const open = memory.open.get(requestId);
  if (open === undefined) return;
  memory.open.delete(requestId);
  memory.watch?.(requestId);
  const before = memory.attempts.get(requestId) ?? [];
  const attempt = (before.at(-1)?.attempt ?? 0) + 1;
  const { pool, token, startedAtMs, preemptedFor, reason, nodes, toldAtMs, savedAtMs } = open;
  const endedAtMs = end?.atMs ?? atMs;
  const ended: EndedAttempt = Object.assign(
    { attempt, pool, token, outcome, preemptedFor, reason, startedAtMs, endedAtMs },
    end !== undefined && { end },
    endedAtMs !== atMs && { reportedAtMs: atMs },
    nodes.length > 0 && { nodes },
    toldAtMs !== null && { toldAtMs },
    savedAtMs !== null && { savedAtMs },
  );
  memory.attempts.set(requestId, [...before.slice(1 - ATTEMPTS_KEPT_MAX), ended]);
}

function forget(memory: Memory, id: RequestId): void {
  memory.watch?.(id);
  const number = memory.numbers.get(id);
  if (number !== undefined) memory.ids.delete(number);
  memory.numbers.delete(id);
  memory.attempts.delete(id);
}
