// What two followers cost a leader, and what replicas bring to readers. One server alone on one PostgreSQL and three
// servers on another take turns; the median of the rounds counts. All of it shares the processors of one machine, so each
// figure stands beside the processor time that the servers used: with a machine each, that is what limits them.
// An aim that is missed is shown, and is no error; a call that fails is one. Usage: npm run bench:replicas -- [ROUNDS]

import { cpus, loadavg } from "node:os";
import { startPostgres, type TestPostgres } from "../test/support/postgres.ts";
import type { Load, Measured } from "./serving/client.ts";
import { put } from "./serving/http.ts";
import type { ReadLoad, ReadMeasured } from "./serving/reader.ts";
import { bundle, type Program, start } from "./serving/start.ts";

const ROUNDS = Number(process.argv[2] ?? 5);
const ROUND_MS = 2_000;
const WARM_UP_MS = 6_000;
const CONNECTIONS = 64;
const AIM = 0.9;

type Server = Program & { readonly first: { readonly url: string; readonly token: string } };

const programs = {
  server: await bundle("server"),
  client: await bundle("client"),
  reader: await bundle("reader"),
};
const [loadBefore = 0] = loadavg();
const databases: TestPostgres[] = [];
try {
  const [alone, trio] = [await startServers(1), await startServers(3)];
  const writer = await start(programs.client, []);
  const reader = await start(programs.reader, []);
  await compareWrites(writer, alone, trio);
  await compareReads(reader, trio);
  for (const program of [writer, reader, ...alone, ...trio]) await program.end("SIGKILL");
} finally {
  for (const database of databases) await database.remove();
}
console.log(
  `load average ${loadBefore.toFixed(2)} before, ${(loadavg()[0] as number).toFixed(2)} after, ` +
    `on ${cpus().length} processors`,
);

/** The first of them leads. */
async function startServers(count: number): Promise<Server[]> {
  const database = await startPostgres({ shared_buffers: "128MB" });
  databases.push(database);
  const servers: Server[] = [];
  for (let index = 0; index < count; index++) {
    const role = index === 0 ? [] : ["follower"];
    servers.push(await start(programs.server, ["berth", "postgres", database.url, ...role]));
  }
  const { url, token } = servers[0]!.first;
  await put(url, token, "/v1/pools/bench", { capacity: { gpu: 1_000_000 } });
  await put(url, token, "/v1/pools/bench/policies/bench", { priority: 1 });
  return servers;
}

/** Cycles of submission and release at the leader. */
async function compareWrites(client: Program, alone: Server[], trio: Server[]): Promise<void> {
  const measure = ([leader]: Server[], ms: number) =>
    client.ask<Measured>({
      ...{ url: leader!.first.url, token: leader!.first.token, connections: CONNECTIONS },
      ...{ warmUpMs: 200, ms, bulk: 1 },
    } satisfies Load);
  const sides = [alone, trio].map((servers) => ({
    servers,
    rounds: [] as Measured[],
    cpuMs: [] as number[],
  }));
  for (const { servers } of sides) await measure(servers, WARM_UP_MS);
  for (let round = 0; round < ROUNDS; round++) {
    for (const { servers, rounds, cpuMs } of sides) {
      const beforeMs = await processorMs(servers[0]!);
      const measured = await measure(servers, ROUND_MS);
      const cycles = measured.cyclesPerSecond * ((ROUND_MS + 200) / 1_000);
      rounds.push(measured);
      cpuMs.push(((await processorMs(servers[0]!)) - beforeMs) / cycles);
    }
  }
  const [one, three] = sides.map(({ rounds, cpuMs }) => ({
    perSecond: median(rounds.map(({ cyclesPerSecond }) => cyclesPerSecond)),
    cpuMs: median(cpuMs),
    failures: rounds.reduce((sum, { failures }) => sum + failures, 0),
  })) as [Figure, Figure];
  for (const [what, figure] of [
    ["one server alone", one],
    ["with two followers", three],
  ] as const) {
    console.log(
      `${what}: ${whole(figure.perSecond)} cycles/s, ${figure.cpuMs.toFixed(3)} ms of the leader's processor each, ` +
        `${figure.failures} failed`,
    );
    noteFailures(figure.failures);
  }
  tellPart("cycles/s with two followers, part of one server alone", three.perSecond / one.perSecond);
  tellPart("the same by the leader's processor time", one.cpuMs / three.cpuMs);
  if (three.perSecond / one.perSecond < AIM && one.cpuMs / three.cpuMs >= AIM) {
    console.log(
      `  three servers, two databases and the load share ${cpus().length} processors here: by the clock the followers take ` +
        "time from the leader that they would not take on machines of their own",
    );
  }
}

interface Figure {
  readonly perSecond: number;
  readonly cpuMs: number;
  readonly failures: number;
}

/** The same connections on one server, and spread over three. */
async function compareReads(client: Program, trio: Server[]): Promise<void> {
  const { token } = trio[0]!.first;
  const measure = (servers: Server[], ms: number) =>
    client.ask<ReadMeasured>({
      ...{ urls: servers.map(({ first }) => first.url), token, path: "/v1/pools/bench" },
      ...{ connections: CONNECTIONS, ms },
    } satisfies ReadLoad);
  await measure(trio, WARM_UP_MS);
  const sides = [trio.slice(0, 1), trio].map((servers) => ({
    ...{ servers, perSecond: [] as number[], cpuMs: [] as number[] },
    failures: 0,
  }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const side of sides) {
      const beforeMs = await processorMsOf(side.servers);
      const { readsPerSecond, failures } = await measure(side.servers, ROUND_MS);
      side.perSecond.push(readsPerSecond);
      side.cpuMs.push(
        ((await processorMsOf(side.servers)) - beforeMs) / (readsPerSecond * (ROUND_MS / 1_000)),
      );
      side.failures += failures;
    }
  }
  for (const { servers, perSecond, cpuMs, failures } of sides) {
    const each = median(cpuMs);
    console.log(
      `reads at ${servers.length} of the servers: ${whole(median(perSecond))}/s, ${each.toFixed(3)} ms of a processor each: ` +
        `${whole((servers.length * 1_000) / each)}/s if every server had a processor of its own; ${failures} failed`,
    );
    noteFailures(failures);
  }
}

function noteFailures(failures: number): void {
  if (failures > 0) process.exitCode = 1;
}

function tellPart(what: string, part: number): void {
  console.log(`${part >= AIM ? "✓" : "✗"} ${what}: ${part.toFixed(2)} (at least ${AIM})`);
}

async function processorMs(server: Server): Promise<number> {
  return (await server.ask<{ cpuMs: number }>({ kind: "use" })).cpuMs;
}

async function processorMsOf(servers: readonly Server[]): Promise<number> {
  let sum = 0;
  for (const server of servers) sum += await processorMs(server);
  return sum;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}
