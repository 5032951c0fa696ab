// Plans of several changes over HTTP (X1–X3, X8).

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openTestServer, smallWorld, type TestServer } from "./server-support.ts";

let server: TestServer;
beforeEach(async () => {
  server = await openTestServer();
  await smallWorld(server);
});
afterEach(() => server.close());

const submit = (component: string, gpu: number, more: object = {}) =>
  server.admin("POST", "/v1/resource-requests", { component, resources: { gpu }, ...more });
const plan = (changes: unknown[], more: object = {}) =>
  server.admin("POST", "/v1/plans", { changes, ...more });
const lifted = { method: "PATCH", path: "/v1/pools/gpus", body: { capacity: { gpu: 3 } } };

describe("a plan of several changes", () => {
  test("says what they do together, and changes nothing", async () => {
    await submit("vision", 2);
    const { body: waiting } = await submit("speech", 1);
    const { status, body } = await plan([
      lifted,
      { method: "POST", path: "/v1/resource-requests", body: { component: "vision", resources: { gpu: 1 } } },
    ]);
    expect(status).toBe(200);
    expect(body.now.granted).toMatchObject([
      { id: waiting.id, number: 2, component: "speech", pool: "gpus" },
    ]);
    expect(body.accounts).toMatchObject([
      { pool: "gpus", kind: "policy", name: "speech", usage: { before: { gpu: 0 }, after: { gpu: 1 } } },
      { pool: "gpus", kind: "policy", name: "vision", usage: { before: { gpu: 2 }, after: { gpu: 2 } } },
    ]);
    expect(body.later).toBeNull();
    const { body: after } = await server.admin("GET", "/v1/pools/gpus");
    expect(after.capacity).toEqual({ gpu: 2 });
  });

  test("each sees those before it: a pool that the plan creates can be used by it", async () => {
    const { status, body } = await plan([
      { method: "PUT", path: "/v1/pools/new", body: { capacity: { gpu: 4 } } },
      { method: "PUT", path: "/v1/pools/new/policies/vision", body: { priority: 3 } },
      {
        method: "POST",
        path: "/v1/resource-requests",
        body: { component: "vision", resources: { gpu: 4 } },
      },
    ]);
    expect(status).toBe(200);
    expect(body.now.granted).toMatchObject([{ component: "vision", pool: "new" }]);
  });

  test("warns of what cannot be kept after it, and was kept before (P7, 10.8)", async () => {
    await server.admin("PATCH", "/v1/pools/gpus/policies/vision", { reserved: { gpu: 2 } });
    await submit("speech", 2);
    const { body: waiting } = await submit("vision", 2, { preemptible: false });
    const shrunk = { method: "PATCH", path: "/v1/pools/gpus?force=true", body: { capacity: { gpu: 1 } } };
    const { body } = await plan([shrunk]);
    expect(body.now.rejected).toMatchObject([{ id: waiting.id }]);
    expect(body.warnings).toEqual(["Pool gpus has 1 gpu, but its policies reserve 2."]);
    const own = { reserved: { gpu: 1 } };
    const policy = { method: "PATCH", path: "/v1/pools/gpus/policies/vision", body: own };
    expect((await plan([policy, shrunk])).body.warnings).toEqual([]);
    expect((await server.admin("PATCH", shrunk.path, shrunk.body)).status).toBe(200);
    const { problems } = (await server.admin("GET", "/v1/overview")).body;
    expect(problems).toMatchObject([
      { code: "rejected" },
      { code: "reserve_not_reachable", message: body.warnings[0], command: "berth policy list gpus" },
    ]);
    expect((await plan([{ ...policy, body: { priority: 2 } }])).body.warnings).toEqual([]);
    const { body: tried } = await server.admin("PATCH", "/v1/pools/gpus?dry_run=true", {
      capacity: { gpu: 1, cpu: 4 },
    });
    expect(tried.warnings).toEqual([expect.stringContaining('"mcpu" was probably meant')]);
  });

  test("warns of policies and requests that it makes itself (9.2, 10.8)", async () => {
    const changes = [
      { method: "PUT", path: "/v1/pools/wards", body: { capacity: { gpu: 2 }, discipline: "class" } },
      { method: "PUT", path: "/v1/pools/wards/policies/clinic", body: { kind: "sensitive" } },
    ];
    const gang = { component: "clinic", resources: { gpu: 1 }, gang: true, operation: "study" };
    const { body } = await plan([...changes, { method: "POST", path: "/v1/resource-requests", body: gang }]);
    expect(body.warnings).toEqual([
      expect.stringMatching(/^The sensitive policy of "clinic" reserves no gpu, and no other policy does/),
      expect.stringMatching(/^gang has no effect in pool "wards" \(class\)/),
    ]);
    const batch = { ...changes[1], body: { kind: "batch" } };
    expect((await plan([...changes, batch])).body.warnings).toEqual([]);
  });

  test("warns of guarantees that it scales down (9.1)", async () => {
    const guarantee = (component: string, gpu: number) => ({
      method: "PUT",
      path: `/v1/pools/shared/policies/${component}?force=true`,
      body: { reserved: { gpu } },
    });
    const created = { capacity: { gpu: 4 }, discipline: "fair_share" };
    const changes = [{ method: "PUT", path: "/v1/pools/shared", body: created }, guarantee("vision", 3)];
    expect((await plan(changes)).body.warnings).toEqual([]);
    expect((await plan([...changes, guarantee("speech", 2)])).body.warnings).toEqual([
      "Pool shared guarantees more than it has; guarantees are scaled down.",
      "Pool shared has 4 gpu, but its policies reserve 5.",
    ]);
  });

  test("warns of runs that it shields (V6)", async () => {
    await server.admin("PUT", "/v1/pools/tight", { capacity: { gpu: 1 } });
    await server.admin("PUT", "/v1/pools/tight/policies/often", {});
    await server.admin("PUT", "/v1/pools/tight/policies/urgent", { priority: 5 });
    const end = async (id: string, outcome: string) => {
      const { body } = await server.admin("GET", `/v1/resource-requests/${id}`);
      const { token } = body;
      return server.admin("POST", `/v1/resource-requests/${id}/release`, { token, outcome });
    };
    const { body: victim } = await submit("often", 1);
    const { body: taker } = await submit("urgent", 1);
    await end(victim.id, "stopped");
    await end(taker.id, "succeeded");
    const shield = {
      method: "PATCH",
      path: "/v1/pools/tight",
      body: { settings: { max_preemptions: 1 } },
    };
    await expect
      .poll(async () => (await plan([shield])).body.warnings)
      .toEqual(["1 running in pool tight was preempted too often lately and cannot be preempted now."]);
  });

  test.each([
    ...["/v1/pools/%E0", "/v1/pools/%", "http://[", "http://elsewhere/v1/pools/gpus", "v1/pools/gpus", "//x"],
    ..."/v1/plans?|?|#".split("|"),
  ])("is refused with a path that is none of this server: %j", async (path) => {
    const { status, body } = await plan([lifted, { ...lifted, path }]);
    expect(status, JSON.stringify(body)).toBe(400);
    expect(body).toMatchObject({ code: "invalid_request", errors: [{ pointer: "/changes/1" }] });
  });

  test("names the change that is refused", async () => {
    const { status, body } = await plan([lifted, { method: "DELETE", path: "/v1/pools/nowhere" }]);
    expect(status).toBe(404);
    expect(body).toMatchObject({ code: "not_found", errors: [{ pointer: "/changes/1" }] });
    const malformed = await plan([{ ...lifted, body: { capacity: { gpu: -1 } } }]);
    expect(malformed.body).toMatchObject({
      code: "invalid_amount",
      errors: [{ pointer: "/changes/0" }],
    });
    const other = await plan([{ method: "POST", path: "/v1/tokens", body: {} }]);
    expect(other.body).toMatchObject({
      code: "invalid_request",
      detail: expect.stringContaining("POST /v1/tokens"),
    });
  });

  test("needs the right to make them, and leaves out what the token does not reach", async () => {
    const { call: user } = await server.token("user", { components: ["vision"] });
    expect((await user("POST", "/v1/plans", { changes: [lifted] })).status).toBe(403);
    const own = {
      method: "POST",
      path: "/v1/resource-requests",
      body: { component: "vision", resources: { gpu: 1 } },
    };
    expect((await user("POST", "/v1/plans", { changes: [own] })).status).toBe(200);
    const others = { ...own, body: { ...own.body, component: "speech" } };
    expect((await user("POST", "/v1/plans", { changes: [others] })).status).toBe(403);
  });

  test("looks ahead: who starts earlier or later by walltimes", async () => {
    await submit("vision", 2, { walltime_seconds: 600 });
    const { body: waiting } = await submit("speech", 1, { walltime_seconds: 600 });
    const { body } = await plan([lifted], { horizon_seconds: 3_600 });
    expect(body.later.truncated).toBe(false);
    expect(body.later.moved).toMatchObject([{ id: waiting.id }]);
    expect(body.now.granted).toMatchObject([{ id: waiting.id }]);

    const { body: third } = await submit("speech", 2, { walltime_seconds: 600 });
    const { body: both } = await plan([lifted], { horizon_seconds: 3_600 });
    expect(both.later.moved).toMatchObject([{ id: waiting.id }, { id: third.id }]);
    const { starts_before, starts_after } = both.later.moved[1];
    expect(Date.parse(starts_before) - Date.parse(starts_after)).toBeGreaterThan(0);
  });
});

describe("a plan is applied", () => {
  const apply = (changes: unknown[], atSeq: number) =>
    server.admin("POST", "/v1/plans?apply=true", { changes }, { "if-match": String(atSeq) });

  test("as it was shown", async () => {
    await submit("vision", 2);
    await submit("speech", 1);
    const changes = [lifted, { method: "PUT", path: "/v1/pools/gpus/policies/audio", body: { priority: 4 } }];
    const { body: shown } = await plan(changes);
    const { status, body } = await apply(changes, shown.at_seq);
    expect(status).toBe(200);
    expect(body).toEqual({ ...shown, applied: true });
    const { body: started } = await server.admin("GET", "/v1/resource-requests/2");
    expect(started.status).toBe("allocated");
    expect((await server.admin("GET", "/v1/pools/gpus/policies/audio")).body.priority).toBe(4);
  });

  test("unless a pool that it touches has changed since; others may", async () => {
    await server.admin("POST", "/v1/pools", { name: "other", capacity: { gpu: 1 } });
    await server.admin("POST", "/v1/pools/other/policies", { component: "audio" });
    const { body: shown } = await plan([lifted]);
    await submit("audio", 1);
    expect((await apply([lifted], shown.at_seq)).status).toBe(200);
    const { body: again } = await plan([lifted]);
    await submit("vision", 1);
    const { status, body } = await apply([lifted, lifted], again.at_seq);
    expect(status).toBe(409);
    expect(body.code).toBe("plan_outdated");
  });

  test("only with the event that it was made at", async () => {
    const apply = async (headers = {}) =>
      (await server.admin("POST", "/v1/plans?apply=true", { changes: [lifted] }, headers)).status;
    expect(await apply()).toBe(400);
    expect(await apply({ "if-match": '""' })).toBe(400);
    expect(await apply({ "if-match": "1e1" })).toBe(400);
  });
});

test("what is planned is what happens (X3)", async () => {
  await submit("vision", 2);
  await submit("speech", 1);
  await submit("speech", 1);
  const { body } = await server.admin("PATCH", "/v1/pools/gpus?dry_run=true", lifted.body);
  expect(body).toMatchObject({ dry_run: true, granted: [{ number: 2 }], at_seq: server.leader.seq() });
  await server.admin("PATCH", "/v1/pools/gpus", lifted.body);
  const { body: started } = await server.admin("GET", "/v1/resource-requests/2");
  expect(started.status).toBe("allocated");
});
