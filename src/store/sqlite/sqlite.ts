// The embedded store: one file, one process, every commit on the disk before it is answered.

import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { Driver, Statement } from "../driver.ts";
import { isStoreError, StoreError } from "../errors.ts";
import { type HeadRow, headRecord, type Value } from "../rows.ts";
import { createSqlStore } from "../sql-store.ts";
import type { Damage, Store } from "../store.ts";
import { translateSqliteError } from "./errors.ts";
import { type Database, loadSqlite, type PreparedStatement, type Sqlite } from "./library.ts";
import { type End, keepMark, type Mark, NO_MARK } from "./mark.ts";
import { migrate, rollBack } from "./migrate.ts";
import { keepReserve, NO_RESERVE, type Reserve } from "./reserve.ts";
import { commitStatements, toSqlite } from "./statements.ts";
import { findWalDamage } from "./wal.ts";

export type SqliteOptions = {
  readonly path: string;
  /** Room that is kept for a full disk, in a file beside the store. */
  readonly reserveBytes?: number;
  /** Keeps a mark of the journal's end beside the store, and refuses a store that ends before it. */
  readonly mark?: { readonly acceptLoss: boolean };
  /** Not to be served, but to be copied from or into. */
  readonly isForCopy?: boolean;
};

/** Opens the store in a file, and makes it if there is none. */
export async function openSqliteStore(options: SqliteOptions): Promise<Store> {
  return createSqlStore(await openSqliteDriver(options));
}

export async function openSqliteDriver(options: SqliteOptions): Promise<Driver> {
  const { path, reserveBytes = 0, mark, isForCopy = false } = options;
  const sqlite = await loadSqlite();
  try {
    prepareFile(path);
    const lock = lockFile(sqlite, path);
    try {
      const damage = findWalDamage(path);
      if (damage !== undefined) {
        throw new StoreError("corrupt", `The store is damaged: ${damage.where}: ${damage.what}.`);
      }
      const reserve = reserveBytes > 0 ? keepReserve(`${path}-reserve`, reserveBytes) : NO_RESERVE;
      const hasLog = fileBytes(`${path}-wal`) > 0; // Asked before SQLite makes a new one.
      const openMark = mark && ((end: End) => keepMark(`${path}-mark`, { ...mark, end, hasLog }));
      const database = new sqlite.DatabaseSync(path);
      return createSqliteDriver(database, { path, lock, reserve, openMark, isForCopy });
    } catch (error) {
      lock.close();
      throw error;
    }
  } catch (error) {
    throw translateSqliteError(error, path);
  }
}

/** A store that forgets: for tests and demonstrations. The same code as on disk, without the disk. */
export async function openMemoryStore(): Promise<Store> {
  const sqlite = await loadSqlite();
  return createSqlStore(createSqliteDriver(new sqlite.DatabaseSync(":memory:"), { path: undefined }));
}

const networkFileSystems = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xfe534d42, "SMB"],
  [0xff534d42, "CIFS"],
]);

function prepareFile(path: string): void {
  const directory = dirname(path);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const network = networkFileSystems.get(statfsSync(directory).type);
  if (network !== undefined) {
    throw new StoreError(
      "unavailable",
      `The store ${path} would be on ${network}, where locks are not reliable.`,
      {
        hint: "Use a directory on a local disk, or PostgreSQL.",
      },
    );
  }
  refuseSecondName(path);
  // Before SQLite does, so that nobody else can read them, nor keep them locked.
  const missing = [path, `${path}-lock`].filter((file) => !existsSync(file));
  for (const file of missing) closeSync(openSync(file, "a", 0o600));
  if (missing.length > 0) syncDirectory(directory);
}

/** The lock belongs to the name: a server that came by another name of the same file would not meet it. */
function refuseSecondName(path: string): void {
  const names = statSync(path, { throwIfNoEntry: false })?.nlink ?? 1;
  if (names < 2) return;
  throw new StoreError(
    "locked",
    `The store ${path} has ${names} names (hard links), so that two servers could use it at once.`,
    { hint: "Remove the other links, or start on a copy (`berth backup`)." },
  );
}

export function syncDirectory(directory: string): void {
  const handle = openSync(directory, "r");
  fsyncSync(handle);
  closeSync(handle);
}

/**
 * Held as long as the store is open, and gone with the process, however it ends. A file of its own,
 * so that a backup can read the store meanwhile.
 */
export function lockFile({ DatabaseSync }: Sqlite, path: string): Database {
  const lock = new DatabaseSync(`${path}-lock`);
  try {
    lock.exec("pragma journal_mode = memory; begin exclusive");
    return lock;
  } catch (error) {
    lock.close();
    throw error;
  }
}

/** A store that nobody refers to any more is still open: the collector must not let go of its lock. */
const heldLocks = new Set<Database | undefined>();

type Beside = {
  readonly path: string | undefined;
  readonly lock?: Database;
  readonly reserve?: Reserve;
  readonly openMark?: ((end: End) => Mark) | undefined;
  readonly isForCopy?: boolean;
};

function createSqliteDriver(
  database: Database,
  { path, lock, reserve = NO_RESERVE, openMark = () => NO_MARK, isForCopy = false }: Beside,
): Driver {
  const name = path ?? "in memory";
  if (lock !== undefined) heldLocks.add(lock);
  const prepared = new Map<string, PreparedStatement>();
  const statement = (sql: string): PreparedStatement => {
    let found = prepared.get(sql);
    if (found === undefined) {
      found = database.prepare(toSqlite(sql));
      if (prepared.size < PREPARED_STATEMENTS_MAX) prepared.set(sql, found);
    }
    return found;
  };

  // After an input/output error nobody knows what the disk has: only a restart may go on from there.
  let failure: StoreError | undefined;
  const guarded = <Result>(work: () => Result): Result => {
    if (failure !== undefined) throw failure;
    try {
      return work();
    } catch (error) {
      const translated = translateSqliteError(error, name);
      // Nothing was written, and now there is room for it.
      if (isStoreError(translated, "disk_full") && reserve.giveUp()) return guarded(work);
      if (isStoreError(translated, "unavailable")) failure = translated;
      throw translated;
    }
  };

  const inTransaction = <Result>(work: () => Result | undefined): Result | undefined => {
    statement("begin immediate").run();
    let result: Result | undefined;
    try {
      result = work();
      statement(result === undefined ? "rollback" : "commit").run();
      return result;
    } catch (error) {
      rollBack(database);
      throw error;
    }
  };

  const execute = ({ sql, rows, mustTouch }: Statement): number | undefined => {
    let touched = 0;
    const prepared = statement(sql);
    for (const values of rows) {
      const changes = Number(prepared.run(...values).changes);
      if (mustTouch && changes === 0) return undefined;
      touched += changes;
    }
    return touched;
  };

  const executeAll = (statements: readonly Statement[]): number[] | undefined => {
    const touched: number[] = [];
    for (const each of statements) {
      const count = execute(each);
      if (count === undefined) return undefined;
      touched.push(count);
    }
    return touched;
  };

  const query = <Row>(sql: string, values: readonly Value[] = []): Row[] =>
    guarded(() => statement(sql).all(...values) as Row[]);

  try {
    database.exec(`pragma journal_mode = wal; pragma synchronous = full; pragma busy_timeout = 5000;
      pragma journal_size_limit = ${WAL_BYTES_KEPT}`);
    const kind = path === undefined ? "memory" : "sqlite";
    const meta = guarded(() => migrate(database, { name, kind, isForCopy }));
    const [head] = query<HeadRow>("select * from @head");
    const mark =
      head === undefined ? NO_MARK : openMark({ ...headRecord(head), incarnation: meta.incarnation });
    emptyLog(database); // After the mark has been put to rest: without a log, a mark of open work means a loss.
    return {
      meta,
      dialect: {
        hasLabel: "exists (select 1 from json_each(labels) as label where label.key = ? and label.value = ?)",
        jsonElements: "json_each(?)",
        nowMs: "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
      },
      query: async (sql, values) => query(sql, values),
      transaction: async (statements) => {
        // SQLite works while we wait. Who makes many transactions in a row lets others have their turn between them.
        await setImmediate();
        return guarded(() => inTransaction(() => executeAll(statements)));
      },
      commit: async (rows) => {
        const isDone = guarded(() => inTransaction(() => executeAll(commitStatements(rows))) !== undefined);
        if (isDone) mark.move(rows.head);
        return isDone;
      },
      commitsAtOnce: 1, // It is made by the time the call returns.
      hasRoom: () => reserve.isHeld(),
      bytes: async () => (path === undefined ? 0 : fileBytes(path) + fileBytes(`${path}-wal`)),
      integrity: async () => integrityOf(query<{ integrity_check: string }>("pragma integrity_check(20)")),
      close: async () => {
        if (failure === undefined) {
          mark.rest();
          emptyLog(database);
        }
        mark.close();
        prepared.clear();
        database.close();
        lock?.close();
        heldLocks.delete(lock);
      },
    };
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * Moves the log into the file. At the start, so that what an interrupted write has left there is gone; at
 * the end, because SQLite itself does it only when the last prepared statement has been collected.
 */
function emptyLog(database: Database): void {
  try {
    database.exec("pragma wal_checkpoint(truncate)");
  } catch {
    // A disk that is full, for example: the log stays, and is as good as the file.
  }
}

/** Statements whose text varies, such as filtered lists, must not fill the memory. */
const PREPARED_STATEMENTS_MAX = 200;

const WAL_BYTES_KEPT = 64 * 1024 * 1024;

function fileBytes(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function integrityOf(rows: readonly { integrity_check: string }[]): Damage[] {
  return rows
    .filter((row) => row.integrity_check !== "ok")
    .map((row) => ({ where: "file", what: row.integrity_check }));
}
