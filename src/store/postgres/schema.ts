// What PostgreSQL has beyond the common tables: the function that makes a commit one statement.

import { type CommitRows, columns, headChecksum, type Table } from "../rows.ts";
import { insertInto, migrations } from "../schema.ts";

/** Raised by the function when the head is not the expected one. */
export const FENCED = "BE001";

const writtenTables = ["audit", "idempotency", "requests", "decisions", "tokens"] as const;

const arrayTypes = { integer: "bigint[]", text: "text[]", json: "text[]" } as const;

const common = migrations({
  integer: "bigint",
  // Byte order, as in SQLite and in our own comparisons, whatever the database was created with.
  text: 'text collate "C"',
  json: "json",
  bytes: "bytea",
  tableOptions: "",
  keyedTableOptions: "",
});

export const schema: readonly (readonly string[])[] = [
  [
    ...common[0]!,
    // Updated by every commit: room on the page keeps the update from touching anything else.
    "alter table @head set (fillfactor = 10)",
    "alter table @lease set (fillfactor = 10)",
    commitFunction(),
  ],
  ...common.slice(1),
];

/**
 * One statement, so that no transaction is ever open while this process is paused, and one round
 * trip. Rows come as an array per column.
 */
function commitFunction(): string {
  const parameters = [
    ...["old_epoch bigint", "old_seq bigint", "old_commit_id text"],
    ...["new_seq bigint", "new_at_ms bigint", "new_hash text"],
    ...["new_audit_id bigint", "new_audit_hash text", "new_commit_id text"],
    ...["new_checksum bigint", "new_events text"],
    ...writtenTables.flatMap((table) =>
      Object.entries(columns[table]).map(([name, type]) => `${table}_${name} ${arrayTypes[type]}`),
    ),
    ...["deleted_requests text[]", "deleted_tokens text[]"],
  ];
  return `create or replace function @commit_batch(${parameters.join(", ")}) returns void
    language plpgsql as $berth$
    #variable_conflict use_column
    begin
      update @head set last_seq = new_seq, at_ms = new_at_ms, hash = new_hash, audit_id = new_audit_id,
        audit_hash = new_audit_hash, commit_id = new_commit_id, checksum = new_checksum
      where epoch = old_epoch and last_seq = old_seq and commit_id = old_commit_id;
      if not found then raise exception 'the head has moved' using errcode = '${FENCED}'; end if;
      if new_events is not null then
        insert into @journal (last_seq, first_seq, epoch, at_ms, events, hash)
        values (new_seq, old_seq + 1, old_epoch, new_at_ms, new_events, new_hash);
      end if;
      ${writtenTables.map(insertArrays).join("\n")}
      if cardinality(deleted_requests) > 0 then
        delete from @requests where id = any (deleted_requests);
        delete from @decisions where request_id = any (deleted_requests);
      end if;
      if cardinality(deleted_tokens) > 0 then
        delete from @tokens where id = any (deleted_tokens);
      end if;
    end $berth$`;
}

function insertArrays(table: Table): string {
  const entries = Object.entries(columns[table]);
  const values = entries.map(([name, type]) => (type === "json" ? `${name}::json` : name));
  const names = entries.map(([name]) => name);
  const arrays = names.map((name) => `${table}_${name}`);
  const source = `select ${values.join(", ")} from unnest(${arrays.join(", ")}) as written (${names.join(", ")})`;
  return `if cardinality(${arrays[0]}) > 0 then ${insertInto(table, source)}; end if;`;
}

/** The arguments of the function, in its order. */
export function commitArguments(rows: CommitRows): unknown[] {
  const { previous, head, journal } = rows;
  return [
    ...[head.epoch, previous.seq, previous.commitId],
    ...[head.seq, head.atMs, head.hash, head.auditId, head.auditHash, head.commitId],
    headChecksum(head),
    journal?.events ?? null,
    ...writtenTables.flatMap((table) => {
      const tableRows = rows[table] as readonly Readonly<Record<string, unknown>>[];
      return Object.keys(columns[table]).map((column) => tableRows.map((row) => row[column]));
    }),
    ...[rows.deletedRequestIds, rows.deletedTokenIds],
  ];
}
