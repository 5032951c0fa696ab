// What agents cost: from a submission to a running command beside `berth run` on this machine, from a preemption to the next
// start, and the processor time of a server with 200 agents that sync. Ratios are of figures of the same run.
// Usage: npm run bench:agents [-- starts|preemptions|syncs] [--turns N] [--agents N] [--seconds N]

import { type ChildProcess, spawn } from "node:child_process";
import { once, setMaxListeners } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { buildCommandLine } from "../test/e2e/run-build.ts";
import { buildPrograms, type Programs } from "./agents/build.ts";
import { type Api, type Body, createApi } from "./agents/calls.ts";
import { nowS } from "./agents/load.ts";
import { within } from "./agents/machines.ts";
import { NODE_GPUS, openScene, type Scene } from "./agents/scene.ts";
import { quantile } from "./proving/quantile.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    turns: { type: "string", default: "40" },
    agents: { type: "string", default: "200" },
    seconds: { type: "string", default: "30" },
  },
});
const TURNS = Number(values.turns);
const AGENTS = Number(values.agents);
const JOBS_PER_AGENT = 8;
const MEASURED_S = Number(values.seconds);
const PATIENCE_MS = 120_000;
/** Of /proc/PID/stat, in a second. */
const TICKS_PER_S = 100;
/** Writes down when it began. */
const MARK =
  'use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC); open(F, ">", "$ARGV[0].new"); print F clock_gettime(CLOCK_MONOTONIC); close(F); rename("$ARGV[0].new", $ARGV[0]);';

const only = positionals[0];
const directory = mkdtempSync(join(tmpdir(), "berth-bench-"));
console.log(`load ${loadavg()[0]?.toFixed(1)} when it began`);
try {
  const programs = await buildPrograms("bench");
  if (only !== "syncs") {
    const scene = await openScene({ programs, store: "sqlite", directory, namespaces: false });
    try {
      if (only !== "preemptions") await measureStarts(scene);
      if (only !== "starts") await measurePreemptions(scene);
    } finally {
      await scene.close();
    }
  }
  if (only === undefined || only === "syncs") await measureSyncs(programs);
} finally {
  rmSync(directory, { recursive: true, force: true });
}

// --- From a submission to a running command

async function measureStarts({ api, servers, directory: place }: Scene): Promise<void> {
  await api.call("PUT", "/v1/pools/desk", { capacity: { gpu: NODE_GPUS } });
  await api.call("PUT", "/v1/pools/desk/policies/desk", { priority: 0 });
  const { berth, remove } = await buildCommandLine();
  const env = {
    PATH: process.env.PATH,
    HOME: directory,
    BERTH_URL: `http://127.0.0.1:${servers.ports[0]}`,
    BERTH_API_TOKEN: servers.token,
  };
  const command = (file: string) => ["perl", "-e", MARK, file];
  const ways: Record<string, (file: string) => Promise<unknown>> = {
    "berth run here": (file) =>
      runProgram(berth, ["run", "--component", "desk", "--gpu", "1", "--", ...command(file)], env),
    "berth submit to an agent": (file) => {
      const options = ["--component", "vision", "--gpu", "1", "--cwd", join(place, "scratch")];
      return runProgram(berth, ["submit", ...options, "--", ...command(file)], env);
    },
    "POST /v1/jobs to an agent": (file) => submit(api, place, command(file)),
  };
  const times = new Map<string, number[]>(Object.keys(ways).map((way) => [way, []]));
  try {
    for (let turn = 0; turn <= TURNS; turn++) {
      for (const [way, start] of Object.entries(ways)) {
        const file = join(place, "scratch", `mark-${turn}-${way.replaceAll(/\W/g, "-")}`);
        const beganAt = nowS();
        await start(file);
        const ms = ((await markIn(file)) - beganAt) * 1000;
        if (turn > 0) times.get(way)?.push(ms); // The first one warms caches.
      }
    }
  } finally {
    remove();
  }
  const [local = []] = times.values();
  for (const [way, ms] of times) console.log(`${way}: ${shown(ms)}${ms === local ? "" : ratio(ms, local)}`);
}

async function submit(api: Api, place: string, command: readonly string[], more: object = {}): Promise<Body> {
  const run = { command, directory: join(place, "scratch") };
  return api.call("POST", "/v1/jobs", { component: "vision", resources: { gpu: 1 }, run, ...more });
}

async function runProgram(
  program: string,
  args: readonly string[],
  env: Record<string, string | undefined>,
): Promise<void> {
  const child = spawn(process.execPath, [program, ...args], { env, stdio: "ignore" });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`berth ${args[0]} ended with ${String(code)}.`);
}

async function markIn(file: string): Promise<number> {
  let at = 0;
  await within(
    PATIENCE_MS,
    `a command to write ${file}`,
    () => {
      try {
        at = Number(readFileSync(file, "utf8"));
      } catch {
        // Not yet.
      }
      return at > 0;
    },
    2,
  );
  return at;
}

// --- From a preemption to the next start

async function measurePreemptions({ api, directory: place }: Scene): Promise<void> {
  const whole = { resources: { gpu: NODE_GPUS } };
  const victims: Body[] = [];
  for (let index = 0; index < 3; index++)
    victims.push(await submit(api, place, ["perl", "-e", "sleep 10_000"], whole));
  const allRun = async () => {
    for (const { id } of victims)
      if ((await api.call("GET", `/v1/jobs/${id}`)).phase !== "running") return false;
    return true;
  };
  const ms: number[] = [];
  for (let turn = 0; turn < TURNS / 2; turn++) {
    await within(PATIENCE_MS, "all victims to run", allRun);
    const file = join(place, "scratch", `preempting-${turn}`);
    const beganAt = nowS();
    const { id } = await submit(api, place, ["perl", "-e", MARK, file], { ...whole, component: "urgent" });
    ms.push(((await markIn(file)) - beganAt) * 1000);
    const hasEnded = async () => (await api.call("GET", `/v1/jobs/${id}`)).exit !== null;
    await within(PATIENCE_MS, "the urgent job to end", hasEnded);
  }
  for (const { id } of victims) await api.call("POST", `/v1/resource-requests/${id}/cancel`, {});
  console.log(`from the preemption of a job that ends at once to the next start on its node: ${shown(ms)}`);
}

// --- Many agents

async function measureSyncs(programs: Programs): Promise<void> {
  const store = join(directory, "many");
  mkdirSync(store);
  const server = spawn(process.execPath, [programs.server, pathToFileURL(store).href], {
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
  const [{ url, token }] = (await once(server, "message")) as [{ url: string; token: string }];
  const connections = new Agent({ keepAlive: true, maxSockets: AGENTS * 2 });
  const stop = new AbortController();
  setMaxListeners(0, stop.signal); // One for every call under way.
  try {
    const idle = await processorShare(server, 5);
    const api = createApi([url], token);
    await api.call("PUT", "/v1/pools/many", { settings: { executor: "agents" } });
    await api.call("PUT", "/v1/pools/many/policies/vision", { priority: 0 });
    const agents: Awaited<ReturnType<typeof pretendAgent>>[] = [];
    for (let index = 0; index < AGENTS; index++)
      agents.push(await pretendAgent({ api, url, connections }, `node-${index}`, stop.signal));
    for (let index = 0; index < AGENTS * JOBS_PER_AGENT; index++) await submit(api, "/", ["true"]);
    const known = () => agents.reduce((sum, agent) => sum + agent.jobs(), 0);
    const all = AGENTS * JOBS_PER_AGENT;
    await within(PATIENCE_MS, `${all} jobs to be listed`, () => known() === all, 200);
    await delay(2_000);
    const before = agents.reduce((sum, agent) => sum + agent.syncs(), 0);
    const share = await processorShare(server, MEASURED_S);
    const syncs = agents.reduce((sum, agent) => sum + agent.syncs(), 0) - before;
    console.log(
      `${AGENTS} agents with ${JOBS_PER_AGENT} jobs each: ${(syncs / MEASURED_S).toFixed(1)} syncs a second take ` +
        `${(share * 100).toFixed(1)} % of a processor (${((share * MEASURED_S * 1000) / syncs).toFixed(2)} ms each); ` +
        `without agents the server takes ${(idle * 100).toFixed(1)} %`,
    );
  } finally {
    stop.abort();
    connections.destroy();
    server.kill("SIGKILL");
  }
}

/** Speaks the protocol of agents, and runs nothing: whatever is wanted counts as running. */
async function pretendAgent(
  { api, url, connections }: { readonly api: Api; readonly url: string; readonly connections: Agent },
  node: string,
  signal: AbortSignal,
) {
  const { join_token: joinToken } = await api.call("POST", `/v1/nodes/${node}/enrol`, { pool: "many" });
  const capacity = { gpu: JOBS_PER_AGENT };
  const joined = await post(connections, `${url}/v1/nodes/${node}/join`, joinToken, { capacity }, signal);
  let syncs = 0;
  let jobs: object[] = [];
  let seen: string | undefined;
  const sync = async () => {
    const about = { session: node, boot_id: node, agent_version: "0.1.0", capacity, devices: [] };
    const body = { ...about, jobs, ...(seen !== undefined && { seen, wait_seconds: 5 }) };
    const answer = await post(connections, `${url}/v1/nodes/${node}/sync`, joined.node_token, body, signal);
    syncs += 1;
    const wanted = answer.jobs.map(({ request_id, token }: Body) => ({
      request_id,
      token,
      phase: "running",
    }));
    const isNew = JSON.stringify(wanted) !== JSON.stringify(jobs);
    jobs = wanted;
    seen = isNew ? undefined : answer.version;
  };
  void (async () => {
    while (!signal.aborted) await sync().catch(() => delay(500));
  })();
  return { syncs: () => syncs, jobs: () => jobs.length };
}

function post(agent: Agent, url: string, token: string, body: object, signal: AbortSignal): Promise<Body> {
  return new Promise((resolve, reject) => {
    const text = JSON.stringify(body);
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "content-length": Buffer.byteLength(text),
    };
    const sent = request(url, { method: "POST", agent, headers, signal }, (answer) => {
      const parts: Buffer[] = [];
      answer.on("data", (part: Buffer) => parts.push(part));
      answer.on("error", reject);
      answer.on("end", () => {
        const said = Buffer.concat(parts).toString();
        if ((answer.statusCode ?? 500) < 300) resolve(JSON.parse(said));
        else reject(new Error(`${url} was answered with ${answer.statusCode}: ${said}`));
      });
    });
    sent.on("error", reject);
    sent.end(text);
  });
}

/** Of one processor, over some seconds. */
async function processorShare({ pid }: ChildProcess, seconds: number): Promise<number> {
  const usedS = () => {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S;
  };
  const [beganS, before] = [nowS(), usedS()];
  await delay(seconds * 1000);
  return (usedS() - before) / (nowS() - beganS);
}

function shown(ms: readonly number[]): string {
  return `p50 ${quantile(ms, 0.5).toFixed(0)} ms, p99 ${quantile(ms, 0.99).toFixed(0)} ms (${ms.length})`;
}

function ratio(ms: readonly number[], local: readonly number[]): string {
  const of = (q: number) => (quantile(ms, q) / quantile(local, q)).toFixed(2);
  return `; ${of(0.5)} and ${of(0.99)} × berth run here`;
}
