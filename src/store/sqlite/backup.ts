// Copies of the embedded store: taken while a server runs, and put back when none does.

import { randomUUID } from "node:crypto";
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { StoreError } from "../errors.ts";
import { metaChecksum } from "../meta.ts";
import type { StoreMeta } from "../store.ts";
import { translateSqliteError } from "./errors.ts";
import { loadSqlite, type Sqlite } from "./library.ts";
import { openSqliteStore, syncDirectory } from "./sqlite.ts";

/** From and to are files. A server may be running on `from`; it neither waits nor notices. */
export type Copy = { readonly from: string; readonly to: string };

export async function backupSqlite({ from, to }: Copy): Promise<void> {
  mustExist(from);
  mustNotExist(to);
  const sqlite = await loadSqlite();
  await intoPlace({ from, to }, (partial) => copyDatabase(sqlite, { from, to: partial }));
}

/**
 * The restored store is the same cluster on another line of history: it gets a new incarnation, and an
 * epoch above any that was reached since the backup, so that nothing from then can speak for it.
 */
export async function restoreSqlite({ from, to }: Copy): Promise<void> {
  mustExist(from);
  mustNotExist(to);
  const sqlite = await loadSqlite();
  await intoPlace({ from, to }, async (partial) => {
    const draft = `${to}.draft`;
    try {
      copyFileSync(from, draft);
      const meta = await verified(draft, from);
      const incarnation = randomUUID();
      const database = new sqlite.DatabaseSync(draft);
      try {
        database.exec(`
          update meta set value = '${incarnation}' where key = 'incarnation';
          update meta set value = '${metaChecksum({ ...meta, incarnation })}' where key = 'checksum';
          update head set epoch = epoch + ${EPOCHS_PER_RESTORE};
          update lease set epoch = (select epoch from head), holder = null, renewals = 0`);
      } finally {
        database.close();
      }
      copyDatabase(sqlite, { from: draft, to: partial });
    } finally {
      for (const suffix of ["", "-lock", "-wal", "-shm"]) rmSync(draft + suffix, { force: true });
    }
  });
}

/** In one transaction: the copy is the store at one moment. */
function copyDatabase({ DatabaseSync }: Sqlite, { from, to }: Copy): void {
  const database = new DatabaseSync(from, { readOnly: true });
  try {
    database.exec(`vacuum into '${to.replaceAll("'", "''")}'`);
  } finally {
    database.close();
  }
}

/** More restarts than happen between two backups. */
const EPOCHS_PER_RESTORE = 1_000;

async function verified(path: string, shownPath: string): Promise<StoreMeta> {
  const store = await openSqliteStore({ path });
  try {
    const { damage } = await store.verify();
    const [first] = damage;
    if (first === undefined) return store.meta;
    throw new StoreError("corrupt", `The backup ${shownPath} is damaged: ${first.where}: ${first.what}.`, {
      hint: "Restore another backup.",
    });
  } finally {
    await store.close();
  }
}

/** Complete and on the disk before it has its name: a copy that was interrupted is never taken for one. */
async function intoPlace({ from, to }: Copy, copy: (partial: string) => void | Promise<void>): Promise<void> {
  const partial = `${to}.partial`;
  mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
  rmSync(partial, { force: true });
  try {
    await copy(partial);
    chmodSync(partial, 0o600);
    const handle = openSync(partial, "r+");
    fsyncSync(handle);
    closeSync(handle);
    renameSync(partial, to);
    syncDirectory(dirname(to));
  } catch (error) {
    rmSync(partial, { force: true });
    throw translateSqliteError(error, from);
  }
}

function mustExist(path: string): void {
  if (!existsSync(path))
    throw new StoreError("unavailable", `There is no store at ${path}.`, { hint: "Check the path." });
}

/** A log that was left behind is part of a store: SQLite would add it to the one we put there. */
function mustNotExist(path: string): void {
  const log = `${path}-wal`;
  const existing = existsSync(path)
    ? path
    : (statSync(log, { throwIfNoEntry: false })?.size ?? 0) > 0
      ? log
      : "";
  if (existing === "") return;
  throw new StoreError("unavailable", `The file ${existing} exists and is not overwritten.`, {
    hint: "Move it away, or choose another name.",
  });
}
