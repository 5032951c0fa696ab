// The head, the lease beside it, and reading what lies behind the head.

import { followJournal, positionAfter } from "./chain.ts";
import type { Driver } from "./driver.ts";
import { StoreError } from "./errors.ts";
import { cleanText, type FloorRow, type HeadRow, headRecord, type JournalRow } from "./rows.ts";
import type { Head, JournalEvent, Lease, TakeOver } from "./store.ts";

export async function readHead(driver: Driver): Promise<Head> {
  const [row] = await driver.query<HeadRow>("select * from @head");
  if (row === undefined) throw new StoreError("corrupt", "The store has no head row.");
  return headRecord(row);
}

export async function readFloor(driver: Driver): Promise<FloorRow> {
  const [row] = await driver.query<FloorRow>("select * from @floor");
  if (row === undefined) throw new StoreError("corrupt", "The store has no floor row.");
  return row;
}

export async function readLease(driver: Driver): Promise<Lease> {
  const [row] = await driver.query<Lease>("select epoch, holder, renewals from @lease");
  if (row === undefined) throw new StoreError("corrupt", "The store has no lease row.");
  return { epoch: row.epoch, holder: row.holder, renewals: row.renewals };
}

export async function raiseEpoch(
  driver: Driver,
  { holder, observed, epochFloor = 0 }: TakeOver,
): Promise<Head> {
  const head = await readHead(driver);
  const lease = observed ?? (await readLease(driver));
  const epoch = Math.max(head.epoch, lease.epoch, epochFloor) + 1;
  const taken = await driver.transaction([
    {
      sql: "update @lease set epoch = ?, holder = ?, renewals = 0 where epoch = ? and renewals = ?",
      rows: [[epoch, cleanText(holder), lease.epoch, lease.renewals]],
      mustTouch: true,
    },
    {
      // Waits for a commit in flight; from then on that writer's epoch is a thing of the past.
      sql: "update @head set epoch = ? where epoch = ?",
      rows: [[epoch, head.epoch]],
      mustTouch: true,
    },
  ]);
  if (taken === undefined) {
    throw new StoreError(
      "fenced",
      `${holder} did not take over: somebody else leads, or the leader is alive.`,
    );
  }
  return readHead(driver);
}

export async function renewLease(driver: Driver, epoch: number): Promise<boolean> {
  const ask = driver.urgent ?? driver.query;
  const sql =
    "update @lease set renewals = renewals + 1 where epoch = ? and holder is not null returning epoch";
  return (await ask<{ epoch: number }>(sql, [epoch])).length > 0;
}

export async function releaseLease(driver: Driver, epoch: number): Promise<void> {
  await driver.transaction([{ sql: "update @lease set holder = null where epoch = ?", rows: [[epoch]] }]);
}

export async function readEvents(
  driver: Driver,
  fromSeq: number,
  limit: number,
): Promise<readonly JournalEvent[]> {
  // Head before rows: rows that arrive in between may be read, none that should be there can be missed.
  const head = await readHead(driver);
  const floor = await readFloor(driver);
  if (fromSeq <= floor.journal_seq) throw pruned(fromSeq, floor);
  const untilSeq = Math.min(fromSeq + limit - 1, head.seq);
  if (untilSeq < fromSeq) return [];

  // The row before comes along, because the hash of the first row is made from its hash.
  const rows = await driver.query<JournalRow>(
    `select * from @journal
     where last_seq >= (select coalesce(max(last_seq), 0) from @journal where last_seq < ?) and first_seq <= ?
     order by last_seq`,
    [fromSeq, untilSeq],
  );
  const first = rows[0];
  const startsAtFloor = first === undefined || first.last_seq >= fromSeq;
  let position = startsAtFloor
    ? { seq: floor.journal_seq, hash: floor.journal_hash, epoch: 0, atMs: 0 }
    : positionAfter(first);

  const found: JournalEvent[] = [];
  for (const row of startsAtFloor ? rows : rows.slice(1)) {
    const { events, damage } = followJournal(position, row);
    if (damage !== undefined)
      throw new StoreError("corrupt", `The journal is damaged: ${damage.where}: ${damage.what}.`);
    for (const [index, event] of events.entries()) {
      const seq = row.first_seq + index;
      if (seq >= fromSeq && seq <= untilSeq) found.push({ seq, epoch: row.epoch, atMs: row.at_ms, event });
    }
    position = positionAfter(row);
  }
  if (position.seq < untilSeq || (position.seq === head.seq && position.hash !== head.hash)) {
    if (fromSeq <= (await readFloor(driver)).journal_seq) throw pruned(fromSeq, floor); // Taken while we read.
    throw new StoreError(
      "corrupt",
      `The journal is damaged: it ends at event ${position.seq}, not at ${head.seq}.`,
    );
  }
  return found;
}

function pruned(fromSeq: number, floor: FloorRow): StoreError {
  return new StoreError(
    "pruned",
    `Event ${fromSeq} is no longer kept; the journal starts at ${floor.journal_seq + 1}.`,
  );
}
