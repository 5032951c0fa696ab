// What a database must offer so that the store can stand on it. Two do: SQLite and PostgreSQL.
//
// Statements are written once for both, with `?` for a value and `@table` for a table; what the
// dialects say differently is in `dialect`.

import type { CommitRows, Value } from "./rows.ts";
import type { Damage, LeaderHint, Store, StoreMeta } from "./store.ts";

export type Statement = {
  readonly sql: string;
  /** Executed once per row of values. */
  readonly rows: readonly (readonly Value[])[];
  /** Everything is taken back if an execution touches no row. */
  readonly mustTouch?: boolean;
};

export type Driver = {
  readonly meta: StoreMeta;
  readonly dialect: {
    /** True for a request with a label; takes its key and its value. */
    readonly hasLabel: string;
    /** The elements of a JSON array as rows; takes the array. */
    readonly jsonElements: string;
    /** Tells the other servers that the lease has changed, once the transaction is committed; absent where nobody listens. */
    readonly ringLease?: Statement;
    /** The time by the clock of the database, in milliseconds. */
    readonly nowMs: string;
  };
  query<Row>(sql: string, values?: readonly Value[]): Promise<Row[]>;
  /**
   * The same on a connection that nothing else uses, with little patience, for what may be forgotten in a crash; absent
   * where there is only one connection.
   */
  urgent?<Row>(sql: string, values?: readonly Value[]): Promise<Row[]>;
  /** See `Store.hint`. */
  readonly hint?: LeaderHint;
  /** See `Store.onNews`. */
  readonly onNews?: Store["onNews"] & {};
  /** See `Store.warmUp`; absent where there is nothing to prepare. */
  warmUp?(): void;
  /** The number of rows that each statement touched, or undefined if everything was taken back. */
  transaction(statements: readonly Statement[]): Promise<readonly number[] | undefined>;
  /**
   * False if the head is not `previous` any more. Resolves only when the outcome is certain. `before` is the outcome of the
   * commit that they follow on, if that may still be under way: whatever becomes of it, it is certain first.
   */
  commit(rows: CommitRows, before: Promise<boolean> | undefined): Promise<boolean>;
  /** See `Store.commitsAtOnce`. */
  readonly commitsAtOnce: number;
  /** See `Store.origin`; absent where there is one place only. */
  origin?(): Promise<string | undefined>;
  hasRoom(): boolean;
  bytes(): Promise<number>;
  /** What the database itself finds wrong with its files. */
  integrity(): Promise<readonly Damage[]>;
  close(): Promise<void>;
};
