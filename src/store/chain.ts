// Journal and audit as hash chains: each row is hashed together with the hash before it, so that a person who
// reads them in order notices what was changed, removed or slipped in, and where.

import { hash as digest } from "node:crypto";
import { type AuditRow, cleanText, type JournalRow, jsonText } from "./rows.ts";
import type { AuditEntry, Damage, Head, JournalPosition, StoredEvent } from "./store.ts";

/** The hash before the first row of a chain. */
export const GENESIS_HASH = "0".repeat(64);

export function journalRow(
  previous: Head,
  { epoch, atMs, events }: { epoch: number; atMs: number; events: readonly StoredEvent[] },
): JournalRow {
  const row = {
    last_seq: previous.seq + events.length,
    first_seq: previous.seq + 1,
    epoch,
    at_ms: atMs,
    events: JSON.stringify(events),
    hash: "",
  };
  row.hash = journalHash(previous.hash, row);
  return row;
}

export function auditRow(
  previous: { id: number; hash: string },
  { entry, seq, atMs }: { entry: AuditEntry; seq: number; atMs: number },
): AuditRow {
  const row = {
    id: previous.id + 1,
    seq,
    at_ms: atMs,
    actor: cleanText(entry.actor),
    action: cleanText(entry.action),
    target: cleanText(entry.target),
    outcome: cleanText(entry.outcome),
    body: jsonText(entry.body),
    hash: "",
  };
  row.hash = auditHash(previous.hash, row);
  return row;
}

/** The events of a row, or what is wrong with it as the successor of `previous`. */
export function followJournal(
  previous: JournalPosition,
  row: JournalRow,
): { events: readonly StoredEvent[]; damage?: undefined } | { events?: undefined; damage: Damage } {
  const where = `journal, events ${row.first_seq} to ${row.last_seq}`;
  if (row.first_seq !== previous.seq + 1) {
    return { damage: { where, what: `the events after ${previous.seq} are missing or overlap` } };
  }
  if (row.hash !== journalHash(previous.hash, row)) {
    return { damage: { where, what: "the hash does not match what is stored" } };
  }
  if (row.epoch < previous.epoch) return { damage: { where, what: "the epoch goes back" } };
  const events = JSON.parse(row.events) as readonly StoredEvent[];
  if (events.length !== row.last_seq - row.first_seq + 1) {
    return { damage: { where, what: `the row holds ${events.length} events` } };
  }
  return { events };
}

export function positionAfter(row: JournalRow): JournalPosition {
  return { seq: row.last_seq, hash: row.hash, epoch: row.epoch, atMs: row.at_ms };
}

export function followAudit(previous: { id: number; hash: string }, row: AuditRow): Damage | undefined {
  const where = `audit, entry ${row.id}`;
  if (row.id !== previous.id + 1) return { where, what: `the entries after ${previous.id} are missing` };
  if (row.hash !== auditHash(previous.hash, row)) {
    return { where, what: "the hash does not match what is stored" };
  }
  return undefined;
}

function journalHash(previousHash: string, row: JournalRow): string {
  const { first_seq, last_seq, epoch, at_ms, events } = row;
  return digest("sha256", `${previousHash}\n${first_seq} ${last_seq} ${epoch} ${at_ms}\n${events}`);
}

function auditHash(previousHash: string, row: AuditRow): string {
  const { id, seq, at_ms, actor, action, target, outcome, body } = row;
  return digest(
    "sha256",
    JSON.stringify([previousHash, id, seq, at_ms, actor, action, target, outcome, body]),
  );
}
