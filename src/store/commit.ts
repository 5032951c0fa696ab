// From what the leader wants to commit to the rows that say it, chained to the head they follow.

import { auditRow, journalRow } from "./chain.ts";
import { StoreError } from "./errors.ts";
import {
  type AuditRow,
  attachmentRow,
  type CommitRows,
  cleanText,
  decisionRow,
  historyRow,
  idempotencyRow,
  requestRow,
  targetRow,
  tokenRow,
} from "./rows.ts";
import type { AuditEntry, Commit, Head } from "./store.ts";

export function rowsOf(previous: Head, commit: Commit, commitId: string): CommitRows {
  const { epoch, expectedSeq, atMs, events = [], audit = [] } = commit;
  if (epoch !== previous.epoch || expectedSeq !== previous.seq) throw fenced(commit, previous);
  // Retention and recovery both rely on times that never run backwards.
  if (atMs < previous.atMs) throw new RangeError(`A commit at ${atMs} would follow one at ${previous.atMs}.`);

  const journal = events.length === 0 ? undefined : journalRow(previous, { epoch, atMs, events });
  const seq = previous.seq + events.length;
  const auditRows = chainAudit(previous, audit, { seq, atMs });
  const lastAudit = auditRows.at(-1);
  return {
    previous,
    head: {
      epoch,
      seq,
      atMs,
      hash: journal?.hash ?? previous.hash,
      auditId: lastAudit?.id ?? previous.auditId,
      auditHash: lastAudit?.hash ?? previous.auditHash,
      commitId,
    },
    journal,
    audit: auditRows,
    // The last word on an id counts: one statement may not write a row twice.
    idempotency: lastOf((commit.idempotency ?? []).map(idempotencyRow), (row) => `${row.scope}\0${row.key}`),
    requests: lastOf((commit.requests ?? []).map(requestRow), (row) => row.id),
    decisions: lastOf((commit.decisions ?? []).map(decisionRow), (row) => `${row.request_id}\0${row.seq}`),
    attachments: lastOf(
      (commit.attachments ?? []).map(attachmentRow),
      (row) => `${row.request_id}\0${row.part}`,
    ),
    history: lastOf(
      (commit.history ?? []).map(historyRow),
      ({ kind, at_ms, pool, part }) => `${kind} ${at_ms} ${pool}\0${part}`,
    ),
    tokens: lastOf((commit.tokens ?? []).map(tokenRow), (row) => row.id),
    targets: lastOf((commit.targets ?? []).map(targetRow), (row) => row.name),
    deletedRequestIds: (commit.deletedRequestIds ?? []).map(cleanText),
    deletedTokenIds: (commit.deletedTokenIds ?? []).map(cleanText),
    deletedTargets: (commit.deletedTargets ?? []).map(cleanText),
  };
}

export function fenced(commit: Pick<Commit, "epoch" | "expectedSeq">, head: Head): StoreError {
  return new StoreError(
    "fenced",
    `A commit for epoch ${commit.epoch} after event ${commit.expectedSeq} was refused: ` +
      `the journal is at epoch ${head.epoch}, event ${head.seq}.`,
  );
}

function chainAudit(
  previous: Head,
  entries: readonly AuditEntry[],
  { seq, atMs }: { seq: number; atMs: number },
): readonly AuditRow[] {
  let last = { id: previous.auditId, hash: previous.auditHash };
  return entries.map((entry) => {
    const row = auditRow(last, { entry, seq, atMs });
    last = row;
    return row;
  });
}

function lastOf<Row>(rows: Row[], keyOf: (row: Row) => string): readonly Row[] {
  if (rows.length < 2) return rows;
  const byKey = new Map(rows.map((row) => [keyOf(row), row]));
  return byKey.size === rows.length ? rows : [...byKey.values()];
}
