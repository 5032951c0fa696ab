// Snapshots bound the time that recovery takes. What is in them is the leader's business.

import { hash as digest } from "node:crypto";
import type { Driver } from "./driver.ts";
import { isStoreError, StoreError } from "./errors.ts";
import { readFloor, readHead } from "./journal.ts";
import type { Snapshot } from "./store.ts";

type SnapshotRow = { seq: number; at_ms: number; state_hash: string; body: Uint8Array; checksum: string };

export async function saveSnapshot(driver: Driver, { seq, atMs, stateHash, body }: Snapshot): Promise<void> {
  const head = await readHead(driver);
  if (seq > head.seq)
    throw new RangeError(`A snapshot at event ${seq} is ahead of the journal at ${head.seq}.`);
  await driver.transaction([
    { sql: "delete from @snapshots where seq = ?", rows: [[seq]] },
    {
      sql: "insert into @snapshots (seq, at_ms, state_hash, body, checksum) values (?, ?, ?, ?, ?)",
      rows: [
        [seq, atMs, stateHash, body, snapshotChecksum({ seq, at_ms: atMs, state_hash: stateHash, body })],
      ],
    },
  ]);
}

export async function latestSnapshot(driver: Driver): Promise<Snapshot | undefined> {
  const seqs = await driver.query<{ seq: number }>("select seq from @snapshots order by seq desc");
  for (const { seq } of seqs) {
    const snapshot = await readSnapshot(driver, seq);
    if (snapshot !== undefined) return snapshot;
  }
  // A snapshot only saves time while the whole journal is there; otherwise it is history that nobody else has.
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
    if (row === undefined || row.checksum !== snapshotChecksum(row)) return undefined;
    return { seq: row.seq, atMs: row.at_ms, stateHash: row.state_hash, body: row.body };
  } catch (error) {
    if (isStoreError(error, "corrupt")) return undefined;
    throw error;
  }
}

function snapshotChecksum(row: Omit<SnapshotRow, "checksum">): string {
  return digest("sha256", `${row.seq} ${row.at_ms} ${row.state_hash} ${digest("sha256", row.body)}`);
}
