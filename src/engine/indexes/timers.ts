// The moments at which time alone changes something.

import type { EngineState, Pool, Request } from "../state.ts";
import { shieldEndOf } from "./shields.ts";

/** Sets the request's timer to the next moment at which time alone changes something about it. */
export function rewake(state: EngineState, request: Request): void {
  const wakeAtMs = nextWakeOf(state, request);
  const before = request.wakeAtMs;
  if (wakeAtMs === before) return;
  if (before < Number.POSITIVE_INFINITY) state.undo.remove(state.timers, request);
  state.undo.remember(request, "wakeAtMs", before);
  request.wakeAtMs = wakeAtMs;
  if (wakeAtMs < Number.POSITIVE_INFINITY) state.undo.insert(state.timers, request);
}

/** Requests whose timer fires by then. */
export function dueRequests(state: EngineState, nowMs: number): Request[] {
  const due: Request[] = [];
  for (const request of state.timers) {
    if (request.wakeAtMs > nowMs) break;
    due.push(request);
  }
  return due;
}

/** Takes the request's timer away: it is about to stand elsewhere in the order, which tells timers apart. */
export function unwake(state: EngineState, request: Request): void {
  if (request.wakeAtMs === Number.POSITIVE_INFINITY) return;
  state.undo.remove(state.timers, request);
  state.undo.set(request, "wakeAtMs", Number.POSITIVE_INFINITY);
}

function nextWakeOf(state: EngineState, { spec, progress, run }: Request): number {
  const never = Number.POSITIVE_INFINITY;
  if (progress.status === "queued") {
    if (progress.blocked === true) return never;
    return progress.delayed ? progress.queuedAtMs : progress.queuedAtMs + (spec.waitTimeoutMs ?? never);
  }
  const { allocation } = progress;
  if (allocation === null) return never;
  const walltimeEndMs = allocation.startedAtMs + (spec.walltimeMs ?? never);
  const { stop } = allocation;
  if (stop !== null) {
    if (stop.phase === "kill") return never;
    return stop.phase === "checkpoint" ? Math.min(stop.deadlineMs, walltimeEndMs) : stop.deadlineMs;
  }
  if (run === null) return walltimeEndMs; // Outside all pools.
  const { pool } = run.poolLine;
  // Moments of scheduling: a run has run long enough to be a victim (V2), or its shield ends (V6).
  const { minRuntimeMs } = pool.record.settings;
  const matureAtMs = minRuntimeMs > 0 ? allocation.startedAtMs + minRuntimeMs : never;
  const shieldEndsAtMs =
    progress.preemptedAtMs.length > 0 ? shieldEndOf(progress.preemptedAtMs, pool) : never;
  let wakeAtMs = walltimeEndMs;
  if (matureAtMs > state.clockMs && matureAtMs < wakeAtMs) wakeAtMs = matureAtMs;
  if (shieldEndsAtMs > state.clockMs && shieldEndsAtMs < wakeAtMs) wakeAtMs = shieldEndsAtMs;
  return wakeAtMs;
}

/** Until when the order of a pool's queue holds as it was just seen (10.6). */
export function keepOrderUntil(state: EngineState, pool: Pool, untilMs: number): void {
  const { undo, moving } = state;
  if (untilMs === pool.orderUntilMs) return;
  if (pool.orderUntilMs < Number.POSITIVE_INFINITY) undo.remove(moving, pool);
  undo.set(pool, "orderUntilMs", untilMs);
  if (untilMs < Number.POSITIVE_INFINITY) undo.insert(moving, pool);
}

/** Pools whose order may have changed because time has passed are looked at again. */
export function unsettleMoved(state: EngineState, nowMs: number): void {
  const soonest = state.moving.first();
  if (soonest === undefined || soonest.orderUntilMs > nowMs) return; // As nearly always.
  for (const pool of state.moving) {
    if (pool.orderUntilMs > nowMs) return;
    state.unsettled.add(pool);
  }
}
