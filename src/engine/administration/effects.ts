// What a change of pools, groups and policies does to those who wait and run (A3, P8, P9).

import { admittingPools } from "../lines.ts";
import { refuse } from "../refusals.ts";
import { compareIds } from "../resources.ts";
import {
  byGrant,
  bySubmission,
  type EngineState,
  type Line,
  type Policy,
  type Pool,
  type Request,
  type Run,
} from "../state.ts";
import { firstStop } from "../stopping.ts";
import type { Transaction } from "../transaction.ts";

export function checkUnused(
  what: string,
  queued: readonly Request[],
  runs: readonly Run[],
  force: boolean,
): void {
  if (queued.length + runs.length === 0 || force) return;
  refuse(
    "in_use",
    `${what} has ${queued.length} queued and ${runs.length} allocated requests.`,
    "Wait for them, cancel them, or pass force to stop them.",
  );
}

/** Cancels what waits here and nowhere else, and stops what runs, NP work included (P8). */
export function clear(
  transaction: Transaction,
  pool: Pool,
  queued: readonly Request[],
  runs: readonly Run[],
): void {
  const { nowMs } = transaction;
  for (const { spec, progress, line } of queued.toSorted(bySubmission)) {
    if (admittingPools(line).length === 1) {
      transaction.emit({ kind: "requestCancelled", requestId: spec.id, atMs: nowMs });
    } else if (progress.hold?.pool === pool.record.name) {
      transaction.emit({
        kind: "holdEnded",
        requestId: spec.id,
        why: "not_admitted",
        by: null,
        atMs: nowMs,
      });
    }
  }
  stopByAdministration(transaction, pool, runs);
}

/** Stops what runs, NP work included; nobody in particular gets the units (P8, N4). */
export function stopByAdministration(transaction: Transaction, pool: Pool, runs: readonly Run[]): void {
  const { nowMs } = transaction;
  const stopped = runs.filter((run) => !run.isStopping).sort(byGrant);
  if (stopped.length === 0) return;
  transaction.emit({
    kind: "preemptionDecided",
    pool: pool.record.name,
    waiter: null,
    shortage: {},
    victims: stopped.map(({ request }) => ({
      requestId: request.spec.id,
      reason: "administration",
      stop: firstStop(request, pool, { reason: "administration", forRequest: null, nowMs }),
    })),
    considered: [],
    placement: [],
    atMs: nowMs,
  });
}

/** Requests of a component that wait in the policy's pool. */
export function waitingOf(state: EngineState, policy: Policy): Request[] {
  const waiting: Request[] = [];
  const { name } = policy.pool.record;
  for (const line of state.components.get(policy.record.component)?.lines ?? []) {
    if (line.pools.get(name)?.verdict !== null) continue;
    waiting.push(...waitersOf(line));
  }
  return waiting;
}

/** All that wait in a line by submission, holders included, delayed ones not. */
function waitersOf(line: Line): Request[] {
  const holders = line.poolLines.flatMap(({ pool }) =>
    [...pool.promised].filter((request) => request.line === line),
  );
  return [...line.members, ...holders].sort(bySubmission);
}

/** After a change: requests that no pool admits any more are rejected (P9). */
export function settleAdministration(transaction: Transaction): void {
  const { dismissed, undo } = transaction.state;
  // In an order that does not depend on what was tried and taken back before.
  const lines = [...dismissed].sort((a, b) => compareIds(a.key, b.key));
  undo.set(transaction.state, "dismissed", new Set());
  for (const line of lines) rejectUnadmitted(transaction, line);
}

/** Whether some pool admits the line. */
export function isAdmitted({ poolLines }: Line): boolean {
  for (const { verdict } of poolLines) if (verdict === null) return true;
  return false;
}

/** Rejects everything in a line that no pool admits (A3, P9). */
export function rejectUnadmitted(transaction: Transaction, line: Line): void {
  if (isAdmitted(line)) return;
  const verdicts = line.poolLines.map(({ verdict }) => verdict);
  verdicts.sort((a, b) => compareIds(a?.pool ?? "", b?.pool ?? ""));
  const reasons = verdicts.filter((verdict) => verdict !== null && verdict.code !== "no_policy");
  const noPolicy = { pool: null, code: "no_policy", key: null, asked: 0, allowed: 0 } as const;
  for (const request of waitersOf(line)) {
    transaction.emit({
      kind: "requestRejected",
      requestId: request.spec.id,
      reasons: reasons.length === 0 ? [noPolicy] : reasons.map((reason) => reason ?? noPolicy),
      atMs: transaction.nowMs,
    });
  }
}

/** A pool or policy that was removed by force goes with its last run (P8). */
export function removeWhatClosed(transaction: Transaction, { pool, record, runs }: Policy): void {
  if (pool.record.closing) {
    if (pool.runCount === 0) transaction.emit({ kind: "poolDeleted", name: pool.record.name });
    return;
  }
  if (!record.closing || runs.size > 0) return;
  transaction.emit({ kind: "policyDetached", pool: record.pool, component: record.component });
}
