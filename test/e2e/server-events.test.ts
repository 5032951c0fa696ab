// The event stream over HTTP: live, resumed, filtered, and never silent about a gap.

import { afterAll, beforeAll, expect, test } from "vitest";
import { createPositions } from "../../src/server/positions.ts";
import { openStream, openTestServer, smallWorld, type TestServer } from "./server-support.ts";

let server: TestServer;
beforeAll(async () => {
  server = await openTestServer();
  await smallWorld(server);
});
afterAll(() => server.close());

const run = async (component: string) => {
  const { body } = await server.admin("POST", "/v1/resource-requests", { component, resources: { gpu: 1 } });
  await server.admin("POST", `/v1/resource-requests/${body.id}/release`, {
    token: body.token,
    outcome: "succeeded",
  });
  return body;
};

test("what happens is told in order, with names, numbers and places", async () => {
  const stream = await openStream(server.url, server.adminSecret);
  const { id, number } = await run("vision");
  const about = { request_id: id, number, component: "vision" };
  expect(await stream.until("request.queued")).toMatchObject({ data: { ...about, attempt: 1 } });
  expect(await stream.until("request.allocated")).toMatchObject({ data: { ...about, pool: "gpus" } });
  expect(await stream.until("request.released")).toMatchObject({
    data: { ...about, outcome: "succeeded", pool: "gpus" },
  });
  stream.close();
});

test("a grant is told with its fencing token to those who may hold, and to nobody else", async () => {
  const { secret } = await server.token("viewer");
  const holder = await openStream(server.url, server.adminSecret);
  const viewer = await openStream(server.url, secret);
  const { token } = await run("vision");
  expect((await holder.until("request.allocated")).data).toMatchObject({ token });
  expect((await viewer.until("request.allocated")).data).not.toHaveProperty("token");
  holder.close();
  viewer.close();
});

test("a stream goes on after the last event that was seen, without a gap and without repetition", async () => {
  const first = await openStream(server.url, server.adminSecret);
  const opened = await first.next();
  await run("vision");
  const queued = await first.until("request.queued");
  first.close();
  await run("speech");
  for (const resumed of [
    await openStream(server.url, server.adminSecret, { headers: { "last-event-id": queued.id } }),
    await openStream(server.url, server.adminSecret, { query: `?after=${queued.id}` }),
  ]) {
    await resumed.until("stream.opened");
    const told = [];
    for (let count = 0; count < 5; count++) told.push(await resumed.next());
    expect(told.map((one) => Number(one?.id))).toEqual(
      [1, 2, 3, 4, 5].map((step) => Number(queued.id) + step),
    );
    resumed.close();
  }
  expect(Number(queued.id)).toBeGreaterThan(Number(opened?.id));
});

test("who sees what follows the settings of pools while a stream is open (14)", async () => {
  const { secret } = await server.token("viewer", { components: ["speech"] });
  const setVisibility = (visibility: string) =>
    server.admin("PATCH", "/v1/pools/gpus", { settings: { visibility } });
  const stream = await openStream(server.url, secret);
  await run("vision");
  expect((await stream.until("request.released")).data).toMatchObject({ component: "vision" });
  expect(await setVisibility("own")).toMatchObject({ status: 200 });
  await run("vision");
  await run("speech");
  expect((await stream.until("request.released")).data).toMatchObject({ component: "speech" });
  expect(await setVisibility("all")).toMatchObject({ status: 200 });
  await run("vision");
  expect((await stream.until("request.released")).data).toMatchObject({ component: "vision" });
  stream.close();
});

test("filters by request, component and pool", async () => {
  await server.admin("PUT", "/v1/pools/cpus", { capacity: { slots: 1 } });
  await server.admin("PUT", "/v1/pools/cpus/policies/robots", {});
  const waiting = (
    await server.admin("POST", "/v1/resource-requests", { component: "robots", resources: { slots: 1 } })
  ).body;
  const seq = server.leader.seq();
  const streams = {
    request: await openStream(server.url, server.adminSecret, {
      query: `?after=${seq}&request=${waiting.number}`,
    }),
    component: await openStream(server.url, server.adminSecret, { query: `?after=${seq}&component=robots` }),
    pool: await openStream(server.url, server.adminSecret, { query: `?after=${seq}&pool=cpus` }),
  };
  await run("vision");
  await server.admin("POST", `/v1/resource-requests/${waiting.id}/release`, {
    token: waiting.token,
    outcome: "failed",
  });
  for (const stream of Object.values(streams)) {
    expect((await stream.next())?.event).toBe("stream.opened");
    expect(await stream.next()).toMatchObject({ event: "request.failed", data: { request_id: waiting.id } });
    stream.close();
  }
});

test("a position from another history is answered with a reset, not with silence", async () => {
  const stream = await openStream(server.url, server.adminSecret, {
    headers: { "last-event-id": "999999999" },
  });
  expect(await stream.next()).toMatchObject({ event: "stream.reset", data: { seq: server.leader.seq() } });
  await run("vision");
  expect((await stream.next())?.event).toBe("request.queued");
  stream.close();
});

test("a stream that is cut off inside a decision gets all of its victims when it resumes", async () => {
  await server.admin("POST", "/v1/pools", { name: "three", capacity: { slots: 3 } });
  await server.admin("PATCH", "/v1/pools/three", { settings: { priority_preempts: "any" } });
  await server.admin("PUT", "/v1/pools/three/policies/low", { priority: 1 });
  await server.admin("PUT", "/v1/pools/three/policies/high", { priority: 9 });
  const ask = (component: string, slots: number) =>
    server.admin("POST", "/v1/resource-requests", { component, resources: { slots } });
  for (let count = 0; count < 3; count++) await ask("low", 1);
  const first = await openStream(server.url, server.adminSecret);
  await ask("high", 3);
  const victim = await first.until("request.preempting");
  first.close();
  const resumed = await openStream(server.url, server.adminSecret, {
    headers: { "last-event-id": victim.id },
  });
  const victims = new Set();
  for (let told = await resumed.next(); told?.event !== "request.held"; told = await resumed.next()) {
    if (told?.event === "request.preempting") victims.add(told.data.request_id);
  }
  expect(victims.size).toBe(3);
  resumed.close();
});

test("a position of the history before a restore is answered with a reset, though the journal has gone past it", async () => {
  const other = createPositions(() => "another incarnation").idOf(1);
  const stream = await openStream(server.url, server.adminSecret, {
    headers: { "last-event-id": String(other) },
  });
  expect(await stream.next()).toMatchObject({ event: "stream.reset", data: { seq: server.leader.seq() } });
  stream.close();
});

test("a position that is none is refused", async () => {
  const call = server.as(server.adminSecret);
  expect((await call("GET", "/v1/events", undefined, { "last-event-id": "x" })).status).toBe(400);
  expect((await call("GET", "/v1/events?after=-1")).status).toBe(400);
  expect((await call("GET", "/v1/events?request=nobody")).status).toBe(404);
});

test("a token may only have so many streams", async () => {
  const { secret, call } = await server.token("viewer");
  const streams = [];
  for (let count = 0; count < 10; count++) streams.push(await openStream(server.url, secret));
  expect((await call("GET", "/v1/events")).body.code).toBe("rate_limited");
  for (const stream of streams) stream.close();
});

test("an open stream ends when the server closes", async () => {
  const other = await openTestServer();
  const stream = await openStream(other.url, other.adminSecret);
  await stream.next();
  await other.close();
  expect(await stream.next()).toBeUndefined();
});
