// What a server could reach that decides nothing: the same HTTP stack and the same group commit, without authentication.
// It reads and writes the same bytes: bodies, headers, answers and events have the form and the size of Berth's, and with
// every change it writes the rows that Berth must write (journal, record of the request, audit).

import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestProgress, RequestSpec } from "../../src/engine/index.ts";
import { PLAIN_REQUEST } from "../../src/engine/index.ts";
import { flat, writeAnswer } from "../../src/server/answering.ts";
import { readJson } from "../../src/server/body.ts";
import { SECURITY_HEADERS } from "../../src/server/headers.ts";
import { keepCallsInNewSpace } from "../../src/server/open.ts";
import { createRouter, pathOf, queryOf } from "../../src/server/router.ts";
import { createHttpServer } from "../../src/server/server.ts";
import { openMemoryStore, openPostgresStore, openSqliteStore, type Store } from "../../src/store/index.ts";
import { presentRequest } from "../../src/translation/index.ts";

const BYTES_MAX = 4 * 1024 * 1024;

export async function startLimit(storeKind: string, place: string): Promise<{ url: string; token: string }> {
  keepCallsInNewSpace(); // As Berth does: it makes the limit faster, too.
  const store = await openStore(storeKind, place);
  const streams = new Set<ServerResponse>();
  const commit = groupCommit(store, await store.takeOver({ holder: "limit" }), (changes) => {
    if (streams.size === 0) return;
    const text = changes.flatMap(messagesOf).join("");
    for (const stream of streams) stream.write(text);
  });
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
  const routes = createRouter<Route>([
    {
      ...{ method: "POST", path: "/v1/resource-requests", status: 201 },
      answer: async (body) => shownRunning(await submit(body)),
    },
    {
      ...{ method: "POST", path: "/v1/resource-requests/bulk", status: 200 },
      async answer(body) {
        const { items } = body as { items: unknown[] };
        return { results: (await Promise.all(items.map(submit))).map(shownRunning) };
      },
    },
    {
      ...{ method: "POST", path: "/v1/resource-requests/bulk-release", status: 200 },
      async answer(body) {
        const { items } = body as { items: { id: string }[] };
        return { results: (await Promise.all(items.map((item) => release(item.id, item)))).map(shownEnded) };
      },
    },
    {
      ...{ method: "POST", path: "/v1/resource-requests/{id}/release", status: 200 },
      answer: async (body, id) => shownEnded(await release(id, body)),
    },
    {
      ...{ method: "POST", path: "/v1/resource-requests/{id}/renew", status: 200 },
      answer: async () => RENEWED,
    },
  ]);
  const stream = (url: string, outgoing: ServerResponse) => {
    outgoing.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
    outgoing.write("retry: 2000\n\n");
    // One that asks for another component hears nothing here.
    if (queryOf(url).component !== undefined) return;
    streams.add(outgoing);
    outgoing.on("close", () => streams.delete(outgoing));
  };
  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { url = "", method = "" } = incoming;
    const match = routes.match(method, pathOf(url));
    if (match === undefined) return stream(url, outgoing);
    const { status, answer } = match.route;
    const shown = await answer(await readJson(incoming, BYTES_MAX), match.params.id ?? "");
    writeAnswer(incoming, outgoing, { status, headers: HEADERS, content: JSON.stringify(shown) });
  };
  const server = createHttpServer((incoming, outgoing) => void serve(incoming, outgoing));
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

const HEADERS = flat({ ...SECURITY_HEADERS, "content-type": "application/json" });

interface Route {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  answer(body: unknown, id: string): Promise<object>;
}

interface Item {
  readonly kind: "submitted" | "ended";
  readonly number: number;
  readonly body: unknown;
}

interface Change extends Omit<Item, "body"> {
  /** Of its first event. */
  readonly seq: number;
  readonly atMs: number;
}

/** All that waits is one commit, as in the leader's loop: where the store writes elsewhere, one is sent while one is written. */
function groupCommit(
  store: Store,
  head: { epoch: number; seq: number },
  publish: (changes: readonly Change[]) => void,
) {
  const { epoch } = head;
  let { seq } = head;
  const waiting: { item: Item; done(): void }[] = [];
  /** How many calls each of the commits has that are being written. */
  const underWay: number[] = [];
  let isPlanned = false;

  const plan = () => {
    if (isPlanned || !hasPlace()) return;
    isPlanned = true;
    setImmediate(() => {
      isPlanned = false;
      void write();
      if (waiting.length > 0) plan();
    });
  };
  const hasPlace = () => {
    const last = underWay.at(-1);
    if (last === undefined) return true;
    return underWay.length < store.commitsAtOnce && waiting.length * 2 >= last;
  };
  const write = async () => {
    const batch = waiting.splice(0, 1_000);
    underWay.push(batch.length);
    const atMs = Date.now();
    const expectedSeq = seq;
    const changes = batch.map(({ item: { kind, number } }) => {
      const change = { kind, number, seq: seq + 1, atMs };
      seq += kind === "submitted" ? 2 : 1;
      return change;
    });
    const events = changes.flatMap(eventsOf);
    const rows = { requests: changes.map(recordOf), audit: changes.map(auditOf) };
    let hadOthersTurn = false;
    setImmediate(() => {
      hadOthersTurn = true;
    });
    await store.commit({ epoch, expectedSeq, atMs, events, ...rows });
    underWay.shift();
    for (const { done } of batch) done();
    publish(changes);
    if (waiting.length === 0 || !hasPlace()) return;
    if (hadOthersTurn) void write();
    else plan();
  };
  return (item: Item) =>
    new Promise<void>((done) => {
      waiting.push({ item, done });
      plan();
    });
}

// --- Rows of the form and size that a change has

// Plain literals, without a spread into another: those would cost more than the rows themselves.

const SPEC = {
  ...PLAIN_REQUEST,
  component: "bench",
  resources: { gpu: 1, step_run: 1 },
  submittedBy: "admin",
  labels: { run: "42" },
};

function idOf(number: number): string {
  return `01900000-0000-7000-8000-${String(number).padStart(12, "0")}`;
}

function eventsOf({ kind: what, number, atMs }: Change): { kind: string; [field: string]: unknown }[] {
  const requestId = idOf(number);
  if (what === "submitted") {
    return [
      { v: 2, kind: "requestSubmitted", spec: { ...SPEC, id: requestId }, atMs },
      { v: 2, kind: "requestAllocated", requestId, pool: "bench", opportunistic: false, placement: [], atMs },
    ];
  }
  return [
    {
      v: 2,
      kind: "attemptEnded",
      requestId,
      outcome: "succeeded",
      status: "released",
      queuedAtMs: null,
      unasked: true,
      atMs,
      end: {},
    },
  ];
}

function recordOf(change: Change) {
  const { kind: what, number, atMs } = change;
  const id = idOf(number);
  const progress = what === "ended" ? endedProgress(change) : runningProgress(change);
  const attempts = what === "ended" ? [attemptOf(change)] : [];
  return {
    id,
    number,
    status: progress.status,
    component: "bench",
    pool: "bench",
    operation: null,
    submittedAtMs: atMs,
    endedAtMs: progress.endedAtMs,
    labels: SPEC.labels,
    body: { number, spec: { ...SPEC, id }, progress, attempts },
  };
}

const PROGRESS = {
  status: "allocated",
  seq: 0,
  submittedAtMs: 0,
  attempt: 1,
  preemptedCount: 0,
  preemptedFor: null,
  preemptedAtMs: [],
  shielded: false,
  resume: false,
  lastCheckpointAtMs: null,
  lastCheckpointSeq: 0,
  furtherAttempts: 0,
  queuedAtMs: 0,
  delayed: false,
  blocked: false,
  cancelledBecause: null,
  allocation: null as object | null,
  hold: null,
  rejection: null,
  endedAtMs: null as number | null,
  deletionPlanned: false,
};

function runningProgress({ seq, atMs }: Change): typeof PROGRESS {
  const run = {
    pool: "bench",
    token: seq,
    startedAtMs: atMs,
    opportunistic: false,
    placement: [],
    stop: null,
  };
  return { ...PROGRESS, seq, submittedAtMs: atMs, queuedAtMs: atMs, allocation: run };
}

function endedProgress({ seq, atMs }: Change): typeof PROGRESS {
  return { ...PROGRESS, status: "released", seq, submittedAtMs: atMs, queuedAtMs: atMs, endedAtMs: atMs };
}

function attemptOf({ seq, atMs }: Change): object {
  return {
    attempt: 1,
    pool: "bench",
    token: seq,
    outcome: "succeeded",
    preemptedFor: null,
    reason: null,
    startedAtMs: atMs,
    endedAtMs: atMs,
    end: {},
  };
}

function auditOf({ kind: what, number }: Change) {
  const target = idOf(number);
  if (what === "submitted") {
    const body = { token: TOKEN_ID, from: "127.0.0.1", component: "bench" };
    return { actor: "admin", action: "submitRequest", target, outcome: "accepted", body };
  }
  const body = { token: TOKEN_ID, from: "127.0.0.1", outcome: "succeeded" };
  return { actor: "admin", action: "releaseRequest", target, outcome: "accepted", body };
}

const TOKEN_ID = idOf(1);

/** The record of a change, and what a caller is shown of it. */
const RUNNING = recordOf({ kind: "submitted", number: 1, seq: 1, atMs: 0 }).body;
const ENDED = recordOf({ kind: "ended", number: 1, seq: 1, atMs: 0 }).body;
const RENEWED = {
  status: "allocated",
  instruction: { do: "carry_on" },
  lease_expires_at: new Date(0).toISOString(),
  lease_seconds: 60,
  renew_after_seconds: 20,
};
const GRANT = { token: `1234567.${"t".repeat(43)}`, lease_expires_at: new Date(0).toISOString() };

function shownRunning(number: number): object {
  const shown = presented(RUNNING);
  return Object.assign(shown, { id: idOf(number), number, attempts: [] }, GRANT);
}

function shownEnded(number: number): object {
  const shown = presented(ENDED);
  return Object.assign(shown, {
    id: idOf(number),
    number,
    attempts: [ATTEMPT],
    ended_at: GRANT.lease_expires_at,
  });
}

function presented({ spec, progress }: typeof RUNNING) {
  return presentRequest(spec as unknown as RequestSpec, progress as unknown as RequestProgress);
}

const ATTEMPT = {
  attempt: 1,
  pool: "bench",
  started_at: GRANT.lease_expires_at,
  ended_at: GRANT.lease_expires_at,
  outcome: "succeeded",
  preempted_for: null,
  reason: null,
  exit_code: null,
  signal: null,
  cause: null,
  message: null,
};

function messagesOf({ kind: what, number, seq, atMs }: Change): string[] {
  const at = new Date(atMs).toISOString();
  const id = idOf(number);
  const begin = { seq, at, number, name: "", component: "bench", pool: "bench", request_id: id };
  if (what === "ended") {
    return [message("request.released", Object.assign(begin, { outcome: "succeeded", ended_at: at }))];
  }
  return [
    message("request.queued", { ...begin, attempt: 1 }),
    message("request.allocated", { ...begin, seq: seq + 1, placement: [], token: GRANT.token }),
  ];
}

function message(event: string, told: { readonly seq: number; readonly [field: string]: unknown }): string {
  const data = JSON.stringify(told);
  return `event: ${event}\nid: ${EPOCH + told.seq}\ndata: {"event":"${event}",${data.slice(1)}\n\n`;
}

const EPOCH = 1_234_567_000_000_000;
