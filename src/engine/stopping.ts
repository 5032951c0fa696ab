// The stopping sequence (11), attempts and their ends (Q3, Q5, Q7): what a report or a timer means for a run.

import type { AttemptOutcome, EndFacts, Event } from "./events.ts";
import { isPreemption, shieldEndOf, withPreemption } from "./indexes/shields.ts";
import type { AllocationRecord, PreemptionReason, RequestId, RequestStatus, Stop } from "./records.ts";
import { DEFAULT_POOL_SETTINGS, type PoolSettings } from "./settings.ts";
import type { EngineState, Pool, Request } from "./state.ts";
import type { Transaction } from "./transaction.ts";

/** How a victim's stop begins: with a checkpoint if it can make one, else with SIGTERM (11.2, 11.3). */
export function firstStop(
  request: Request,
  pool: Pool,
  { reason, forRequest, nowMs }: { reason: PreemptionReason; forRequest: RequestId | null; nowMs: number },
): Stop {
  const { settings } = pool.record;
  const checkpoints = request.spec.checkpoint !== "none";
  return {
    cause: "preemption",
    phase: checkpoints ? "checkpoint" : "terminate",
    deadlineMs: nowMs + (checkpoints ? settings.checkpointTimeoutMs : settings.graceMs),
    progressed: false,
    extended: false,
    deferredMs: 0,
    reason,
    forRequest,
    toldAtMs: nowMs,
  };
}

/** Cancels a run: SIGTERM now, unless it has had that already. It never gets more time than was left (Q5). */
export function cancelRun(transaction: Transaction, request: Request): void {
  const { stop } = allocationOf(request);
  const next: Stop =
    stop === null || stop.phase === "checkpoint"
      ? { ...terminated(transaction, request, stop), cause: "cancellation" }
      : { ...stop, cause: "cancellation" };
  emitStop(transaction, request, next);
}

/** A part of the job failed: what is left of it gets SIGTERM, unless it is stopping anyway (E7). */
export function failRun(transaction: Transaction, request: Request): void {
  if (allocationOf(request).stop !== null) return;
  emitStop(transaction, request, { ...terminated(transaction, request, null), cause: "failure" });
}

/** Time is up for something about this run: its walltime, or a deadline of the stopping sequence. */
export function fireRunTimer(transaction: Transaction, request: Request): void {
  const { nowMs, state } = transaction;
  const { stop, startedAtMs } = allocationOf(request);
  const walltimeIsOver = nowMs >= startedAtMs + (request.spec.walltimeMs ?? Number.POSITIVE_INFINITY);
  if (stop === null) {
    if (walltimeIsOver)
      emitStop(transaction, request, { ...terminated(transaction, request, null), cause: "walltime" });
    return;
  }
  if (stop.phase === "checkpoint") {
    // A victim that reaches its walltime while it checkpoints gets SIGTERM at that moment (Q7).
    if (walltimeIsOver) return emitStop(transaction, request, terminated(transaction, request, stop));
    if (nowMs < stop.deadlineMs) return;
    if (stop.progressed && !stop.extended) {
      const extraMs = Math.floor(settingsOf(state, request).checkpointTimeoutMs / 2);
      return emitStop(transaction, request, {
        ...stop,
        extended: true,
        deadlineMs: stop.deadlineMs + extraMs,
      });
    }
    return emitStop(transaction, request, terminated(transaction, request, stop));
  }
  if (stop.phase === "terminate" && nowMs >= stop.deadlineMs)
    emitStop(transaction, request, { ...stop, phase: "kill" });
}

export function reportCheckpointDone(transaction: Transaction, request: Request): void {
  transaction.emit({ kind: "checkpointCompleted", requestId: request.spec.id, atMs: transaction.nowMs });
  const { stop } = allocationOf(request);
  if (stop?.phase === "checkpoint") emitStop(transaction, request, terminated(transaction, request, stop));
}

/** Progress earns half the time again, once the time is up (11.2). It means nothing to who was not asked. */
export function reportProgress(transaction: Transaction, request: Request): void {
  const { stop } = allocationOf(request);
  if (stop?.phase === "checkpoint" && !stop.progressed)
    emitStop(transaction, request, { ...stop, progressed: true });
}

/** The deadline moves by what is granted; what exceeds the rest is cut. After SIGTERM it has no effect (11.2). */
export function deferStop(transaction: Transaction, request: Request, askedMs: number): void {
  const { stop } = allocationOf(request);
  if (stop?.phase !== "checkpoint") return;
  const leftMs = settingsOf(transaction.state, request).maxDeferralMs - stop.deferredMs;
  const grantedMs = Math.max(0, Math.min(askedMs, leftMs));
  if (grantedMs === 0) return;
  emitStop(transaction, request, {
    ...stop,
    deferredMs: stop.deferredMs + grantedMs,
    deadlineMs: stop.deadlineMs + grantedMs,
  });
}

/** How an attempt ended, as its holder reports it or as the lease rules say. */
export type ReportedEnd = "succeeded" | "failed" | "stopped" | "lost";

/** An attempt ended, one way or the other; what comes next follows from why (Q2, Q3, 11.4, 11.6, L2). */
export function endAttempt(
  transaction: Transaction,
  request: Request,
  reported: ReportedEnd,
  end?: EndFacts,
): void {
  const { spec } = request;
  const { nowMs } = transaction;
  const { stop, startedAtMs } = allocationOf(request);
  const outcome = outcomeOf(reported, stop);
  const comesBack = end?.cause !== "not_taken_up" && mayComeBack(request, outcome);
  const isDelayed = outcome !== "preempted";
  const ended: Extract<Event, { kind: "attemptEnded" }> = {
    kind: "attemptEnded",
    requestId: spec.id,
    outcome,
    status: comesBack ? "queued" : finalStatus(outcome),
    queuedAtMs: comesBack ? nowMs + (isDelayed ? spec.retryDelayMs : 0) : null,
    unasked: stop === null,
    atMs: nowMs,
  };
  if (raisesShield(transaction, request, outcome)) Object.assign(ended, { shielded: true });
  if (end !== undefined) Object.assign(ended, { end: plausible(end, { startedAtMs, nowMs }) });
  transaction.emit(ended, request);
}

/** The holder's clock may be wrong: an attempt ended neither before it began nor after its end was reported. */
function plausible(end: EndFacts, { startedAtMs, nowMs }: { startedAtMs: number; nowMs: number }): EndFacts {
  if (end.atMs === undefined) return end;
  return { ...end, atMs: Math.max(startedAtMs, Math.min(end.atMs, nowMs)) };
}

function outcomeOf(reported: ReportedEnd, stop: Stop | null): AttemptOutcome {
  if (reported === "succeeded") return "succeeded"; // Its own result counts, whatever it was asked for (11.4).
  if (stop?.cause === "cancellation") return "cancelled";
  if (reported === "lost" || reported === "failed") return reported;
  if (stop?.cause === "failure") return "failed";
  return stop?.cause === "walltime" ? "walltime" : "preempted";
}

/** Whether a run that was asked to stop is queued again when it has stopped (Q3). */
export function comesBack(request: Request): boolean {
  return mayComeBack(request, outcomeOf("stopped", allocationOf(request).stop));
}

/** Whether this is the preemption after which the request is shielded where it ran, for the first time (V6). */
function raisesShield({ nowMs }: Transaction, request: Request, outcome: AttemptOutcome): boolean {
  const { run, progress } = request;
  if (run === null || progress.shielded || !isPreemption(request, outcome)) return false;
  const preemptedAtMs = withPreemption(progress.preemptedAtMs, nowMs);
  return nowMs < shieldEndOf(preemptedAtMs, run.poolLine.pool);
}

function mayComeBack({ spec, progress }: Request, outcome: AttemptOutcome): boolean {
  if (outcome === "succeeded" || outcome === "cancelled" || spec.requeue === "never") return false;
  const isFailure = outcome === "failed" || outcome === "walltime";
  if (isFailure && spec.requeue !== "on_failure") return false;
  if (outcome === "lost" && spec.attended) return false; // Nobody would start the next attempt (L2).
  return spec.retriesMax === null || progress.furtherAttempts < spec.retriesMax;
}

function finalStatus(outcome: AttemptOutcome): RequestStatus {
  switch (outcome) {
    case "succeeded":
      return "released";
    case "preempted":
      return "preempted";
    case "cancelled":
      return "cancelled";
    case "lost":
      return "expired";
    case "failed":
    case "walltime":
      return "failed";
  }
}

/** SIGTERM now, SIGKILL after the grace. */
function terminated({ state, nowMs }: Transaction, request: Request, stop: Stop | null): Stop {
  const deadlineMs = nowMs + settingsOf(state, request).graceMs;
  const fresh: Omit<Stop, "phase" | "deadlineMs"> = {
    cause: "preemption",
    progressed: false,
    extended: false,
    deferredMs: 0,
    reason: null,
    forRequest: null,
    toldAtMs: nowMs,
  };
  return { ...(stop ?? fresh), phase: "terminate", deadlineMs };
}

function emitStop(transaction: Transaction, request: Request, stop: Stop): void {
  transaction.emit({ kind: "stopChanged", requestId: request.spec.id, stop, atMs: transaction.nowMs });
}

function allocationOf({ spec, progress }: Request): AllocationRecord {
  if (progress.allocation === null) throw new Error(`${spec.id} holds no allocation`);
  return progress.allocation;
}

/** Work outside all pools stops by the defaults. */
function settingsOf(state: EngineState, request: Request): PoolSettings {
  const { pool } = allocationOf(request);
  return (pool === null ? undefined : state.pools.get(pool)?.record.settings) ?? DEFAULT_POOL_SETTINGS;
}
