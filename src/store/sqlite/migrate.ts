// Brings the tables of a file up to date, and makes sure that the file is one of ours.

import { crc32 } from "node:zlib";
import { StoreError } from "../errors.ts";
import {
  createMeta,
  firstRows,
  type MetaRow,
  metaOf,
  metaRowsOf,
  refuseUnusable,
  selectMeta,
  setMeta,
  storedVersion,
} from "../meta.ts";
import { columns } from "../rows.ts";
import { migrations } from "../schema.ts";
import type { StoreMeta } from "../store.ts";
import type { Database } from "./library.ts";
import { toSqlite } from "./statements.ts";

const schema = migrations({
  integer: "integer",
  text: "text",
  json: "text",
  bytes: "blob",
  tableOptions: " strict",
  keyedTableOptions: " strict, without rowid",
});

const ourTables = new Set([
  "meta",
  "head",
  "floor",
  "lease",
  "snapshots",
  "snapshot_pieces",
  ...Object.keys(columns),
]);

/** One transaction, which is also the lock. */
export function migrate(
  database: Database,
  { name, kind, isForCopy }: { name: string; kind: StoreMeta["kind"]; isForCopy: boolean },
): StoreMeta {
  const readMeta = () => database.prepare(toSqlite(selectMeta)).all() as MetaRow[];
  database.exec("begin immediate");
  try {
    const tables = readTables(database);
    if (tables.length > 0 && !tables.some((table) => table.name === "meta")) {
      throw new StoreError("corrupt", `The file ${name} is a database, but not one of Berth.`);
    }
    database.exec(toSqlite(createMeta));
    const version = storedVersion(readMeta(), schema.length);
    for (const sql of schema.slice(version).flat()) database.exec(toSqlite(sql));
    if (version === 0) {
      for (const { sql, values } of firstRows()) database.prepare(toSqlite(sql)).run(...values);
    }
    if (version < schema.length) {
      const set = database.prepare(toSqlite(setMeta));
      for (const { key, value } of metaRowsOf(readMeta(), schema.length)) set.run(key, value);
      set.run("tables_checksum", tablesChecksum(database));
    }
    const rows = readMeta();
    if (!isForCopy) refuseUnusable(rows);
    if (!rows.some(({ key, value }) => key === "tables_checksum" && value === tablesChecksum(database))) {
      throw new StoreError(
        "corrupt",
        `The store ${name} is damaged: the description of its tables was changed.`,
      );
    }
    const meta = metaOf(rows, kind);
    database.exec("commit");
    return meta;
  } catch (error) {
    rollBack(database);
    throw error;
  }
}

/** After an error, which may have rolled back by itself. */
export function rollBack(database: Database): void {
  try {
    database.exec("rollback");
  } catch {
    // No transaction is open, which is what we want.
  }
}

/** SQLite keeps the statements that made the tables as text, and believes whatever it finds there. */
function tablesChecksum(database: Database): string {
  const ours = readTables(database).filter(({ name }) => ourTables.has(name));
  return String(crc32(ours.map(({ sql }) => sql).join("\n")));
}

function readTables(database: Database): { name: string; sql: string }[] {
  const rows = database
    .prepare("select name, sql from sqlite_master where type = 'table' order by name")
    .all();
  return rows as { name: string; sql: string }[];
}
