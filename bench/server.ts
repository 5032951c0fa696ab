// How fast the server is, beside its limit and beside a peer, on both stores; and what many waiting requests cost.
//
// A cycle is submit, granted, release. Every figure stands beside two others of the same run:
//   limit    the same HTTP stack and the same group commit around an engine that decides nothing, and without
//            authentication: it reads and writes the same bytes on the wire, and the same rows with every change
//            (journal, record of the request, audit).
//   pg-boss  a job queue in a closed loop on the same PostgreSQL.
// `journal` is shown for orientation: the limit with events only, which nobody reaches who keeps records and audit.
// An aim that is missed is shown, and is no error. Usage: npm run bench:server -- [ROUNDS]

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
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
/** By then the snapshot that the last of them have caused is written. */
const AT_REST_MS = 3_000;

interface Started {
  readonly url: string;
  readonly token: string;
  readonly startMs: number;
}

const KINDS = ["journal", "limit", "berth"] as const;
type Kind = (typeof KINDS)[number];

const programs = {
  server: await bundle("server"),
  client: await bundle("client"),
  peer: await bundle("peer"),
};
const directory = await mkdtemp(join(tmpdir(), "berth-bench-"));
const postgres = await startPostgres({ shared_buffers: "128MB" });
const runs: Row[] = [["store", "calls", "program", "cycles/s", "p50", "p99", "p50 at half load", "p99"]];
const aims: Row[] = [["", "figure", "", "aim"]];
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
  const roundMs = bulk === 1 ? ROUND_MS : BULK_ROUND_MS;
  const measure = (server: Started, ms: number, rate?: number) =>
    client.ask<Measured>({
      ...{ url: server.url, token: server.token, connections: CONNECTIONS, warmUpMs: 200, ms, bulk },
      ...(rate !== undefined && { rate }),
    } satisfies Load);

  const servers = [];
  for (const kind of KINDS) {
    const place = store === "sqlite" ? join(directory, `${kind}-${bulk}`, "berth.db") : postgres.url;
    const server = await start<Started>(programs.server, [kind, store, place]);
    if (kind === "berth") await prepare(server.first.url, server.first.token);
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
  for (let round = 0; round < ROUNDS; round++) {
    for (const { kind, server, full, half } of servers) {
      if (kind === "journal") continue;
      half.push(await measure(server.first, roundMs, middle(full).cyclesPerSecond / 2));
    }
  }
  for (const { server } of servers) await server.end();
  await peer.end();
  const results = servers.map(({ kind, full, half }) => [kind, { full: middle(full), half: middle(half) }]);
  return { ...(Object.fromEntries(results) as Record<Kind, Result>), peer: median(peers) };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

function middle(rounds: readonly Measured[]): Measured {
  const of = (figure: keyof Measured) => median(rounds.map((round) => round[figure]));
  const failures = rounds.reduce((sum, round) => sum + round.failures, 0);
  return { cyclesPerSecond: of("cyclesPerSecond"), p50: of("p50"), p99: of("p99"), failures };
}

/** A pool with room for everybody, and one for those who are to wait. */
async function prepare(url: string, token: string): Promise<void> {
  await put(url, token, "/v1/pools/bench", { capacity: { gpu: 1_000_000 } });
  await put(url, token, "/v1/pools/bench/policies/bench", { priority: 1 });
  await put(url, token, "/v1/pools/full", { capacity: { gpu: 8 } });
  await put(url, token, "/v1/pools/full/policies/waiter", { priority: 1 });
}

function compare(store: string, bulk: number, run: Record<Kind, Result> & { peer: number }): void {
  const { limit, berth, peer } = run;
  const calls = bulk === 1 ? "single" : "bulk";
  for (const kind of KINDS) {
    const { full, half } = run[kind];
    const atHalf = kind === "journal" ? [] : [half.p50.toFixed(1), half.p99.toFixed(1)];
    const shown = [whole(full.cyclesPerSecond), full.p50.toFixed(1), full.p99.toFixed(1), ...atHalf];
    runs.push([store, calls, kind, ...shown]);
    failures += full.failures + half.failures;
  }
  runs.push([store, calls, "pg-boss", whole(peer)]);

  const what = `${store}, ${calls} calls: `;
  const ofLimit = berth.full.cyclesPerSecond / limit.full.cyclesPerSecond;
  const ofPeer = berth.full.cyclesPerSecond / peer;
  const p99 = berth.half.p99 / limit.half.p99;
  aim(`${what}cycles/s, part of the limit's`, ofLimit, ofLimit >= 0.6, "at least 0.6");
  aim(`${what}cycles/s, times the peer's`, ofPeer, ofPeer >= 5, "at least 5");
  aim(`${what}p99 at half load, times the limit's`, p99, p99 <= 2, "at most 2");
}

async function manyWaiting(client: Asker): Promise<void> {
  const place = join(directory, "many", "berth.db");
  const server = await start<Started>(programs.server, ["berth", "sqlite", place], ["--expose-gc"]);
  await prepare(server.first.url, server.first.token);
  const beganMs = performance.now();
  await client.ask({ fill: WAITING, url: server.first.url, token: server.first.token });
  const fillMs = performance.now() - beganMs;
  await delay(AT_REST_MS);
  const { rss, heapUsed } = await server.ask<{ rss: number; heapUsed: number }>({ kind: "memory" });
  await server.end("SIGKILL");
  const again = await start<Started>(programs.server, ["berth", "sqlite", place]);
  await again.end();
  const mb = rss / 1e6;
  const seconds = again.first.startMs / 1000;
  const what = `${whole(WAITING)} waiting requests`;
  const told = `submitted at ${whole((WAITING / fillMs) * 1000)}/s, heap ${Math.round(heapUsed / 1e6)} MB`;
  aim(`${what}: memory in MB (${told})`, mb, mb < 300, "under 300");
  aim(`${what}: seconds to start after a kill`, seconds, seconds < 3, "under 3");
}

function aim(what: string, value: number, isMet: boolean, want: string): void {
  aims.push([what, value.toFixed(2), isMet ? "✓" : "✗", want]);
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
