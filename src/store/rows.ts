// How records become rows and rows become records again: the only place that knows the columns.
// A row carries the names of its columns, so that both databases read and write it without translation.

import { crc32 } from "node:zlib";
import { StoreError } from "./errors.ts";
import type {
  Attachment,
  AuditRecord,
  DecisionRecord,
  Head,
  HistoryRecord,
  IdempotencyRecord,
  RequestRecord,
  TargetRecord,
  TokenRecord,
} from "./store.ts";

export type Value = string | number | null | Uint8Array;

/** One commit: its events as JSON text, exactly as they were hashed. */
export type JournalRow = {
  last_seq: number;
  first_seq: number;
  epoch: number;
  at_ms: number;
  events: string;
  hash: string;
};

export type HeadRow = {
  epoch: number;
  last_seq: number;
  at_ms: number;
  hash: string;
  audit_id: number;
  audit_hash: string;
  commit_id: string;
  checksum: number;
};

/** Where journal and audit begin: the last row that retention has taken from each. */
export type FloorRow = { journal_seq: number; journal_hash: string; audit_id: number; audit_hash: string };

export type AuditRow = {
  id: number;
  seq: number;
  at_ms: number;
  actor: string;
  action: string;
  target: string;
  outcome: string;
  body: string;
  hash: string;
};

export type RequestRow = {
  number: number;
  id: string;
  status: string;
  component: string;
  pool: string | null;
  operation: string | null;
  submitted_at_ms: number;
  ended_at_ms: number | null;
  labels: string;
  body: string;
  checksum: number;
};

export type DecisionRow = { request_id: string; seq: number; at_ms: number; body: string; checksum: number };

export type AttachmentRow = { request_id: string; part: string; body: string; checksum: number };

export type HistoryRow = {
  kind: string;
  at_ms: number;
  pool: string;
  part: string;
  body: string;
  checksum: number;
};

export type IdempotencyRow = {
  scope: string;
  key: string;
  at_ms: number;
  body_hash: string;
  answer: string;
  checksum: number;
};

export type TokenRow = {
  id: string;
  name: string;
  hash: string;
  role: string;
  components: string | null;
  pools: string | null;
  permissions: string;
  created_at_ms: number;
  expires_at_ms: number | null;
  revoked_at_ms: number | null;
  checksum: number;
};

export type TargetRow = { name: string; body: string; checksum: number };

/** The columns of a table, in order. JSON is kept as text, byte by byte, because it is hashed. */
export const columns = {
  journal: {
    last_seq: "integer",
    first_seq: "integer",
    epoch: "integer",
    at_ms: "integer",
    events: "text",
    hash: "text",
  },
  audit: {
    id: "integer",
    seq: "integer",
    at_ms: "integer",
    actor: "text",
    action: "text",
    target: "text",
    outcome: "text",
    body: "json",
    hash: "text",
  },
  requests: {
    number: "integer",
    id: "text",
    status: "text",
    component: "text",
    pool: "text",
    operation: "text",
    submitted_at_ms: "integer",
    ended_at_ms: "integer",
    labels: "json",
    body: "json",
    checksum: "integer",
  },
  decisions: { request_id: "text", seq: "integer", at_ms: "integer", body: "json", checksum: "integer" },
  attachments: { request_id: "text", part: "text", body: "json", checksum: "integer" },
  history: {
    kind: "text",
    at_ms: "integer",
    pool: "text",
    part: "text",
    body: "json",
    checksum: "integer",
  },
  idempotency: {
    scope: "text",
    key: "text",
    at_ms: "integer",
    body_hash: "text",
    answer: "json",
    checksum: "integer",
  },
  tokens: {
    id: "text",
    name: "text",
    hash: "text",
    role: "text",
    components: "json",
    pools: "json",
    permissions: "json",
    created_at_ms: "integer",
    expires_at_ms: "integer",
    revoked_at_ms: "integer",
    checksum: "integer",
  },
  targets: { name: "text", body: "json", checksum: "integer" },
} as const satisfies Record<string, Record<string, "integer" | "text" | "json">>;

export type Table = keyof typeof columns;

const columnNames = new Map(
  Object.entries(columns).map(([table, kinds]) => [table as Table, Object.keys(kinds)]),
);

function namesOf(table: Table): readonly string[] {
  return columnNames.get(table)!;
}

/** What a row that is written again is recognised by. Journal and audit rows are written once. */
export const replaceableBy = {
  requests: ["number"],
  decisions: ["request_id", "seq"],
  attachments: ["request_id", "part"],
  history: ["kind", "at_ms", "pool", "part"],
  idempotency: ["scope", "key"],
  tokens: ["id"],
  targets: ["name"],
} as const satisfies Partial<Record<Table, readonly string[]>>;

/** What stays as it was first written: an index over these need not be touched again. */
export const lasting: Partial<Record<Table, readonly string[]>> = {
  requests: ["id", "component", "operation"],
};

/** The values of a row in the order of its columns. */
export function valuesOf(table: Table, row: object): Value[] {
  const values = row as Readonly<Record<string, Value>>;
  return namesOf(table).map((column) => values[column] as Value);
}

/** What one commit writes, ready for either database. */
export type CommitRows = {
  previous: Head;
  head: Head;
  journal: JournalRow | undefined;
  audit: readonly AuditRow[];
  idempotency: readonly IdempotencyRow[];
  requests: readonly RequestRow[];
  decisions: readonly DecisionRow[];
  attachments: readonly AttachmentRow[];
  history: readonly HistoryRow[];
  tokens: readonly TokenRow[];
  targets: readonly TargetRow[];
  deletedRequestIds: readonly string[];
  deletedTokenIds: readonly string[];
  deletedTargets: readonly string[];
};

// Records outside the hash chains carry a checksum: a flipped byte must not become a part of the history.

export function requestRow(record: RequestRecord): RequestRow {
  return sealed("requests", {
    number: record.number,
    id: cleanText(record.id),
    status: record.status,
    component: cleanText(record.component),
    pool: cleanTextOrNull(record.pool),
    operation: cleanTextOrNull(record.operation),
    submitted_at_ms: record.submittedAtMs,
    ended_at_ms: record.endedAtMs,
    labels: jsonText(record.labels),
    body: jsonText(record.body),
    checksum: 0,
  });
}

export function requestRecord(row: RequestRow): RequestRecord {
  trustSeal("requests", row, `request ${row.id}`);
  return {
    id: row.id,
    number: row.number,
    status: row.status,
    component: row.component,
    pool: row.pool,
    operation: row.operation,
    submittedAtMs: row.submitted_at_ms,
    endedAtMs: row.ended_at_ms,
    labels: JSON.parse(row.labels) as Record<string, string>,
    body: JSON.parse(row.body) as unknown,
  };
}

export function decisionRow({ requestId, seq, atMs, body }: DecisionRecord): DecisionRow {
  return sealed("decisions", {
    request_id: cleanText(requestId),
    seq,
    at_ms: atMs,
    body: jsonText(body),
    checksum: 0,
  });
}

export function decisionRecord(row: DecisionRow): DecisionRecord {
  trustSeal("decisions", row, `decision ${row.seq} about request ${row.request_id}`);
  return {
    requestId: row.request_id,
    seq: row.seq,
    atMs: row.at_ms,
    body: JSON.parse(row.body) as unknown,
  };
}

export function attachmentRow({ requestId, part, body }: Attachment): AttachmentRow {
  return sealed("attachments", {
    request_id: cleanText(requestId),
    part: cleanText(part),
    body: jsonText(body),
    checksum: 0,
  });
}

export function attachmentRecord(row: AttachmentRow): Attachment {
  trustSeal("attachments", row, `${row.part} of request ${row.request_id}`);
  return { requestId: row.request_id, part: row.part, body: JSON.parse(row.body) as unknown };
}

export function idempotencyRow(record: IdempotencyRecord): IdempotencyRow {
  return sealed("idempotency", {
    scope: cleanText(record.scope),
    key: cleanText(record.key),
    at_ms: record.atMs,
    body_hash: record.bodyHash,
    answer: jsonText(record.answer),
    checksum: 0,
  });
}

export function idempotencyRecord(row: IdempotencyRow): IdempotencyRecord {
  trustSeal("idempotency", row, `idempotency key ${JSON.stringify(row.key)} of ${JSON.stringify(row.scope)}`);
  return {
    scope: row.scope,
    key: row.key,
    atMs: row.at_ms,
    bodyHash: row.body_hash,
    answer: JSON.parse(row.answer) as unknown,
  };
}

export function tokenRow(record: TokenRecord): TokenRow {
  return sealed("tokens", {
    id: cleanText(record.id),
    name: cleanText(record.name),
    hash: record.hash,
    role: record.role,
    components: record.components && jsonText(record.components),
    pools: record.pools && jsonText(record.pools),
    permissions: jsonText([...record.permissions, ...marksOf(record)]),
    created_at_ms: record.createdAtMs,
    expires_at_ms: record.expiresAtMs,
    revoked_at_ms: record.revokedAtMs,
    checksum: 0,
  });
}

/** Beside the permissions, where servers of the version before look for what they know and pass over the rest (C12). */
function marksOf({ session, runAs = [] }: TokenRecord): string[] {
  const users = runAs.map((user) => `run_as:${user}`);
  return session === undefined ? users : [...users, `${session.kind}:${session.parentId}`];
}

const SESSION_MARK = /^(link|session):(.+)$/;
const USER_MARK = /^run_as:(.+)$/;

export function tokenRecord(row: TokenRow): TokenRecord {
  trustSeal("tokens", row, `token ${row.id}`);
  const words = JSON.parse(row.permissions) as string[];
  const runAs = words.flatMap((word) => USER_MARK.exec(word)?.[1] ?? []);
  const [, kind, parentId] =
    words.map((word) => SESSION_MARK.exec(word)).find((match) => match !== null) ?? [];
  return {
    id: row.id,
    name: row.name,
    hash: row.hash,
    role: row.role,
    components: row.components === null ? null : (JSON.parse(row.components) as string[]),
    pools: row.pools === null ? null : (JSON.parse(row.pools) as string[]),
    permissions: words.filter((word) => !SESSION_MARK.test(word) && !USER_MARK.test(word)),
    ...(runAs.length > 0 && { runAs }),
    createdAtMs: row.created_at_ms,
    expiresAtMs: row.expires_at_ms,
    revokedAtMs: row.revoked_at_ms,
    ...(parentId !== undefined && { session: { kind: kind as "link" | "session", parentId } }),
  };
}

export function historyRow({ kind, atMs, pool, part, body }: HistoryRecord): HistoryRow {
  const where = { kind, at_ms: atMs, pool: cleanText(pool), part: cleanText(part) };
  return sealed("history", { ...where, body: jsonText(body), checksum: 0 });
}

export function historyRecord(row: HistoryRow): HistoryRecord {
  trustSeal("history", row, `history of pool ${row.pool} at ${row.at_ms}`);
  const { at_ms: atMs, pool, part } = row;
  return { kind: row.kind as HistoryRecord["kind"], atMs, pool, part, body: JSON.parse(row.body) as unknown };
}

export function targetRow({ name, body }: TargetRecord): TargetRow {
  return sealed("targets", { name: cleanText(name), body: jsonText(body), checksum: 0 });
}

export function targetRecord(row: TargetRow): TargetRecord {
  trustSeal("targets", row, `target ${row.name}`);
  return { name: row.name, body: JSON.parse(row.body) as unknown };
}

export function auditRecord(row: AuditRow): AuditRecord {
  const { id, seq, actor, action, target, outcome, hash } = row;
  const body = JSON.parse(row.body) as unknown;
  return { id, seq, atMs: row.at_ms, actor, action, target, outcome, body, hash };
}

export function headRecord(row: HeadRow): Head {
  const head = {
    epoch: row.epoch,
    seq: row.last_seq,
    atMs: row.at_ms,
    hash: row.hash,
    auditId: row.audit_id,
    auditHash: row.audit_hash,
    commitId: row.commit_id,
  };
  if (row.checksum !== headChecksum(head)) {
    throw new StoreError("corrupt", "The head of the journal was changed: its checksum does not match.");
  }
  return head;
}

/** Without the epoch, which others raise while a commit is under way. */
export function headChecksum({ seq, atMs, hash, auditId, auditHash, commitId }: Omit<Head, "epoch">): number {
  return crc32([seq, atMs, hash, auditId, auditHash, commitId].join("\u001f"));
}

/** No NUL and no half of a surrogate pair: PostgreSQL refuses the one, UTF-8 cannot carry the other. */
export function cleanText(text: string): string {
  if (!unusual.test(text)) return text;
  return text.replaceAll(/\p{Surrogate}/gu, "\ufffd").replaceAll("\0", "\ufffd");
}

/** Control characters and surrogates, paired or not: most texts have none and need no second look. */
const unusual = /[^ -\ud7ff\ue000-\uffff]/;

function cleanTextOrNull(text: string | null): string | null {
  return text === null ? null : cleanText(text);
}

/** JSON escapes what `cleanText` would have to replace. A missing body is null. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value ?? null);
}

function sealed<Row extends { checksum: number }>(table: SealedTable, row: Row): Row {
  row.checksum = sealOf(table, row);
  return row;
}

function trustSeal(table: SealedTable, row: { checksum: number }, what: string): void {
  if (row.checksum !== sealOf(table, row)) {
    throw new StoreError("corrupt", `The stored record of ${what} was changed: its checksum does not match.`);
  }
}

type SealedTable = keyof typeof replaceableBy;

function sealOf(table: SealedTable, row: object): number {
  // The checksum is the last column of each of these tables. A column that is not there is not the same as
  // an empty one: the names of columns are bytes on the disk, too.
  const names = namesOf(table);
  const values = row as Readonly<Record<string, Value>>;
  let text = String(values[names[0] as string]);
  for (let index = 1; index < names.length - 1; index++) text += `\u001f${values[names[index] as string]}`;
  return crc32(text);
}
