// What the dashboard asks the server for (B4, B5), and its sessions (B8–B10), over a real port.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Caller, openTestServer, type TestServer, UNLIMITED } from "./server-support.ts";

let server: TestServer;

beforeAll(async () => {
  server = await openTestServer();
  const { admin } = server;
  const must = async (...call: Parameters<Caller>) => {
    const answer = await admin(...call);
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
    return answer.body;
  };
  await must("PUT", "/v1/pools/lab", { capacity: { gpu: 8 } });
  await must("PUT", "/v1/pools/lab/policies/alice", { reserved: { gpu: 4 } });
  await must("PUT", "/v1/pools/lab/policies/bob", { limit: { gpu: 2 } });
  await must("PUT", "/v1/pools/own", { capacity: { gpu: 1 }, settings: { visibility: "own" } });
  await must("PUT", "/v1/pools/own/policies/carol", {});
  await must("PUT", "/v1/pools/own/policies/dave", {});
  const ask = (component: string, gpu: number, name: string) =>
    must("POST", "/v1/resource-requests", { component, resources: { gpu }, name });
  await ask("alice", 3, "a1");
  await ask("bob", 2, "b1");
  await ask("alice", 2, "a2");
  await ask("bob", 1, "b2"); // Its limit.
  await ask("alice", 2, "a3"); // Units are short: 1 is left.
  await ask("alice", 1, "a4"); // There is 1, but a3 waits for it.
  await ask("carol", 1, "c1");
  await ask("carol", 1, "c2");
  await ask("dave", 1, "d1");
});

afterAll(() => server.close());

test("the overview divides each key by kind of use, and says at which event (B5)", async () => {
  const { body } = await server.admin("GET", "/v1/overview");
  expect(body.seq).toBeGreaterThan(0);
  const lab = body.pools.find(({ name }: { name: string }) => name === "lab");
  expect(lab).toMatchObject({ running: 3, waiting: 3, discipline: "priority" });
  expect(lab.keys).toEqual([
    { key: "gpu", capacity: 8, own: 4, borrowed: 3, held: 0, reserved_idle: 0, free: 1 },
  ]);
  expect(lab.oldest_wait_since).not.toBeNull();
});

test("idle reserve is not free for everybody (G6)", async () => {
  const fresh = await openTestServer();
  await fresh.admin("PUT", "/v1/pools/lab", { capacity: { gpu: 8 } });
  await fresh.admin("PUT", "/v1/pools/lab/policies/alice", { reserved: { gpu: 4 } });
  const { body } = await fresh.admin("GET", "/v1/overview");
  expect(body.pools[0].keys[0]).toMatchObject({ own: 0, borrowed: 0, reserved_idle: 4, free: 4 });
  await fresh.close();
});

describe("the queue (B5)", () => {
  const rows = async (query: string, call = server.admin) => (await call("GET", `/v1/queue?${query}`)).body;

  test("has slim rows in order, each with its reason, and counts per reason", async () => {
    const body = await rows("pool=lab");
    expect(
      body.rows.map((row: { name: string; why: string; place: number }) => [row.name, row.why, row.place]),
    ).toEqual([
      ["b2", "limit", 1],
      ["a3", "units", 2],
      ["a4", "behind", 3],
    ]);
    expect(body).toMatchObject({ total: 3, matching: 3, hidden: 0, next_cursor: null });
    expect(body.counts).toEqual({ limit: 1, units: 1, behind: 1 });
    for (const row of body.rows) expect(JSON.stringify(row).length).toBeLessThanOrEqual(150);
  });

  test("is filtered by component, reason and words, and sorted", async () => {
    expect((await rows("pool=lab&component=bob")).rows).toMatchObject([{ name: "b2" }]);
    expect((await rows("pool=lab&why=behind")).rows).toMatchObject([{ name: "a4", place: 3 }]);
    expect((await rows("pool=lab&q=A3")).rows).toMatchObject([{ name: "a3" }]);
    const byNumber = await rows("pool=lab&sort=number");
    expect(byNumber.rows.map(({ name }: { name: string }) => name)).toEqual(["b2", "a3", "a4"]);
    expect((await rows("pool=lab&component=bob")).counts).toEqual({ limit: 1, units: 1, behind: 1 });
  });

  test("goes on with its cursor", async () => {
    const first = await rows("pool=lab&limit=2");
    const second = await rows(`pool=lab&limit=2&cursor=${first.next_cursor}`);
    expect([...first.rows, ...second.rows].map(({ place }: { place: number }) => place)).toEqual([1, 2, 3]);
    expect(second.next_cursor).toBeNull();
    expect((await server.admin("GET", "/v1/queue?cursor=-1")).status).toBe(400);
  });

  test("of all pools names the pool", async () => {
    const body = await rows("");
    expect(new Set(body.rows.map(({ pool }: { pool: string }) => pool))).toEqual(new Set(["lab", "own"]));
    expect(body.total).toBe(5);
  });

  test("hides the names of others where the pool says so, and counts them (14)", async () => {
    const carol = await server.token("user", { components: ["carol"] });
    const body = await rows("pool=own", carol.call);
    expect(body.rows).toMatchObject([{ name: "c2" }]);
    expect(body).toMatchObject({ total: 2, matching: 1, hidden: 1 });
    const outside = await server.token("viewer", { pools: ["lab"] });
    expect((await outside.call("GET", "/v1/queue?pool=own")).status).toBe(404);
    expect((await rows("", outside.call)).total).toBe(3);
    const { body: overview } = await outside.call("GET", "/v1/overview");
    expect(overview.pools.map(({ name }: { name: string }) => name)).toEqual(["lab"]);
  });
});

describe("the timeline (B5)", () => {
  test("has a bar for each attempt, by component, node or request", async () => {
    const { body } = await server.admin("GET", "/v1/timeline?pool=lab");
    expect(body.lanes).toEqual([{ name: "alice" }, { name: "bob" }]);
    expect(body.bars.map(({ name, outcome }: { name: string; outcome: null }) => [name, outcome])).toEqual([
      ["a1", null],
      ["a2", null],
      ["b1", null],
    ]);
    expect(body.bars[1].borrowed).toEqual({ gpu: 1 });
    expect(body.waiting).toHaveLength(3);
    const byRequest = await server.admin("GET", "/v1/timeline?pool=lab&lanes=request&component=bob");
    expect(byRequest.body.lanes).toEqual([{ name: "b1", number: 2 }]);
    expect((await server.admin("GET", "/v1/timeline?pool=lab&to=2020-01-01T00:00:00Z")).body.bars).toEqual(
      [],
    );
    const backwards = "/v1/timeline?pool=lab&to=2020-01-01T00:00:00Z&from=2021-01-01T00:00:00Z";
    expect((await server.admin("GET", backwards)).status).toBe(400);
  });

  test("keeps what has ended, also when memory has forgotten it", async () => {
    const early = await openTestServer("memory", { leaderSettings: { endedInMemoryMs: 0 } });
    await early.admin("PUT", "/v1/pools/lab", { capacity: { gpu: 1 } });
    await early.admin("PUT", "/v1/pools/lab/policies/alice", {});
    for (let count = 0; count < 3; count++) {
      const asked = { component: "alice", resources: { gpu: 1 }, name: `n${count}` };
      const { body } = await early.admin("POST", "/v1/resource-requests", asked);
      const end = { token: body.token, outcome: "succeeded" };
      expect((await early.admin("POST", `/v1/resource-requests/${body.id}/release`, end)).status).toBe(200);
    }
    const { body } = await early.admin("GET", "/v1/timeline?pool=lab&pixels=10000");
    const count = body.bars.reduce((sum: number, bar: { count: number }) => sum + bar.count, 0);
    expect(count).toBe(3);
    await early.close();
  });
});

describe("usage (H6)", () => {
  const rowOf = (body: { rows: { team: string; pool: string; key: string }[] }, team: string, pool = "lab") =>
    body.rows.find((row) => row.team === team && row.pool === pool && row.key === "gpu") as Record<
      string,
      unknown
    >;

  test("has a row for each pool, team and key, and grows while work runs", async () => {
    const before = (await server.admin("GET", "/v1/usage")).body;
    expect(before.kept_since).toBeNull();
    const first = rowOf(before, "alice");
    expect(first).toMatchObject({ starts: 2, preempted: 0, lost: 0 });
    let second = first;
    while (second.in_share === first.in_share)
      second = rowOf((await server.admin("GET", "/v1/usage")).body, "alice");
    const grown = (field: string) => (second[field] as number) - (first[field] as number);
    expect(grown("borrowed") / grown("in_share")).toBeCloseTo(1 / 4, 1); // Four of five are its own.
    expect(rowOf(before, "bob")).toMatchObject({ in_share: 0, starts: 1 });
  });

  test("is summed as asked for, within what the token may see (14)", async () => {
    const { body } = await server.admin("GET", "/v1/usage?by=user,month&pool=lab&half_life=3600");
    expect(body.rows[0]).toMatchObject({ user: "admin", key: "gpu" });
    expect(body.rows[0].month).toMatch(/^\d{4}-\d\d$/);
    expect(body.rows[0].decayed).toBeGreaterThanOrEqual(0);
    const carol = await server.token("user", { components: ["carol"] });
    const seen = (await carol.call("GET", "/v1/usage?pool=own&by=team")).body.rows;
    expect(seen.map(({ team }: { team: string }) => team)).toEqual(["carol"]); // Nobody else has run there.
    const outside = await server.token("viewer", { pools: ["lab"] });
    expect((await outside.call("GET", "/v1/usage?pool=own")).status).toBe(404);
    const pools = (await outside.call("GET", "/v1/usage?by=pool")).body.rows;
    expect(new Set(pools.map(({ pool }: { pool: string }) => pool))).toEqual(new Set(["lab"]));
    expect((await server.admin("GET", "/v1/usage?by=colour")).status).toBe(400);
    const past = await server.admin("GET", "/v1/usage?from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z");
    expect(past.body.rows).toEqual([]);
  });

  test("and history go on after a restart", async () => {
    const { mkdtemp, rm } = await import("node:fs/promises");
    const directory = await mkdtemp("/tmp/berth-usage-");
    const begun = new Date().toISOString();
    const before = await openTestServer({ directory });
    await before.admin("PUT", "/v1/pools/lab", { capacity: { gpu: 4 } });
    await before.admin("PUT", "/v1/pools/lab/policies/alice", { reserved: { gpu: 1 } });
    await before.admin("POST", "/v1/resource-requests", { component: "alice", resources: { gpu: 2 } });
    const first = rowOf((await before.admin("GET", "/v1/usage")).body, "alice");
    await before.close();
    const after = await openTestServer({ directory });
    const second = rowOf((await after.admin("GET", "/v1/usage")).body, "alice");
    expect(second.starts).toBe(1);
    expect(second.in_share as number).toBeGreaterThanOrEqual(first.in_share as number);
    expect(second.in_share).toBe(second.borrowed); // One of two is its own, all the time.
    const { body } = await after.admin("GET", `/v1/pools/lab/history?points=10&from=${begun}`);
    expect(body).toMatchObject({ pool: "lab", keys: ["gpu"] });
    expect(body.at).toHaveLength(10);
    expect(body.components).toMatchObject([{ component: "alice" }]);
    expect(body.components[0].used.gpu.at(-1)).toBeGreaterThan(0);
    expect((await after.admin("GET", "/v1/overview")).body.pools[0].used_24h).toHaveLength(24);
    await after.close();
    await rm(directory, { recursive: true });
  });
});

describe("a session", () => {
  const page = { "sec-fetch-site": "same-origin" };
  const changing = () => ({ ...page, origin: server.url, "berth-session": "1" });
  const anybody = () => server.as(undefined);

  async function signIn(secret = server.adminSecret) {
    const link = await server.as(secret)("POST", "/v1/sessions/links");
    expect(link.status).toBe(201);
    const answer = await anybody()("POST", "/v1/sessions", { once: link.body.once });
    expect(answer.status).toBe(201);
    return { once: link.body.once, cookie: cookieOf(answer.headers), answer };
  }
  const cookieOf = (headers: Headers) => (headers.get("set-cookie") ?? "").split(";")[0] as string;

  test("begins with a link, which works once (B8)", async () => {
    const { once, cookie, answer } = await signIn();
    expect(Buffer.from(once, "base64url")).toHaveLength(16);
    expect(answer.headers.get("set-cookie")).toMatch(
      /^berth=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    );
    expect(answer.body).toMatchObject({ name: "admin", role: "admin", by: "session" });
    const seen = await anybody()("GET", "/v1/session", undefined, { ...page, cookie });
    expect(seen.body).toMatchObject({ name: "admin", by: "session" });
    const again = await anybody()("POST", "/v1/sessions", { once });
    expect(again).toMatchObject({ status: 401, body: { code: "unauthenticated" } });
  });

  test("or with a token, whose rights it has (B8)", async () => {
    const user = await server.token("user", { components: ["alice"] });
    const answer = await anybody()("POST", "/v1/sessions", { token: user.secret });
    expect(answer.body).toMatchObject({ name: user.name, role: "user", components: ["alice"] });
    const cookie = cookieOf(answer.headers);
    const denied = await anybody()("GET", "/v1/tokens", undefined, { ...page, cookie });
    expect(denied.status).toBe(403);
    const asked = { component: "alice", resources: { gpu: 8 }, name: "by session" };
    const { body } = await anybody()("POST", "/v1/resource-requests", asked, { ...changing(), cookie });
    expect(body.submitted_by).toBe(user.name);
    const mine = await user.call("POST", `/v1/resource-requests/${body.id}/cancel`);
    expect(mine.status).toBe(200);
    expect((await anybody()("POST", "/v1/sessions", { token: `berth_${"A".repeat(43)}` })).status).toBe(401);
    expect((await anybody()("POST", "/v1/sessions", {})).status).toBe(400);
  });

  test("over TLS has a cookie that is bound to host and TLS (B9)", async () => {
    const { body } = await server.admin("POST", "/v1/sessions/links");
    const origin = server.url.replace("http:", "https:");
    const answer = await anybody()("POST", "/v1/sessions", { once: body.once }, { origin });
    expect(answer.headers.get("set-cookie")).toMatch(
      /^__Host-berth=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Secure; Max-Age=43200$/,
    );
  });

  test("counts only where one of our pages sent the cookie (B10)", async () => {
    const { cookie } = await signIn();
    const read = async (headers: Record<string, string>) =>
      (await anybody()("GET", "/v1/session", undefined, { cookie, ...headers })).status;
    expect(await read(page)).toBe(200);
    expect(await read({ "sec-fetch-site": "none" })).toBe(200);
    expect(await read({})).toBe(401);
    expect(await read({ "sec-fetch-site": "cross-site" })).toBe(401);
    expect(await read({ "sec-fetch-site": "same-site" })).toBe(401);
    const change = async (headers: Record<string, string>) =>
      (await anybody()("PUT", "/v1/pools/made", { capacity: { gpu: 1 } }, { cookie, ...headers })).status;
    expect(await change(page)).toBe(401);
    expect(await change({ ...page, origin: server.url })).toBe(401);
    expect(await change({ ...page, "berth-session": "1" })).toBe(401);
    expect(await change({ ...changing(), origin: "http://elsewhere.example" })).toBe(421);
    expect(await change({ ...changing(), "sec-fetch-site": "cross-site" })).toBe(401);
    expect(await change(changing())).toBe(201);
  });

  test("is ignored beside an Authorization header, and is no token itself (B10)", async () => {
    const { cookie } = await signIn();
    const viewer = await server.token("viewer");
    const { body } = await viewer.call("GET", "/v1/session", undefined, { ...page, cookie });
    expect(body).toMatchObject({ name: viewer.name, by: "token" });
    const asBearer = await server.as(cookie.replace("berth=", ""))("GET", "/v1/session", undefined, page);
    expect(asBearer.status).toBe(401);
    const wrong = await server.as("nothing")("GET", "/v1/session", undefined, { ...page, cookie });
    expect(wrong.status).toBe(401);
  });

  test("is listed, and ends by signing out or by revoking its token (B9)", async () => {
    const user = await server.token("viewer");
    const first = await signIn(user.secret);
    const second = await signIn(user.secret);
    const { body } = await server.admin("GET", "/v1/tokens?limit=1000");
    const listed = body.items.filter(({ name }: { name: string }) => name === `session of ${user.name}`);
    expect(listed).toHaveLength(2);
    expect(JSON.stringify(body)).not.toContain(first.cookie.replace("berth=", ""));
    const look = (cookie: string) => anybody()("GET", "/v1/session", undefined, { ...page, cookie });
    const out = await anybody()("DELETE", "/v1/sessions/current", undefined, {
      ...changing(),
      cookie: first.cookie,
    });
    expect(out.status).toBe(204);
    expect(out.headers.get("set-cookie")).toContain("Max-Age=0");
    expect((await look(first.cookie)).status).toBe(401);
    expect((await look(second.cookie)).status).toBe(200);
    const unused = await server.as(user.secret)("POST", "/v1/sessions/links");
    expect((await server.admin("DELETE", `/v1/tokens/${user.id}`)).status).toBe(204);
    expect((await look(second.cookie)).status).toBe(401);
    expect((await anybody()("POST", "/v1/sessions", { once: unused.body.once })).status).toBe(401);
  });

  test("outlives the server, and a link does, too", async () => {
    const { mkdtemp, rm } = await import("node:fs/promises");
    const directory = await mkdtemp("/tmp/berth-session-");
    const before = await openTestServer({ directory });
    const link = await before.admin("POST", "/v1/sessions/links");
    const first = await before.admin("POST", "/v1/sessions/links");
    const begun = await before.as(undefined)("POST", "/v1/sessions", { once: first.body.once });
    await before.close();
    const after = await openTestServer({ directory });
    const cookie = cookieOf(begun.headers);
    expect((await after.as(undefined)("GET", "/v1/session", undefined, { ...page, cookie })).status).toBe(
      200,
    );
    const late = await after.as(undefined)("POST", "/v1/sessions", { once: link.body.once });
    expect(late.status).toBe(201);
    await after.close();
    await rm(directory, { recursive: true });
  });

  test("cannot be guessed: failed sign-ins are limited and audited (B10)", async () => {
    const guarded = await openTestServer("memory", { rates: { failedLoginsPerMinute: 3 } });
    const tries: number[] = [];
    for (let count = 0; count < 6; count++) {
      const { status } = await guarded.as(undefined)("POST", "/v1/sessions", { once: "A".repeat(22) });
      tries.push(status);
    }
    expect(tries.slice(0, 3)).toEqual([401, 401, 401]);
    expect(tries.at(-1)).toBe(429);
    // Counted, not written down each time: else strangers could fill the audit log.
    const { body } = await guarded.admin("GET", "/v1/audit?limit=1000");
    expect(body.items.filter(({ outcome }: { outcome: string }) => outcome === "denied")).toEqual([]);
    const entries: unknown[] = [];
    const { audit } = guarded.leader;
    guarded.leader.audit = (entry) => {
      entries.push(entry);
      return audit(entry);
    };
    await guarded.close();
    const failed = tries.filter((status) => status === 401).length;
    expect(entries).toMatchObject([
      { actor: "nobody", action: "failed sign-ins", outcome: "denied", body: { calls: failed } },
    ]);
  });

  test("shares the rate of its token with all others of that token", async () => {
    const rates = { ...UNLIMITED, perToken: { perSecond: 1, burst: 30 } };
    const limited = await openTestServer("memory", { rates });
    const user = await limited.token("viewer");
    const cookies: string[] = [];
    for (let count = 0; count < 4; count++) {
      const { headers } = await limited.as(undefined)("POST", "/v1/sessions", { token: user.secret });
      cookies.push(cookieOf(headers));
    }
    const looks = cookies.flatMap((cookie) =>
      Array.from({ length: 20 }, () =>
        limited.as(undefined)("GET", "/v1/session", undefined, { ...page, cookie }),
      ),
    );
    const statuses = (await Promise.all(looks)).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
    await limited.close();
  });

  test("counts its streams with those of its token", async () => {
    const user = await server.token("viewer");
    const abort = new AbortController();
    const streams: Response[] = []; // Kept: the connection of an answer that is collected as garbage is closed.
    const open = async (cookie: string) => {
      const headers = { ...page, cookie };
      streams.push(await fetch(`${server.url}/v1/events`, { headers, signal: abort.signal }));
      return streams.at(-1)?.status;
    };
    const cookies: string[] = [];
    for (let count = 0; count < 6; count++) cookies.push((await signIn(user.secret)).cookie);
    const last = cookies.pop() as string;
    for (const cookie of cookies) {
      for (let count = 0; count < 10; count++) expect(await open(cookie)).toBe(200);
    }
    expect(await open(last)).toBe(429);
    const other = await signIn();
    expect(await open(other.cookie)).toBe(200);
    expect(streams.map(({ bodyUsed }) => bodyUsed)).not.toContain(true);
    abort.abort();
  });
});
