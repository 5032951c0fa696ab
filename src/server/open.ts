// Store, leader and server, started in this order and ended in the other one.

import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { type Leader, type LeaderSettings, startLeader } from "../leader/index.ts";
import { startReplica } from "../replica/index.ts";
import {
  openMemoryStore,
  openPostgresStore,
  openSqliteStore,
  RESERVE_BYTES,
  type Store,
} from "../store/index.ts";
import { createMetrics } from "./metrics.ts";
import { addressOf, type RunningServer, ServerError, type ServerOptions, startServer } from "./server.ts";
import type { MadeToken } from "./tokens.ts";

export interface OpenServerOptions
  extends Pick<
    ServerOptions,
    | ("listen" | "insecureBind" | "allowedHosts" | "noticeNetworks" | "rates" | "log" | "version")
    | "warmForesight"
  > {
  /** Where the data is: a directory, a PostgreSQL database, or nowhere. */
  readonly data:
    | { readonly directory: string }
    | { readonly databaseUrl: string; readonly acceptUnsafeDatabase?: boolean }
    | "memory";
  /** Files in PEM. */
  readonly tls?: { readonly certFile: string; readonly keyFile: string };
  readonly leaderSettings?: Partial<LeaderSettings>;
  /** Where other servers on the same database reach this one; left out: where it listens. */
  readonly advertise?: string;
  /** A person says that a store which has lost its end is gone on with. */
  readonly acceptLoss?: boolean;
  /** A person says that the clock of this machine is right. */
  readonly acceptClock?: boolean;
  /** Name of the administrator that the first start makes. */
  readonly firstTokenName?: string;
  /** Memory can no longer be trusted, or another server leads: the process must end. */
  readonly onFatal: (error: unknown) => void;
}

export interface OpenedServer extends RunningServer {
  readonly leader: Leader;
  readonly store: Store;
  /** What the data is kept in, for people. */
  readonly storeName: string;
  /** Only after the first start of a store; shown once, or saved where only its owner can read it. */
  readonly firstToken: MadeToken | undefined;
}

const COMMIT_PATIENCE_MS = 8_000;

export const STORE_FILE = "berth.db";

/**
 * Calls that wait for a commit live long enough for V8 to make what is made for each call in the old generation from then
 * on. There it is garbage all the same, only dearer to collect, and it keeps alive whatever it points to: a fifth of all
 * that a call makes was moved there, and half of the collector's work was for that.
 */
export function keepCallsInNewSpace(): void {
  setFlagsFromString("--no-allocation-site-pretenuring");
}

export async function openServer(options: OpenServerOptions): Promise<OpenedServer> {
  keepCallsInNewSpace();
  const {
    data,
    tls,
    leaderSettings,
    log,
    onFatal,
    firstTokenName,
    advertise,
    acceptClock = false,
    acceptLoss = false,
    ...rest
  } = options;
  const certificates = tls && readCertificates(tls);
  const addressed = { ...rest, ...(certificates && { tls: certificates }) };
  addressOf(addressed); // Before anything is made on the disk.
  const metrics = createMetrics();
  const opened: { close(): Promise<void> }[] = [];
  const close = async () => {
    for (const part of opened.toReversed()) await part.close();
  };
  try {
    const { store, storeName } = await openStore(data, acceptLoss);
    opened.push(store);
    const parts = {
      ...{ store, onFatal, acceptClock, observer: metrics.observer },
      ...(log && { log }),
      ...(leaderSettings && { settings: leaderSettings }),
    };
    let url: string | null = null;
    const isShared = store.meta.kind === "postgres";
    const replica = isShared
      ? await startReplica({ ...parts, url: () => advertise ?? url, version: rest.version ?? "0.1.0" })
      : undefined;
    const leader = replica ?? (await startLeader(parts));
    opened.push(leader);
    const server = await startServer({
      ...{ ...addressed, leader, store, metrics },
      ...(replica && { replica }),
      ...(log && { log }),
    });
    url = server.url;
    opened.push(server);
    // Last: a start that fails must not make a token that is shown to nobody.
    const firstToken = await server.makeFirstToken(firstTokenName);
    return { ...server, leader, store, storeName, firstToken, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openStore(
  data: OpenServerOptions["data"],
  acceptLoss: boolean,
): Promise<{ store: Store; storeName: string }> {
  if (data === "memory") return { store: await openMemoryStore(), storeName: "memory" };
  if ("directory" in data) {
    const path = join(data.directory, STORE_FILE);
    return {
      store: await openSqliteStore({ path, reserveBytes: RESERVE_BYTES, mark: { acceptLoss } }),
      storeName: path,
    };
  }
  const { databaseUrl: url, acceptUnsafeDatabase = false } = data;
  // A lock is waited for; a database that is away ends the leadership sooner than this (C6).
  const store = await openPostgresStore({ url, acceptUnsafeDatabase, patienceMs: COMMIT_PATIENCE_MS });
  return { store, storeName: new URL(url).host };
}

function readCertificates({ certFile, keyFile }: { certFile: string; keyFile: string }) {
  const read = (file: string) => {
    try {
      return readFileSync(file, "utf8");
    } catch (error) {
      throw new ServerError(`The file ${file} cannot be read.`, "Check the path and who may read it.", {
        cause: error,
      });
    }
  };
  const key = read(keyFile);
  if ((statSync(keyFile).mode & 0o077) !== 0) {
    throw new ServerError(
      `The key ${keyFile} can be read by others than its owner.`,
      `Close it to them: chmod 600 ${keyFile}`,
    );
  }
  return { cert: read(certFile), key };
}
