// What it costs to hold a grant: the overhead of `berth run`, many holders on one server, and preemption.
// Usage: npm run bench:run [-- commands|holders|preemption]

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { type Client, createClient, type Grant } from "../src/sdk/index.ts";
import { openServer } from "../src/server/index.ts";
import { buildCommandLine } from "../test/e2e/run-build.ts";

const COMMANDS = 200;
const UNITS = 8;
const HOLDERS = 2_000;
const TOKENS = 40;
const WATCH_SECONDS = 60;
const PREEMPTIONS = 100;
const LEASE_SECONDS = 300;
/** No holder renews sooner, and no grant is reported later. */
const RENEWED_AFTER_MS = 50;
/** A machine that is busy with other things shall be measured, not given up. */
const PATIENCE_MS = 120_000;

interface Address {
  readonly url: string;
  readonly token: string;
}

if (process.argv[2] === "serve") await serve();
else await measure(process.argv[2]);

/** In a process of its own, so that it can be weighed. */
async function serve(): Promise<void> {
  const server = await openServer({
    data: "memory",
    listen: "127.0.0.1:0",
    onFatal: (error) => console.error(error),
  });
  const address: Address = { url: server.url, token: server.firstToken?.secret ?? "" };
  console.log(JSON.stringify(address));
  process.once("SIGTERM", () => process.exit(0));
}

async function measure(only: string | undefined): Promise<void> {
  const parts = { commands: measureCommands, holders: measureHolders, preemption: measurePreemption };
  for (const [name, part] of Object.entries(parts)) {
    if (only !== undefined && only !== name) continue;
    const server = spawn(process.execPath, ["--import", "tsx", fileURLToPath(import.meta.url), "serve"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = (await once(createInterface(server.stdout), "line")) as [string];
    try {
      await part(JSON.parse(line) as Address, server);
    } finally {
      server.kill();
      await once(server, "exit");
    }
  }
}

// --- Short commands

async function measureCommands(address: Address): Promise<void> {
  const client = createClient(address);
  await client.pools.create({ name: "lab", capacity: { gpu: UNITS } });
  const { berth, remove } = await buildCommandLine();
  // A token each for the turns, as if several people worked: one may call 50 times a second.
  const tokens = await makeTokens(client, UNITS);
  try {
    await run(process.execPath, [berth, "run", "--gpu", "1", "--", "true"], envFor(address, tokens[0])); // Warm caches.
    const plain = await inParallel(() => run("/bin/true", [], {}));
    const wrapped = await inParallel((turn) =>
      run(
        process.execPath,
        [berth, "run", "--gpu", "1", "--", "/bin/true"],
        envFor(address, tokens[turn % UNITS]),
      ),
    );
    const node = await inParallel(() => run(process.execPath, ["-e", "0"], {}));
    console.log(
      `${COMMANDS} commands, ${UNITS} at a time (wall clock per command; the machine's cores shared)`,
    );
    console.log(`  plain spawn, the limit        ${text(plain)}`);
    console.log(`  a Node that does nothing      ${text(node)}`);
    console.log(`  berth run                     ${text(wrapped)}`);
    console.log(`  overhead of berth run         ${overhead(wrapped, plain)}`);
    console.log(`  of which a Node must be paid  ${overhead(node, plain)}`);
    const { items } = await client.requests.list({ status: "released", limit: 1_000 });
    if (items.length !== COMMANDS + 1) throw new Error(`${items.length} commands were released.`);
  } finally {
    remove();
  }
}

interface Times {
  readonly totalMs: number;
  readonly ms: number[];
  /** Of the processors, with all that the commands started. */
  readonly cpuMs: number;
}

async function inParallel(one: (turn: number) => Promise<void>): Promise<Times> {
  const ms: number[] = [];
  let turn = 0;
  const startMs = performance.now();
  const startCpuMs = cpuMsOfChildren();
  const worker = async () => {
    while (turn < COMMANDS) {
      const sinceMs = performance.now();
      await one(turn++);
      ms.push(performance.now() - sinceMs);
    }
  };
  await Promise.all(Array.from({ length: UNITS }, worker));
  return { totalMs: performance.now() - startMs, ms, cpuMs: cpuMsOfChildren() - startCpuMs };
}

function text({ totalMs, ms, cpuMs }: Times): string {
  const each = `${(totalMs / COMMANDS).toFixed(1)} ms each (p50 ${at(ms, 0.5)}, p99 ${at(ms, 0.99)})`;
  return `${each}, ${(cpuMs / COMMANDS).toFixed(0)} ms of processor`;
}

function overhead(times: Times, plain: Times): string {
  const [eachMs, cpuMs] = [times.totalMs - plain.totalMs, times.cpuMs - plain.cpuMs];
  return `+${(eachMs / COMMANDS).toFixed(0)} ms each, +${(cpuMs / COMMANDS).toFixed(0)} ms of processor`;
}

/** Of those that have ended; the kernel counts in hundredths of a second. */
function cpuMsOfChildren(): number {
  const [, , user, system] = cpuFields("self");
  return ((user ?? 0) + (system ?? 0)) * 10;
}

/** Own user and system time, and those of the children. */
function cpuFields(pid: number | "self" | undefined): number[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, 15).map(Number);
}

async function run(file: string, args: string[], env: Record<string, string>): Promise<void> {
  const child = spawn(file, args, { stdio: ["ignore", "ignore", "pipe"], env });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said += chunk;
  });
  const [code] = (await once(child, "close")) as [number];
  if (code !== 0) throw new Error(`${args.join(" ")} ended with ${code}: ${said}`);
}

// --- Many holders

async function measureHolders(address: Address, server: ChildProcess): Promise<void> {
  const admin = createClient(address);
  await admin.pools.create({ name: "lab", capacity: { gpu: HOLDERS } });
  const clients = (await makeTokens(admin, TOKENS)).map((token) =>
    createClient({ url: address.url, token, timeoutMs: PATIENCE_MS, retryForMs: PATIENCE_MS }),
  );
  const idle = weigh(server);
  const grants: Grant[] = [];
  let lost = 0;
  await Promise.all(
    clients.map(async (client, index) => {
      for (let count = 0; count < HOLDERS / TOKENS; count++) {
        const request = await client.requests.submit({
          component: `team-${index}`,
          resources: { gpu: 1 },
          attended: true,
        });
        const grant = client.hold(await client.waitForGrant(request));
        grant.signal.addEventListener("abort", () => lost++);
        grants.push(grant);
      }
    }),
  );
  await pause(30_000); // Every holder has found its rhythm.
  const before = weigh(server);
  await pause(WATCH_SECONDS * 1000);
  const after = weigh(server);
  const cpu = ((after.cpuSeconds - before.cpuSeconds) / WATCH_SECONDS) * 100;
  console.log(
    `${HOLDERS} holders that renew every 20 s, of ${TOKENS} tokens, on one server for ${WATCH_SECONDS} s`,
  );
  console.log(
    `  server             ${cpu.toFixed(1)} % of one core, ${after.megabytes} MB; before them, the limit, ${idle.megabytes} MB`,
  );
  console.log(`  grants lost        ${lost}; the limit is 0`);
  for (const grant of grants) grant.abandon();
  if (lost > 0) process.exitCode = 1;
}

function weigh({ pid }: ChildProcess): { cpuSeconds: number; megabytes: number } {
  const [user = 0, system = 0] = cpuFields(pid);
  const cpuSeconds = (user + system) / 100;
  const rss = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return { cpuSeconds, megabytes: Math.round(Number(rss) / 1024) };
}

// --- Preemption

async function measurePreemption(address: Address): Promise<void> {
  const client = createClient(address);
  await client.pools.create({
    name: "lab",
    capacity: { gpu: 1 },
    settings: { max_preemptions: 1_000_000, lease_seconds: LEASE_SECONDS },
  });
  await client.policies.attach("lab", { component: "research", priority: 0 });
  await client.policies.attach("lab", { component: "urgent", priority: 100 });
  const signals = await signalTimes();
  const held = await preemptionTimes(client, (stop) => holdWithSdk(client, stop));
  const { berth, remove } = await buildCommandLine();
  try {
    const wrapped = await preemptionTimes(client, (stop) => holdWithRun(berth, address, stop));
    console.log(`${PREEMPTIONS} preemptions of a victim that stops at once: urgent submit → granted`);
    console.log(
      `  plain SIGTERM → exit, the limit   p50 ${at(signals, 0.5)} ms, p99 ${at(signals, 0.99)} ms`,
    );
    console.log(`  victim held by the SDK            p50 ${at(held, 0.5)} ms, p99 ${at(held, 0.99)} ms`);
    console.log(
      `  victim run by berth run           p50 ${at(wrapped, 0.5)} ms, p99 ${at(wrapped, 0.99)} ms`,
    );
  } finally {
    remove();
  }
}

async function signalTimes(): Promise<number[]> {
  const ms: number[] = [];
  for (let turn = 0; turn < PREEMPTIONS; turn++) {
    const child = spawn("sleep", ["1000"], { stdio: "ignore" });
    await once(child, "spawn");
    await pause(20);
    const sinceMs = performance.now();
    child.kill("SIGTERM");
    await once(child, "exit");
    ms.push(performance.now() - sinceMs);
  }
  return ms;
}

type Hold = (stop: AbortSignal) => Promise<unknown>;

async function preemptionTimes(client: Client, hold: Hold): Promise<number[]> {
  const stop = new AbortController();
  const victim = hold(stop.signal);
  const ms: number[] = [];
  for (let turn = 0; turn < PREEMPTIONS; turn++) {
    await isHolding(client, "research");
    const sinceMs = performance.now();
    const { id, token } = await client.waitForGrant(
      await client.requests.submit({ component: "urgent", resources: { gpu: 1 } }),
    );
    ms.push(performance.now() - sinceMs);
    await client.requests.release(id, { token, outcome: "succeeded" });
  }
  stop.abort();
  await victim;
  return ms;
}

/** The victim has its grant, and has renewed it: its ears are open. */
async function isHolding(client: Client, component: string): Promise<void> {
  for (;;) {
    const { items } = await client.requests.list({ component, status: "allocated" });
    const [first] = items;
    const held = first && (await client.requests.get(first.id));
    const leaseMs = Date.parse(held?.lease_expires_at ?? "") - Date.parse(held?.started_at ?? "");
    if (leaseMs > LEASE_SECONDS * 1000 + RENEWED_AFTER_MS) return;
    await pause(200); // Who asks too often is slowed down by the server, and the measurement with it.
  }
}

function holdWithSdk(client: Client, signal: AbortSignal): Promise<unknown> {
  const work = (grant: Grant) =>
    new Promise<never>((_, reject) => {
      const stop = () => reject(grant.signal.reason as Error);
      grant.signal.addEventListener("abort", stop);
      if (grant.signal.aborted) stop();
    });
  return client
    .withGrant({ component: "research", resources: { gpu: 1 }, signal }, work)
    .catch(() => undefined);
}

async function holdWithRun(berth: string, address: Address, signal: AbortSignal): Promise<unknown> {
  const args = [berth, "run", "--quiet", "--gpu", "1", "--", "sleep", "100000"];
  const env = { ...envFor(address, address.token), BERTH_COMPONENT: "research" };
  const child = spawn(process.execPath, args, { stdio: "ignore", env });
  signal.addEventListener("abort", () => child.kill("SIGTERM"));
  return once(child, "exit");
}

// --- Common

async function makeTokens(admin: Client, count: number): Promise<string[]> {
  const tokens: string[] = [];
  for (let index = 0; index < count; index++) {
    const component = `team-${index}`;
    await admin.policies.attach("lab", { component, priority: 0 });
    const { secret = "" } = await admin.tokens.create({
      name: component,
      role: "user",
      components: [component],
    });
    tokens.push(secret);
  }
  return tokens;
}

function envFor({ url }: Address, token = ""): Record<string, string> {
  return { PATH: process.env.PATH ?? "", HOME: "/tmp", BERTH_URL: url, BERTH_API_TOKEN: token };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function at(values: readonly number[], quantile: number): string {
  const sorted = values.toSorted((a, b) => a - b);
  return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * quantile))] ?? 0).toFixed(1);
}
