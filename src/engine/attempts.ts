// The end of an attempt, with all that follows from it for its request, its pool and its nodes.

import { rejectUnadmitted, removeWhatClosed } from "./administration/effects.ts";
import { emit, type Transaction } from "./scheduling/transaction.ts";
import type { Node, Request } from "./state.ts";
import { endAttempt } from "./stopping.ts";

/** Ends an attempt, and judges again what comes back (P8, A3). */
export function finishAttempt(
  transaction: Transaction,
  request: Request,
  outcome: "succeeded" | "failed" | "stopped" | "lost",
): void {
  const { run } = request;
  endAttempt(transaction, request, outcome);
  if (run !== null) {
    endDraining(transaction, run.nodes);
    removeWhatClosed(transaction, run.poolLine.pool);
  }
  if (request.progress.status === "queued") rejectUnadmitted(transaction, request.line);
}

/** A draining node on which nothing runs any more is drained. */
export function endDraining(transaction: Transaction, nodes: readonly Node[]): void {
  for (const { record, runs } of nodes) {
    if (record.state !== "draining" || runs.size > 0) continue;
    emit(transaction, { kind: "nodeStateChanged", name: record.name, state: "drained" });
  }
}
