// How fast the server is, beside its limit and beside a peer, on both stores; and what many waiting requests cost.
//
// A cycle is submit, granted, release. Beside the cycles 100 000 requests wait in the same pool, 1 000 clients renew what
// they hold, and five readers follow the events, one of them all; every call counts against a rate. Every figure stands
// beside two others of the same run:
//   limit    the same HTTP stack and the same group commit around an engine that decides nothing, and without
//            authentication: it reads and writes the same bytes on the wire, for the readers of events, too, and the
//            same rows with every change (journal, record of the request, audit).
//   pg-boss  a job queue in a closed loop on the same PostgreSQL.
// Latencies at full load say no more than that 64 clients wait in line, so those of single calls are also taken at half of
// the rate that the server reaches.
// Ends with 1 if a limit is missed or a call failed. Usage: npm run bench:server -- [ROUNDS]

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { startPostgres } from "../test/support/postgres.ts";
import type { Load, Measured } from "./serving/client.ts";
import { put } from "./serving/http.ts";
import { bundle, start } from "./serving/start.ts";

const ROUNDS = Number(process.argv[2] ?? 5);
const ROUND_MS = 1_500;
const BULK_ROUND_MS = 2_000;
/** Long enough for the compiler of the runtime to have settled. */
const WARM_UP_MS = 8_000;
const CONNECTIONS = 64;
const BULK = 100;
const WAITING = 100_000;
/** Half as many readers as a token may have: those of the round before may not have been let go yet. */
const BESIDE = { holders: 1_000, subscribers: 5 };
/** By then the snapshot that the last of them have caused is written. */
const AT_REST_MS = 3_000;

interface Started {
  readonly url: string;
  readonly token: string;
  readonly startMs: number;
}

const KINDS = ["limit", "berth"] as const;
type Kind = (typeof KINDS)[number];

const programs = {
  server: await bundle("server"),
  client: await bundle("client"),
  peer: await bundle("peer"),
};
const directory = await mkdtemp(join(tmpdir(), "berth-bench-"));
const postgres = await startPostgres({ shared_buffers: "128MB" });
const runs: Row[] = [["store", "calls", "program", "cycles/s", "p50", "p99", "p50 at half load", "p99"]];
const aims: Row[] = [["", "figure", "", "limit"]];
let failures = 0;
try {
  const client = await start(programs.client, []);
  for (const store of ["sqlite", "postgres"]) {
    for (const bulk of [1, BULK]) compare(store, bulk, await measureAll(client, store, bulk));
  }
  await manyWaiting(client);
  client.child.disconnect();
} finally {
  await postgres.remove();
  await rm(directory, { recursive: true, force: true });
}
console.log(
  `${CONNECTIONS} connections from another process, bulk calls of ${BULK}, times in milliseconds\n`,
);
print(runs);
print(aims);
console.log(failures === 0 ? "No call failed." : `✗ ${failures} calls failed.`);
if (failures > 0) process.exitCode = 1;

type Row = readonly string[];

interface Result {
  readonly full: Measured;
  readonly half: Measured;
}

type Asker = { ask<Answer>(question: object): Promise<Answer> };

/**
 * All servers are up at the same time and take turns, so that what else happens on the machine meets them all
 * alike. The median of the rounds counts.
 */
async function measureAll(
  client: Asker,
  store: string,
  bulk: number,
): Promise<Record<Kind, Result> & { peer: number }> {
  console.error(`measuring ${store}, ${callsOf(bulk)} calls`);
  const roundMs = bulk === 1 ? ROUND_MS : BULK_ROUND_MS;
  const measure = ({ url, token }: Started, ms: number, rate?: number) =>
    client.ask<Measured>({
      ...{ url, token, connections: CONNECTIONS, warmUpMs: 200, ms, bulk, beside: BESIDE },
      ...(rate !== undefined && { rate }),
    } satisfies Load);

  const servers = [];
  for (const kind of KINDS) {
    const name = `${kind}_${bulk}`;
    const place =
      store === "sqlite" ? join(directory, name, "berth.db") : await createDatabase(postgres.url, name);
    const server = await start<Started>(programs.server, [kind, store, place]);
    if (kind === "berth") await prepare(server.first);
    // The limit has none that wait, but as many rows in its tables.
    await client.ask({ ...server.first, fill: WAITING });
    await measure(server.first, WARM_UP_MS);
    servers.push({ kind, server, full: [] as Measured[], half: [] as Measured[] });
  }
  const peer = await start(programs.peer, [postgres.url, String(CONNECTIONS)]);
  await peer.ask({ ms: WARM_UP_MS });

  const peers: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    for (const { server, full } of servers) full.push(await measure(server.first, roundMs));
    peers.push((await peer.ask<{ cyclesPerSecond: number }>({ ms: roundMs })).cyclesPerSecond);
  }
  for (let round = 0; bulk === 1 && round < ROUNDS; round++) {
    for (const { server, full, half } of servers) {
      half.push(await measure(server.first, roundMs, middle(full).cyclesPerSecond / 2));
    }
  }
  for (const { server } of servers) await server.end();
  await peer.end();
  const results = servers.map(({ kind, full, half }) => [kind, { full: middle(full), half: middle(half) }]);
  return { ...(Object.fromEntries(results) as Record<Kind, Result>), peer: median(peers) };
}

/** One of its own, so that no server finds what another has left. */
async function createDatabase(url: string, name: string): Promise<string> {
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${name}`);
  await admin.end();
  return url.replace(/[^/]+$/, name);
}

function callsOf(bulk: number): string {
  return bulk === 1 ? "single" : "bulk";
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

function middle(rounds: readonly Measured[]): Measured {
  const of = (figure: keyof Measured) => median(rounds.map((round) => round[figure]));
  const failures = rounds.reduce((sum, round) => sum + round.failures, 0);
  return { cyclesPerSecond: of("cyclesPerSecond"), p50: of("p50"), p99: of("p99"), failures };
}

/** A pool with room for everybody but those who are to wait: they have reached their limit. */
async function prepare({ url, token }: Started): Promise<void> {
  await put(url, token, "/v1/pools/bench", { capacity: { gpu: 1_000_000 } });
  await put(url, token, "/v1/pools/bench/policies/bench", { priority: 1 });
  await put(url, token, "/v1/pools/bench/policies/waiter", { priority: 1, limit: { gpu: 8 } });
}

function compare(store: string, bulk: number, run: Record<Kind, Result> & { peer: number }): void {
  const { limit, berth, peer } = run;
  const calls = callsOf(bulk);
  for (const kind of KINDS) {
    const { full, half } = run[kind];
    const atHalf = bulk === 1 ? [half.p50.toFixed(1), half.p99.toFixed(1)] : [];
    const shown = [whole(full.cyclesPerSecond), full.p50.toFixed(1), full.p99.toFixed(1), ...atHalf];
    runs.push([store, calls, kind, ...shown]);
    failures += full.failures + half.failures;
  }
  runs.push(["postgres", calls, "pg-boss", whole(peer)]);

  const what = `${store}, ${calls} calls: `;
  const { cyclesPerSecond } = berth.full;
  const ofLimit = cyclesPerSecond / limit.full.cyclesPerSecond;
  atLeast(`${what}cycles/s, part of the limit's`, ofLimit, bulk === 1 ? 0.7 : 0.65);
  if (store === "postgres") atLeast(`${what}cycles/s, times the peer's`, cyclesPerSecond / peer, 5);
  if (bulk === 1) atMost(`${what}p99 at half load, in milliseconds`, berth.half.p99, 15);
}

async function manyWaiting(client: Asker): Promise<void> {
  console.error(`measuring ${whole(WAITING)} waiting requests`);
  const place = join(directory, "many", "berth.db");
  const server = await start<Started>(programs.server, ["berth", "sqlite", place], ["--expose-gc"]);
  await prepare(server.first);
  const beganMs = performance.now();
  await client.ask({ ...server.first, fill: WAITING });
  const fillMs = performance.now() - beganMs;
  await delay(AT_REST_MS);
  const { rss, heapUsed } = await server.ask<{ rss: number; heapUsed: number }>({ kind: "memory" });
  await server.end("SIGKILL");
  const again = await start<Started>(programs.server, ["berth", "sqlite", place]);
  await again.end();
  const mb = rss / 1e6;
  const seconds = again.first.startMs / 1000;
  const what = `${whole(WAITING)} waiting requests`;
  const detail = `submitted at ${whole((WAITING / fillMs) * 1000)}/s, heap ${Math.round(heapUsed / 1e6)} MB`;
  atMost(`${what}: memory in MB (${detail})`, mb, 300);
  atMost(`${what}: seconds to start after a kill`, seconds, 3);
}

function atLeast(what: string, value: number, limit: number): void {
  judge(what, value, value >= limit, `at least ${limit}`);
}

function atMost(what: string, value: number, limit: number): void {
  judge(what, value, value <= limit, `at most ${limit}`);
}

function judge(what: string, value: number, isMet: boolean, limit: string): void {
  aims.push([what, value.toFixed(2), isMet ? "✓" : "✗", limit]);
  if (!isMet) process.exitCode = 1;
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}

/** Words to the left, figures to the right. */
function print(rows: readonly Row[]): void {
  const widths = rows[0]!.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  for (const row of rows) {
    const cells = row.map((cell, at) =>
      /^[\d.,]+$/.test(cell) ? cell.padStart(widths[at]!) : cell.padEnd(widths[at]!),
    );
    console.log(cells.join("   ").trimEnd());
  }
  console.log();
}
