// The tables, as a list of migrations: a store is as old as the number of them that it has seen.
// Both databases have the same tables; only the words for types differ.

import { columns, lasting, replaceableBy, type Table } from "./rows.ts";

export type SchemaWords = {
  readonly integer: string;
  readonly text: string;
  readonly json: string;
  readonly bytes: string;
  /** What follows a table, and what follows one that is ordered by a key of several columns. */
  readonly tableOptions: string;
  readonly keyedTableOptions: string;
};

/** Each migration is a list of statements. Never change one that was released: add another. */
export function migrations(words: SchemaWords): readonly (readonly string[])[] {
  return [
    firstSchema(words),
    snapshotsInPieces(words),
    membersSchema(words),
    attachmentsSchema(words),
    historySchema(words),
    targetsSchema(words),
  ];
}

/** A row of the size of a large state would hold up every commit while it is written. */
function snapshotsInPieces({ integer, bytes, tableOptions }: SchemaWords) {
  return [
    `create table @snapshot_pieces (seq ${integer}, piece ${integer}, body ${bytes} not null,
       primary key (seq, piece))${tableOptions}`,
    // Null: the body is in the row itself, as it was before there were pieces.
    `alter table @snapshots add column pieces ${integer}`,
  ];
}

function firstSchema({ integer, text, json, bytes, tableOptions, keyedTableOptions }: SchemaWords) {
  const oneRow = `one ${integer} primary key check (one = 1)`;
  return [
    `create table @head (${oneRow}, epoch ${integer} not null, last_seq ${integer} not null,
       at_ms ${integer} not null, hash ${text} not null, audit_id ${integer} not null,
       audit_hash ${text} not null, commit_id ${text} not null,
       checksum ${integer} not null)${tableOptions}`,
    `create table @floor (${oneRow}, journal_seq ${integer} not null, journal_hash ${text} not null,
       audit_id ${integer} not null, audit_hash ${text} not null)${tableOptions}`,
    `create table @lease (${oneRow}, epoch ${integer} not null, holder ${text},
       renewals ${integer} not null)${tableOptions}`,
    `create table @journal (last_seq ${integer} primary key, first_seq ${integer} not null,
       epoch ${integer} not null, at_ms ${integer} not null, events ${text} not null,
       hash ${text} not null)${tableOptions}`,
    `create table @snapshots (seq ${integer} primary key, at_ms ${integer} not null,
       state_hash ${text} not null, body ${bytes} not null, checksum ${text} not null)${tableOptions}`,
    `create table @requests (number ${integer} primary key, id ${text} not null unique,
       status ${text} not null, component ${text} not null, pool ${text}, operation ${text},
       submitted_at_ms ${integer} not null, ended_at_ms ${integer}, labels ${json} not null,
       body ${json} not null, checksum ${integer} not null)${tableOptions}`,
    `create index requests_by_component on @requests (component, number)`,
    `create index requests_by_operation on @requests (operation, number) where operation is not null`,
    `create index requests_by_end on @requests (ended_at_ms) where ended_at_ms is not null`,
    `create table @decisions (request_id ${text}, seq ${integer}, at_ms ${integer} not null,
       body ${json} not null, checksum ${integer} not null,
       primary key (request_id, seq))${keyedTableOptions}`,
    `create table @audit (id ${integer} primary key, seq ${integer} not null, at_ms ${integer} not null,
       actor ${text} not null, action ${text} not null, target ${text} not null, outcome ${text} not null,
       body ${json} not null, hash ${text} not null)${tableOptions}`,
    `create table @idempotency (scope ${text}, key ${text}, at_ms ${integer} not null,
       body_hash ${text} not null, answer ${json} not null, checksum ${integer} not null,
       primary key (scope, key))${keyedTableOptions}`,
    `create index idempotency_by_time on @idempotency (at_ms)`,
    `create table @tokens (id ${text} primary key, name ${text} not null, hash ${text} not null unique,
       role ${text} not null, components ${json}, pools ${json}, permissions ${json} not null,
       created_at_ms ${integer} not null, expires_at_ms ${integer}, revoked_at_ms ${integer},
       checksum ${integer} not null)${tableOptions}`,
  ];
}

/** The servers of a cluster. `beat_at_ms` is by the clock of the database, so that theirs need not agree. */
function membersSchema({ integer, text, tableOptions }: SchemaWords) {
  return [
    `create table @members (id ${text} primary key, url ${text}, version ${text} not null,
       event_form ${integer} not null, seq ${integer} not null, beat_at_ms ${integer} not null)${tableOptions}`,
  ];
}

/** In a table of its own: a database user who may read the records of requests need not be able to read these. */
function attachmentsSchema({ integer, text, json, keyedTableOptions }: SchemaWords) {
  return [
    `create table @attachments (request_id ${text}, part ${text}, body ${json} not null,
       checksum ${integer} not null, primary key (request_id, part))${keyedTableOptions}`,
  ];
}

/** Ordered as it is read: a kind, by time. */
function historySchema({ integer, text, json, keyedTableOptions }: SchemaWords) {
  return [
    `create table @history (kind ${text}, at_ms ${integer}, pool ${text}, part ${text}, body ${json} not null,
       checksum ${integer} not null, primary key (kind, at_ms, pool, part))${keyedTableOptions}`,
  ];
}

function targetsSchema({ integer, text, json, tableOptions }: SchemaWords) {
  return [
    `create table @targets (name ${text} primary key, body ${json} not null,
       checksum ${integer} not null)${tableOptions}`,
  ];
}

/** Writes a row, or replaces the one it is recognised by. `source` brings the values. */
export function insertInto(table: Table, source: string): string {
  const names = Object.keys(columns[table]);
  const insert = `insert into @${table} (${names.join(", ")}) ${source}`;
  if (!isReplaceable(table)) return insert;
  const key: readonly string[] = replaceableBy[table];
  const kept = [...key, ...(lasting[table] ?? [])];
  const changes = names.filter((name) => !kept.includes(name)).map((name) => `${name} = excluded.${name}`);
  return `${insert} on conflict (${key.join(", ")}) do update set ${changes.join(", ")}`;
}

function isReplaceable(table: Table): table is keyof typeof replaceableBy {
  return table in replaceableBy;
}
