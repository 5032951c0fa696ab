// What callers see while the store fails, and how a server ends that is busy.

import { expect, onTestFinished, test, vi } from "vitest";
import { startLeader } from "../../src/leader/index.ts";
import { startServer } from "../../src/server/index.ts";
import { openMemoryStore, type Store, StoreError } from "../../src/store/index.ts";
import { type Caller, callerOf, UNLIMITED } from "./server-support.ts";

interface Open {
  readonly url: string;
  readonly secret: string;
  readonly call: Caller;
  /** Requests whose waiting client was heard of. */
  readonly heard: readonly string[];
  close(): Promise<void>;
}

/** With a pool of one GPU, on a store that `spoil` has changed. */
async function open(spoil: (store: Store) => Store = (store) => store): Promise<Open> {
  const store = spoil(await openMemoryStore());
  const leader = await startLeader({ store, onFatal: () => undefined });
  const heard: string[] = [];
  const hear: typeof leader.hear = (id, client) => {
    heard.push(id);
    leader.hear(id, client);
  };
  const server = await startServer({
    leader: { ...leader, hear },
    store,
    listen: "127.0.0.1:0",
    rates: UNLIMITED,
  });
  const { secret } = await server.makeAdminToken("admin");
  onTestFinished(async () => {
    await server.close();
    await leader.close().catch(() => undefined);
    await store.close();
  });
  const call = callerOf(server.url, secret);
  await call("POST", "/v1/pools", { name: "gpus", capacity: { gpu: 1 } });
  await call("POST", "/v1/pools/gpus/policies", { component: "vision" });
  return { url: server.url, secret, call, heard, close: server.close };
}

const wanted = { component: "vision", resources: { gpu: 1 } };

test("on the reserve of a full disk new requests are answered with 507, and work can be ended", async () => {
  let hasRoom = true;
  const { call } = await open((store) => ({ ...store, hasRoom: () => hasRoom }));
  const { id, token } = (await call("POST", "/v1/resource-requests", wanted)).body;

  hasRoom = false;
  for (const path of ["/v1/resource-requests", "/v1/resource-requests/bulk"]) {
    const answer = await call("POST", path, path.endsWith("bulk") ? { items: [wanted] } : wanted);
    expect(answer).toMatchObject({ status: 507, body: { code: "disk_full" } });
    expect(answer.headers.get("retry-after")).toBe("1");
  }
  const end = { token, outcome: "succeeded" };
  expect((await call("POST", `/v1/resource-requests/${id}/release`, end)).status).toBe(200);
  expect((await call("PATCH", "/v1/pools/gpus", { capacity: { gpu: 2 } })).status).toBe(200);
});

test("a disk without any room is answered with 507; reading goes on, and no path of the server is told", async () => {
  let isFull = false;
  const full = new StoreError("disk_full", "The disk of /var/lib/berth is full.");
  const { call } = await open((store) => ({
    ...store,
    commit: (commit) => (isFull ? Promise.reject(full) : store.commit(commit)),
  }));
  isFull = true;
  for (const attempt of ["the call that meets it", "the next one"]) {
    const answer = await call("POST", "/v1/resource-requests", wanted);
    expect(answer, attempt).toMatchObject({ status: 507, body: { code: "disk_full" } });
    expect(JSON.stringify(answer.body)).not.toContain("/var/lib");
  }
  expect((await call("GET", "/v1/pools/gpus")).status).toBe(200);
  expect((await call("GET", "/readyz")).status).toBe(503);
  expect((await call("GET", "/healthz")).status).toBe(200);

  isFull = false;
  await vi.waitFor(
    async () => expect((await call("POST", "/v1/resource-requests", wanted)).status).toBe(201),
    {
      timeout: 60_000,
    },
  );
});

test("what only the store knows is answered with 503 while it is away", async () => {
  let isAway = false;
  const away = new StoreError("unavailable", "The database at 10.0.0.7 does not answer.");
  const { call } = await open((store) => ({
    ...store,
    listRequests: (query) => (isAway ? Promise.reject(away) : store.listRequests(query)),
  }));
  isAway = true;
  const answer = await call("GET", "/v1/resource-requests");
  expect(answer).toMatchObject({ status: 503, body: { code: "unavailable" } });
  expect(answer.headers.get("retry-after")).toBe("1");
  expect(JSON.stringify(answer.body)).not.toContain("10.0.0.7");
  expect((await call("GET", "/v1/pools")).status).toBe(200);
  isAway = false;
  expect((await call("GET", "/v1/resource-requests")).status).toBe(200);
});

test("a server that closes ends its streams and long polls at once, and finishes the calls under way", async () => {
  let land: (() => void) | undefined;
  let isHeldUp = false;
  const { url, secret, call, heard, close } = await open((store) => ({
    ...store,
    async commit(commit) {
      if (isHeldUp) await new Promise<void>((resolve) => (land = resolve));
      return store.commit(commit);
    },
  }));
  await call("POST", "/v1/resource-requests", wanted);
  const waiting = (await call("POST", "/v1/resource-requests", { ...wanted, attended: true })).body;
  const stream = await fetch(`${url}/v1/events`, { headers: { authorization: `Bearer ${secret}` } });
  const poll = call("GET", `/v1/resource-requests/${waiting.id}?wait=60&until=allocated`);
  await vi.waitFor(() => expect(heard).toContain(waiting.id), { timeout: 60_000 }); // The poll has arrived.
  isHeldUp = true;
  const submission = call("POST", "/v1/resource-requests", wanted);
  await vi.waitFor(() => expect(land).toBeDefined(), { timeout: 60_000 });

  vi.useFakeTimers({ toFake: ["setTimeout"] }); // Nothing is closed by force, however long it takes.
  onTestFinished(() => void vi.useRealTimers());
  const closed = close();
  expect(await stream.text()).toMatch(/: the stream ends here.*\n\n$/);
  isHeldUp = false;
  land?.();
  expect((await submission).status).toBe(201);
  expect(await poll).toMatchObject({ status: 200, body: { status: "queued" } });
  await closed;
});
