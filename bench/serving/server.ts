// The server under measurement, or its limit: the same HTTP stack and the same group commit around an engine that
// decides nothing, without authentication. The limit reads and writes the same bytes: bodies, headers and answers have
// the form and the size of Berth's, and with every change it writes the rows that Berth must write (journal, record
// of the request, audit). `journal` is the limit with events only.
// Arguments: berth|limit|journal, sqlite|postgres|memory, file or address, and `follower` for a server beside another one.

import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { HttpBindings } from "@hono/node-server";
import { Hono } from "hono";
import type { RequestProgress, RequestSpec } from "../../src/engine/index.ts";
import { PLAIN_REQUEST } from "../../src/engine/index.ts";
import type { Leader } from "../../src/leader/index.ts";
import { readJson } from "../../src/server/body.ts";
import { SECURITY_HEADERS } from "../../src/server/headers.ts";
import { openServer } from "../../src/server/index.ts";
import { createHttpServer } from "../../src/server/server.ts";
import { openMemoryStore, openPostgresStore, openSqliteStore, type Store } from "../../src/store/index.ts";
import { presentRequest } from "../../src/translation/index.ts";
import { watchPauses } from "./pauses.ts";

const [kind, storeKind, place = "", role] = process.argv.slice(2);
const BYTES_MAX = 4 * 1024 * 1024;
const beganMs = performance.now();
let leader: Leader | undefined;

async function startBerth() {
  const data =
    storeKind === "memory"
      ? ("memory" as const)
      : storeKind === "sqlite"
        ? { directory: dirname(place) }
        : { databaseUrl: place };
  const server = await openServer({
    data,
    listen: "127.0.0.1:0",
    rates: { perToken: { perSecond: Number.POSITIVE_INFINITY, burst: 0 } },
    onFatal: (error) => {
      console.error(error);
      process.exit(1);
    },
  });
  leader = server.leader;
  if (role === "follower") return { url: server.url, token: "" }; // The leader's serves here, too.
  const token = server.firstToken ?? (await server.makeAdminToken(`bench ${process.pid}`));
  return { url: server.url, token: token.secret };
}

async function startLimit() {
  const store = await openStore();
  const commit = groupCommit(store, await store.takeOver({ holder: "limit" }));
  const app = new Hono<{ Bindings: HttpBindings }>();
  let count = 0;
  const submit = async (body: unknown) => {
    const number = ++count;
    await commit({ kind: "submitted", number, body });
    return number;
  };
  const release = async (id: string, body: unknown) => {
    const number = Number(id.slice(-12));
    await commit({ kind: "ended", number, body });
    return number;
  };
  app.post("/v1/resource-requests", async ({ env }) =>
    json(201, shown(await submit(await readJson(env.incoming, BYTES_MAX)))),
  );
  app.post("/v1/resource-requests/bulk", async ({ env }) => {
    const { items } = (await readJson(env.incoming, BYTES_MAX)) as { items: unknown[] };
    const numbers = await Promise.all(items.map(submit));
    return json(200, { results: numbers.map(shownBriefly) });
  });
  app.post("/v1/resource-requests/bulk-release", async ({ env }) => {
    const { items } = (await readJson(env.incoming, BYTES_MAX)) as { items: { id: string }[] };
    const numbers = await Promise.all(items.map((item) => release(item.id, item)));
    return json(200, { results: numbers.map(shownBriefly) });
  });
  app.post("/v1/resource-requests/:id/release", async ({ env, req }) =>
    json(200, shown(await release(req.param("id"), await readJson(env.incoming, BYTES_MAX)))),
  );
  const server = createHttpServer(app.fetch as Parameters<typeof createHttpServer>[0]);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}`, token: "none" };
}

function openStore(): Promise<Store> {
  if (storeKind === "memory") return openMemoryStore();
  return storeKind === "sqlite"
    ? openSqliteStore({ path: place })
    : openPostgresStore({ url: place, schema: `bench_${kind}_${process.pid}` });
}

const HEADERS = { ...SECURITY_HEADERS, "content-type": "application/json" };

function json(status: number, body: unknown): Response {
  return new Response(JSON.stringify(body), { status, headers: HEADERS });
}

interface Item {
  readonly kind: "submitted" | "ended";
  readonly number: number;
  readonly body: unknown;
}

/** All that waits is one commit; while it is on its way, the next one gathers. */
function groupCommit(store: Store, head: { epoch: number; seq: number }) {
  const { epoch } = head;
  let { seq } = head;
  const waiting: { item: Item; done(): void }[] = [];
  let isTurning = false;
  const turn = async () => {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, 1_000);
      const items = batch.map(({ item }) => item);
      const atMs = Date.now();
      const rows = kind === "limit" ? { requests: items.map(recordOf), audit: items.map(auditOf) } : {};
      ({ seq } = await store.commit({
        epoch,
        expectedSeq: seq,
        atMs,
        events: items.flatMap(eventsOf),
        ...rows,
      }));
      for (const { done } of batch) done();
      await new Promise((resolve) => setImmediate(resolve));
    }
    isTurning = false;
  };
  return (item: Item) =>
    new Promise<void>((done) => {
      waiting.push({ item, done });
      if (isTurning) return;
      isTurning = true;
      setImmediate(() => void turn());
    });
}

// --- Rows of the form and size that a change has

const SPEC = {
  ...PLAIN_REQUEST,
  component: "bench",
  resources: { gpu: 1, step_run: 1 },
  submittedBy: "admin",
  labels: { run: "42" },
};

const PROGRESS = {
  ...{ status: "allocated", seq: 1, submittedAtMs: 1, attempt: 1, preemptedCount: 0, preemptedFor: null },
  ...{
    preemptedAtMs: [],
    shielded: false,
    resume: false,
    lastCheckpointAtMs: null,
    furtherAttempts: 0,
    queuedAtMs: 1,
  },
  ...{ delayed: false, hold: null, rejection: null, endedAtMs: null },
  allocation: { pool: "bench", token: 1, startedAtMs: 1, opportunistic: false, placement: [], stop: null },
};

function idOf(number: number): string {
  return `01900000-0000-7000-8000-${String(number).padStart(12, "0")}`;
}

function eventsOf({ kind: what, number }: Item): { kind: string; [field: string]: unknown }[] {
  const requestId = idOf(number);
  if (what === "ended")
    return [{ kind: "attemptEnded", requestId, outcome: "succeeded", status: "released", atMs: 1 }];
  return [
    { kind: "requestSubmitted", spec: { id: requestId, ...SPEC }, atMs: 1 },
    { kind: "requestAllocated", requestId, pool: "bench", opportunistic: false, placement: [], atMs: 1 },
  ];
}

function recordOf({ number }: Item) {
  return {
    id: idOf(number),
    number,
    status: "allocated",
    component: "bench",
    pool: "bench",
    operation: null,
    submittedAtMs: 1,
    endedAtMs: null,
    labels: SPEC.labels,
    body: { number, spec: { id: idOf(number), ...SPEC }, progress: PROGRESS, attempts: [] },
  };
}

function auditOf({ kind: action, number }: Item) {
  const body = { token: idOf(1), from: "127.0.0.1", component: "bench" };
  return { actor: "admin", action, target: idOf(number), outcome: "accepted", body };
}

const SHOWN = presentRequest(
  { id: idOf(1), ...SPEC } as unknown as RequestSpec,
  PROGRESS as unknown as RequestProgress,
);
const GRANT = { token: `1234567.${"t".repeat(43)}`, lease_expires_at: new Date(0).toISOString() };

function shown(number: number): object {
  return Object.assign({}, SHOWN, { id: idOf(number), number, attempts: [] }, GRANT);
}

function shownBriefly(number: number): object {
  const { status, attempt, pool, reasons } = SHOWN;
  return { id: idOf(number), number, status, attempt, pool, reasons, ...GRANT };
}

const opened = kind === "berth" ? await startBerth() : await startLimit();
process.send?.({ ...opened, startMs: performance.now() - beganMs, pid: process.pid });

/** What it uses: memory in bytes, and the time of processors since it started. */
async function tellUse(): Promise<void> {
  // What the first collection frees is given back in the background.
  global.gc?.();
  await delay(500);
  global.gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  process.send?.({ rss, heapUsed, cpuMs: (user + system) / 1000 });
}

/** What the leader says about itself, and the longest pause of its loop since the last question. */
let longestPauseMs = () => 0;
function tellStatus(): void {
  const { snapshotSeq = 0, seq = 0, recovery } = leader?.status() ?? {};
  process.send?.({ snapshotSeq, seq, replayedEvents: recovery?.events ?? 0, pauseMs: longestPauseMs() });
}

process.on("message", ({ kind: what }: { kind?: string }) => {
  if (what === "watch") longestPauseMs = watchPauses();
  if (what === "watch" || what === "status") tellStatus();
  else void tellUse();
});
process.on("disconnect", () => process.exit());
process.on("SIGTERM", () => process.exit());
