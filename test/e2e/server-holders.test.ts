// Holders over HTTP: who is silent and until when, what is freed at once, and how ends are recorded (L2, L3, Q6).

import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { openTestServer, type TestServer } from "./server-support.ts";

let server: TestServer;
beforeAll(async () => {
  server = await openTestServer();
  await world("lab", { lease_seconds: 300 });
  // Given up after one second, or one and a half.
  await world("hasty", { lease_seconds: 1 });
  // Shown as silent soon, and given up never as far as a test is concerned.
  await world("patient", { lease_seconds: 300, renewal_seconds: 1 });
});
afterAll(() => server.close());

/** A pool with one unit, and a component of the same name. */
async function world(name: string, settings: object, gpu = 1): Promise<void> {
  await server.admin("POST", "/v1/pools", { name, capacity: { gpu }, settings });
  await server.admin("POST", `/v1/pools/${name}/policies`, { component: name });
}

const submit = async (component: string, wanted: object = {}, call = server.admin) =>
  (await call("POST", "/v1/resource-requests", { component, resources: { gpu: 1 }, ...wanted })).body;
const at = (id: string, what = "") => `/v1/resource-requests/${id}${what}`;
const get = async (id: string) => (await server.admin("GET", at(id))).body;
type Grant = { id: string; token: string };
const renew = ({ id, token }: Grant, headers = {}) =>
  server.admin("POST", at(id, "/renew"), { token }, headers);
const eventually = (look: () => Promise<void>) => vi.waitFor(look, { timeout: 120_000, interval: 50 });

/** So many at one moment, however slow the machine is. */
async function submitTogether(component: string, count: number, wanted: object = {}) {
  const item = { component, resources: { gpu: 1 }, ...wanted };
  const items = Array.from({ length: count }, () => item);
  return (await server.admin("POST", "/v1/resource-requests/bulk", { items })).body.results;
}

test("a grant that nobody takes up expires, and the next one in line is served", async () => {
  const [ghost, next] = await submitTogether("hasty", 2);
  expect([ghost.status, next.status]).toEqual(["allocated", "queued"]);
  await eventually(async () => expect((await get(next.id)).status).not.toBe("queued"));
  expect(await get(ghost.id)).toMatchObject({
    status: "expired",
    attempts: [{ outcome: "lost", cause: "not_taken_up" }],
  });
  await eventually(async () => expect((await get(next.id)).status).toBe("expired"));
});

test("a silent holder is shown with the time at which it is given up, also to those who wait for it", {
  timeout: 240_000,
}, async () => {
  const run = await submit("patient");
  await renew(run);
  const next = await submit("patient");
  await eventually(async () => expect((await get(run.id)).given_up_at).toBeDefined());
  const shown = await get(run.id);
  expect(Date.parse(shown.given_up_at) - Date.parse(shown.holder_silent_since)).toBe(450_000);
  const { body: list } = await server.admin("GET", "/v1/resource-requests?status=allocated&pool=patient");
  expect(list.items).toMatchObject([{ id: run.id, given_up_at: shown.given_up_at }]);
  const { body: why } = await server.admin("GET", at(next.id, "/explanation"));
  expect(why.pools[0].holders).toMatchObject([{ given_up_at: shown.given_up_at }]);
  await renew(run);
  expect((await get(run.id)).holder_silent_since).toBeUndefined();
  await server.admin("POST", at(next.id, "/cancel"));
  await server.admin("POST", at(run.id, "/release"), { token: run.token, outcome: "succeeded" });
});

test("a holder that was heard of once and is silent is lost", { timeout: 240_000 }, async () => {
  // A renewal may come after the second in which the grant must be taken up: then the next one is tried.
  await eventually(async () => {
    const run = await submit("hasty", { requeue: "never" });
    expect((await renew(run)).status).toBe(200);
    await eventually(async () =>
      expect((await get(run.id)).attempts).toMatchObject([{ cause: "holder_silent" }]),
    );
  });
});

test("cancelling a grant that was never taken up frees it at once, and a deletion by force deletes it", async () => {
  const ghost = await submit("lab");
  expect((await server.admin("POST", at(ghost.id, "/cancel"))).body).toMatchObject({ status: "cancelled" });
  const another = await submit("lab");
  expect(another.status).toBe("allocated");
  expect((await server.admin("DELETE", at(another.id, "?force=true"))).status).toBe(204);
  expect((await server.admin("GET", at(another.id))).status).toBe(404);
});

test("a deletion by force of what runs takes its record away with its end", async () => {
  const run = await submit("lab");
  await renew(run);
  expect((await server.admin("DELETE", at(run.id, "?force=true"))).status).toBe(202);
  expect((await get(run.id)).status).toBe("allocated");
  const released = await server.admin("POST", at(run.id, "/release"), {
    token: run.token,
    outcome: "stopped",
  });
  expect(released.body).toMatchObject({ id: run.id, status: "cancelled" });
  expect((await server.admin("GET", at(run.id))).status).toBe(404);
});

test("an operator declares a silent holder lost; one that was heard of just now is not", {
  timeout: 240_000,
}, async () => {
  const run = await submit("lab");
  await renew(run);
  const refused = await server.admin("POST", at(run.id, "/cancel?abandoned=true"));
  expect(refused.body).toMatchObject({ status: 409, code: "in_use" });
  await server.admin("POST", at(run.id, "/release"), { token: run.token, outcome: "succeeded" });

  const user = await server.token("user", { components: ["patient"] });
  const silent = await submit("patient", {}, user.call);
  await user.call("POST", at(silent.id, "/renew"), { token: silent.token });
  await eventually(async () => expect((await get(silent.id)).holder_silent_since).toBeDefined());
  expect((await user.call("POST", at(silent.id, "/cancel?abandoned=true"))).status).toBe(403);
  expect((await server.admin("POST", at(silent.id, "/cancel?abandoned=true"))).body).toMatchObject({
    status: "cancelled",
    attempts: [{ outcome: "cancelled", cause: "declared_lost" }],
  });
});

// With ten seconds a standstill of the whole process loses nobody: before the patience is over the calls come first, and
// after it the leader knows that it was absent (L3).
const ABSENCE_PROOF = { lease_seconds: 10 };

test("a plain read by its submitter keeps an attended request waiting", { timeout: 240_000 }, async () => {
  await world("queue", ABSENCE_PROOF);
  const holder = await submit("queue");
  const watched = await submit("queue", { attended: true });
  const forgotten = await submit("queue", { attended: true });
  const other = await server.token("viewer");
  await eventually(async () => {
    await renew(holder);
    expect((await get(watched.id)).status).toBe("queued");
    expect((await other.call("GET", at(forgotten.id))).body.status).toBe("expired");
  });
  expect((await get(watched.id)).status).toBe("queued");
  await server.admin("POST", at(watched.id, "/cancel"));
  await server.admin("POST", at(holder.id, "/release"), { token: holder.token, outcome: "succeeded" });
});

test("mass silence of clients pauses expiry, the pool says so, and an operator ends the pause", {
  timeout: 240_000,
}, async () => {
  await world("crowd", ABSENCE_PROOF, 10);
  const runs = await submitTogether("crowd", 6, { requeue: "never" });
  await Promise.all(runs.map((run: Grant, i: number) => renew(run, { "berth-client": `process-${i}` })));
  const pool = async () => (await server.admin("GET", "/v1/pools/crowd")).body;
  await eventually(async () => expect((await pool()).expiry_paused).toMatchObject({ silent: 6, clients: 6 }));
  expect((await get(runs[0].id)).status).toBe("allocated");
  expect((await server.admin("POST", "/v1/pools/crowd/resume-expiry")).status).toBe(204);
  expect((await pool()).expiry_paused).toBeUndefined();
  expect((await get(runs[0].id)).status).toBe("expired");
});

test("an end is recorded with what its holder says, at the time at which it happened", async () => {
  const run = await submit("lab");
  const startedAtMs = Date.parse(run.started_at);
  const ended_at = new Date(startedAtMs + 1).toISOString();
  const failure = { outcome: "failed", exit_code: 139, signal: "SIGSEGV", message: "out of range", ended_at };
  const { body } = await server.admin("POST", at(run.id, "/release"), { token: run.token, ...failure });
  expect(body).toMatchObject({
    status: "failed",
    ended_at,
    attempts: [{ exit_code: 139, signal: "SIGSEGV", cause: null, message: "out of range", ended_at }],
  });
  const early = await submit("lab");
  const report = { token: early.token, outcome: "succeeded", ended_at: "2001-01-01T00:00:00.000Z" };
  const { body: clamped } = await server.admin("POST", at(early.id, "/release"), report);
  expect(clamped.attempts[0].ended_at).toBe(early.started_at);
});

test("where and how it was started is for its submitter and for operators", async () => {
  const user = await server.token("user", { components: ["lab"] });
  const colleague = await server.token("user", { components: ["lab"] });
  const origin = { host: "box", user: "ann", command: "python train.py" };
  const run = await submit("lab", { origin }, user.call);
  expect(run.origin).toEqual(origin);
  expect((await get(run.id)).origin).toEqual(origin);
  expect((await colleague.call("GET", at(run.id))).body.origin).toBeNull();
  await user.call("POST", at(run.id, "/release"), { token: run.token, outcome: "succeeded" });
});
