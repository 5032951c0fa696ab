// Reads the whole store and says, for everything that is not as it was written, exactly where.

import { followAudit, followJournal, positionAfter } from "./chain.ts";
import type { Driver } from "./driver.ts";
import { isStoreError } from "./errors.ts";
import { readFloor, readHead } from "./journal.ts";
import {
  type AttachmentRow,
  type AuditRow,
  attachmentRecord,
  type DecisionRow,
  decisionRecord,
  type FloorRow,
  type HistoryRow,
  historyRecord,
  type IdempotencyRow,
  idempotencyRecord,
  type JournalRow,
  type RequestRow,
  requestRecord,
  type TargetRow,
  type TokenRow,
  targetRecord,
  tokenRecord,
} from "./rows.ts";
import { readSnapshot } from "./snapshots.ts";
import type { Damage, Head, Verification } from "./store.ts";

const ROWS_PER_PAGE = 500;

type Findings = { checked: number; damage: Damage[] };

export async function verify(driver: Driver): Promise<Verification> {
  const head = await readHead(driver);
  const floor = await readFloor(driver);
  const journal = await verifyJournal(driver, head, floor);
  const audit = await verifyAudit(driver, head, floor);
  const snapshots = await verifySnapshots(driver, head);
  const records = [
    await verifyRecords<RequestRow>(driver, "requests", "number", requestRecord),
    await verifyRecords<DecisionRow>(driver, "decisions", "request_id, seq", decisionRecord),
    await verifyRecords<AttachmentRow>(driver, "attachments", "request_id, part", attachmentRecord),
    await verifyRecords<HistoryRow>(driver, "history", "kind, at_ms, pool, part", historyRecord),
    await verifyRecords<IdempotencyRow>(driver, "idempotency", "scope, key", idempotencyRecord),
    await verifyRecords<TokenRow>(driver, "tokens", "id", tokenRecord),
    await verifyRecords<TargetRow>(driver, "targets", "name", targetRecord),
  ];
  return {
    events: head.seq - floor.journal_seq,
    commits: journal.checked,
    auditEntries: audit.checked,
    snapshots: snapshots.checked,
    records: records.reduce((sum, { checked }) => sum + checked, 0),
    damage: [journal, audit, snapshots, ...records, await verifyFiles(driver)].flatMap(
      ({ damage }) => damage,
    ),
  };
}

/** Stops at the first damage: what comes after a broken link cannot be judged. */
async function verifyJournal(driver: Driver, head: Head, floor: FloorRow): Promise<Findings> {
  let position = { seq: floor.journal_seq, hash: floor.journal_hash, epoch: 0, atMs: 0 };
  let checked = 0;
  const stop = (damage: Damage): Findings => ({ checked, damage: [damage] });
  try {
    while (position.seq < head.seq) {
      const rows = await driver.query<JournalRow>(
        "select * from @journal where last_seq > ? order by last_seq limit ?",
        [position.seq, ROWS_PER_PAGE],
      );
      for (const row of rows) {
        const { damage } = followJournal(position, row);
        if (damage !== undefined) return stop(damage);
        position = positionAfter(row);
        checked++;
      }
      if (rows.length === 0) break;
    }
  } catch (error) {
    return stop(unreadable(error, `journal, after event ${position.seq}`));
  }
  if (position.seq === head.seq && position.hash !== head.hash) {
    return stop({ where: `journal, event ${head.seq}`, what: "the head names another hash" });
  }
  if (position.epoch > head.epoch)
    return stop({ where: "head", what: "its epoch is older than the journal's" });
  if (position.seq >= head.seq) return { checked, damage: [] };
  return stop({
    where: `journal, after event ${position.seq}`,
    what: `the events up to ${head.seq} are missing`,
  });
}

async function verifyAudit(driver: Driver, head: Head, floor: FloorRow): Promise<Findings> {
  let position = { id: floor.audit_id, hash: floor.audit_hash };
  let checked = 0;
  const stop = (damage: Damage): Findings => ({ checked, damage: [damage] });
  try {
    while (position.id < head.auditId) {
      const rows = await driver.query<AuditRow>("select * from @audit where id > ? order by id limit ?", [
        position.id,
        ROWS_PER_PAGE,
      ]);
      for (const row of rows) {
        const damage = followAudit(position, row);
        if (damage !== undefined) return stop(damage);
        position = row;
        checked++;
      }
      if (rows.length === 0) break;
    }
  } catch (error) {
    return stop(unreadable(error, `audit, after entry ${position.id}`));
  }
  if (position.id === head.auditId && position.hash !== head.auditHash) {
    return stop({ where: `audit, entry ${head.auditId}`, what: "the head names another hash" });
  }
  if (position.id >= head.auditId) return { checked, damage: [] };
  return stop({
    where: `audit, after entry ${position.id}`,
    what: `the entries up to ${head.auditId} are missing`,
  });
}

async function verifySnapshots(driver: Driver, head: Head): Promise<Findings> {
  const findings: Findings = { checked: 0, damage: [] };
  for (const { seq } of await driver.query<{ seq: number }>("select seq from @snapshots order by seq")) {
    findings.checked++;
    const where = `snapshot, after event ${seq}`;
    if (seq > head.seq) findings.damage.push({ where, what: "it is ahead of the journal" });
    const snapshot = await readSnapshot(driver, seq);
    if (snapshot === undefined) findings.damage.push({ where, what: "the checksum does not match" });
  }
  return findings;
}

async function verifyRecords<Row extends object>(
  driver: Driver,
  table: string,
  key: string,
  decode: (row: Row) => unknown,
): Promise<Findings> {
  const keyColumns = key.split(", ") as (keyof Row)[];
  const placeholders = keyColumns.map(() => "?").join(", ");
  const findings: Findings = { checked: 0, damage: [] };
  let last: Row | undefined;
  for (;;) {
    try {
      const after = last === undefined ? "" : `where (${key}) > (${placeholders})`;
      const values = last === undefined ? [] : keyColumns.map((column) => last?.[column] as string | number);
      const rows: Row[] = await driver.query<Row>(
        `select * from @${table} ${after} order by ${key} limit ?`,
        [...values, ROWS_PER_PAGE],
      );
      for (const row of rows) {
        findings.checked++;
        last = row;
        try {
          decode(row);
        } catch (error) {
          findings.damage.push(unreadable(error, table));
        }
      }
      if (rows.length < ROWS_PER_PAGE) return findings;
    } catch (error) {
      findings.damage.push(unreadable(error, `${table}, after ${findings.checked} records`));
      return findings;
    }
  }
}

async function verifyFiles(driver: Driver): Promise<Findings> {
  try {
    return { checked: 0, damage: [...(await driver.integrity())] };
  } catch (error) {
    return { checked: 0, damage: [unreadable(error, "file")] };
  }
}

function unreadable(error: unknown, where: string): Damage {
  if (isStoreError(error, "corrupt") || error instanceof SyntaxError) return { where, what: error.message };
  throw error;
}
