// Berth and the adapter of a pool on a real cluster, both as processes that can be killed, and jobs that write down that they
// live. The same for every kind of cluster.

import { type ChildProcess, fork } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { type StoreKind, startServers } from "../agents/servers.ts";
import type { Drain, Expected, Told } from "./judge.ts";

/** A cluster with an adapter for it. */
export interface Site {
  readonly executor: "slurm" | "kubernetes";
  readonly directory: string;
  /** For the adapter. */
  readonly env: NodeJS.ProcessEnv;
  readonly nodes: readonly string[];
  /** What the adapter is given, beside the pool and the way to the servers. */
  adapterOptions(own: string): object;
}

export interface Programs {
  readonly server: string;
  readonly adapter: string;
}

export interface Wanted {
  readonly seconds: number;
  readonly exitCode?: number;
  readonly gpus?: number;
  readonly nodes?: number;
  readonly component?: string;
  /** Saves when it is asked to, and goes on from there. */
  readonly saves?: boolean;
  /** SIGTERM does not end it. */
  readonly isStubborn?: boolean;
}

export const GPUS_PER_NODE = 2;
const POOL = "lab";

/**
 * The command of a job: W GPUS TENTHS EXIT-CODE STUBBORN. A line at its start, one with every tenth of a second, one at its end.
 * Appended in one write each, so that lines of several jobs do not mix. Its number is that of the whole machine.
 */
const JOB = `
read -r pid rest < /proc/self/stat; node="\${SLURMD_NODENAME:-$PROOF_NODE}"
line() { echo "$1 $(date +%s%N) $BERTH_REQUEST $BERTH_ATTEMPT $pid $node $2" >> "$W/lives"; }
W=$1; line start "$2"; echo "started $BERTH_ATTEMPT"
if [ "$5" = true ]; then trap "" TERM; else trap 'line end "$2"; exit 143' TERM; fi
trap ': > "$BERTH_CHECKPOINT_DIR/state"; : > "$BERTH_CHECKPOINT_DIR/done"' USR1
left=$3; [ "$BERTH_RESUME" = 1 ] && [ -e "$BERTH_CHECKPOINT_DIR/state" ] && left=5
while [ "$left" -gt 0 ]; do sleep 0.1; line beat "$2"; left=$((left - 1)); done
line end "$2"; echo "ended $BERTH_ATTEMPT"; exit "$4"`;

export async function openWorld(site: Site, programs: Programs, name: string, store: StoreKind) {
  const directory = join(site.directory, name);
  const witnesses = join(directory, "witnesses");
  mkdirSync(witnesses, { recursive: true });
  for (const path of [site.directory, directory]) chmodSync(path, 0o755);
  chmodSync(witnesses, 0o777);
  writeFileSync(join(witnesses, "lives"), "", { mode: 0o666 });
  chmodSync(join(witnesses, "lives"), 0o666);
  const servers = await startServers(store, programs.server, directory);
  const urls = servers.ports.map((port) => `http://127.0.0.1:${port}`);
  const expected: Expected[] = [];
  const drains: Drain[] = [];
  const endedAtMs = new Map<string, number>();
  let adapter: ChildProcess | undefined;
  let adapterToken = "";
  let submitted = 0;
  /** What the adapter has said of itself. */
  const said: object[] = [];

  /** Repeated with the same key until it is answered: servers may be away. */
  async function call(method: string, path: string, body?: unknown, key?: string): Promise<Answer> {
    for (let tries = 0; ; tries++) {
      try {
        const answer = await fetch((urls[tries % urls.length] as string) + path, {
          method,
          headers: {
            authorization: `Bearer ${servers.token}`,
            "content-type": "application/json",
            ...(key !== undefined && { "idempotency-key": key }),
          },
          ...(body !== undefined && { body: JSON.stringify(body) }),
          signal: AbortSignal.timeout(20_000),
        });
        const parsed = await answer.json();
        if (answer.status < 500) return { status: answer.status, body: parsed as Answer["body"] };
      } catch (error) {
        if (tries > 300) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  async function startAdapter(): Promise<void> {
    const options = { urls, token: adapterToken, pool: POOL, ...site.adapterOptions(directory) };
    const child = fork(programs.adapter, [JSON.stringify(options)], {
      ...{ env: site.env, stdio: ["ignore", "inherit", "inherit", "ipc"] },
    });
    adapter = child;
    await new Promise<void>((resolve, reject) => {
      child.once("message", () => resolve());
      child.once("exit", (code) => reject(new Error(`The adapter ended with ${code}.`)));
    });
    child.on("message", (message) => said.push(message as object));
  }

  async function killAdapter(): Promise<void> {
    const child = adapter;
    adapter = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  const settings = { executor: site.executor, grace_seconds: 5, checkpoint_timeout_seconds: 60 };
  await call("POST", "/v1/pools", { name: POOL, settings });
  await call("POST", `/v1/pools/${POOL}/policies`, { component: "vision", priority: 0 });
  await call("POST", `/v1/pools/${POOL}/policies`, { component: "urgent", priority: 100 });
  const made = await call("POST", "/v1/tokens", { name: "adapter", role: "executor", pools: [POOL] });
  adapterToken = made.body.secret;
  await startAdapter();
  await until("the nodes of the cluster are those of the pool", async () => {
    const { body } = await call("GET", `/v1/pools/${POOL}/nodes`);
    return (
      body.items.length === site.nodes.length &&
      body.items.every((node: { state: string }) => node.state === "ready")
    );
  });

  const world = {
    lives: join(witnesses, "lives"),
    ...{ directory, expected, drains, endedAtMs, said, call, startAdapter, killAdapter },
    url: urls.join(","),
    token: servers.token,
    /** Kills the leader; another server goes on, or the same one is started again. */
    replaceLeader: () => servers.replace("SIGKILL"),
    bodyOf(wanted: Wanted) {
      const { seconds, exitCode = 0, gpus = 1, nodes = 1, component = "vision", saves = false } = wanted;
      const numbers = [gpus, Math.round(seconds * 10), exitCode, wanted.isStubborn ?? false].map(String);
      const command = ["/bin/sh", "-c", JOB, "job", witnesses, ...numbers];
      const run = { command, directory: "/", ...(saves && { checkpoint_signal: "SIGUSR1" }) };
      return {
        ...{ component, resources: { gpu: gpus }, run },
        ...(nodes > 1 && { nodes }),
        ...(saves && { checkpoint: "auto" }),
      };
    },
    async submit(wanted: Wanted, isFree = false): Promise<string> {
      const { body } = await call("POST", "/v1/jobs", world.bodyOf(wanted), `job-${name}-${++submitted}`);
      expected.push({ id: body.id, exitCode: wanted.exitCode ?? 0, isFree });
      return body.id;
    },
    job: async (id: string) => (await call("GET", `/v1/jobs/${id}`)).body,
    phase: (id: string, phase: string) =>
      until(`${id} is ${phase}`, async () => (await world.job(id)).phase === phase),
    nodeState: async (node: string) => (await call("GET", `/v1/nodes/${node}`)).body.state as string,
    free(id: string) {
      const index = expected.findIndex((one) => one.id === id);
      if (index >= 0) expected[index] = { ...(expected[index] as Expected), isFree: true };
    },
    async cancel(id: string) {
      world.free(id);
      await call("POST", `/v1/resource-requests/${id}/cancel`);
    },
    /** Notes when Berth first says that something has ended; true: all have. */
    async note(): Promise<boolean> {
      let isAll = true;
      for (const { id } of expected) {
        if (endedAtMs.has(id)) continue;
        const askedAtMs = Date.now();
        const { status } = await world.job(id);
        if (["released", "failed", "cancelled"].includes(status)) endedAtMs.set(id, askedAtMs);
        else isAll = false;
      }
      return isAll;
    },
    /** What the adapter has written down about the attempts of a request, without what it runs. */
    notesAbout(id: string): string[] {
      const state = join(directory, "adapter");
      return ["jobs", "archive"]
        .flatMap((place) => readdirSync(join(state, place)).map((name) => join(state, place, name)))
        .filter((path) => readFileSync(join(path, "order.json"), "utf8").includes(id))
        .flatMap((path) =>
          readdirSync(path)
            .filter((name) => name.endsWith(".json") && name !== "order.json")
            .map((name) => `${name} ${readFileSync(join(path, name), "utf8")}`),
        );
    },
    async told(): Promise<Map<string, Told>> {
      const told = new Map<string, Told>();
      for (const { id } of expected) {
        const { status, exit, attempts } = await world.job(id);
        const grants = attempts.map(({ nodes, started_at: at }: { nodes: string[]; started_at: string }) => ({
          ...{ nodes, atMs: Date.parse(at) },
        }));
        told.set(id, { status, exitCode: exit?.exit_code ?? null, grants });
      }
      return told;
    },
    async close() {
      await killAdapter();
      await servers.close();
    },
  };
  return world;
}

export type World = Awaited<ReturnType<typeof openWorld>>;

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: whatever the server says; the judge looks at it field by field.
  readonly body: any;
}

export async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      return server;
    }),
  );
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  for (const server of servers) server.close();
  return ports;
}

const UNTIL_MS_MAX = 120_000;

export async function until(what: string, isSo: () => Promise<boolean>, msMax = UNTIL_MS_MAX): Promise<void> {
  const endAtMs = performance.now() + msMax;
  let last: unknown;
  while (performance.now() < endAtMs) {
    try {
      if (await isSo()) return;
      last = undefined;
    } catch (error) {
      last = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`Not in ${msMax / 1000} s: ${what}.`, { cause: last });
}
