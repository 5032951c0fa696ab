// The servers under proof: one on a store of its own, which is started again after every kill, or two on PostgreSQL, of which
// the other goes on. Their addresses stay, whatever becomes of the processes.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { startPostgres } from "../../test/support/postgres.ts";
import { type Replica, startCluster } from "../failover/cluster.ts";

export interface Servers {
  /** On this machine. */
  readonly ports: readonly number[];
  readonly token: string;
  /** Kills the leader, or asks it to end; resolves when all are back. */
  replace(signal: "SIGKILL" | "SIGTERM"): Promise<void>;
  readonly surprises: () => readonly string[];
  close(): Promise<void>;
}

export type StoreKind = "sqlite" | "postgres";

export async function startServers(kind: StoreKind, program: string, directory: string): Promise<Servers> {
  const postgres = kind === "postgres" ? await startPostgres({ max_connections: "60" }) : undefined;
  const place = join(directory, "store");
  mkdirSync(place, { recursive: true });
  const cluster = await startCluster({
    program,
    databaseUrl: postgres?.url ?? pathToFileURL(place).href,
    directory,
    count: kind === "postgres" ? 2 : 1,
  });
  const { replicas, token } = cluster;
  return {
    ports: replicas.map(({ url }) => Number(new URL(url).port)),
    token,
    async replace(signal) {
      const leader = (await leading(replicas, token)) ?? (replicas[0] as Replica);
      await leader.end(signal);
      await leader.start();
    },
    surprises: () => replicas.flatMap(({ surprises }) => surprises),
    async close() {
      await cluster.close();
      await postgres?.remove();
    },
  };
}

async function leading(replicas: readonly Replica[], token: string): Promise<Replica | undefined> {
  for (const replica of replicas) {
    const answer = await fetch(`${replica.url}/v1/cluster`, {
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(5_000),
    }).catch(() => undefined);
    const { role } = ((await answer?.json().catch(() => ({}))) ?? {}) as { role?: string };
    if (role === "leader") return replica;
  }
  return undefined;
}
