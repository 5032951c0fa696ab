// What a server could reach that decides nothing: the same HTTP stack and the same group commit, without authentication.
// It reads and writes the same bytes: bodies, headers, answers and events have the form and the size of Berth's, and with
// every change it writes the rows that Berth must write (journal, record of the request, audit).

import type { ServerResponse } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { Hono } from "hono";
import type { RequestProgress, RequestSpec } from "../../src/engine/index.ts";
import { PLAIN_REQUEST } from "../../src/engine/index.ts";
import { readJson } from "../../src/server/body.ts";
import { SECURITY_HEADERS } from "../../src/server/headers.ts";
import { createHttpServer } from "../../src/server/server.ts";
import { openMemoryStore, openPostgresStore, openSqliteStore, type Store } from "../../src/store/index.ts";
import { presentRequest } from "../../src/translation/index.ts";

const BYTES_MAX = 4 * 1024 * 1024;

export async function startLimit(storeKind: string, place: string): Promise<{ url: string; token: string }> {
  const store = await openStore(storeKind, place);
  const streams = new Set<ServerResponse>();
  const commit = groupCommit(store, await store.takeOver({ holder: "limit" }), (events) => {
    if (streams.size === 0) return;
    const text = events.map(message).join("");
    for (const stream of streams) stream.write(text);
  });
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
  app.post("/v1/resource-requests/:id/renew", async ({ env }) => {
    await readJson(env.incoming, BYTES_MAX);
    return json(200, RENEWED);
  });
  app.get("/v1/events", ({ env: { outgoing }, req }) => {
    outgoing.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
    outgoing.write("retry: 2000\n\n");
    // One that asks for another component hears nothing here.
    if (req.query("component") === undefined) {
      streams.add(outgoing);
      outgoing.on("close", () => streams.delete(outgoing));
    }
    return RESPONSE_ALREADY_SENT;
  });
  const server = createHttpServer(app.fetch as Parameters<typeof createHttpServer>[0]);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}`, token: "none" };
}

function openStore(storeKind: string, place: string): Promise<Store> {
  if (storeKind === "memory") return openMemoryStore();
  return storeKind === "sqlite"
    ? openSqliteStore({ path: place })
    : openPostgresStore({ url: place, schema: `limit_${process.pid}` });
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
function groupCommit(
  store: Store,
  head: { epoch: number; seq: number },
  publish: (events: readonly object[]) => void,
) {
  const { epoch } = head;
  let { seq } = head;
  const waiting: { item: Item; done(): void }[] = [];
  let isTurning = false;
  const turn = async () => {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, 1_000);
      const items = batch.map(({ item }) => item);
      const atMs = Date.now();
      const events = items.flatMap(eventsOf);
      const rows = { requests: items.map(recordOf), audit: items.map(auditOf) };
      ({ seq } = await store.commit({ epoch, expectedSeq: seq, atMs, events, ...rows }));
      for (const { done } of batch) done();
      publish(events);
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
const RENEWED = {
  status: "allocated",
  instruction: { do: "carry_on" },
  lease_expires_at: new Date(0).toISOString(),
  lease_seconds: 60,
  renew_after_seconds: 20,
};
const GRANT = { token: `1234567.${"t".repeat(43)}`, lease_expires_at: new Date(0).toISOString() };

function shown(number: number): object {
  return Object.assign({}, SHOWN, { id: idOf(number), number, attempts: [] }, GRANT);
}

function shownBriefly(number: number): object {
  const { status, attempt, pool, reasons } = SHOWN;
  return { id: idOf(number), number, status, attempt, pool, reasons, ...GRANT };
}

function message(event: object): string {
  return `event: request.allocated\nid: 1234567\ndata: ${JSON.stringify(event)}\n\n`;
}
