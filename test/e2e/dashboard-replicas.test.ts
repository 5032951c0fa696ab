// The dashboard at a server that follows: signing in, changing and looking work there as at the leader (B8–B10, C9, C10).

import { afterAll, beforeAll, expect, test } from "vitest";
import { type OpenedServer, openServer } from "../../src/server/index.ts";
import { startPostgres, type TestPostgres } from "../support/postgres.ts";
import { callerOf, UNLIMITED } from "./server-support.ts";

let database: TestPostgres;
let leading: OpenedServer;
let following: OpenedServer;
let secret: string;

const open = () =>
  openServer({
    data: { databaseUrl: database.url },
    listen: "127.0.0.1:0",
    rates: UNLIMITED,
    onFatal: (error) => {
      throw error;
    },
  });

beforeAll(async () => {
  database = await startPostgres();
  leading = await open();
  secret = leading.firstToken?.secret as string;
  following = await open();
  const admin = callerOf(leading.url, secret);
  await admin("PUT", "/v1/pools/lab", { capacity: { gpu: 2 } });
  await admin("PUT", "/v1/pools/lab/policies/alice", { reserved: { gpu: 1 } });
  await admin("POST", "/v1/resource-requests", { component: "alice", resources: { gpu: 2 }, name: "runs" });
  await admin("POST", "/v1/resource-requests", { component: "alice", resources: { gpu: 1 }, name: "waits" });
}, 120_000);

afterAll(async () => {
  await following?.close();
  await leading?.close();
  await database?.remove();
});

const page = { "sec-fetch-site": "same-origin" };

test("a link, a session and its end", async () => {
  const { body: link } = await callerOf(following.url, secret)("POST", "/v1/sessions/links");
  const here = callerOf(following.url, undefined);
  const begun = await here("POST", "/v1/sessions", { once: link.once }, { origin: following.url });
  expect(begun.status).toBe(201);
  const cookie = (begun.headers.get("set-cookie") ?? "").split(";")[0] as string;
  const look = (url: string) =>
    callerOf(url, undefined)("GET", "/v1/session", undefined, { ...page, cookie });
  expect((await look(following.url)).body).toMatchObject({ name: "admin", by: "session" });
  expect((await look(leading.url)).status).toBe(200);

  const change = (headers: Record<string, string>) =>
    here("PUT", "/v1/pools/made", { capacity: { gpu: 1 } }, { ...page, cookie, ...headers });
  expect((await change({})).status).toBe(401);
  expect((await change({ origin: "http://elsewhere.example", "berth-session": "1" })).status).toBe(421);
  expect((await change({ origin: following.url, "berth-session": "1" })).status).toBe(201);

  const changing = { ...page, cookie, origin: following.url, "berth-session": "1" };
  expect((await here("POST", "/v1/sessions/current/renew", undefined, changing)).status).toBe(204);
  const out = await here("DELETE", "/v1/sessions/current", undefined, changing);
  expect(out.status).toBe(204);
  expect((await look(leading.url)).status).toBe(401);
  // A server that follows hears of it soon.
  await expect.poll(async () => (await look(following.url)).status, { timeout: 30_000 }).toBe(401);
});

test("what a follower shows is what the leader shows", async () => {
  const seen = async (url: string, path: string) => {
    const { body } = await callerOf(url, secret)("GET", path, undefined, {
      "berth-min-seq": String(leading.leader.seq()),
    });
    return body;
  };
  const queue = await seen(following.url, "/v1/queue?pool=lab");
  expect(queue.rows).toEqual((await seen(leading.url, "/v1/queue?pool=lab")).rows);
  expect(queue.rows).toMatchObject([{ name: "waits", why: "units" }]);
  const { pools } = await seen(following.url, "/v1/overview");
  expect(pools.find(({ name }: { name: string }) => name === "lab").keys).toEqual([
    { key: "gpu", capacity: 2, own: 1, borrowed: 1, held: 0, reserved_idle: 0, free: 0 },
  ]);
  const { rows } = await seen(following.url, "/v1/usage?pool=lab");
  expect(rows).toMatchObject([{ team: "alice", key: "gpu", starts: 1 }]);
  expect(rows[0].in_share).toBe(rows[0].borrowed);
  expect((await seen(following.url, "/v1/timeline?pool=lab")).bars).toMatchObject([{ name: "runs" }]);
});
