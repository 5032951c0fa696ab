// How fast the server is, beside its limit and beside a peer, on both stores; and what many waiting requests cost.
//
// The limit is the same HTTP stack and the same group commit, with the rows that every change must leave behind
// (journal, record of the request, audit), around an engine that decides nothing and without authentication.
// `journal` is shown as well: the same with events only, which is what no server that keeps history can reach.
// Usage: npm run bench:server -- [SECONDS PER FIGURE]

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPostgres } from "../test/support/postgres.ts";
import type { Load, Measured } from "./serving/client.ts";
import { bundle, start } from "./serving/start.ts";

const SECONDS = Number(process.argv[2] ?? 5);
const CONNECTIONS = 64;
const BULK = 100;
const WAITING = 100_000;

interface Started {
  readonly url: string;
  readonly token: string;
  readonly startMs: number;
}

const programs = {
  server: await bundle("server"),
  client: await bundle("client"),
  peer: await bundle("peer"),
};
const directory = await mkdtemp(join(tmpdir(), "berth-bench-"));
const postgres = await startPostgres({ shared_buffers: "128MB" });
let isGood = true;
try {
  const client = await start(programs.client, []);
  const measure = (load: Omit<Load, "connections" | "warmUpMs" | "ms">) =>
    client.ask<Measured>({ connections: CONNECTIONS, warmUpMs: 2_000, ms: SECONDS * 1000, ...load });

  const { first: peer, end } = await start<{ cyclesPerSecond: number }>(programs.peer, [
    postgres.url,
    String(CONNECTIONS),
    String(SECONDS * 1000),
  ]);
  await end();
  console.log(
    `peer      pg-boss 10.4.2, ${CONNECTIONS} loops     ${figure(peer.cyclesPerSecond)} cycles/s\n`,
  );

  for (const store of ["sqlite", "postgres"]) {
    for (const bulk of [1, BULK]) {
      const place = (kind: string) =>
        store === "sqlite" ? join(directory, `${kind}-${bulk}`, "berth.db") : postgres.url;
      const journal = await measured("journal", store, place("journal"), bulk, measure);
      const limit = await measured("limit", store, place("limit"), bulk, measure);
      const berth = await measured("berth", store, place("berth"), bulk, measure);
      compare({ store, bulk, journal, limit, berth, peer: peer.cyclesPerSecond });
    }
  }
  await manyWaiting(client);
  client.child.disconnect();
} finally {
  await postgres.remove();
  await rm(directory, { recursive: true, force: true });
}
if (!isGood) process.exitCode = 1;

interface Result {
  readonly full: Measured;
  readonly half: Measured;
}

async function measured(
  kind: "journal" | "limit" | "berth",
  store: string,
  place: string,
  bulk: number,
  measure: (load: Omit<Load, "connections" | "warmUpMs" | "ms">) => Promise<Measured>,
): Promise<Result> {
  const server = await start<Started>(programs.server, [kind, store, place]);
  const { url, token } = server.first;
  if (kind === "berth") await prepare(url, token);
  const full = await measure({ url, token, bulk });
  const half = await measure({ url, token, bulk, rate: full.cyclesPerSecond / 2 });
  await server.end();
  return { full, half };
}

/** A pool with room for everybody, and one for those who are to wait. */
async function prepare(url: string, token: string): Promise<void> {
  await put(url, token, "/v1/pools/bench", { capacity: { gpu: 1_000_000 } });
  await put(url, token, "/v1/pools/bench/policies/bench", { priority: 1 });
  await put(url, token, "/v1/pools/full", { capacity: { gpu: 8 } });
  await put(url, token, "/v1/pools/full/policies/waiter", { priority: 1 });
}

async function put(url: string, token: string, path: string, body: object): Promise<void> {
  const answer = await fetch(url + path, {
    method: "PUT",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
}

function compare(run: {
  store: string;
  bulk: number;
  journal: Result;
  limit: Result;
  berth: Result;
  peer: number;
}): void {
  const { store, bulk, journal, limit, berth, peer } = run;
  const ofLimit = berth.full.cyclesPerSecond / limit.full.cyclesPerSecond;
  const ofPeer = berth.full.cyclesPerSecond / peer;
  const p99 = berth.half.p99 / limit.half.p99;
  console.log(
    `${store}, ${bulk === 1 ? "single calls" : `bulk calls of ${bulk}`}, ${CONNECTIONS} connections`,
  );
  for (const [name, { full, half }] of Object.entries({ journal, limit, berth })) {
    console.log(
      `  ${name.padEnd(7)} ${figure(full.cyclesPerSecond)} cycles/s   p50 ${ms(full.p50)}  p99 ${ms(full.p99)}   half load: p50 ${ms(half.p50)}  p99 ${ms(half.p99)}   failures ${full.failures + half.failures}`,
    );
  }
  const parts = [
    aim("of the limit", ofLimit, ofLimit >= 0.6, "0.6"),
    aim("times the peer", ofPeer, ofPeer >= 5, "5"),
    aim("times the limit's p99 at half load", p99, p99 <= 2, "at most 2"),
  ];
  console.log(`  ${parts.join("   ")}\n`);
  if (berth.full.failures + berth.half.failures > 0) isGood = false;
}

async function manyWaiting(client: { ask<Answer>(question: object): Promise<Answer> }): Promise<void> {
  const place = join(directory, "many", "berth.db");
  const server = await start<Started>(programs.server, ["berth", "sqlite", place], ["--expose-gc"]);
  await prepare(server.first.url, server.first.token);
  const beganMs = performance.now();
  await client.ask({ fill: WAITING, url: server.first.url, token: server.first.token });
  const fillMs = performance.now() - beganMs;
  const { rss, heapUsed } = await server.ask<{ rss: number; heapUsed: number }>({ kind: "memory" });
  await server.end("SIGKILL");
  const again = await start<Started>(programs.server, ["berth", "sqlite", place]);
  await again.end();
  const mb = rss / 1e6;
  console.log(`${figure(WAITING)} waiting requests (submitted at ${figure((WAITING / fillMs) * 1000)}/s)`);
  console.log(`  ${aim("MB in memory", mb, mb < 300, "under 300")} (heap ${Math.round(heapUsed / 1e6)})`);
  const seconds = again.first.startMs / 1000;
  console.log(`  ${aim("s to start again after a kill", seconds, seconds < 3, "under 3")}`);
}

function aim(what: string, value: number, isMet: boolean, want: string): string {
  return `${isMet ? "✓" : "✗"} ${value.toFixed(2)} ${what} (aim ${want})`;
}

function figure(value: number): string {
  return Math.round(value).toLocaleString("en").padStart(8);
}

function ms(value: number): string {
  return `${value.toFixed(1)} ms`.padStart(9);
}
