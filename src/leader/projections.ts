// What a batch writes beside its events, for lists, history and SQL users: the requests it touched and the
// decisions it took, derived from nothing but the events and the state after them.

import { type Event, type RequestId, requestOf } from "../engine/index.ts";
import type { DecisionRecord, RequestRecord } from "../store/index.ts";
import type { DecisionBody, RequestBody } from "./interface.ts";
import type { Memory } from "./memory.ts";

/** The rules by which decisions are taken: recomputing an old one needs those of its time. */
export const RULES_VERSION = 1;

/** The requests whose record an event changes. */
export function touchedBy(event: Event): readonly RequestId[] {
  switch (event.kind) {
    case "requestSubmitted":
      return [event.spec.id];
    case "preemptionDecided": {
      const victims = event.victims.map(({ requestId }) => requestId);
      return event.waiter === null ? victims : [event.waiter, ...victims];
    }
    case "endedForgotten":
      return []; // They leave the memory; their records stay.
    default:
      return "requestId" in event ? [event.requestId] : [];
  }
}

/** Undefined for a request that is no longer in memory. */
export function recordOf(memory: Memory, id: RequestId): RequestRecord | undefined {
  const request = requestOf(memory.state, id);
  const number = memory.numbers.get(id);
  if (request === undefined || number === undefined) return undefined;
  const { spec, progress } = request;
  const attempts = memory.attempts.get(id) ?? [];
  const body: RequestBody = { number, spec, progress, attempts };
  return {
    id,
    number,
    status: progress.status,
    component: spec.component,
    pool: progress.allocation?.pool ?? progress.hold?.pool ?? attempts.at(-1)?.pool ?? null,
    operation: spec.operation,
    submittedAtMs: progress.submittedAtMs,
    endedAtMs: progress.endedAtMs,
    labels: spec.labels,
    body,
  };
}

/** A decision belongs to the history of everyone it concerns (V7). */
export function decisionsOf(event: Event, seq: number): readonly DecisionRecord[] {
  if (event.kind !== "preemptionDecided") return [];
  return touchedBy(event).map((requestId) => {
    const role = requestId === event.waiter ? "waiter" : "victim";
    const body: DecisionBody = { rules: RULES_VERSION, role, decision: event };
    return { requestId, seq, atMs: event.atMs, body };
  });
}
