// Moves a store from one database to another, with everything: history, hash chains, tokens, keys, snapshots (`berth migrate`).
//
// Invariants
//   1. What is copied is the row, not what it means: both hash chains and every checksum go on.
//   2. Until the copy is whole it says so (`copying`), and nobody serves it; from then on the original says where it went
//      (`moved_to`), and nobody serves that. At no moment can both be served.
//   3. The copy is the same cluster in the same history, one epoch later: grants, tokens and streams go on.

import type { Driver } from "./driver.ts";
import { StoreError } from "./errors.ts";
import { readFloor, readHead } from "./journal.ts";
import { eventFormOf, membersWithin, raiseEventForm } from "./members.ts";
import { COPYING, type MetaRow, MOVED_TO, metaChecksum, selectMeta, setMeta } from "./meta.ts";
import { openPostgresDriver } from "./postgres/postgres.ts";
import { columns, headChecksum, replaceableBy, type Table, type Value } from "./rows.ts";
import { createSqlStore } from "./sql-store.ts";
import { openSqliteDriver } from "./sqlite/sqlite.ts";
import type { Head, Sizes, StoreMeta } from "./store.ts";

/** A file that no server uses, or a schema of a database. */
export type StorePlace =
  | { readonly file: string }
  | { readonly databaseUrl: string; readonly schema?: string };

export type Moved = { readonly head: Head; readonly sizes: Sizes };

/** Resolves when the copy is whole and was read again from its first row to its last. `movedTo` is shown to people. */
export async function moveStore(from: StorePlace, to: StorePlace, movedTo: string): Promise<Moved> {
  const source = await openDriver(from);
  try {
    await refuseServed(source, movedTo);
    const target = await openDriver(to);
    try {
      return await move(source, target, movedTo);
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

function openDriver(place: StorePlace): Promise<Driver> {
  if ("file" in place) return openSqliteDriver({ path: place.file, isForCopy: true });
  const { databaseUrl: url, schema } = place;
  return openPostgresDriver({ url, isForCopy: true, ...(schema !== undefined && { schema }) });
}

/** A server says every second that it lives. */
const ALIVE_MS = 10_000;

async function refuseServed(source: Driver, movingTo: string): Promise<void> {
  const rows = await metaRowsIn(source);
  const movedTo = rows.find(({ key }) => key === MOVED_TO)?.value;
  // The same again: the copy before was interrupted in its last step, or there is a whole one, which is not overwritten.
  if (movedTo !== undefined && movedTo !== movingTo)
    throw new StoreError("moved", `The store was moved to ${movedTo} already.`);
  if (source.meta.kind !== "postgres") return; // A process that has it open holds its lock.
  const alive = (await membersWithin(source, ALIVE_MS)).filter(({ hasLeft }) => !hasLeft);
  if (alive.length === 0) return;
  throw new StoreError(
    "locked",
    `Servers use this store: ${alive.map(({ url, id }) => url ?? id).join(", ")}.`,
    {
      hint: "Stop them all first, and try again 10 seconds later.",
    },
  );
}

async function move(source: Driver, target: Driver, movedTo: string): Promise<Moved> {
  await prepareTarget(target);
  const head = await readHead(source);
  for (const [table, { names, key, perRead }] of Object.entries(TABLES)) {
    await copyTable(source, target, { table, names, key, perRead });
  }
  await verifyCopy(source, target, head);
  // The original first: a copy that is whole and not served yet is better than two stores that are.
  await leaveForwardingAddress(source, head, movedTo);
  await finishTarget(source, target);
  const store = createSqlStore(target);
  return { head: await store.head(), sizes: await store.sizes() };
}

interface CopiedTable {
  readonly names: readonly string[];
  readonly key: readonly string[];
  readonly perRead: number;
}

const PER_READ = 200;
/** All that a commit writes, whatever tables there are; and the snapshots, of which the parts are large. */
const TABLES: Readonly<Record<string, CopiedTable>> = {
  ...Object.fromEntries(
    Object.entries(columns).map(([table, types]) => [
      table,
      { names: Object.keys(types), key: keyOf(table as Table), perRead: PER_READ },
    ]),
  ),
  snapshot_pieces: { names: ["seq", "piece", "body"], key: ["seq", "piece"], perRead: 4 },
  snapshots: {
    names: ["seq", "at_ms", "state_hash", "body", "checksum", "pieces"],
    key: ["seq"],
    perRead: 1,
  },
};

function keyOf(table: Table): readonly string[] {
  if (table === "journal") return ["last_seq"];
  return table === "audit" ? ["id"] : replaceableBy[table];
}

/** Looks before anything is stopped or written: nothing is ever copied over a store. */
export async function refuseOccupied(place: StorePlace): Promise<void> {
  const target = await openDriver(place);
  try {
    await checkFree(target);
  } finally {
    await target.close();
  }
}

/** Empty, or what an interrupted copy has left. */
async function checkFree(target: Driver): Promise<void> {
  const isHalfCopied = (await metaRowsIn(target)).some(({ key }) => key === COPYING);
  const head = await readHead(target);
  const { tokens, requests } = await createSqlStore(target).sizes();
  if (!isHalfCopied && head.epoch + head.seq + head.auditId + tokens + requests > 0) {
    throw new StoreError("locked", "There is a store already, which is never overwritten.", {
      hint: "Choose an empty database, or another directory.",
    });
  }
}

async function prepareTarget(target: Driver): Promise<void> {
  await checkFree(target);
  await target.transaction([
    { sql: setMeta, rows: [[COPYING, "true"]] },
    ...Object.keys(TABLES).map((table) => ({ sql: `delete from @${table}`, rows: [[]] })),
  ]);
}

async function copyTable(
  source: Driver,
  target: Driver,
  { table, names, key, perRead }: CopiedTable & { readonly table: string },
): Promise<void> {
  type Row = Readonly<Record<string, Value>>;
  const keys = key.join(", ");
  const holes = `(${names.map(() => "?").join(", ")})`;
  let last: Row | undefined;
  for (;;) {
    const after = last === undefined ? "" : `where (${keys}) > (${key.map(() => "?").join(", ")})`;
    const position = last === undefined ? [] : key.map((name) => last?.[name] as Value);
    const rows: Row[] = await source.query<Row>(
      `select ${names.join(", ")} from @${table} ${after} order by ${keys} limit ?`,
      [...position, perRead],
    );
    if (rows.length > 0) {
      const sql = `insert into @${table} (${names.join(", ")}) values ${rows.map(() => holes).join(", ")}`;
      const values = rows.flatMap((row) => names.map((name) => row[name] as Value));
      await target.transaction([{ sql, rows: [values] }]);
    }
    if (rows.length < perRead) return;
    last = rows.at(-1);
  }
}

/** The copy must be whole by its own hash chains and checksums, and as large as the original. */
async function verifyCopy(source: Driver, target: Driver, head: Head): Promise<void> {
  await setPosition(target, head, await readFloor(source));
  const copy = createSqlStore(target);
  const [damage] = (await copy.verify()).damage;
  if (damage !== undefined)
    throw new StoreError("corrupt", `The copy is damaged: ${damage.where}: ${damage.what}.`);
  const { bytes: _, ...wanted } = await createSqlStore(source).sizes();
  const { bytes: __, ...found } = await copy.sizes();
  if (JSON.stringify(wanted) === JSON.stringify(found)) return;
  throw new StoreError(
    "corrupt",
    `The copy is not as large as the original: ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}.`,
  );
}

async function setPosition(
  target: Driver,
  { seq, atMs, hash, auditId, auditHash, commitId, epoch }: Head,
  floor: Awaited<ReturnType<typeof readFloor>>,
): Promise<void> {
  const checksum = headChecksum({ seq, atMs, hash, auditId, auditHash, commitId });
  await target.transaction([
    {
      sql: `update @head set epoch = ?, last_seq = ?, at_ms = ?, hash = ?, audit_id = ?, audit_hash = ?,
        commit_id = ?, checksum = ?`,
      rows: [[epoch + 1, seq, atMs, hash, auditId, auditHash, commitId, checksum]],
    },
    {
      sql: "update @floor set journal_seq = ?, journal_hash = ?, audit_id = ?, audit_hash = ?",
      rows: [[floor.journal_seq, floor.journal_hash, floor.audit_id, floor.audit_hash]],
    },
    { sql: "update @lease set epoch = ?, holder = null, renewals = 0", rows: [[epoch + 1]] },
  ]);
}

/** Only if nobody has written meanwhile; and a server that still believes to lead is fenced from now on. */
async function leaveForwardingAddress(source: Driver, head: Head, movedTo: string): Promise<void> {
  const left = await source.transaction([
    {
      sql: "update @head set epoch = epoch + 1 where epoch = ? and commit_id = ?",
      rows: [[head.epoch, head.commitId]],
      mustTouch: true,
    },
    { sql: setMeta, rows: [[MOVED_TO, movedTo]] },
  ]);
  if (left !== undefined) return;
  throw new StoreError("fenced", "A server has written into the store while it was copied.", {
    hint: "Stop all servers on it, then run berth migrate again.",
  });
}

async function finishTarget(source: Driver, target: Driver): Promise<void> {
  await raiseEventForm(target, await eventFormOf(source), 0);
  const { clusterId, incarnation } = source.meta;
  const meta: Omit<StoreMeta, "kind"> = { schemaVersion: target.meta.schemaVersion, clusterId, incarnation };
  const rows = [
    ["cluster_id", clusterId],
    ["incarnation", incarnation],
    ["checksum", metaChecksum(meta)],
  ] as const;
  await target.transaction([
    { sql: setMeta, rows: rows.map((row) => [...row]) },
    { sql: "delete from @meta where key = ?", rows: [[COPYING]] },
  ]);
}

function metaRowsIn(driver: Driver): Promise<MetaRow[]> {
  return driver.query<MetaRow>(selectMeta);
}
