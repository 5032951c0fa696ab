// Copies of the embedded store: taken while a server runs, and put back when none does.

import { randomUUID } from "node:crypto";
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
} from "node:fs";
import { dirname } from "node:path";
import { StoreError } from "../errors.ts";
import { type MetaRow, metaChecksum } from "../meta.ts";
import { translateSqliteError } from "./errors.ts";
import { loadSqlite } from "./library.ts";
import { openSqliteStore, syncDirectory } from "./sqlite.ts";

/** From and to are files. A server may be running on `from`; it neither waits nor notices. */
export type Copy = { readonly from: string; readonly to: string };

export async function backupSqlite({ from, to }: Copy): Promise<void> {
  mustExist(from);
  mustNotExist(to);
  const { DatabaseSync } = await loadSqlite();
  await intoPlace(to, from, (partial) => {
    const database = new DatabaseSync(from, { readOnly: true });
    try {
      database.prepare("vacuum into ?").run(partial); // One transaction: one moment of the store.
    } finally {
      database.close();
    }
  });
}

/**
 * The restored store is the same cluster on another line of history: it gets a new incarnation, and an
 * epoch above any that was reached since the backup, so that nothing from then can speak for it.
 */
export async function restoreSqlite({ from, to }: Copy): Promise<void> {
  mustExist(from);
  mustNotExist(to);
  const { DatabaseSync } = await loadSqlite();
  await intoPlace(to, from, async (partial) => {
    copyFileSync(from, partial);
    await mustBeIntact(partial, from);
    const database = new DatabaseSync(partial);
    try {
      const setMeta = database.prepare("update meta set value = ? where key = ?");
      setMeta.run(randomUUID(), "incarnation");
      setMeta.run(metaChecksum(database.prepare("select * from meta").all() as MetaRow[]), "checksum");
      database.prepare("update head set epoch = epoch + ?").run(EPOCHS_PER_RESTORE);
      database.exec("update lease set epoch = (select epoch from head), holder = null, renewals = 0");
    } finally {
      database.close();
    }
    for (const suffix of ["-lock", "-wal", "-shm"]) rmSync(partial + suffix, { force: true });
  });
}

/** More restarts than happen between two backups. */
const EPOCHS_PER_RESTORE = 1_000;

async function mustBeIntact(path: string, shownPath: string): Promise<void> {
  const store = await openSqliteStore({ path });
  const { damage } = await store.verify().finally(() => store.close());
  const [first] = damage;
  if (first !== undefined) {
    throw new StoreError("corrupt", `The backup ${shownPath} is damaged: ${first.where}: ${first.what}.`, {
      hint: "Restore another backup.",
    });
  }
}

/** Complete and on the disk before it has its name: a copy that was interrupted is never taken for one. */
async function intoPlace(
  to: string,
  from: string,
  copy: (partial: string) => void | Promise<void>,
): Promise<void> {
  const partial = `${to}.partial`;
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
    for (const suffix of ["", "-lock", "-wal", "-shm"]) rmSync(partial + suffix, { force: true });
    throw translateSqliteError(error, from);
  }
}

function mustExist(path: string): void {
  if (!existsSync(path))
    throw new StoreError("unavailable", `There is no store at ${path}.`, { hint: "Check the path." });
}

function mustNotExist(path: string): void {
  const existing = [path, `${path}-wal`].find((file) => existsSync(file));
  if (existing === undefined) return;
  throw new StoreError("unavailable", `The file ${existing} exists and is not overwritten.`, {
    hint: "Move it away, or choose another name.",
  });
}
