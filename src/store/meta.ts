// A store says which version of the schema wrote it, and which cluster it belongs to.

import { randomUUID } from "node:crypto";
import { crc32 } from "node:zlib";
import { GENESIS_HASH } from "./chain.ts";
import { StoreError } from "./errors.ts";
import { headChecksum, type Value } from "./rows.ts";
import type { StoreMeta } from "./store.ts";

export type MetaRow = { key: string; value: string };

/**
 * The version that a store has: 0 if it is new. Refuses one that is newer than we are, unless the server that brought it there
 * has said that servers of our version may go on using it (C12).
 */
export function storedVersion(rows: readonly MetaRow[], ours: number): number {
  const stored = rows.find((row) => row.key === "schema_version")?.value;
  if (stored === undefined) return 0;
  const version = Number(stored);
  if (!Number.isSafeInteger(version) || version < 1) {
    throw new StoreError("corrupt", `The store says that it has version ${JSON.stringify(stored)}.`);
  }
  const usableBy = Number(rows.find((row) => row.key === USABLE_BY)?.value ?? version);
  if (version > ours && usableBy > ours) {
    throw new StoreError(
      "newer_version",
      `The store was written by a newer version of Berth: its schema is ${version}, ours is ${ours}.`,
    );
  }
  return version;
}

export function metaOf(rows: readonly MetaRow[], kind: StoreMeta["kind"]): StoreMeta {
  const value = (key: string) => rows.find((row) => row.key === key)?.value ?? "";
  const meta = {
    kind,
    schemaVersion: Number(value("schema_version")),
    clusterId: value("cluster_id"),
    incarnation: value("incarnation"),
  };
  if (value("checksum") !== metaChecksum(meta)) {
    throw new StoreError(
      "corrupt",
      "What the store says about itself was changed: its checksum does not match.",
    );
  }
  return meta;
}

/** To be written whenever one of these is. */
export function metaChecksum({ schemaVersion, clusterId, incarnation }: Omit<StoreMeta, "kind">): string {
  return String(crc32([schemaVersion, clusterId, incarnation].join(" ")));
}

/** The rows that make a store, or bring one up to date; `rows` are those that it has. */
export function metaRowsOf(rows: readonly MetaRow[], schemaVersion: number): readonly MetaRow[] {
  const value = (key: string) => rows.find((row) => row.key === key)?.value ?? randomUUID();
  const [clusterId, incarnation] = [value("cluster_id"), value("incarnation")];
  return [
    { key: "schema_version", value: String(schemaVersion) },
    { key: "cluster_id", value: clusterId },
    { key: "incarnation", value: incarnation },
    { key: "checksum", value: metaChecksum({ schemaVersion, clusterId, incarnation }) },
  ];
}

/** Where the store was moved to, and that a copy into it has not come to its end (`copy.ts`). */
export const MOVED_TO = "moved_to";
export const COPYING = "copying";

/** A store that was moved away, or only half copied, must not be served: what it takes would be lost. */
export function refuseUnusable(rows: readonly MetaRow[]): void {
  const movedTo = rows.find(({ key }) => key === MOVED_TO)?.value;
  if (movedTo !== undefined) {
    throw new StoreError("moved", `This store was moved to ${movedTo}.`, {
      hint: `Start the server there: --database-url or --data-dir.`,
    });
  }
  if (rows.some(({ key }) => key === COPYING)) {
    throw new StoreError("moved", "A copy into this store has not come to its end.", {
      hint: "Run berth migrate again: it starts afresh.",
    });
  }
}

/** The oldest version of the schema whose servers may use the store. Migrations that only add leave it as it is. */
export const USABLE_BY = "usable_by";

export const createMeta = "create table if not exists @meta (key text primary key, value text not null)";
export const selectMeta = "select key, value from @meta";
export const setMeta =
  "insert into @meta (key, value) values (?, ?) on conflict (key) do update set value = excluded.value";

const FIRST_COMMIT_ID = "none";

const emptyHead = {
  seq: 0,
  atMs: 0,
  hash: GENESIS_HASH,
  auditId: 0,
  auditHash: GENESIS_HASH,
  commitId: FIRST_COMMIT_ID,
};

/** The rows without which no store is complete. */
export function firstRows(): readonly { readonly sql: string; readonly values: readonly Value[] }[] {
  return [
    {
      sql: "insert into @head values (1, 0, 0, 0, ?, 0, ?, ?, ?)",
      values: [GENESIS_HASH, GENESIS_HASH, FIRST_COMMIT_ID, headChecksum(emptyHead)],
    },
    { sql: "insert into @floor values (1, 0, ?, 0, ?)", values: [GENESIS_HASH, GENESIS_HASH] },
    { sql: "insert into @lease values (1, 0, null, 0)", values: [] },
  ];
}
