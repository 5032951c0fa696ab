// A store says which version of the schema wrote it, and which cluster it belongs to.

import { randomUUID } from "node:crypto";
import { StoreError } from "./errors.ts";
import { GENESIS_HASH, type Value } from "./rows.ts";
import type { StoreMeta } from "./store.ts";

export type MetaRow = { key: string; value: string };

/** The version that a store has: 0 if it is new. Refuses one that is newer than we are. */
export function storedVersion(rows: readonly MetaRow[], ours: number): number {
  const stored = rows.find((row) => row.key === "schema_version")?.value;
  if (stored === undefined) return 0;
  const version = Number(stored);
  if (!Number.isSafeInteger(version) || version < 1) {
    throw new StoreError("corrupt", `The store says that it has version ${JSON.stringify(stored)}.`);
  }
  if (version > ours) {
    throw new StoreError(
      "newer_version",
      `The store was written by a newer version of Berth: its schema is ${version}, ours is ${ours}.`,
    );
  }
  return version;
}

export function metaOf(rows: readonly MetaRow[], kind: StoreMeta["kind"]): StoreMeta {
  const value = (key: string) => {
    const found = rows.find((row) => row.key === key)?.value;
    if (found === undefined) throw new StoreError("corrupt", `The store does not say what its ${key} is.`);
    return found;
  };
  return {
    kind,
    schemaVersion: Number(value("schema_version")),
    clusterId: value("cluster_id"),
    incarnation: value("incarnation"),
  };
}

export const createMeta = "create table if not exists @meta (key text primary key, value text not null)";
export const selectMeta = "select key, value from @meta";
export const setMeta =
  "insert into @meta (key, value) values (?, ?) on conflict (key) do update set value = excluded.value";

/** The rows without which no store is complete. */
export function firstRows(): readonly { readonly sql: string; readonly values: readonly Value[] }[] {
  return [
    { sql: setMeta, values: ["cluster_id", randomUUID()] },
    { sql: setMeta, values: ["incarnation", randomUUID()] },
    {
      sql: "insert into @head values (1, 0, 0, 0, ?, 0, ?, ?)",
      values: [GENESIS_HASH, GENESIS_HASH, "none"],
    },
    { sql: "insert into @floor values (1, 0, ?, 0, ?)", values: [GENESIS_HASH, GENESIS_HASH] },
    { sql: "insert into @lease values (1, 0, null, 0)", values: [] },
  ];
}
