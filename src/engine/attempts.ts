// The end of an attempt, with all that follows from it for its request, its pool and its nodes.

import { rejectUnadmitted, removeWhatClosed } from "./administration/effects.ts";
import { settleAfter } from "./entering.ts";
import type { EndFacts } from "./events.ts";
import { TERMINAL_STATUSES } from "./records.ts";
import type { Node, Request } from "./state.ts";
import { endAttempt, type ReportedEnd } from "./stopping.ts";
import type { Transaction } from "./transaction.ts";

/** Ends an attempt, and judges again what comes back (P8, A3). */
export function finishAttempt(
  transaction: Transaction,
  request: Request,
  outcome: ReportedEnd,
  end?: EndFacts,
): void {
  const { run, progress } = request;
  endAttempt(transaction, request, outcome, end);
  if (run !== null) {
    endDraining(transaction, run.nodes);
    removeWhatClosed(transaction, run.poolLine.policy);
  }
  if (progress.status === "queued") rejectUnadmitted(transaction, request.line);
  if (progress.deletionPlanned === true && TERMINAL_STATUSES.has(progress.status)) {
    settleAfter(transaction, request.spec.id);
    transaction.emit({ kind: "requestDeleted", requestId: request.spec.id });
  }
}

/** A draining node on which nothing runs any more is drained. */
export function endDraining(transaction: Transaction, nodes: readonly Node[]): void {
  for (const { record, runs } of nodes) {
    if (record.state !== "draining" || runs.size > 0) continue;
    transaction.emit({ kind: "nodeStateChanged", name: record.name, state: "drained" });
  }
}
