// Connections that serve one purpose each, so that nothing else stands in their way: renewing the lease, and waiting
// for the lock that tells when a leader has died.

import { createHash } from "node:crypto";
import type { Client } from "pg";
import type { Value } from "../rows.ts";
import type { LeaderHint } from "../store.ts";
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

/** A session's advisory lock: the database lets go of it when the connection ends, however it does. */
export function createHint(newClient: () => Client, schema: string): LeaderHint & { close(): Promise<void> } {
  const key = createHash("sha256").update(`berth leader ${schema}`).digest().readBigInt64BE().toString();
  let holder: Client | undefined;
  let asking: Client | undefined;

  function end(client: Client | undefined): void {
    if (client === holder) holder = undefined;
    void client?.end().catch(() => undefined);
  }

  return {
    get isHeld() {
      return holder !== undefined;
    },
    async acquire() {
      const client = newClient();
      asking = client;
      client.on("error", () => end(client));
      client.on("end", () => end(client));
      try {
        await client.connect();
        await client.query("select pg_advisory_lock($1)", [key]);
        holder = client;
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
