// Everything that grows has an end. Rows go in small transactions, so that no commit waits long.

import type { Driver } from "./driver.ts";
import { readFloor } from "./journal.ts";
import { dropPieces } from "./snapshots.ts";
import type { Pruned, Retention } from "./store.ts";

const ROWS_PER_STEP_MAX = 500;

/** Two, so that the journal still reaches back to an older one when the newest is damaged. */
const SNAPSHOTS_KEPT = 2;

export async function prune(driver: Driver, retention: Retention, nowMs: number): Promise<Pruned> {
  const snapshots = await pruneSnapshots(driver);
  const events = await pruneJournal(driver, nowMs - retention.journalMs);
  const audit = await pruneAudit(driver, nowMs - retention.auditMs);
  const { requests, decisions } = await pruneRequests(driver, nowMs - retention.endedRequestsMs);
  const idempotency = await pruneIdempotency(driver, nowMs - retention.idempotencyMs);
  const samples = await pruneHistory(driver, "sample", nowMs - retention.samplesMs);
  const days = await pruneHistory(driver, "day", nowMs - retention.daysMs);
  return { events, snapshots, requests, decisions, idempotency, audit, history: samples + days };
}

async function pruneSnapshots(driver: Driver): Promise<number> {
  const sql = `delete from @snapshots where seq not in (select seq from @snapshots order by seq desc limit ?)`;
  const [touched = 0] = (await driver.transaction([{ sql, rows: [[SNAPSHOTS_KEPT]] }])) ?? [];
  await dropPieces(driver);
  return touched;
}

async function pruneJournal(driver: Driver, beforeMs: number): Promise<number> {
  const kept = await driver.query<{ seq: number }>("select seq from @snapshots order by seq desc limit ?", [
    SNAPSHOTS_KEPT,
  ]);
  const coveredSeq = kept.length === SNAPSHOTS_KEPT ? kept.at(-1)!.seq : 0;
  const { journal_seq: startSeq } = await readFloor(driver);
  for (;;) {
    const rows = await driver.query<{ last_seq: number; hash: string }>(
      "select last_seq, hash from @journal where last_seq <= ? and at_ms < ? order by last_seq limit ?",
      [coveredSeq, beforeMs, ROWS_PER_STEP_MAX],
    );
    const last = rows.at(-1);
    if (last === undefined) return (await readFloor(driver)).journal_seq - startSeq;
    await driver.transaction([
      {
        sql: "update @floor set journal_seq = ?, journal_hash = ? where journal_seq < ?",
        rows: [[last.last_seq, last.hash, last.last_seq]],
        mustTouch: true,
      },
      { sql: "delete from @journal where last_seq <= ?", rows: [[last.last_seq]] },
    ]);
  }
}

async function pruneAudit(driver: Driver, beforeMs: number): Promise<number> {
  const { audit_id: startId } = await readFloor(driver);
  for (;;) {
    const rows = await driver.query<{ id: number; hash: string; at_ms: number }>(
      "select id, hash, at_ms from @audit order by id limit ?",
      [ROWS_PER_STEP_MAX],
    );
    // Entries are in the order of their time, so the old ones are all in front.
    const last = rows.findLast((row) => row.at_ms < beforeMs);
    if (last === undefined) return (await readFloor(driver)).audit_id - startId;
    await driver.transaction([
      {
        sql: "update @floor set audit_id = ?, audit_hash = ? where audit_id < ?",
        rows: [[last.id, last.hash, last.id]],
        mustTouch: true,
      },
      { sql: "delete from @audit where id <= ?", rows: [[last.id]] },
    ]);
  }
}

async function pruneRequests(driver: Driver, beforeMs: number) {
  const oldest = `select id from @requests where ended_at_ms < ? order by ended_at_ms, number limit ?`;
  let requests = 0;
  let decisions = 0;
  for (;;) {
    const step = [[beforeMs, ROWS_PER_STEP_MAX]];
    const [ofDecisions = 0, , ofRequests = 0] =
      (await driver.transaction([
        { sql: `delete from @decisions where request_id in (${oldest})`, rows: step },
        { sql: `delete from @attachments where request_id in (${oldest})`, rows: step },
        { sql: `delete from @requests where id in (${oldest})`, rows: step },
      ])) ?? [];
    requests += ofRequests;
    decisions += ofDecisions;
    if (ofRequests < ROWS_PER_STEP_MAX) return { requests, decisions };
  }
}

async function pruneHistory(driver: Driver, kind: string, beforeMs: number): Promise<number> {
  const keys = "kind, at_ms, pool, part";
  const sql = `delete from @history where (${keys}) in
    (select ${keys} from @history where kind = ? and at_ms < ? order by at_ms limit ?)`;
  return pruneSteps(driver, sql, [kind, beforeMs]);
}

async function pruneSteps(
  driver: Driver,
  sql: string,
  values: readonly (string | number)[],
): Promise<number> {
  let pruned = 0;
  for (;;) {
    const [touched = 0] = (await driver.transaction([{ sql, rows: [[...values, ROWS_PER_STEP_MAX]] }])) ?? [];
    pruned += touched;
    if (touched < ROWS_PER_STEP_MAX) return pruned;
  }
}

async function pruneIdempotency(driver: Driver, beforeMs: number): Promise<number> {
  const sql = `delete from @idempotency where (scope, key) in
    (select scope, key from @idempotency where at_ms < ? order by at_ms limit ?)`;
  return pruneSteps(driver, sql, [beforeMs]);
}
