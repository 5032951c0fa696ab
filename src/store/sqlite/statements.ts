// A commit as SQLite carries it out: one transaction, the compare-and-swap first.

import type { Statement } from "../driver.ts";
import { type CommitRows, columns, headChecksum, type Table, valuesOf } from "../rows.ts";
import { insertInto } from "../schema.ts";

/** There is only one database in the file, so a table needs no prefix. */
export function toSqlite(sql: string): string {
  return sql.replaceAll("@", "");
}

const replacedTables = [
  ...(["idempotency", "requests", "decisions", "attachments", "history", "tokens", "targets"] as const),
];

export function commitStatements(rows: CommitRows): Statement[] {
  const { previous, head } = rows;
  const statements: Statement[] = [
    {
      sql: `update @head set last_seq = ?, at_ms = ?, hash = ?, audit_id = ?, audit_hash = ?, commit_id = ?,
              checksum = ?
            where epoch = ? and last_seq = ? and commit_id = ?`,
      rows: [
        [
          ...[
            head.seq,
            head.atMs,
            head.hash,
            head.auditId,
            head.auditHash,
            head.commitId,
            headChecksum(head),
          ],
          ...[head.epoch, previous.seq, previous.commitId],
        ],
      ],
      mustTouch: true,
    },
  ];
  if (rows.journal !== undefined) statements.push(insertion("journal", [rows.journal]));
  if (rows.audit.length > 0) statements.push(insertion("audit", rows.audit));
  for (const table of replacedTables) {
    if (rows[table].length > 0) statements.push(insertion(table, rows[table]));
  }
  const deletedRequests = rows.deletedRequestIds.map((id) => [id]);
  const deletedTokens = rows.deletedTokenIds.map((id) => [id]);
  statements.push(
    { sql: "delete from @requests where id = ?", rows: deletedRequests },
    { sql: "delete from @decisions where request_id = ?", rows: deletedRequests },
    { sql: "delete from @attachments where request_id = ?", rows: deletedRequests },
    { sql: "delete from @tokens where id = ?", rows: deletedTokens },
    { sql: "delete from @targets where name = ?", rows: rows.deletedTargets.map((name) => [name]) },
  );
  return statements;
}

const insertSql = new Map<Table, string>(
  (Object.keys(columns) as Table[]).map((table) => {
    const values = Object.keys(columns[table]).map(() => "?");
    return [table, insertInto(table, `values (${values.join(", ")})`)];
  }),
);

function insertion(table: Table, rows: readonly object[]): Statement {
  return { sql: insertSql.get(table)!, rows: rows.map((row) => valuesOf(table, row)) };
}
