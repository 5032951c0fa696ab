// A million waiting requests on a real server with the embedded store: submitted in bulk, killed with SIGKILL, started
// again, all there; and a snapshot of them all is written while the loop goes on.
// Usage: npm run prove:million -- [REQUESTS]

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { bundle, start } from "./serving/start.ts";

const REQUESTS = Number(process.argv[2] ?? 1_000_000);
const COMPONENTS = 20;
const BULK = 1_000;
const CALLERS = 4;
const RESTART_SECONDS_MAX = 30;
const PAUSE_MS_MAX = 50;
const SNAPSHOT_SECONDS_MAX = 600;

interface Started {
  readonly url: string;
  readonly token: string;
  readonly startMs: number;
}

interface Status {
  readonly seq: number;
  readonly snapshotSeq: number;
  readonly replayedEvents: number;
  readonly pauseMs: number;
}

const program = await bundle("server");
const directory = await mkdtemp(join(tmpdir(), "berth-million-"));
const args = ["berth", "sqlite", join(directory, "berth.db")];
const memory = ["--max-old-space-size=6144"];
let hasFailed = false;
try {
  await prove();
} finally {
  await rm(directory, { recursive: true, force: true });
}
process.exitCode = hasFailed ? 1 : 0;

async function prove(): Promise<void> {
  const first = await start<Started>(program, args, memory);
  await prepare(first.first);
  const fillMs = await timed(() => fill(first.first));
  show(
    "submitted",
    `${whole(REQUESTS)} in ${seconds(fillMs)} s, ${whole((REQUESTS / fillMs) * 1000)} a second`,
  );
  const before = await first.ask<Status>({ kind: "status" });
  await first.end("SIGKILL");

  const again = await start<Started>(program, args, memory);
  const after = await again.ask<Status>({ kind: "watch" });
  const { cpuMs, rss } = await again.ask<{ cpuMs: number; rss: number }>({ kind: "use" });
  const startSeconds = again.first.startMs / 1000;
  limit("seconds to start after SIGKILL", startSeconds, RESTART_SECONDS_MAX);
  show(
    "",
    `${seconds(cpuMs)} s of processor time, ${whole(after.replayedEvents)} events replayed, ${whole(rss / 1e6)} MB`,
  );
  claim(
    "every event is there",
    after.seq === before.seq,
    `${whole(before.seq)} before, ${whole(after.seq)} after`,
  );
  const waiting = await countWaiting(again.first);
  claim("every request waits", waiting === REQUESTS, `${whole(waiting)} of ${whole(REQUESTS)}`);

  const pauseMs = await pauseWhileSaved(again, after);
  limit("longest pause of the loop while a snapshot is written, ms", pauseMs, PAUSE_MS_MAX);
  await again.end("SIGKILL");

  const third = await start<Started>(program, args, memory);
  limit("seconds to start from the snapshot", third.first.startMs / 1000, RESTART_SECONDS_MAX);
  claim("every request waits still", (await countWaiting(third.first)) >= REQUESTS, "");
  await third.end();
}

/** The long replay is followed by a snapshot; meanwhile requests go on coming, one by one. */
async function pauseWhileSaved(
  server: { ask<T>(question: object): Promise<T>; first: Started },
  since: Status,
) {
  const untilMs = performance.now() + SNAPSHOT_SECONDS_MAX * 1000;
  let longestMs = 0;
  for (let i = 0; performance.now() < untilMs; i++) {
    await call(server.first, "POST", "/v1/resource-requests", item(i));
    const { snapshotSeq, pauseMs } = await server.ask<Status>({ kind: "status" });
    if (i > 0) longestMs = Math.max(longestMs, pauseMs); // The first may still be of the start.
    if (snapshotSeq > since.snapshotSeq) return longestMs;
    await delay(50);
  }
  throw new Error(`no snapshot within ${SNAPSHOT_SECONDS_MAX} seconds`);
}

async function prepare(server: Started): Promise<void> {
  // Grants that nobody takes up must outlast the proof, so that all others wait.
  const settings = { lease_seconds: 3_600, renewal_seconds: 600 };
  await call(server, "PUT", "/v1/pools/full", { capacity: { gpu: 8 }, settings });
  for (let i = 0; i < COMPONENTS; i++)
    await call(server, "PUT", `/v1/pools/full/policies/team-${i}`, { priority: 1 });
  const items = Array.from({ length: 8 }, () => ({ ...item(0) }));
  await call(server, "POST", "/v1/resource-requests/bulk", { items });
}

function item(index: number): object {
  return { component: `team-${index % COMPONENTS}`, resources: { gpu: 1 }, labels: { index: String(index) } };
}

async function fill(server: Started): Promise<void> {
  let next = 0;
  const caller = async () => {
    while (next < REQUESTS) {
      const from = next;
      next = Math.min(next + BULK, REQUESTS);
      const items = Array.from({ length: next - from }, (_, i) => item(from + i));
      await call(server, "POST", "/v1/resource-requests/bulk", { items });
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
}

/** From outside: what the metrics say. */
async function countWaiting(server: Started): Promise<number> {
  const text = await call(server, "GET", "/metrics");
  const lines = text.split("\n").filter((line) => /^berth_requests\{.*status="queued"/.test(line));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

async function call({ url, token }: Started, method: string, path: string, body?: object): Promise<string> {
  const answer = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${path}: ${text.slice(0, 300)}`);
  return text;
}

async function timed(work: () => Promise<void>): Promise<number> {
  const beganMs = performance.now();
  await work();
  return performance.now() - beganMs;
}

function limit(what: string, value: number, max: number): void {
  claim(what, value <= max, `${value.toFixed(1)}, at most ${max}`);
}

function claim(what: string, isTrue: boolean, told: string): void {
  if (!isTrue) hasFailed = true;
  show(`${isTrue ? "✓" : "✗"} ${what}`, told);
}

function show(what: string, told: string): void {
  console.log(`${what.padEnd(64)}${told}`);
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}
