// Who waits for others to end, or for its turn in an array, enters the queue when that has happened, and is cancelled
// when it no longer can (J9).

import { rejectUnadmitted } from "./administration/effects.ts";
import type { Event } from "./events.ts";
import { arrayKeyOf, dependenciesOf, hasTurn } from "./indexes/blocked.ts";
import { type RequestId, TERMINAL_STATUSES } from "./records.ts";
import { type ArrayState, bySubmission, type EngineState, type Request } from "./state.ts";
import type { Transaction } from "./transaction.ts";

/** Looks at every end among the events so far; what that lets in or cancels is an event too, and is looked at in turn. */
export function enterReady(transaction: Transaction): void {
  const { state, events } = transaction;
  for (let i = 0; i < events.length; i++) {
    if (state.dependents.size === 0 && state.arrays.size === 0) return;
    const ended = endedBy(events[i] as Event);
    if (ended === undefined) continue;
    settleAfter(transaction, ended);
  }
}

/**
 * Those who wait for a request that has ended, and the next of its array. Called before its record goes, too: without the record
 * it would count as ended well, and nobody would know its array.
 */
export function settleAfter(transaction: Transaction, ended: RequestId): void {
  const { state } = transaction;
  const dependents = [...(state.dependents.get(ended) ?? [])].sort(bySubmission);
  for (const request of dependents) settleBlocked(transaction, request);
  const spec = state.requests.get(ended)?.spec;
  const key = spec === undefined ? null : arrayKeyOf(spec);
  const array = key === null ? undefined : state.arrays.get(key);
  if (array !== undefined) for (const request of nextOf(state, array)) settleBlocked(transaction, request);
}

/** Whether it runs outside all pools when its time has come (A4). */
export function belongsOutside({ unmanaged }: EngineState, { spec, line }: Request): boolean {
  return line.pools.size === 0 && unmanaged === "allow" && spec.isJob !== true;
}

/** It is in the queue now: granted outside all pools, or left to them, or rejected (A3, A4). */
export function judgeEntered(transaction: Transaction, request: Request): void {
  const { state, nowMs } = transaction;
  if (!belongsOutside(state, request)) return rejectUnadmitted(transaction, request.line);
  transaction.emit({
    kind: "requestAllocated",
    requestId: request.spec.id,
    pool: null,
    opportunistic: false,
    placement: [],
    atMs: nowMs,
  });
}

/** Those of an array for which there is room now, in the order of their submission. */
function nextOf(state: EngineState, { active, blocked }: ArrayState): Request[] {
  const next: Request[] = [];
  for (const request of blocked) {
    const { array } = request.spec;
    if (active + next.length >= (array?.atOnce ?? Number.POSITIVE_INFINITY)) break;
    if (dependenciesOf(state, request.spec).are === "met") next.push(request);
  }
  return next;
}

/** The request that an event ended for good. */
function endedBy(event: Event): RequestId | undefined {
  switch (event.kind) {
    case "attemptEnded":
      return TERMINAL_STATUSES.has(event.status) ? event.requestId : undefined;
    case "requestCancelled":
    case "requestExpired":
    case "requestRejected":
      return event.requestId;
    default:
      return undefined;
  }
}

/** Lets a blocked request into the queue, cancels it, or leaves it where it is. */
export function settleBlocked(transaction: Transaction, request: Request): void {
  const { state, nowMs } = transaction;
  const { spec, progress } = request;
  if (progress.blocked !== true || progress.status !== "queued") return;
  const dependencies = dependenciesOf(state, spec);
  if (dependencies.are === "never") {
    const { because } = dependencies;
    return transaction.emit({ kind: "requestCancelled", requestId: spec.id, because, atMs: nowMs });
  }
  if (dependencies.are === "open" || !hasTurn(state, spec)) return;
  transaction.emit({ kind: "requestEntered", requestId: spec.id, atMs: nowMs });
  judgeEntered(transaction, request);
}
