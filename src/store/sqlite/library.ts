// Chooses the SQLite: the one built into Node from version 22 on, else a package with the same interface.

import type {
  DatabaseSyncInstance,
  DatabaseSyncOptions,
  StatementSyncInstance,
} from "@photostructure/sqlite";

export type Database = DatabaseSyncInstance;
export type PreparedStatement = StatementSyncInstance;

export type Sqlite = { DatabaseSync: new (path: string, options?: DatabaseSyncOptions) => Database };

export async function loadSqlite(): Promise<Sqlite> {
  const builtIn: unknown = process.getBuiltinModule("node:sqlite");
  return (builtIn as Sqlite | undefined) ?? (await import("@photostructure/sqlite"));
}
