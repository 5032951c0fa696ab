// Snapshots bound the time that recovery takes. What is in them is the leader's business.
//
// A snapshot is written in pieces, each in a transaction of its own, so that commits pass between them. The row that
// names it comes last: pieces without one are what an interrupted snapshot has left.

import { createHash, hash as digest, type Hash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { Driver } from "./driver.ts";
import { isStoreError, StoreError } from "./errors.ts";
import { readFloor, readHead } from "./journal.ts";
import type { Snapshot, SnapshotDraft } from "./store.ts";

type SnapshotRow = {
  seq: number;
  at_ms: number;
  state_hash: string;
  /** Empty where it is in pieces. */
  body: Uint8Array;
  checksum: string;
  pieces: number | null;
};

const NO_BODY = new Uint8Array();

export async function saveSnapshot(
  driver: Driver,
  { seq, atMs, pieces, stateHash }: SnapshotDraft,
): Promise<void> {
  const head = await readHead(driver);
  if (seq > head.seq)
    throw new RangeError(`A snapshot at event ${seq} is ahead of the journal at ${head.seq}.`);
  await driver.transaction([{ sql: "delete from @snapshots where seq = ?", rows: [[seq]] }]);
  await dropPieces(driver);

  const contents = createHash("sha256");
  let count = 0;
  for await (const body of pieces) {
    contents.update(body);
    const sql = "insert into @snapshot_pieces (seq, piece, body) values (?, ?, ?)";
    await driver.transaction([{ sql, rows: [[seq, ++count, body]] }]);
  }
  const row = { seq, at_ms: atMs, state_hash: stateHash(), pieces: count };
  await driver.transaction([
    {
      sql: "insert into @snapshots (seq, at_ms, state_hash, body, checksum, pieces) values (?, ?, ?, ?, ?, ?)",
      rows: [[seq, atMs, row.state_hash, NO_BODY, checksumOf(row, contents), count]],
    },
  ]);
  // From here on nobody removes its pieces. Before, another server may have, one that leads by now and did not know of it.
  const [kept] = await driver.query<{ pieces: number }>(
    "select count(*) as pieces from @snapshot_pieces where seq = ?",
    [seq],
  );
  if (kept?.pieces === count) return;
  await driver.transaction([{ sql: "delete from @snapshots where seq = ?", rows: [[seq]] }]);
  throw new StoreError("fenced", `The pieces of the snapshot at event ${seq} were removed meanwhile.`);
}

/** Removes the pieces of snapshots that are gone, or never came to be; few at a time, because each is large. */
export async function dropPieces(driver: Driver): Promise<void> {
  const sql = `delete from @snapshot_pieces where (seq, piece) in (select seq, piece from @snapshot_pieces
    where seq not in (select seq from @snapshots) limit ?)`;
  for (;;) {
    const [touched = 0] = (await driver.transaction([{ sql, rows: [[PIECES_PER_STEP_MAX]] }])) ?? [];
    if (touched < PIECES_PER_STEP_MAX) return;
  }
}

const PIECES_PER_STEP_MAX = 4;

export async function latestSnapshot(
  driver: Driver,
  beforeSeq = Number.MAX_SAFE_INTEGER,
): Promise<Snapshot | undefined> {
  const seqs = await driver.query<{ seq: number }>(
    "select seq from @snapshots where seq < ? order by seq desc",
    [beforeSeq],
  );
  for (const { seq } of seqs) {
    const snapshot = await readSnapshot(driver, seq);
    if (snapshot !== undefined) return snapshot;
  }
  // A snapshot only saves time while the whole journal is kept; otherwise it holds history that is nowhere else.
  const floor = await readFloor(driver);
  if (floor.journal_seq === 0) return undefined;
  throw new StoreError(
    "corrupt",
    `No snapshot is undamaged, and the journal starts at ${floor.journal_seq + 1}.`,
  );
}

/** Undefined if it is damaged. */
export async function readSnapshot(driver: Driver, seq: number): Promise<Snapshot | undefined> {
  try {
    const [row] = await driver.query<SnapshotRow>("select * from @snapshots where seq = ?", [seq]);
    if (row === undefined) return undefined;
    const contents = createHash("sha256");
    for await (const piece of piecesOf(driver, row)) contents.update(piece);
    if (row.checksum !== checksumOf(row, contents)) return undefined;
    return { seq: row.seq, atMs: row.at_ms, stateHash: row.state_hash, pieces: piecesOf(driver, row) };
  } catch (error) {
    if (isStoreError(error, "corrupt")) return undefined;
    throw error;
  }
}

async function* piecesOf(driver: Driver, { seq, body, pieces }: SnapshotRow): AsyncGenerator<Uint8Array> {
  if (pieces === null) return yield body;
  for (let piece = 1; piece <= pieces; piece++) {
    await setImmediate(); // Others have their turn.
    const [row] = await driver.query<{ body: Uint8Array }>(
      "select body from @snapshot_pieces where seq = ? and piece = ?",
      [seq, piece],
    );
    if (row === undefined) throw new StoreError("corrupt", `Piece ${piece} of snapshot ${seq} is missing.`);
    yield row.body;
  }
}

function checksumOf(
  row: Pick<SnapshotRow, "seq" | "at_ms" | "state_hash" | "pieces">,
  contents: Hash,
): string {
  const count = row.pieces === null ? "" : ` ${row.pieces}`;
  return digest("sha256", `${row.seq} ${row.at_ms} ${row.state_hash} ${contents.digest("hex")}${count}`);
}
