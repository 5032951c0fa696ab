// The store in PostgreSQL, which any number of servers may share: the head row decides who writes.

import { setTimeout as delay } from "node:timers/promises";
import type { Client, ClientConfig, PoolClient, QueryConfig } from "pg";
import type { Driver, Statement } from "../driver.ts";
import { isStoreError, StoreError } from "../errors.ts";
import {
  createMeta,
  firstRows,
  type MetaRow,
  metaOf,
  metaRowsOf,
  refuseUnusable,
  selectMeta,
  setMeta,
  storedVersion,
  USABLE_BY,
} from "../meta.ts";
import type { CommitRows, HeadRow, Value } from "../rows.ts";
import { createSqlStore } from "../sql-store.ts";
import type { Store, StoreMeta } from "../store.ts";
import { isTrouble, translatePostgresError } from "./errors.ts";
import { createBell, createHint, createUrgentLane, LEASE_CHANGED } from "./lanes.ts";
import {
  COMMIT_FUNCTION,
  channelOf,
  commitArguments,
  FENCED,
  schema as migrations,
  OLDEST_USER,
} from "./schema.ts";

export type PostgresOptions = {
  readonly url: string;
  /** The schema that holds our tables. */
  readonly schema?: string;
  /** How long a commit goes on asking a database that does not answer. */
  readonly patienceMs?: number;
  /** Accepts a database that may forget what it has acknowledged. */
  readonly acceptUnsafeDatabase?: boolean;
  /** Not to be served, but to be copied from or into. */
  readonly isForCopy?: boolean;
};

export async function openPostgresStore(options: PostgresOptions): Promise<Store> {
  try {
    return createSqlStore(await openPostgresDriver(options));
  } catch (error) {
    throw translatePostgresError(error);
  }
}

const READ_CONNECTIONS_MAX = 4;
const STATEMENT_MS_MAX = 5_000;
/** A lease that cannot be renewed within this time is as good as not renewed. */
const URGENT_MS_MAX = 2_000;
const READ_MS_MAX = 60_000;
const LOCK_MS_MAX = 2_000;
const RETRY_DELAY_MS_MIN = 50;
const RETRY_DELAY_MS_MAX = 1_000;

export async function openPostgresDriver(options: PostgresOptions): Promise<Driver> {
  const { default: pg } = await import("pg");
  const { url, schema = "berth", patienceMs = 30_000, acceptUnsafeDatabase = false } = options;
  const toPostgres = translator(schema);

  const config = (statementMs: number): ClientConfig => ({
    connectionString: url,
    application_name: "berth",
    keepAlive: true,
    connectionTimeoutMillis: STATEMENT_MS_MAX,
    statement_timeout: statementMs,
    lock_timeout: LOCK_MS_MAX,
    idle_in_transaction_session_timeout: LOCK_MS_MAX + 1_000,
    // A server that is gone without a word must not keep us waiting.
    query_timeout: statementMs + LOCK_MS_MAX,
    types: { getTypeParser: (oid, format) => parsers[oid] ?? pg.types.getTypeParser(oid, format) },
  });

  const pool = new pg.Pool({ ...config(READ_MS_MAX), max: READ_CONNECTIONS_MAX });
  pool.on("error", () => undefined); // An idle connection broke; the pool makes another when it needs one.
  // One that breaks while it is in use says so twice: here, and to the caller that waits for its answer.
  pool.on("connect", (client) => client.on("error", () => undefined));

  const query = async <Row>(sql: string, values: readonly Value[] = []): Promise<Row[]> => {
    const ask = async () => (await pool.query(toPostgres(sql), [...values])).rows as Row[];
    try {
      // A connection that broke while it was idle says so only now; reading twice does no harm.
      return await ask().catch((error: unknown) => (isTrouble(error) ? ask() : Promise.reject(error)));
    } catch (error) {
      throw translatePostgresError(error);
    }
  };

  // Commits have a connection of their own, so that nothing else ever stands in their way.
  let writer: Client | undefined;
  let connecting: Promise<Client> | undefined;
  const connectWriter = async (): Promise<Client> => {
    if (writer !== undefined) return writer;
    connecting ??= newWriter().finally(() => {
      connecting = undefined;
    });
    return connecting;
  };
  const newWriter = async (): Promise<Client> => {
    // One commit is sent while the one before is written: the database goes from one to the other without us.
    const client = new pg.Client({ ...config(STATEMENT_MS_MAX), pipeline: true } as ClientConfig);
    client.on("error", () => dropWriter(client));
    await client.connect();
    if (!acceptUnsafeDatabase) await makeDurable(client);
    writer = client;
    return client;
  };
  const dropWriter = (client: Client | undefined) => {
    if (client === writer) writer = undefined;
    void client?.end().catch(() => undefined);
  };
  const onWriter = async <Row>(question: QueryConfig): Promise<Row[]> => {
    let client: Client | undefined;
    try {
      client = await connectWriter();
      return (await client.query(question)).rows as Row[];
    } catch (error) {
      // What is still under way on the old connection is settled by the head row, not by us.
      if (isTrouble(error)) dropWriter(client);
      throw error;
    }
  };

  const channel = channelOf(schema);
  const bell = createBell(() => new pg.Client(config(0)), channel);
  const lane = createUrgentLane(() => new pg.Client(config(URGENT_MS_MAX)), toPostgres);
  const hint = createHint(() => new pg.Client({ ...config(0), query_timeout: 0, lock_timeout: 0 }), schema);

  /** "open" if the commit was not made and still can be. */
  const outcomeOf = async (rows: CommitRows): Promise<"committed" | "open" | "fenced"> => {
    const { previous, head } = rows;
    const [now] = await onWriter<HeadRow>({ text: toPostgres("select * from @head") });
    if (now?.commit_id === head.commitId) return "committed";
    if (now?.commit_id === previous.commitId && now.epoch === head.epoch) return "open";
    // Another writer has gone on, from our commit or from the one before: our rows tell.
    const [text, values] =
      rows.journal !== undefined
        ? ["select 1 from @journal where last_seq = $1 and hash = $2", [head.seq, head.hash]]
        : ["select 1 from @audit where id = $1 and hash = $2", [rows.audit.at(-1)?.id, head.auditHash]];
    const found = await onWriter({ text: toPostgres(text), values });
    return found.length > 0 ? "committed" : "fenced";
  };

  const commit = async (rows: CommitRows, before: Promise<boolean> | undefined): Promise<boolean> => {
    const values = commitArguments(rows, channel);
    const parameters = values.map((_, index) => `$${index + 1}`).join(", ");
    const question = { text: toPostgres(`select ${COMMIT_FUNCTION}(${parameters})`), values };
    const deadlineMs = performance.now() + patienceMs;
    let retryDelayMs = RETRY_DELAY_MS_MIN;
    let isUnknown = false;
    for (;;) {
      try {
        const outcome = isUnknown ? await outcomeOf(rows) : "open";
        if (outcome !== "open") return outcome === "committed";
        await onWriter(question);
        return true;
      } catch (error) {
        const isFenced = (error as { code?: string }).code === FENCED;
        if (!isUnknown) {
          // What follows on a commit that failed fails, too; one that was made in the end was perhaps too late for this.
          if (before !== undefined && !(await before)) return false;
          // Refused the first time it was tried: by another writer. Refused later: perhaps by ourselves.
          if (before === undefined && isFenced) return false;
        }
        if (!isFenced && !isTrouble(error)) throw translatePostgresError(error);
        if (performance.now() > deadlineMs) throw translatePostgresError(error);
        isUnknown = true;
        await delay(retryDelayMs);
        retryDelayMs = Math.min(retryDelayMs * 2, RETRY_DELAY_MS_MAX);
      }
    }
  };

  const transaction = async (statements: readonly Statement[]): Promise<readonly number[] | undefined> => {
    const client = await pool
      .connect()
      .catch((error: unknown) => Promise.reject(translatePostgresError(error)));
    let failure: Error | undefined;
    try {
      await client.query("begin");
      const touched = await executeAll(client, statements, toPostgres);
      await client.query(touched === undefined ? "rollback" : "commit");
      return touched;
    } catch (error) {
      failure = error as Error;
      throw translatePostgresError(error);
    } finally {
      client.release(failure); // A connection with an error on it is not used again.
    }
  };

  try {
    if (!acceptUnsafeDatabase) refuseUnsafe(await query(unsafeSettings));
    const isForCopy = options.isForCopy === true;
    const meta = await migrate(await pool.connect(), { schema, isForCopy }, toPostgres);
    return {
      meta,
      dialect: {
        hasLabel: "labels ->> ?::text = ?",
        jsonElements: "json_array_elements(?::json)",
        nowMs: "(extract(epoch from clock_timestamp()) * 1000)::bigint",
        ringLease: { sql: "select pg_notify(?, ?)", rows: [[channel, LEASE_CHANGED]] },
      },
      query,
      urgent: lane.query,
      hint,
      onNews: bell.listen,
      warmUp: () => void connectWriter().catch(() => undefined), // The next write tries again.
      // A copy of the database has another identifier, or is on another timeline. Some services do not tell.
      origin: () =>
        query<{ origin: string }>(originSql).then(
          ([row]) => row?.origin,
          (error: unknown) => (isStoreError(error, "unavailable") ? Promise.reject(error) : undefined),
        ),
      transaction,
      commit,
      commitsAtOnce: 2,
      hasRoom: () => true, // Its disk is not ours to look at.
      bytes: async () => (await query<{ bytes: number }>(schemaBytes, [schema]))[0]?.bytes ?? 0,
      integrity: async () => [], // PostgreSQL checks its own pages; `pg_amcheck` looks at the rest.
      close: async () => {
        await Promise.all([writer?.end(), lane.close(), hint.close(), bell.close(), pool.end()]);
      },
    };
  } catch (error) {
    await pool.end();
    throw error;
  }
}

/** Whole numbers come as numbers, and JSON as the text that was hashed. */
const parsers: Readonly<Record<number, (text: string) => unknown>> = {
  20: (text) => Number(text),
  114: (text) => text,
};

/** From our notation to PostgreSQL's, once per statement. */
function translator(schema: string): (sql: string) => string {
  const prefix = `"${schema.replaceAll('"', '""')}".`;
  const known = new Map<string, string>();
  return (sql) => {
    let translated = known.get(sql);
    if (translated === undefined) {
      let count = 0;
      translated = sql.replaceAll("@", () => prefix).replaceAll("?", () => `$${++count}`);
      if (known.size < TRANSLATIONS_MAX) known.set(sql, translated);
    }
    return translated;
  };
}

const TRANSLATIONS_MAX = 200;

async function executeAll(
  client: PoolClient,
  statements: readonly Statement[],
  toPostgres: (sql: string) => string,
): Promise<number[] | undefined> {
  const touched: number[] = [];
  for (const { sql, rows, mustTouch } of statements) {
    let count = 0;
    for (const values of rows) {
      const { rowCount } = await client.query(toPostgres(sql), [...values]);
      if (mustTouch && !rowCount) return undefined;
      count += rowCount ?? 0;
    }
    touched.push(count);
  }
  return touched;
}

/** Any two servers that start at once meet at this lock. */
const MIGRATION_LOCK = 0x62657274;

async function migrate(
  client: PoolClient,
  { schema, isForCopy }: { readonly schema: string; readonly isForCopy: boolean },
  toPostgres: (sql: string) => string,
): Promise<StoreMeta> {
  const run = (sql: string, values: readonly Value[] = []) => client.query(toPostgres(sql), [...values]);
  let failure: Error | undefined;
  try {
    await run("begin");
    await run("set local lock_timeout = 0");
    await run("select pg_advisory_xact_lock(?)", [MIGRATION_LOCK]);
    // Asked first, because creating a schema needs a right that using it does not.
    const found = await run("select 1 from pg_namespace where nspname = ?", [schema]);
    if (found.rowCount === 0) await run(`create schema ${toPostgres("@").slice(0, -1)}`);
    const hasMeta = await run("select 1 from pg_tables where schemaname = ? and tablename = 'meta'", [
      schema,
    ]);
    if (hasMeta.rowCount === 0) await run(createMeta);
    const version = storedVersion((await run(selectMeta)).rows as MetaRow[], migrations.length);
    await run(migrations.slice(version).flat().join(";\n")); // One round trip; nothing if there is nothing to do.
    if (version === 0) for (const { sql, values } of firstRows()) await run(sql, values);
    if (version < migrations.length) {
      const rows = metaRowsOf((await run(selectMeta)).rows as MetaRow[], migrations.length);
      for (const { key, value } of rows) await run(setMeta, [key, value]);
      await run(setMeta, [USABLE_BY, String(OLDEST_USER)]);
    }
    const metaRows = (await run(selectMeta)).rows as MetaRow[];
    if (!isForCopy) refuseUnusable(metaRows);
    const meta = metaOf(metaRows, "postgres");
    await run("commit");
    return meta;
  } catch (error) {
    failure = error as Error;
    throw error;
  } finally {
    client.release(failure);
  }
}

/** A setting may have changed since the start, and for this session it must not change any more. */
async function makeDurable(client: Client): Promise<void> {
  try {
    refuseUnsafe((await client.query(unsafeSettings)).rows as { name: string }[]);
    await client.query(
      "select set_config(name, setting, false) from pg_settings where name = 'synchronous_commit'",
    );
  } catch (error) {
    void client.end().catch(() => undefined);
    throw error;
  }
}

const unsafeSettings = `select name from pg_settings
  where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off'`;

function refuseUnsafe(settings: readonly { name: string }[]): void {
  if (settings.length === 0) return;
  const names = settings.map(({ name }) => name).join(" and ");
  throw new StoreError(
    "unavailable",
    `The database runs with ${names} off, and may forget what it acknowledged.`,
    {
      hint: `Switch ${names} on in PostgreSQL, or accept the risk explicitly.`,
    },
  );
}

const originSql = `select system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as origin
  from pg_control_system()`;

const schemaBytes = `select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint as bytes
  from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = ? and c.relkind = 'r'`;
