// Who may do what: tokens, roles, reach, and the trace that everything leaves.

import { afterAll, beforeAll, expect, test } from "vitest";
import { makeToken } from "../../src/server/tokens.ts";
import { temporaryDirectory } from "./runner-support.ts";
import { openStream, openTestServer, smallWorld, type TestServer } from "./server-support.ts";

let server: TestServer;
beforeAll(async () => {
  server = await openTestServer();
  await smallWorld(server);
  await server.admin("POST", "/v1/pools", { name: "other", capacity: { gpu: 4 } });
  await server.admin("POST", "/v1/pools/other/policies", { component: "robots" });
});
afterAll(() => server.close());

const request = (component: string, more = {}) => ({ component, resources: { step_run: 1 }, ...more });

test("the first start makes one administrator", async () => {
  expect(server.firstToken).toMatchObject({ name: "admin" });
  expect(server.firstToken?.secret).toMatch(/^berth_[\w-]{43}$/);
  expect((await server.admin("GET", "/v1/whoami")).body).toMatchObject({
    name: "admin",
    role: "admin",
    components: null,
  });
});

test("without a token, or with one that is not ours, nothing is told", async () => {
  for (const secret of [
    undefined,
    "",
    "berth_",
    `berth_${"A".repeat(43)}`,
    server.adminSecret.slice(0, -1),
  ]) {
    const { status, headers, body } = await server.as(secret)("GET", "/v1/pools");
    expect(status).toBe(401);
    expect(headers.get("www-authenticate")).toContain("Bearer");
    expect(JSON.stringify(body)).not.toContain("gpus");
  }
});

test("secrets are shown once and never stored", async () => {
  const { secret, id, name } = await server.token("viewer");
  for (const path of ["/v1/tokens", `/v1/tokens/${id}`, `/v1/tokens/${name}`, "/v1/audit?limit=1000"]) {
    expect(JSON.stringify((await server.admin("GET", path)).body)).not.toContain(secret);
  }
  expect(JSON.stringify(await server.store.listTokens())).not.toContain(secret);
});

test("names of tokens in use are unique; a revoked name is free again", async () => {
  const wanted = { name: "twice", role: "viewer" };
  const both = await Promise.all([1, 2].map(() => server.admin("POST", "/v1/tokens", wanted)));
  expect(both.map(({ status }) => status).sort()).toEqual([201, 409]);
  expect((await server.admin("DELETE", "/v1/tokens/twice")).status).toBe(204);
  expect((await server.admin("POST", "/v1/tokens", wanted)).status).toBe(201);
});

test("a name that several tokens in use have, as old data may hold it, names none of them", async () => {
  const directory = temporaryDirectory();
  const before = await openTestServer({ directory });
  const records = [0, 1].map(() => makeToken({ name: "twin", role: "viewer" }, 0).record);
  for (const token of records) await before.leader.perform({ kind: "putToken", token }, { actor: "test" });
  await before.close();
  const after = await openTestServer({ directory });
  const { status, body } = await after.admin("DELETE", "/v1/tokens/twin");
  expect([status, body.code]).toEqual([409, "ambiguous"]);
  for (const { id } of records) expect(body.detail).toContain(id);
  expect((await after.admin("DELETE", `/v1/tokens/${records[0]?.id}`)).status).toBe(204);
  expect((await after.admin("DELETE", "/v1/tokens/twin")).status).toBe(204);
  await after.close();
});

test("a token of role user must say which components are its own", async () => {
  const { body } = await server.admin("POST", "/v1/tokens", { name: "loose", role: "user" });
  expect(body).toMatchObject({ status: 400, errors: [{ pointer: "/components" }] });
});

test("roles that reach everything cannot be bound", async () => {
  for (const scope of [{ components: ["vision"] }, { pools: ["gpus"] }]) {
    for (const role of ["admin", "auditor"]) {
      expect((await server.admin("POST", "/v1/tokens", { name: "bound", role, ...scope })).status).toBe(400);
    }
  }
});

test("only the submitter, an operator or an administrator ends a request (Q5)", async () => {
  const mine = await server.token("user", { components: ["vision"] });
  const colleague = await server.token("user", { components: ["vision"] });
  const operator = await server.token("operator", { components: ["vision"] });
  const submit = async () => (await mine.call("POST", "/v1/resource-requests", request("vision"))).body;
  const first = await submit();
  const path = `/v1/resource-requests/${first.id}/cancel`;
  expect((await colleague.call("GET", `/v1/resource-requests/${first.id}`)).status).toBe(200);
  expect((await colleague.call("POST", path)).status).toBe(403);
  expect((await operator.call("POST", path)).status).toBe(200);
  expect((await mine.call("POST", `/v1/resource-requests/${(await submit()).id}/cancel`)).status).toBe(200);
});

test("a viewer sees, but never the token of a grant", async () => {
  const { call } = await server.token("viewer");
  const { body } = await server.admin("POST", "/v1/resource-requests", request("vision"));
  const seen = (await call("GET", `/v1/resource-requests/${body.id}`)).body;
  expect(seen).toMatchObject({ status: "allocated" });
  expect(seen.token).toBeUndefined();
  expect((await call("POST", "/v1/resource-requests", request("vision"))).status).toBe(403);
  expect((await call("GET", "/v1/audit")).status).toBe(403);
});

test("an operator changes the pools in its reach only", async () => {
  const { call } = await server.token("operator", { pools: ["gpus"] });
  expect((await call("GET", "/v1/pools")).body.items.map(({ name }: { name: string }) => name)).toEqual([
    "gpus",
  ]);
  expect((await call("PATCH", "/v1/pools/gpus", { description: "mine" })).status).toBe(200);
  expect((await call("PATCH", "/v1/pools/other", { description: "mine" })).status).toBe(404);
  expect((await call("GET", "/v1/pools/other/policies")).status).toBe(404);
  expect((await call("POST", "/v1/pools", { name: "new", capacity: { gpu: 1 } })).status).toBe(403);
  const foreign = (await server.admin("POST", "/v1/resource-requests", request("robots"))).body;
  expect((await call("GET", `/v1/resource-requests/${foreign.id}`)).status).toBe(404);
  expect((await call("POST", "/v1/tokens", { name: "x", role: "admin" })).status).toBe(403);
});

test("class 10 and sensitive work are permissions of their own", async () => {
  const plain = await server.token("operator");
  const trusted = await server.token("user", {
    components: ["vision"],
    permissions: ["class10", "sensitive"],
  });
  for (const wanted of [{ preemption_class: 10 }, { sensitive: true }]) {
    const path = "/v1/resource-requests";
    expect((await plain.call("POST", path, request("vision", wanted))).body.code).toBe("forbidden");
    expect((await trusted.call("POST", path, request("vision", wanted))).status).toBe(201);
  }
});

test("a revoked token ends at once, and its open stream with it", async () => {
  const { call, secret, id } = await server.token("viewer");
  const stream = await openStream(server.url, secret);
  expect((await stream.next())?.event).toBe("stream.opened");
  expect((await server.admin("DELETE", `/v1/tokens/${id}`)).status).toBe(204);
  expect(await stream.next()).toBeUndefined();
  expect((await call("GET", "/v1/whoami")).status).toBe(401);
  expect((await server.admin("DELETE", `/v1/tokens/${id}`)).status).toBe(204);
});

test("an expired token is not accepted", async () => {
  const { call } = await server.token("viewer", { expires_in_seconds: 0 });
  expect((await call("GET", "/v1/whoami")).status).toBe(401);
});

test("every change and every denial is in the audit log when it is answered, with who asked", async () => {
  const { call, name, id } = await server.token("user", { components: ["vision"] });
  const { body } = await call("POST", "/v1/resource-requests", request("vision"));
  await call("POST", `/v1/resource-requests/${body.id}/renew`, { token: body.token });
  await call("POST", `/v1/resource-requests/${body.id}/release`, { token: body.token, outcome: "succeeded" });
  await call("POST", "/v1/resource-requests", request("speech"));
  await call("POST", "/v1/resource-requests/bulk", { items: [request("speech")] });
  await call("DELETE", "/v1/pools/gpus");
  await server.as(`berth_${"B".repeat(43)}`)("GET", "/v1/pools"); // Nobody we know: counted, not written down each time.
  await call("GET", "/v1/audit");

  const { items } = (await server.admin("GET", "/v1/audit?limit=50")).body;
  const traces = items
    .slice(0, 6)
    .map(({ actor, action, outcome }: Record<string, string>) => `${actor} ${action} ${outcome}`);
  expect(traces).toEqual([
    `${name} listAudit denied`,
    `${name} deletePool denied`,
    `${name} submitRequests denied`,
    `${name} submitRequest denied`,
    `${name} releaseRequest accepted`,
    `${name} submitRequest accepted`,
  ]);
  expect(items.find(({ action }: { action: string }) => action === "submitRequest").details).toMatchObject({
    token: id,
    from: "127.0.0.1",
  });
});

test("a bulk call that is denied item by item is one entry of the audit log", async () => {
  const { call, name } = await server.token("user", { components: ["vision"] });
  const items = Array.from({ length: 1_000 }, () => request("speech"));
  const { body } = await call("POST", "/v1/resource-requests/bulk", { items });
  expect(
    body.results.every((result: { problem?: { code: string } }) => result.problem?.code === "forbidden"),
  ).toBe(true);
  const audit = (await server.admin("GET", "/v1/audit?limit=50")).body.items as Record<string, unknown>[];
  const own = audit.filter(({ actor }) => actor === name);
  expect(own).toMatchObject([{ action: "submitRequests", outcome: "denied", details: { items: 1_000 } }]);
});

test("strangers are in the audit log by address, with how often they called", async () => {
  const other = await openTestServer();
  let entries: unknown;
  const { store } = other;
  for (let count = 0; count < 30; count++) await other.as(undefined)("GET", "/v1/pools");
  const before = await store.listAudit({ limit: 100 });
  expect(before.items.filter(({ actor }) => actor === "nobody")).toEqual([]);
  const { audit } = other.leader;
  other.leader.audit = (entry) => {
    entries = entry;
    return audit(entry);
  };
  await other.close();
  expect(entries).toMatchObject({
    actor: "nobody",
    outcome: "denied",
    body: { from: "127.0.0.1", calls: 30 },
  });
});

test("an auditor reads everything and changes nothing", async () => {
  const { call } = await server.token("auditor");
  for (const path of ["/v1/audit", "/v1/tokens", "/v1/pools", "/v1/resource-requests", "/metrics"]) {
    expect([path, (await call("GET", path)).status]).toEqual([path, 200]);
  }
  expect((await call("PATCH", "/v1/pools/gpus", { description: "x" })).status).toBe(403);
});
