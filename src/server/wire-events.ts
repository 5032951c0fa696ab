// Events of the engine as the stream tells them.

import type { Event, RequestId } from "../engine/index.ts";
import type { CommittedEvent } from "../leader/index.ts";
import type { EventName, WireEvent } from "../protocol/index.ts";
import { toTimestamp } from "../translation/index.ts";
import type { Owned } from "./sight.ts";

/** What the stream knows about a request beside the event itself. */
export interface RequestFacts extends Owned {
  readonly number: number;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

interface Known {
  readonly factsOf: (id: RequestId) => RequestFacts | undefined;
  /** Where each node is, or was. */
  readonly nodePools: ReadonlyMap<string, string>;
}

type Told = { readonly event: EventName } & Readonly<Record<string, unknown>>;

/** One event of the journal may be several messages: a decision has one per victim. */
export function toWireEvents(
  { seq, atMs, event }: CommittedEvent,
  { factsOf, nodePools }: Known,
): WireEvent[] {
  const at = toTimestamp(atMs);
  return tell(event).map((told): WireEvent => {
    const facts = told.request_id === undefined ? undefined : factsOf(told.request_id as RequestId);
    const nodePool = typeof told.node === "string" ? nodePools.get(told.node) : undefined;
    return Object.assign(about(told.event), nodePool !== undefined && { pool: nodePool }, told);

    /** What all messages begin with. */
    function about(name: EventName): WireEvent {
      if (facts === undefined) return { event: name, seq, at };
      const { number, name: ofRequest, component, pool } = facts;
      return { event: name, seq, at, number, name: ofRequest, component, pool };
    }
  });
}

function tell(event: Event): Told[] {
  switch (event.kind) {
    case "requestSubmitted":
      return [{ event: "request.queued", request_id: event.spec.id, attempt: 1 }];
    case "requestChanged":
      return [{ event: "request.changed", request_id: event.requestId, asks_for_more: event.asksForMore }];
    case "requestEntered":
      return [{ event: "request.queued", request_id: event.requestId }];
    case "requestRejected":
      return [{ event: "request.rejected", request_id: event.requestId, reasons: event.reasons }];
    case "requestAllocated":
      return [
        {
          event: "request.allocated",
          request_id: event.requestId,
          pool: event.pool,
          placement: event.placement,
        },
      ];
    case "holdTaken":
      return [{ event: "request.held", request_id: event.requestId, pool: event.pool }];
    case "holdEnded":
      return [{ event: "request.hold_ended", request_id: event.requestId, why: event.why, by: event.by }];
    case "preemptionDecided":
      return tellDecision(event);
    case "stopChanged":
      return [
        {
          event: "request.stopping",
          request_id: event.requestId,
          cause: event.stop.cause,
          phase: event.stop.phase,
          deadline: toTimestamp(event.stop.deadlineMs),
        },
      ];
    case "checkpointCompleted":
      return [{ event: "request.checkpointed", request_id: event.requestId }];
    case "attemptEnded":
      return [
        {
          event: `request.${event.status}` as EventName,
          request_id: event.requestId,
          outcome: event.outcome,
          ...toldEnd(event),
          ...(event.queuedAtMs !== null && { queued_at: toTimestamp(event.queuedAtMs) }),
        },
      ];
    case "requestCancelled":
      return [{ event: "request.cancelled", request_id: event.requestId }];
    case "requestExpired":
      return [{ event: "request.expired", request_id: event.requestId }];
    case "requestDeleted":
      return [{ event: "request.deleted", request_id: event.requestId }];
    case "poolSet":
      return [{ event: "pool.changed", pool: event.pool.name }];
    case "poolDeleted":
      return [{ event: "pool.deleted", pool: event.name }];
    case "starvationChanged":
      return [
        {
          event: "pool.starvation_changed",
          pool: event.pool,
          changes: event.changes.map(({ element, belowSinceMs, status }) => ({
            element,
            status,
            below_since: belowSinceMs === null ? null : toTimestamp(belowSinceMs),
          })),
        },
      ];
    case "groupSet":
      return [{ event: "group.changed", pool: event.group.pool, group: event.group.name }];
    case "groupDeleted":
      return [{ event: "group.deleted", pool: event.pool, group: event.name }];
    case "policySet":
      return [{ event: "policy.changed", pool: event.policy.pool, component: event.policy.component }];
    case "policyDetached":
      return [{ event: "policy.detached", pool: event.pool, component: event.component }];
    case "nodeSet":
      return [
        { event: "node.changed", pool: event.node.pool, node: event.node.name, state: event.node.state },
      ];
    case "nodeStateChanged":
      return [{ event: "node.changed", node: event.name, state: event.state }];
    case "nodeRemoved":
      return [{ event: "node.removed", node: event.name }];
    case "serverSettingsChanged":
      return [{ event: "settings.changed", unmanaged: event.unmanaged }];
    default:
      return []; // Housekeeping of the engine.
  }
}

/** What everyone who sees the request may know of its end; messages are for its submitter. */
function toldEnd({ end, atMs }: Extract<Event, { kind: "attemptEnded" }>) {
  const { exitCode, signal, cause, atMs: endedAtMs = atMs } = end ?? {};
  return {
    ended_at: toTimestamp(endedAtMs),
    ...(exitCode !== undefined && { exit_code: exitCode }),
    ...(signal !== undefined && { signal }),
    ...(cause !== undefined && { cause }),
  };
}

function tellDecision(event: Extract<Event, { kind: "preemptionDecided" }>): Told[] {
  const told: Told[] = event.victims.map(({ requestId, reason, stop }) => ({
    event: "request.preempting",
    request_id: requestId,
    pool: event.pool,
    reason,
    for_request: event.waiter,
    phase: stop.phase,
    deadline: toTimestamp(stop.deadlineMs),
  }));
  if (event.waiter === null) return told;
  const victims = event.victims.map(({ requestId }) => requestId);
  return [...told, { event: "request.held", request_id: event.waiter, pool: event.pool, victims }];
}
