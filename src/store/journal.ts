// The head, the lease beside it, and reading what lies behind the head.

import { followJournal, positionAfter } from "./chain.ts";
import type { Driver, Statement } from "./driver.ts";
import { StoreError } from "./errors.ts";
import { cleanText, type FloorRow, type HeadRow, headRecord, type JournalRow } from "./rows.ts";
import type { Head, JournalEvent, JournalPart, JournalPosition, Lease, TakeOver } from "./store.ts";

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
  const { epoch, holder, renewals } = row;
  if (holder?.startsWith(OFFER) !== true) return { epoch, holder, renewals };
  return { epoch, holder: null, renewals, offeredTo: holder.slice(OFFER.length) };
}

/** Stands before the server to which a released lease is offered. Of no server that holds one: ids have no spaces. */
const OFFER = "offered to ";

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
    ...ringLease(driver),
  ]);
  if (taken === undefined) {
    throw new StoreError(
      "fenced",
      `${holder} did not take over: another server leads, or the leader is alive.`,
    );
  }
  return readHead(driver);
}

export async function renewLease(driver: Driver, epoch: number): Promise<boolean> {
  const ask = driver.urgent ?? driver.query;
  const sql = `update @lease set renewals = renewals + 1
    where epoch = ? and holder is not null and holder not like '${OFFER}%' returning epoch`;
  return (await ask<{ epoch: number }>(sql, [epoch])).length > 0;
}

export async function releaseLease(driver: Driver, epoch: number, offeredTo?: string): Promise<void> {
  const holder = offeredTo === undefined ? null : OFFER + cleanText(offeredTo);
  const ask = driver.urgent ?? driver.query;
  await ask("update @lease set holder = ? where epoch = ? returning epoch", [holder, epoch]);
  // A server that does not hear of it finds out by looking.
  for (const { sql, rows } of ringLease(driver)) for (const values of rows) await ask(sql, values);
}

function ringLease({ dialect }: Driver): readonly Statement[] {
  return dialect.ringLease === undefined ? [] : [dialect.ringLease];
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

/** Head and rows of one moment: a single statement sees a single state of the database. */
const partSql = `select head.epoch as head_epoch, head.last_seq as head_last_seq, head.at_ms as head_at_ms,
    head.hash as head_hash, head.audit_id, head.audit_hash, head.commit_id, head.checksum,
    part.last_seq, part.first_seq, part.epoch, part.at_ms, part.events, part.hash
  from @head as head
  left join (select * from @journal where last_seq > ? order by last_seq limit ?) as part on 1 = 1
  order by part.last_seq`;

type PartRow = Omit<HeadRow, "epoch" | "last_seq" | "at_ms" | "hash"> & {
  readonly head_epoch: number;
  readonly head_last_seq: number;
  readonly head_at_ms: number;
  readonly head_hash: string;
} & (JournalRow | { readonly last_seq: null });

export async function readAfter(
  driver: Driver,
  from: JournalPosition,
  commitsMax: number,
): Promise<JournalPart> {
  const rows = await driver.query<PartRow>(partSql, [from.seq, commitsMax]);
  const [first] = rows;
  if (first === undefined) throw new StoreError("corrupt", "The store has no head row.");
  const { head_epoch: epoch, head_last_seq: last_seq, head_at_ms: at_ms, head_hash: hash } = first;
  const head = headRecord({ ...first, epoch, last_seq, at_ms, hash });

  let reached = from;
  const found: JournalEvent[] = [];
  for (const row of rows) {
    if (row.last_seq === null) break;
    const { events, damage } = followJournal(reached, row);
    if (damage !== undefined) throw await explained(driver, from, head, `${damage.where}: ${damage.what}`);
    for (const [index, event] of events.entries()) {
      found.push({ seq: row.first_seq + index, epoch: row.epoch, atMs: row.at_ms, event });
    }
    reached = positionAfter(row);
  }
  const isWhole =
    reached.seq === head.seq ? reached.hash === head.hash : reached.seq < head.seq && found.length > 0;
  if (!isWhole) throw await explained(driver, from, head, `it ends at event ${reached.seq}`);
  return { head, events: found, reached };
}

/** A journal that does not go on from a position is pruned, damaged, or does not contain the position any more. */
async function explained(
  driver: Driver,
  from: JournalPosition,
  head: Head,
  damage: string,
): Promise<StoreError> {
  if (from.seq > head.seq) return lost(from, head);
  const [row] = await driver.query<{ hash: string }>("select hash from @journal where last_seq = ?", [
    from.seq,
  ]);
  const floor = await readFloor(driver);
  if (from.seq < floor.journal_seq) return pruned(from.seq + 1, floor);
  if ((row?.hash ?? floor.journal_hash) !== from.hash) return lost(from, head);
  return new StoreError("corrupt", `The journal is damaged: ${damage}.`);
}

function lost({ seq }: JournalPosition, head: Head): StoreError {
  return new StoreError(
    "history_lost",
    `Event ${seq} was acknowledged, but the journal does not contain it any more; it ends at ${head.seq}.`,
  );
}

function pruned(fromSeq: number, floor: FloorRow): StoreError {
  return new StoreError(
    "pruned",
    `Event ${fromSeq} is no longer kept; the journal starts at ${floor.journal_seq + 1}.`,
  );
}
