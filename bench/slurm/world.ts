// Berth and its adapter on a real Slurm, both as processes that can be killed, and jobs that write down that they live.

import { type ChildProcess, fork } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { type SlurmCluster, until } from "./cluster.ts";
import type { Drain, Expected, Told } from "./judge.ts";

export interface Programs {
  readonly server: string;
  readonly adapter: string;
}

export interface Wanted {
  readonly seconds: number;
  readonly exitCode?: number;
  readonly gpus?: number;
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
 * Appended in one write each, so that lines of several jobs do not mix.
 */
const JOB = `
line() { echo "$1 $(date +%s%N) $BERTH_REQUEST $BERTH_ATTEMPT $$ $SLURMD_NODENAME $2" >> "$W/lives"; }
W=$1; line start "$2"; [ "$5" = true ] && trap "" TERM
trap 'cp /dev/null "$BERTH_CHECKPOINT_DIR/state"; cp /dev/null "$BERTH_CHECKPOINT_DIR/done"' USR1
left=$3; [ "$BERTH_RESUME" = 1 ] && [ -e "$BERTH_CHECKPOINT_DIR/state" ] && left=5
while [ "$left" -gt 0 ]; do sleep 0.1; line beat "$2"; left=$((left - 1)); done
line end "$2"; exit "$4"`;

export async function openWorld(cluster: SlurmCluster, programs: Programs, name: string) {
  const directory = join(cluster.directory, name);
  const witnesses = join(directory, "witnesses");
  mkdirSync(witnesses, { recursive: true });
  for (const path of [directory, join(directory, "work")]) {
    mkdirSync(path, { recursive: true });
    chmodSync(path, 0o755);
  }
  chmodSync(witnesses, 0o777);
  writeFileSync(join(witnesses, "lives"), "", { mode: 0o666 });
  chmodSync(join(witnesses, "lives"), 0o666);
  const policyFile = join(directory, "agent.yaml");
  writeFileSync(policyFile, 'components: { "*": { users: [nobody], directories: [/] } }\n', { mode: 0o600 });
  const listen = `127.0.0.1:${await freePort()}`;
  const url = `http://${listen}`;
  const processes = new Map<string, ChildProcess>();
  const expected: Expected[] = [];
  const drains: Drain[] = [];
  const endedAtMs = new Map<string, number>();
  let submitted = 0;
  let secret = "";
  let adapterToken = "";

  /** Resolves with what the program first says. */
  function start(what: string, program: string, ...args: string[]): Promise<{ token?: string }> {
    const child = fork(program, args, { env: cluster.env, stdio: ["ignore", "inherit", "inherit", "ipc"] });
    processes.set(what, child);
    return new Promise((resolve, reject) => {
      child.once("message", (said) => resolve(said as { token?: string }));
      child.once("exit", (code) => reject(new Error(`${what} ended with ${code}.`)));
    });
  }

  async function kill(what: string): Promise<void> {
    const child = processes.get(what);
    if (child === undefined) return;
    processes.delete(what);
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  /** Repeated with the same key until it is answered: the server may be away. */
  async function call(method: string, path: string, body?: unknown, key?: string): Promise<Answer> {
    for (let tries = 0; ; tries++) {
      try {
        const answer = await fetch(url + path, {
          method,
          headers: {
            authorization: `Bearer ${secret}`,
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

  const startServer = () => start("server", programs.server, join(directory, "data"), listen);
  const startAdapter = () => {
    const paths = {
      stateDirectory: join(directory, "adapter"),
      workDirectory: join(directory, "work"),
      policyFile,
    };
    return start(
      "adapter",
      programs.adapter,
      JSON.stringify({ url, token: adapterToken, pool: POOL, ...paths }),
    );
  };

  secret = (await startServer()).token as string;
  await call("POST", "/v1/pools", { name: POOL, settings: { executor: "slurm", grace_seconds: 5 } });
  await call("POST", `/v1/pools/${POOL}/policies`, { component: "vision", priority: 0 });
  await call("POST", `/v1/pools/${POOL}/policies`, { component: "urgent", priority: 100 });
  const made = await call("POST", "/v1/tokens", { name: "slurm", role: "executor", pools: [POOL] });
  adapterToken = made.body.secret;
  await startAdapter();
  await until("the nodes of Slurm are those of the pool", async () => {
    const { body } = await call("GET", `/v1/pools/${POOL}/nodes`);
    return (
      body.items.length === cluster.nodes.length &&
      body.items.every((node: { state: string }) => node.state === "ready")
    );
  });

  const world = {
    lives: join(witnesses, "lives"),
    expected,
    drains,
    endedAtMs,
    call,
    kill,
    startServer,
    startAdapter,
    bodyOf({
      seconds,
      exitCode = 0,
      gpus = 1,
      component = "vision",
      saves = false,
      isStubborn = false,
    }: Wanted) {
      const command = [
        "/bin/sh",
        "-c",
        JOB,
        "job",
        witnesses,
        String(gpus),
        String(Math.round(seconds * 10)),
        String(exitCode),
        String(isStubborn),
      ];
      const run = { command, directory: "/", ...(saves && { checkpoint_signal: "SIGUSR1" }) };
      return { component, resources: { gpu: gpus }, run, ...(saves && { checkpoint: "auto" }) };
    },
    async submit(wanted: Wanted, isFree = false): Promise<string> {
      const { body } = await call("POST", "/v1/jobs", world.bodyOf(wanted), `job-${name}-${++submitted}`);
      expected.push({ id: body.id, exitCode: wanted.exitCode ?? 0, isFree });
      return body.id;
    },
    job: async (id: string) => (await call("GET", `/v1/jobs/${id}`)).body,
    phase: (id: string, phase: string) =>
      until(`${id} is ${phase}`, async () => (await world.job(id)).phase === phase),
    async free(id: string) {
      const index = expected.findIndex((one) => one.id === id);
      if (index >= 0) expected[index] = { ...(expected[index] as Expected), isFree: true };
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
    async told(): Promise<Map<string, Told>> {
      const told = new Map<string, Told>();
      for (const { id } of expected) {
        const { status, exit } = await world.job(id);
        told.set(id, { status, exitCode: exit?.exit_code ?? null });
      }
      return told;
    },
    async close() {
      await kill("adapter");
      await kill("server");
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

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  server.close();
  return port;
}
