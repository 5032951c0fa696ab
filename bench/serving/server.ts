// The server under measurement, or its limit: the same HTTP stack and the same group commit around an engine that
// decides nothing, without authentication.
// Arguments: berth|limit, sqlite|postgres|memory, file or address.

import { dirname } from "node:path";
import type { HttpBindings } from "@hono/node-server";
import { Hono } from "hono";
import { readJson } from "../../src/server/body.ts";
import { openServer } from "../../src/server/index.ts";
import { createHttpServer } from "../../src/server/server.ts";
import { openMemoryStore, openPostgresStore, openSqliteStore, type Store } from "../../src/store/index.ts";

const [kind, storeKind, place = ""] = process.argv.slice(2);
const beganMs = performance.now();

const opened = kind === "berth" ? await startBerth() : await startLimit();
process.send?.({ ...opened, startMs: performance.now() - beganMs, pid: process.pid });

/** What it uses: memory in bytes, and the time of processors since it started. */
process.on("message", () => {
  global.gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  process.send?.({ rss, heapUsed, cpuMs: (user + system) / 1000 });
});
process.on("disconnect", () => process.exit());
process.on("SIGTERM", () => process.exit());

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
  const token = server.firstToken ?? (await server.makeAdminToken(`bench ${process.pid}`));
  return { url: server.url, token: token.secret };
}

async function startLimit() {
  const store = await openStore();
  const commit = groupCommit(store, await store.takeOver({ holder: "limit" }));
  const app = new Hono<{ Bindings: HttpBindings }>();
  let count = 0;
  app.post("/v1/resource-requests", async ({ env }) => {
    const body = await readJson(env.incoming, 1024 * 1024);
    await commit({ kind: "submitted", body });
    return json(201, { id: String(++count), status: "allocated", token: "1" });
  });
  app.post("/v1/resource-requests/bulk", async ({ env }) => {
    const { items } = (await readJson(env.incoming, 4 * 1024 * 1024)) as { items: unknown[] };
    await Promise.all(items.map((body) => commit({ kind: "submitted", body })));
    return json(200, { results: items.map(() => ({ id: String(++count), token: "1" })) });
  });
  app.post("/v1/resource-requests/bulk-release", async ({ env }) => {
    const { items } = (await readJson(env.incoming, 4 * 1024 * 1024)) as { items: { id: string }[] };
    await Promise.all(items.map((body) => commit({ kind: "ended", body })));
    return json(200, { results: items.map(({ id }) => ({ id, status: "released" })) });
  });
  app.post("/v1/resource-requests/:id/release", async ({ env, req }) => {
    const body = await readJson(env.incoming, 1024 * 1024);
    await commit({ kind: "ended", body });
    return json(200, { id: req.param("id"), status: "released" });
  });
  const server = createHttpServer(app.fetch as Parameters<typeof createHttpServer>[0]);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}`, token: "none" };
}

function openStore(): Promise<Store> {
  if (storeKind === "memory") return openMemoryStore();
  return storeKind === "sqlite"
    ? openSqliteStore({ path: place })
    : openPostgresStore({ url: place, schema: "limit" });
}

function json(status: number, body: unknown): Response {
  return new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json" } });
}

/** All that waits is one commit; while it is on its way, the next one gathers. */
function groupCommit(store: Store, head: { epoch: number; seq: number }) {
  const { epoch } = head;
  let { seq } = head;
  const waiting: { event: { kind: string }; done(): void }[] = [];
  let isTurning = false;
  const turn = async () => {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, 1_000);
      const events = batch.map(({ event }) => event);
      ({ seq } = await store.commit({ epoch, expectedSeq: seq, atMs: Date.now(), events }));
      for (const { done } of batch) done();
      await new Promise((resolve) => setImmediate(resolve));
    }
    isTurning = false;
  };
  return (event: { kind: string; body: unknown }) =>
    new Promise<void>((done) => {
      waiting.push({ event, done });
      if (isTurning) return;
      isTurning = true;
      setImmediate(() => void turn());
    });
}
