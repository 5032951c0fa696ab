// Connections that serve one purpose each, so that nothing else stands in their way: renewing the lease, waiting for the
// lock that tells when a leader has died, and hearing of commits.

import { createHash } from "node:crypto";
import type { Client } from "pg";
import type { Value } from "../rows.ts";
import type { DatabasePath, LeaderHint, News } from "../store.ts";
import { translatePostgresError } from "./errors.ts";

export interface UrgentLane {
  query<Row>(sql: string, values?: readonly Value[]): Promise<Row[]>;
  close(): Promise<void>;
}

/** One connection, made when it is needed and thrown away at the first error. */
export function createUrgentLane(newClient: () => Client, toPostgres: (sql: string) => string): UrgentLane {
  let current: Promise<Client> | undefined;

  async function connect(): Promise<Client> {
    const client = newClient();
    client.on("error", () => drop());
    await client.connect();
    // A lease that the disk forgets in a crash was renewed in vain, and no more: nobody has to wait for the disk.
    await client.query("set synchronous_commit = off");
    return client;
  }

  function drop(): void {
    const dropped = current;
    current = undefined;
    void dropped?.then((client) => client.end()).catch(() => undefined);
  }

  return {
    async query<Row>(sql: string, values: readonly Value[] = []): Promise<Row[]> {
      current ??= connect();
      try {
        return (await (await current).query(toPostgres(sql), [...values])).rows as Row[];
      } catch (error) {
        drop();
        throw translatePostgresError(error);
      }
    },
    async close() {
      drop();
    },
  };
}

/** What is sent when the lease was released or taken; a commit sends its position. */
export const LEASE_CHANGED = "lease";

export interface Bell {
  listen(listener: (news: News) => void): () => void;
  close(): Promise<void>;
}

/** A connection that broke is made anew after this time. */
const BELL_RETRY_MS = 500;

/** Hears of commits while there are listeners. A broken connection is made anew; the listeners poll meanwhile. */
export function createBell(newClient: () => Client, channel: string): Bell {
  const listeners = new Set<(news: News) => void>();
  let current: Client | undefined;
  let retry: ReturnType<typeof setTimeout> | undefined;

  function connect(): void {
    const client = newClient();
    current = client;
    client.on("error", () => broke(client));
    client.on("end", () => broke(client));
    client.on("notification", ({ payload }) => {
      for (const listener of listeners) listener(payload === LEASE_CHANGED ? "lease" : "commit");
    });
    client
      .connect()
      .then(() => client.query(`listen ${channel}`))
      .catch(() => broke(client));
  }

  function broke(client: Client): void {
    if (client !== current) return;
    drop();
    if (listeners.size === 0) return;
    retry = setTimeout(connect, BELL_RETRY_MS);
    retry.unref();
  }

  function drop(): void {
    clearTimeout(retry);
    const dropped = current;
    current = undefined;
    void dropped?.end().catch(() => undefined);
  }

  return {
    listen(listener) {
      listeners.add(listener);
      if (listeners.size === 1) connect();
      return () => {
        if (listeners.delete(listener) && listeners.size === 0) drop();
      };
    },
    async close() {
      listeners.clear();
      drop();
    },
  };
}

/** A session's advisory lock: the database lets go of it when the connection ends, however it does. */
export function createHint(newClient: () => Client, schema: string): LeaderHint & { close(): Promise<void> } {
  const key = createHash("sha256").update(`berth leader ${schema}`).digest().readBigInt64BE().toString();
  let holder: Client | undefined;
  let asking: Client | undefined;
  let path: DatabasePath | undefined;

  function end(client: Client | undefined): void {
    if (client === holder) holder = undefined;
    void client?.end().catch(() => undefined);
  }

  return {
    get isHeld() {
      return holder !== undefined;
    },
    get path() {
      return path;
    },
    async acquire() {
      const client = newClient();
      asking = client;
      client.on("error", () => end(client));
      client.on("end", () => end(client));
      try {
        await client.connect();
        path = await pathOf(client);
        if (path === "pooler") {
          end(client);
          return false;
        }
        await client.query("select pg_advisory_lock($1)", [key]);
        holder = client;
        return true;
      } catch (error) {
        end(client);
        throw translatePostgresError(error);
      }
    },
    async release() {
      end(holder);
    },
    async close() {
      end(holder);
      end(asking);
    },
  };
}

/** A pooler gives its clients a key of its own for cancelling, and with it a process that is not the one which answers. */
async function pathOf(client: Client): Promise<DatabasePath> {
  const { processID } = client as Client & { readonly processID?: number | null };
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  return rows[0]?.pid === processID ? "direct" : "pooler";
}
