// Durable stores: one interface, three implementations. Other folders import from this file only.

export { type Moved, moveStore, refuseOccupied, type StorePlace } from "./copy.ts";
export { isStoreError, StoreError, type StoreErrorCode } from "./errors.ts";
export { openPostgresStore, type PostgresOptions } from "./postgres/postgres.ts";
export { backupSqlite, type Copy, restoreSqlite } from "./sqlite/backup.ts";
export { RESERVE_BYTES } from "./sqlite/reserve.ts";
export { openMemoryStore, openSqliteStore, type SqliteOptions } from "./sqlite/sqlite.ts";
export type {
  Attachment,
  AuditEntry,
  AuditRecord,
  Commit,
  Comparison,
  Damage,
  DatabasePath,
  DecisionRecord,
  Head,
  HistoryQuery,
  HistoryRecord,
  IdempotencyKey,
  IdempotencyRecord,
  JournalEvent,
  JournalPart,
  JournalPosition,
  Json,
  LeaderHint,
  Lease,
  Member,
  News,
  NotedHead,
  Origin,
  Page,
  Pruned,
  RecentMember,
  RequestQuery,
  RequestRecord,
  Retention,
  Sizes,
  Snapshot,
  SnapshotDraft,
  Store,
  StoredEvent,
  StoreMeta,
  TakeOver,
  TargetRecord,
  TokenRecord,
  Verification,
} from "./store.ts";
