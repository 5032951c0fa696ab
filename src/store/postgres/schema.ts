// What PostgreSQL has beyond the common tables: the function that makes a commit one statement.

import { hash, randomBytes } from "node:crypto";
import { type CommitRows, columns, headChecksum, type Table } from "../rows.ts";
import { insertInto, migrations } from "../schema.ts";

/** Raised by the function when the head is not the expected one. */
export const FENCED = "BE001";

const firstTables = ["audit", "idempotency", "requests", "decisions", "tokens"] as const;
const laterTables = [...firstTables, "attachments"] as const;
const stillLaterTables = [...laterTables, "history"] as const;
const writtenTables = [...stillLaterTables, "targets"] as const;
/** Servers of the versions before call the others, so they stay as they were (C12). */
export const COMMIT_FUNCTION = "@commit_batch_5";

/** Stands between the values of a column. Nobody outside knows it, so nobody can write it into a value. */
const SEPARATOR = `\u001e${randomBytes(9).toString("base64")}\u001e`;

const NOTIFY = "perform pg_notify(channel, old_epoch || ' ' || new_seq || ' ' || new_audit_id);";

const fromText = {
  integer: (name: string) => `${name}::bigint`,
  text: (name: string) => `substr(${name}, 2)`,
  json: (name: string) => `${name}::json`,
} as const;

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
    commitFunction("@commit_batch", firstTables, ""),
  ],
  ...common.slice(1, 3),
  [commitFunction("@commit_batch_2", firstTables, NOTIFY)],
  [...common[3]!, commitFunction("@commit_batch_3", laterTables, NOTIFY)],
  [...common[4]!, commitFunction("@commit_batch_4", stillLaterTables, NOTIFY)],
  [...common[5]!, commitFunction(COMMIT_FUNCTION, writtenTables, NOTIFY)],
];

/**
 * Servers of this version of the schema, and of later ones, can share a store that we have brought up to date. To be
 * raised only by a migration that takes something away; one that adds, as they should, leaves it (C12).
 */
export const OLDEST_USER = 4;

/** What the servers that follow listen to. It is sent when the commit is durable, and not otherwise (C7). */
export function channelOf(schemaName: string): string {
  return `berth_${hash("sha256", schemaName, "hex").slice(0, 24)}`;
}

/**
 * One statement, so that no transaction is ever open while this process is paused, and one round
 * trip. Rows come as one text per column, its values put together: an array would have every quotation mark of
 * the JSON in it escaped on this side and unescaped on the other, which costs more than writing the rows.
 */
function commitFunction(name: string, tables: readonly Table[], notify: string): string {
  const parameters = [
    ...["old_epoch bigint", "old_seq bigint", "old_commit_id text"],
    ...["new_seq bigint", "new_at_ms bigint", "new_hash text"],
    ...["new_audit_id bigint", "new_audit_hash text", "new_commit_id text"],
    ...["new_checksum bigint", "new_events text", "separator text"],
    ...tables.flatMap((table) => Object.keys(columns[table]).map((column) => `${table}_${column} text`)),
    ...["deleted_requests text[]", "deleted_tokens text[]"],
    ...(tables.includes("targets") ? ["deleted_targets text[]"] : []),
    ...(notify === "" ? [] : ["channel text"]),
  ];
  const deletesAttachments = tables.includes("attachments")
    ? "delete from @attachments where request_id = any (deleted_requests);"
    : "";
  const deletesTargets = tables.includes("targets")
    ? "if cardinality(deleted_targets) > 0 then delete from @targets where name = any (deleted_targets); end if;"
    : "";
  return `create or replace function ${name}(${parameters.join(", ")}) returns void
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
      ${tables.map(insertRows).join("\n")}
      if cardinality(deleted_requests) > 0 then
        delete from @requests where id = any (deleted_requests);
        delete from @decisions where request_id = any (deleted_requests);
        ${deletesAttachments}
      end if;
      if cardinality(deleted_tokens) > 0 then
        delete from @tokens where id = any (deleted_tokens);
      end if;
      ${deletesTargets}
      ${notify}
    end $berth$`;
}

function insertRows(table: Table): string {
  const entries = Object.entries(columns[table]);
  const names = entries.map(([name]) => name);
  const texts = names.map((name) => `${table}_${name}`);
  const arrays = texts.map((text) => `string_to_array(${text}, separator, '')`);
  const values = entries.map(([name, type]) => fromText[type](name));
  const source = `select ${values.join(", ")} from unnest(${arrays.join(", ")}) as written (${names.join(", ")})`;
  return `if ${texts[0]} <> '' then ${insertInto(table, source)}; end if;`;
}

/** Nothing at all is null; a text begins with a mark, so that an empty one is something. */
function toText(value: unknown, type: keyof typeof fromText): string {
  if (value === null) return "";
  return type === "text" ? `=${value}` : String(value);
}

/** The arguments of the function, in its order. */
export function commitArguments(rows: CommitRows, channel: string): unknown[] {
  const { previous, head, journal } = rows;
  return [
    ...[head.epoch, previous.seq, previous.commitId],
    ...[head.seq, head.atMs, head.hash, head.auditId, head.auditHash, head.commitId],
    headChecksum(head),
    ...[journal?.events ?? null, SEPARATOR],
    ...writtenTables.flatMap((table) => {
      const tableRows = rows[table] as readonly Readonly<Record<string, unknown>>[];
      return Object.entries(columns[table]).map(([column, type]) =>
        tableRows.map((row) => toText(row[column], type)).join(SEPARATOR),
      );
    }),
    ...[rows.deletedRequestIds, rows.deletedTokenIds, rows.deletedTargets],
    channel,
  ];
}
