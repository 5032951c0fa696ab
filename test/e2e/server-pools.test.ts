// Pools, policies, groups and settings over HTTP: versions, plans, force.

import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestServer, type TestServer, temporaryDirectory } from "./server-support.ts";

let server: TestServer;
beforeAll(async () => {
  server = await openTestServer();
});
afterAll(() => server.close());

const admin = (...call: Parameters<TestServer["admin"]>) => server.admin(...call);

test("a pool is created, shown, changed and deleted", async () => {
  const made = await admin("POST", "/v1/pools", {
    name: "a",
    capacity: { gpu: 4, cpus: 2 },
    labels: { site: "x" },
  });
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({
    name: "a",
    discipline: "priority",
    usage: { gpu: 0 },
    queued: 0,
    running: 0,
  });
  expect(made.body.warnings).toEqual([expect.stringContaining("mcpu")]);
  expect((await admin("POST", "/v1/pools", { name: "a", capacity: { gpu: 4 } })).body.code).toBe(
    "name_taken",
  );
  const changed = await admin("PATCH", "/v1/pools/a", {
    capacity: { gpu: 8, cpus: 0 },
    settings: { grace_seconds: 5 },
  });
  expect(changed.body).toMatchObject({ capacity: { gpu: 8 }, settings: { grace_seconds: 5 } });
  expect((await admin("GET", "/v1/pools/a")).body).toEqual(changed.body);
  expect((await admin("DELETE", "/v1/pools/a")).status).toBe(204);
  expect((await admin("GET", "/v1/pools/a")).status).toBe(404);
});

test("PUT creates what is not there and changes what is", async () => {
  expect((await admin("PUT", "/v1/pools/b", { capacity: { gpu: 2 } })).status).toBe(201);
  expect((await admin("PUT", "/v1/pools/b", { capacity: { gpu: 3 } })).status).toBe(200);
  expect((await admin("PUT", "/v1/pools/b", { discipline: "class" })).body).toMatchObject({
    errors: [{ pointer: "/discipline" }],
  });
  expect((await admin("PUT", "/v1/pools/b", { name: "c", capacity: { gpu: 1 } })).body).toMatchObject({
    errors: [{ pointer: "/name" }],
  });
  expect((await admin("PUT", "/v1/pools/b/policies/x", { priority: 5, reserved: { gpu: 1 } })).status).toBe(
    201,
  );
  expect((await admin("PUT", "/v1/pools/b/policies/x", { priority: 6 })).body).toMatchObject({
    priority: 6,
    reserved: { gpu: 1 },
  });
  expect((await admin("PUT", "/v1/pools/b/groups/g", { weight: 2 })).status).toBe(201);
  expect((await admin("PUT", "/v1/pools/b/groups/g", { weight: 3 })).body).toMatchObject({ weight: 3 });
  expect((await admin("DELETE", "/v1/pools/b/groups/g")).status).toBe(204);
});

test("If-Match: a change meant for another version is refused, even when two race", async () => {
  const path = "/v1/pools/etag";
  const made = await admin("PUT", path, { capacity: { gpu: 2 } });
  const etag = made.headers.get("etag") as string;
  expect((await admin("GET", path)).headers.get("etag")).toBe(etag);
  const race = await Promise.all(
    [3, 4].map((gpu) => admin("PATCH", path, { capacity: { gpu } }, { "if-match": etag })),
  );
  expect(race.map(({ status }) => status).sort()).toEqual([200, 412]);
  expect((await admin("DELETE", path, undefined, { "if-match": etag })).body.code).toBe(
    "precondition_failed",
  );
  const current = (await admin("GET", path)).headers.get("etag") as string;
  expect((await admin("DELETE", path, undefined, { "if-match": current })).status).toBe(204);
});

test("ids and times of pools and policies outlive a restart, and tell a later one of the same name apart", async () => {
  const directory = await temporaryDirectory();
  const policies = "/v1/pools/p/policies";
  let own = await openTestServer({ directory: directory.path });
  const [pool, policy] = await made();
  expect(pool).toMatchObject({ id: expect.stringMatching(UUID) as string, updated_at: pool.created_at });
  expect(policy).toMatchObject({ id: expect.stringMatching(UUID) as string, updated_at: policy.created_at });
  expect(Date.parse(policy.created_at)).toBeGreaterThanOrEqual(Date.parse(pool.created_at));
  const changed = (await own.admin("PATCH", `${policies}/x`, { priority: 2 })).body;
  expect(changed).toMatchObject({ id: policy.id, created_at: policy.created_at });
  expect(Date.parse(changed.updated_at)).toBeGreaterThanOrEqual(Date.parse(policy.updated_at));

  await own.close();
  own = await openTestServer({ directory: directory.path });
  expect((await own.admin("GET", "/v1/pools/p")).body).toMatchObject(lifetimeOf(pool));
  expect((await own.admin("GET", `${policies}/x`)).body).toMatchObject(lifetimeOf(changed));
  expect((await own.admin("GET", policies)).body.items).toMatchObject([lifetimeOf(changed)]);

  await own.admin("DELETE", "/v1/pools/p");
  const [later, laterPolicy] = await made();
  expect(later.id).not.toBe(pool.id);
  expect(laterPolicy.id).not.toBe(policy.id);
  await own.close();
  await directory.remove();

  async function made() {
    const { body: one } = await own.admin("POST", "/v1/pools", { name: "p", capacity: { gpu: 2 } });
    const { body: other } = await own.admin("POST", policies, { component: "x" });
    return [one, other];
  }
});

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const lifetimeOf = ({ id, created_at, updated_at }: Record<string, unknown>) => ({
  id,
  created_at,
  updated_at,
});

test("a change that changes nothing leaves the version as it is", async () => {
  const first = await admin("PUT", "/v1/pools/same", { capacity: { gpu: 2 } });
  const again = await admin("PUT", "/v1/pools/same", { capacity: { gpu: 2 } });
  expect(again.headers.get("etag")).toBe(first.headers.get("etag"));
});

test("a version does not change by use alone", async () => {
  await admin("PUT", "/v1/pools/used", { capacity: { gpu: 2 } });
  await admin("PUT", "/v1/pools/used/policies/user", {});
  const before = await admin("GET", "/v1/pools/used");
  await admin("POST", "/v1/resource-requests", { component: "user", resources: { gpu: 1 } });
  const after = await admin("GET", "/v1/pools/used");
  expect(after.body).toMatchObject({ usage: { gpu: 1 }, running: 1 });
  expect(after.headers.get("etag")).toBe(before.headers.get("etag"));
});

test("a plan says who would be granted, rejected and stopped, and changes nothing", async () => {
  await admin("PUT", "/v1/pools/plan", { capacity: { gpu: 2 } });
  await admin("PUT", "/v1/pools/plan/policies/planner", {});
  const submit = async (gpu: number) =>
    (await admin("POST", "/v1/resource-requests", { component: "planner", resources: { gpu } })).body;
  const running = await submit(2);
  const waiting = await submit(2);
  const path = "/v1/pools/plan";
  expect((await admin("PATCH", `${path}?dry_run=true`, { capacity: { gpu: 4 } })).body).toMatchObject({
    dry_run: true,
    granted: [{ id: waiting.id, number: waiting.number, pool: "plan" }],
  });
  expect((await admin("PATCH", `${path}?dry_run=true`, { capacity: { gpu: 1 } })).body).toMatchObject({
    rejected: [{ id: waiting.id, reasons: [{ code: "over_capacity" }] }],
  });
  expect((await admin("DELETE", `${path}?dry_run=true`)).body.code).toBe("in_use");
  const plan = (await admin("DELETE", `${path}?dry_run=true&force=true`)).body;
  expect([...plan.preempted, ...plan.stopped].map(({ id }: { id: string }) => id)).toEqual([running.id]);
  expect((await admin("GET", path)).body).toMatchObject({ capacity: { gpu: 2 }, queued: 1, running: 1 });
});

test("what breaks the rules of reservation is refused unless forced", async () => {
  await admin("PUT", "/v1/pools/debt", { capacity: { gpu: 4 } });
  await admin("PUT", "/v1/pools/debt/policies/one", { reserved: { gpu: 4 } });
  const path = "/v1/pools/debt";
  expect((await admin("PATCH", path, { capacity: { gpu: 2 } })).body.code).toBe("reserved_over_capacity");
  expect((await admin("PATCH", `${path}?force=true`, { capacity: { gpu: 2 } })).status).toBe(200);
  expect(
    (await admin("POST", `${path}/policies`, { component: "two", reserved: { gpux: 1 } })).body.code,
  ).toBe("unknown_key");
  expect((await admin("POST", `${path}/policies`, { component: "one" })).body.code).toBe("policy_exists");
});

test("a sensitive policy that reserves nothing is attached with a warning (10.8)", async () => {
  await server.admin("PUT", "/v1/pools/wards", { capacity: { gpu: 4, lic: 2 }, discipline: "class" });
  await server.admin("PUT", "/v1/pools/wards/policies/lab", { reserved: { gpu: 1 } });
  const attach = (policy: object) => server.admin("PUT", "/v1/pools/wards/policies/clinic", policy);
  expect((await attach({ kind: "batch" })).body).not.toHaveProperty("warnings");
  expect((await attach({ kind: "sensitive" })).body.warnings).toEqual([
    expect.stringMatching(/reserves no gpu, which others do: what asks for it will be rejected/),
    expect.stringMatching(/reserves no lic, and no other policy does: its work may take all of it/),
  ]);
  const { body } = await attach({ kind: "sensitive", reserved: { gpu: 2, lic: 1 } });
  expect(body).not.toHaveProperty("warnings");
});

test("requests of a sensitive policy are shown as they count: class 10, sensitive (10.7)", async () => {
  await server.admin("PUT", "/v1/pools/theatre", { capacity: { gpu: 2 }, discipline: "class" });
  await server.admin("PUT", "/v1/pools/theatre/policies/surgery", {
    kind: "sensitive",
    reserved: { gpu: 2 },
  });
  const submit = () =>
    server.admin("POST", "/v1/resource-requests", { component: "surgery", resources: { gpu: 2 } });
  const asTheyCount = { preemption_class: 10, sensitive: true };
  const runs = (await submit()).body;
  const waits = (await submit()).body;
  expect(runs).toMatchObject({ status: "allocated", ...asTheyCount });
  expect(waits).toMatchObject({ status: "queued", ...asTheyCount });
  for (const { id } of [runs, waits])
    expect((await admin("GET", `/v1/resource-requests/${id}`)).body).toMatchObject(asTheyCount);
  for (const path of ["/v1/resource-requests?component=surgery", "/v1/pools/theatre/queue"]) {
    const { items } = (await admin("GET", path)).body;
    expect(items).toEqual(items.map(() => expect.objectContaining(asTheyCount)));
    expect(items.length).toBeGreaterThan(0);
  }
});

test("lists come page by page, in the order of names", async () => {
  for (const name of ["page-3", "page-1", "page-2"])
    await admin("PUT", `/v1/pools/${name}`, { capacity: { gpu: 1 } });
  const names: string[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const { body } = await admin("GET", `/v1/pools?limit=2${cursor && `&cursor=${cursor}`}`);
    names.push(...body.items.map(({ name }: { name: string }) => name));
    cursor = body.next_cursor;
  }
  expect(names).toEqual(names.toSorted());
  expect(names).toEqual(expect.arrayContaining(["page-1", "page-2", "page-3"]));
});

test("the queue of a pool is shown in its order", async () => {
  await admin("PUT", "/v1/pools/line", { capacity: { gpu: 1 } });
  await admin("PUT", "/v1/pools/line/policies/low", { priority: 1 });
  await admin("PUT", "/v1/pools/line/policies/high", { priority: 9 });
  const submit = async (component: string) =>
    (await admin("POST", "/v1/resource-requests", { component, resources: { gpu: 1 }, preemptible: true }))
      .body.id;
  await submit("high");
  const low = await submit("low");
  const high = await submit("high");
  const { body } = await admin("GET", "/v1/pools/line/queue");
  expect(body.items.map(({ id }: { id: string }) => id)).toEqual([high, low]);
  const second = await admin("GET", "/v1/pools/line/queue?limit=1&cursor=1");
  expect(second.body.items.map(({ id }: { id: string }) => id)).toEqual([low]);
});

test("components without a policy are rejected, or let through if the server is told so (A4)", async () => {
  const submit = async () =>
    (await admin("POST", "/v1/resource-requests", { component: "stranger", resources: { gpu: 1 } })).body;
  expect(await submit()).toMatchObject({ status: "rejected", reasons: [{ code: "no_policy", pool: null }] });
  expect((await admin("PATCH", "/v1/settings", { unmanaged: "allow" })).body).toEqual({ unmanaged: "allow" });
  expect((await admin("GET", "/v1/settings")).body).toEqual({ unmanaged: "allow" });
  expect(await submit()).toMatchObject({ status: "allocated", pool: null });
  await admin("PATCH", "/v1/settings", { unmanaged: "reject" });
});

test("shares of a fair-share pool are shown, from the groups down to the operations", async () => {
  await admin("PUT", "/v1/pools/fair", { capacity: { gpu: 4 }, discipline: "fair_share" });
  await admin("PUT", "/v1/pools/fair/policies/a", { weight: 1 });
  const { body: run } = await admin("POST", "/v1/resource-requests", {
    component: "a",
    resources: { gpu: 1 },
  });
  const { body } = await admin("GET", "/v1/pools/fair/shares");
  expect(body).toMatchObject({ pool: "fair", allocations: [{ request_id: run.id }], overcommitted: [] });
  expect(body.elements).toContainEqual(
    expect.objectContaining({ element: "a", kind: "policy", parent: null, usage_share: { gpu: 0.25 } }),
  );
});

test("nodes are registered, drained, and their units are those of the pool", async () => {
  await admin("PUT", "/v1/pools/rack", {});
  await admin("PUT", "/v1/pools/rack/policies/racer", {});
  const made = await admin("POST", "/v1/nodes", {
    name: "n1",
    pool: "rack",
    capacity: { gpu: 2 },
    labels: { zone: "a" },
  });
  expect(made).toMatchObject({ status: 201, body: { name: "n1", pool: "rack", state: "ready" } });
  await admin("PUT", "/v1/nodes/n2", { pool: "rack", capacity: { gpu: 4 } });
  expect((await admin("GET", "/v1/pools/rack")).body).toMatchObject({
    node_backed: true,
    capacity: { gpu: 6 },
  });
  const { body: run } = await admin("POST", "/v1/resource-requests", {
    component: "racer",
    resources: { gpu: 3 },
  });
  expect(run.placement).toEqual([{ node: "n2", devices: [0, 1, 2] }]);

  const { body: busy, headers } = await admin("GET", "/v1/nodes/n2");
  expect(busy).toMatchObject({
    usage: { gpu: 3 },
    requests: [{ id: run.id, number: run.number, devices: [0, 1, 2] }],
  });

  const ends = await admin("POST", "/v1/nodes/n2/drain?dry_run=true", { deadline_seconds: 600 });
  expect(ends.body.stopped).toEqual([
    { id: run.id, number: run.number, name: "", component: "racer", at: expect.stringMatching(/Z$/) },
  ]);
  expect((await admin("POST", "/v1/nodes/n2/drain?dry_run=true", {})).body.stopped).toEqual([]);
  const drained = await admin("POST", "/v1/nodes/n2/drain", { deadline_seconds: 600 });
  expect(drained.body).toMatchObject({ state: "draining", drain_deadline: expect.stringMatching(/Z$/) });
  expect(drained.headers.get("etag")).not.toBe(headers.get("etag"));
  const late = (await admin("POST", "/v1/resource-requests", { component: "racer", resources: { gpu: 1 } }))
    .body;
  expect(late.placement).toMatchObject([{ node: "n1" }]);
  expect((await admin("POST", "/v1/nodes/n2/undrain")).body).toMatchObject({
    state: "ready",
    drain_deadline: null,
  });
  const names = async (path: string) =>
    (await admin("GET", path)).body.items.map(({ name }: { name: string }) => name);
  expect(await names("/v1/nodes?pool=rack")).toEqual(["n1", "n2"]);
  expect(await names("/v1/pools/rack/nodes")).toEqual(["n1", "n2"]);
  expect((await admin("DELETE", "/v1/nodes/n2")).body.code).toBe("in_use");
  const plan = await admin("DELETE", "/v1/nodes/n2?force=true&dry_run=true");
  expect(plan.body).toMatchObject({ dry_run: true, lost: [{ id: run.id }] });
  expect((await admin("GET", "/v1/nodes/nowhere")).status).toBe(404);
});
