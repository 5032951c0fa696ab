// Who sees what (14), and who may act on it: open pools, pools with `visibility: own`, pools out of reach.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Caller, openStream, openTestServer, type TestServer, type Told } from "./server-support.ts";

const OTHERS = "others";
const PRIVATE = "private matter";

let server: TestServer;
/** Bound to the component `mine`. */
let mine: Awaited<ReturnType<TestServer["token"]>>;
/** Bound to the component `mine` and to the open pool. */
let narrow: Awaited<ReturnType<TestServer["token"]>>;

beforeAll(async () => {
  server = await openTestServer();
  const { admin } = server;
  await admin("POST", "/v1/pools", pool("open"));
  await admin("POST", "/v1/pools", pool("closed", { visibility: "own" }));
  await admin("POST", "/v1/pools", { ...pool("fair", { visibility: "own" }), discipline: "fair_share" });
  await admin("POST", "/v1/pools", { name: "rack" });
  await admin("PUT", "/v1/nodes/r1", { pool: "rack", capacity: { slots: 2 } });
  for (const [name, key] of [
    ["open", "open"],
    ["closed", "closed"],
    ["fair", "fair"],
    ["rack", "slots"],
  ] as const) {
    await admin("PUT", `/v1/pools/${name}/policies/mine`, { priority: 1, limit: { [key]: 2 } });
    await admin("PUT", `/v1/pools/${name}/policies/${OTHERS}`, { priority: 9 });
  }
  mine = await server.token("user", { components: ["mine"] });
  narrow = await server.token("user", { components: ["mine"], pools: ["open"] });
});
afterAll(() => server.close());

const pool = (name: string, settings = {}) => ({
  name,
  capacity: { [name]: 2 },
  settings: { priority_preempts: "any", ...settings },
});

const ask = async (call: Caller, component: string, key: string, more = {}) =>
  (await call("POST", "/v1/resource-requests", { component, resources: { [key]: 2 }, ...more })).body;

const theirs = (key: string) =>
  ask(server.admin, OTHERS, key, {
    name: `theirs in ${key}`,
    note: PRIVATE,
    labels: { secret: PRIVATE },
    operation: "their-operation",
  });

/** Every test begins with nothing that waits or runs. */
afterEach(async () => {
  for (let tries = 0; tries < 10; tries++) {
    const path = "/v1/resource-requests";
    const { items } = (await server.admin("GET", `${path}?status=queued,allocated,preempting`)).body;
    if (items.length === 0) return;
    for (const { id } of items) {
      const { body } = await server.admin("GET", `${path}/${id}`);
      if (body.token === undefined) await server.admin("POST", `${path}/${id}/cancel`);
      else await server.admin("POST", `${path}/${id}/release`, { token: body.token, outcome: "failed" });
    }
  }
});

async function heard(secret: string, act: () => Promise<unknown>): Promise<Told[]> {
  const stream = await openStream(server.url, secret);
  await stream.next();
  await act();
  await server.admin("PATCH", "/v1/settings", { unmanaged: "reject" }); // Seen by everybody: the last of the story.
  const told: Told[] = [];
  for (let one = await stream.next(); one?.event !== "settings.changed"; one = await stream.next()) {
    if (one === undefined) throw new Error("the stream ended");
    told.push(one);
  }
  stream.close();
  return told;
}

describe("in an open pool", () => {
  test("two users see each other's work, and not what is private in it", async () => {
    const run = await theirs("open");
    const waiting = await ask(mine.call, "mine", "open", { labels: { k: "v" }, note: "mine" });
    const shown = (await mine.call("GET", `/v1/resource-requests/${run.id}`)).body;
    expect(shown).toMatchObject({
      number: run.number,
      name: "theirs in open",
      component: OTHERS,
      status: "allocated",
      labels: {},
      note: "",
    });
    expect(shown.token).toBeUndefined();
    const listed = (await mine.call("GET", "/v1/resource-requests")).body.items;
    expect(listed.map(({ id }: { id: string }) => id)).toEqual([waiting.id, run.id]);
    expect(listed[0]).toMatchObject({ labels: { k: "v" }, note: "mine" });
    expect(JSON.stringify(listed)).not.toContain(PRIVATE);
    const { body } = await mine.call("GET", `/v1/resource-requests/${waiting.id}/explanation`);
    expect(body.pools[0].holders).toMatchObject([{ request_id: run.id, component: OTHERS }]);
    for (const path of ["explanation", "decisions"]) {
      expect((await mine.call("GET", `/v1/resource-requests/${run.id}/${path}`)).status).toBe(200);
    }
    const policies = (await mine.call("GET", "/v1/pools/open/policies")).body.items;
    expect(policies.map(({ component }: { component: string }) => component)).toEqual(["mine", OTHERS]);
    const queue = (await mine.call("GET", "/v1/pools/open/queue")).body.items;
    expect(queue).toMatchObject([{ id: waiting.id, position: 1, priority: 1 }]);
  });

  test("labels are no way to find the work of others", async () => {
    const run = await theirs("open");
    const path = `/v1/resource-requests?status=allocated&label=${encodeURIComponent(`secret=${PRIVATE}`)}`;
    expect((await mine.call("GET", path)).body.items).toEqual([]);
    expect((await server.admin("GET", path)).body.items).toMatchObject([{ id: run.id }]);
  });

  test("what a token does not see cannot be waited for, one by one or in bulk (J9)", async () => {
    const hidden = await theirs("closed");
    const own = await ask(mine.call, "mine", "open");
    const items = [hidden.id, own.id, `${own.number}`].map((id) => ({
      ...{ component: "mine", resources: { open: 2 }, after: [{ id }] },
    }));
    expect((await mine.call("POST", "/v1/resource-requests", items[0])).status).toBe(404);
    const { body } = await mine.call("POST", "/v1/resource-requests/bulk", { items });
    const after = [{ id: own.id, when: "ok" }];
    expect(body.results).toMatchObject([{ problem: { code: "not_found" } }, { after }, { after }]);
  });

  test("nobody acts on what it merely sees", async () => {
    const run = await theirs("open");
    for (const [method, path, body] of [
      ["POST", "/cancel", undefined],
      ["POST", "/renew", { token: run.token }],
      ["POST", "/release", { token: run.token, outcome: "succeeded" }],
      ["POST", "/checkpoint", { token: run.token, report: "done" }],
      ["DELETE", "?force=true", undefined],
    ] as const) {
      const answer = await mine.call(method, `/v1/resource-requests/${run.id}${path}`, body);
      expect([method, path, answer.body.code]).toEqual([method, path, "forbidden"]);
    }
    expect(
      (await mine.call("POST", "/v1/resource-requests", { component: OTHERS, resources: {} })).status,
    ).toBe(403);
  });

  test("the token of a grant is for its submitter and the operators, in objects and streams", async () => {
    const colleague = await server.token("user", { components: ["mine"] });
    const operator = await server.token("operator", { components: ["mine"] });
    const streams = await Promise.all(
      [mine, colleague, operator].map(async ({ secret }) => openStream(server.url, secret)),
    );
    const run = await ask(mine.call, "mine", "open");
    const told = await Promise.all(streams.map((stream) => stream.until("request.allocated")));
    for (const stream of streams) stream.close();
    expect(told.map(({ data }) => data.token)).toEqual([run.token, undefined, run.token]);
    const tokenFor = async (call: Caller) =>
      (await call("GET", `/v1/resource-requests/${run.id}`)).body.token;
    expect(await tokenFor(mine.call)).toBe(run.token);
    expect(await tokenFor(operator.call)).toBe(run.token);
    expect(await tokenFor(colleague.call)).toBeUndefined();
  });

  test("events tell of everybody there", async () => {
    const told = await heard(mine.secret, () => theirs("open"));
    expect(told.map(({ event }) => event)).toContain("request.allocated");
    expect(JSON.stringify(told)).not.toContain(PRIVATE);
  });
});

describe("in a pool with visibility own", () => {
  /** Everything that a token can ask for, after others have preempted its work there. */
  async function story(key: string) {
    const victim = await ask(mine.call, "mine", key, { name: "victim" });
    let others = { id: "" };
    const told = await heard(mine.secret, async () => {
      others = await theirs(key);
    });
    const paths = [
      "/v1/resource-requests?status=queued,allocated,preempting",
      `/v1/resource-requests?status=queued,allocated,preempting&component=${OTHERS}`,
      `/v1/resource-requests?pool=${key}`,
      `/v1/resource-requests/${victim.id}`,
      `/v1/resource-requests/${victim.id}/explanation`,
      `/v1/resource-requests/${victim.id}/decisions`,
      `/v1/pools/${key}`,
      `/v1/pools/${key}/queue`,
      `/v1/pools/${key}/shares`,
      `/v1/pools/${key}/policies`,
    ];
    const answers: Record<string, string> = { stream: JSON.stringify(told) };
    for (const path of paths) answers[path] = JSON.stringify((await mine.call("GET", path)).body);
    const cancel = `/v1/resource-requests/${victim.id}/cancel?dry_run=true`;
    answers.plan = JSON.stringify((await mine.call("POST", cancel)).body);
    return { victim, others, told, answers };
  }

  for (const key of ["closed", "fair"]) {
    test(`others have neither names nor ids in pool ${key}`, async () => {
      const { victim, others, told, answers } = await story(key);
      for (const [where, text] of Object.entries(answers)) {
        expect([where, text.includes(OTHERS), text.includes(others.id), text.includes("their-op")]).toEqual([
          where,
          false,
          false,
          false,
        ]);
      }
      if (key === "closed") expect(told.map(({ data }) => data.request_id)).toContain(victim.id);
    });
  }

  test("counts and amounts stay", async () => {
    const run = await theirs("closed");
    const waiting = await ask(mine.call, "mine", "closed");
    const { body } = await mine.call("GET", `/v1/resource-requests/${waiting.id}/explanation`);
    expect(body.pools[0].holders).toMatchObject([
      { request_id: null, number: null, name: null, component: null, units: { closed: 2 } },
    ]);
    expect((await mine.call("GET", "/v1/pools/closed")).body).toMatchObject({
      running: 1,
      usage: { closed: 2 },
    });
    const missing = await mine.call("GET", "/v1/resource-requests/01900000-0000-7000-8000-000000000000");
    const hidden = await mine.call("GET", `/v1/resource-requests/${run.id}`);
    expect(hidden.body.hint).toBe(missing.body.hint);
    expect(hidden.status).toBe(404);
    expect((await mine.call("GET", `/v1/resource-requests/${run.number}`)).status).toBe(404);
    expect((await mine.call("GET", `/v1/pools/closed/policies/${OTHERS}`)).status).toBe(404);
  });
});

describe("a pool out of reach does not exist", () => {
  test("in lists, objects, reasons, attempts and explanations", async () => {
    const rejected = await ask(narrow.call, "mine", "unheard-of");
    expect(rejected.status).toBe("rejected");
    const reasons = (request: { reasons: { pool: string }[] }) => request.reasons.map(({ pool }) => pool);
    expect(reasons(rejected)).toEqual(["open"]);
    const stored = (await narrow.call("GET", `/v1/resource-requests/${rejected.id}`)).body;
    expect(reasons(stored)).toEqual(["open"]);
    const elsewhere = await ask(server.admin, "mine", "closed");
    expect((await narrow.call("GET", `/v1/resource-requests/${elsewhere.id}`)).status).toBe(404);
    expect((await narrow.call("GET", "/v1/nodes/r1")).status).toBe(404);
    expect((await narrow.call("GET", "/v1/pools")).body.items).toMatchObject([{ name: "open" }]);
  });

  test("in events, those of nodes included", async () => {
    const told = await heard(narrow.secret, async () => {
      await server.admin("PATCH", "/v1/pools/closed", { description: "x" });
      await server.admin("PUT", "/v1/nodes/r2", { pool: "rack", capacity: { slots: 1 } });
      await server.admin("POST", "/v1/nodes/r2/drain", {});
      await server.admin("DELETE", "/v1/nodes/r2");
    });
    expect(told).toEqual([]);
  });

  test("a token that is bound to pools asks for units there alone", async () => {
    expect(await ask(narrow.call, "mine", "open")).toMatchObject({ status: "allocated", pools: ["open"] });
    const rejected = await ask(narrow.call, "mine", "closed");
    expect(rejected).toMatchObject({ status: "rejected", pool: null, pools: ["open"] });
    expect(rejected.reasons).toEqual([expect.objectContaining({ pool: "open", code: "unknown_key" })]);
    // Named or not, there or not: the answer tells nothing about what exists.
    for (const pool of ["closed", "missing"]) {
      const asked = { component: "mine", resources: { closed: 2 }, pools: ["open", pool] };
      const job = { ...asked, run: { command: ["true"] } };
      for (const [path, body] of [
        ["/v1/resource-requests", asked],
        ["/v1/jobs", job],
        ["/v1/jobs/array", { job, indices: [0] }],
        ["/v1/plans", { changes: [{ method: "POST", path: "/v1/resource-requests", body: asked }] }],
      ] as const) {
        expect([path, (await narrow.call("POST", path, body)).body.code]).toEqual([path, "forbidden"]);
      }
      const { body } = await narrow.call("POST", "/v1/resource-requests/bulk", { items: [asked] });
      expect(body.results[0].problem.code).toBe("forbidden");
    }
  });

  test("nor does such a token change where a request may go beyond its reach", async () => {
    await theirs("open");
    const waiting = await ask(narrow.call, "mine", "open");
    const path = `/v1/resource-requests/${waiting.id}`;
    const change = async (pools: string[] | null) => (await narrow.call("PATCH", path, { pools })).body;
    expect((await change(["closed"])).code).toBe("forbidden");
    expect((await change(["open", "missing"])).code).toBe("forbidden");
    expect((await change(null)).pools).toEqual(["open"]);
    expect((await mine.call("PATCH", path, { pools: null })).body.code).toBe("forbidden"); // Not its submitter.
  });

  test("of the pools that a request names, a token is shown those that it reaches", async () => {
    const run = await ask(mine.call, "mine", "open", { pools: ["open", "closed"] });
    expect(run.pools).toEqual(["open", "closed"]);
    expect((await narrow.call("GET", `/v1/resource-requests/${run.id}`)).body.pools).toEqual(["open"]);
  });
});

describe("metrics", () => {
  test("of a bound operator name no pool and no element beyond its reach", async () => {
    const byComponent = await server.token("operator", { components: ["mine"] });
    const byPool = await server.token("operator", { pools: ["open"] });
    await theirs("fair");
    const lines = (text: string) => text.split("\n").filter((line) => !line.startsWith("#"));
    const own = lines((await byComponent.call("GET", "/metrics")).body);
    expect(own.join("\n")).toContain('berth_fair_share{pool="fair",element="mine"}');
    expect(own.join("\n")).not.toContain(OTHERS);
    const one = lines((await byPool.call("GET", "/metrics")).body);
    expect(one.filter((line) => /pool="(?!open")[^"]+"/.test(line))).toEqual([]);
    expect(one.join("\n")).toContain('berth_pool_capacity{pool="open"');
    expect((await server.admin("GET", "/metrics")).body).toContain(`element="${OTHERS}"`);
  });
});

describe("an operator that is bound to a component", () => {
  test("changes no pool that others use: not the pool, its policies, groups or nodes", async () => {
    const { call } = await server.token("operator", { components: ["mine"] });
    for (const [method, path, body] of [
      ["PATCH", "/v1/pools/open?force=true", { capacity: { open: 1 } }],
      ["PUT", "/v1/pools/open", { description: "mine" }],
      ["DELETE", "/v1/pools/closed?force=true", undefined],
      ["PATCH", "/v1/pools/open/policies/mine", { priority: 1_000_000 }],
      ["PUT", "/v1/pools/open/policies/mine?force=true", { reserved: { open: 2 } }],
      ["DELETE", `/v1/pools/open/policies/${OTHERS}?force=true`, undefined],
      ["DELETE", "/v1/pools/open/policies/mine?force=true", undefined],
      ["PUT", "/v1/pools/open/groups/g", { weight: 5 }],
      ["POST", "/v1/pools/open/groups", { name: "g" }],
      ["PUT", "/v1/nodes/r1", { capacity: { slots: 1 } }],
      ["PUT", "/v1/nodes/r9", { pool: "rack", capacity: { slots: 1 } }],
      ["POST", "/v1/nodes/r1/drain", { deadline_seconds: 0 }],
      ["DELETE", "/v1/nodes/r1?force=true", undefined],
    ] as const) {
      for (const dryRun of ["", `${path.includes("?") ? "&" : "?"}dry_run=true`]) {
        const answer = await call(method, path + dryRun, body);
        expect([method, path + dryRun, answer.body.code]).toEqual([method, path + dryRun, "forbidden"]);
      }
    }
    expect((await call("POST", "/v1/pools/open/resume-expiry")).status).toBe(403);
  });

  test("changes a pool whose components it reaches all", async () => {
    await server.admin("POST", "/v1/pools", pool("alone"));
    await server.admin("PUT", "/v1/pools/alone/policies/mine", { priority: 1 });
    const { call } = await server.token("operator", { components: ["mine"] });
    expect((await call("PATCH", "/v1/pools/alone", { description: "mine" })).status).toBe(200);
    expect((await call("PATCH", "/v1/pools/alone/policies/mine", { priority: 7 })).status).toBe(200);
    expect((await call("DELETE", "/v1/pools/alone?force=true")).status).toBe(204);
  });
});
