// Three servers on one database, with a proxy on every path: from each server to the database, between the servers (the
// addresses that they advertise), and from the clients to each server.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { startTcpProxy, type TcpProxy } from "../../test/support/proxy.ts";

export interface Replica {
  readonly name: string;
  /** Where clients reach it: the address of a proxy, which stays when the process is replaced. */
  readonly url: string;
  readonly toDatabase: TcpProxy;
  readonly fromPeers: TcpProxy;
  readonly fromClients: TcpProxy;
  /** Starts the process, of this program or of the last one, and waits until it serves. */
  start(program?: string): Promise<void>;
  /** Ends the process in this way, and waits until it is gone. */
  end(signal: "SIGKILL" | "SIGTERM"): Promise<void>;
  freeze(): void;
  thaw(): void;
  /** How often the process ended without being asked to. */
  readonly surprises: readonly string[];
}

export interface Cluster {
  readonly replicas: readonly Replica[];
  /** An administrator's. */
  readonly token: string;
  close(): Promise<void>;
}

export interface ClusterOptions {
  readonly program: string;
  readonly databaseUrl: string;
  /** For the logs of the servers. */
  readonly directory: string;
  readonly count?: number;
}

const START_MS_MAX = 120_000;
const END_MS_MAX = 60_000;

/** Starts them one after the other: the first makes the schema, and leads. */
export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const login: { token?: string } = {};
  const replicas: Replica[] = [];
  const close = async () => {
    for (const replica of replicas) await replica.end("SIGKILL");
    for (const { toDatabase, fromPeers, fromClients } of replicas) {
      for (const proxy of [toDatabase, fromPeers, fromClients]) await proxy.close();
    }
  };
  try {
    for (let index = 0; index < (options.count ?? 3); index++) {
      const replica = await createReplica(`server-${index + 1}`, options, login);
      replicas.push(replica);
      await replica.start();
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { replicas, token: login.token ?? "", close };
}

async function createReplica(
  name: string,
  { program, databaseUrl, directory }: ClusterOptions,
  login: { token?: string },
): Promise<Replica> {
  const [toDatabase, fromPeers, fromClients] = [
    await startTcpProxy(),
    await startTcpProxy(),
    await startTcpProxy(),
  ];
  const database = new URL(databaseUrl);
  toDatabase.aim(Number(database.port));
  database.port = String(toDatabase.port);
  const surprises: string[] = [];
  let current = program;
  let child: ChildProcess | undefined;
  let isWanted = false;

  async function start(next = current): Promise<void> {
    current = next;
    const log = openSync(join(directory, `${name}.log`), "a");
    const args = [current, database.href, `http://127.0.0.1:${fromPeers.port}`];
    const started = spawn(process.execPath, args, { stdio: ["ignore", log, log, "ipc"] });
    closeSync(log);
    child = started;
    isWanted = true;
    let hasServed = false;
    const gone = once(started, "exit").then(([code]) => {
      if (hasServed && isWanted && child === started)
        surprises.push(`${name} ended by itself with code ${String(code)}`);
      throw new Error(`${name} ended with code ${String(code)}; its log is in ${directory}`);
    });
    gone.catch(() => undefined);
    const late = delay(START_MS_MAX, undefined, { ref: false }).then(() => {
      throw new Error(`${name} did not serve within ${START_MS_MAX / 1_000} s; its log is in ${directory}`);
    });
    late.catch(() => undefined);
    const [{ url, token }] = (await Promise.race([once(started, "message"), gone, late])) as [
      { url: string; token?: string },
    ];
    hasServed = true;
    if (token !== undefined) login.token = token;
    for (const proxy of [fromPeers, fromClients]) proxy.aim(Number(new URL(url).port));
  }

  return {
    name,
    url: `http://127.0.0.1:${fromClients.port}`,
    ...{ toDatabase, fromPeers, fromClients, surprises, start },
    async end(signal) {
      isWanted = false;
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      child.kill(signal);
      const isLate = await Promise.race([ended.then(() => false), delay(END_MS_MAX, true, { ref: false })]);
      if (!isLate) return;
      surprises.push(`${name} did not end within ${END_MS_MAX / 1_000} s after ${signal}`);
      child.kill("SIGKILL");
      await ended;
    },
    freeze: () => void child?.kill("SIGSTOP"),
    thaw: () => void child?.kill("SIGCONT"),
  };
}
