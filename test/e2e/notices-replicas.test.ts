// Notices of several servers on one database: exactly the leader sends, and the next one goes on where it was (H3, C6).

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type OpenedServer, openServer } from "../../src/server/index.ts";
import { startPostgres, type TestPostgres } from "../support/postgres.ts";
import { callerOf, UNLIMITED } from "./server-support.ts";

let database: TestPostgres;
const servers: OpenedServer[] = [];
const received: { id: string; type: string; request: { number: number } }[] = [];
let isAway = false;
const receiver = createServer((incoming, outgoing) => {
  let text = "";
  incoming.on("data", (piece: Buffer) => (text += piece.toString()));
  incoming.on("end", () => {
    const { type, data } = JSON.parse(text) as { type: string; data: { request: { number: number } } };
    if (!isAway) received.push({ id: String(incoming.headers["webhook-id"]), type, request: data.request });
    outgoing.writeHead(isAway ? 503 : 200).end();
  });
});

const open = async () => {
  const server = await openServer({
    data: { databaseUrl: database.url },
    listen: "127.0.0.1:0",
    rates: UNLIMITED,
    onFatal: (error) => {
      throw error;
    },
  });
  servers.push(server);
  return server;
};

beforeAll(async () => {
  database = await startPostgres();
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
}, 120_000);

afterAll(async () => {
  for (const server of servers) await server.close();
  receiver.close();
  await database?.remove();
});

test("one server sends; another takes over, with what was still to be tried", {
  timeout: 120_000,
}, async () => {
  const leading = await open();
  const secret = leading.firstToken?.secret as string;
  const following = await open();
  const there = callerOf(following.url, secret);
  await there("PUT", "/v1/pools/lab", { capacity: { gpu: 4 } });
  await there("PUT", "/v1/pools/lab/policies/alice", {});
  const { port } = receiver.address() as AddressInfo;
  const target = { name: "hook", kind: "webhook", url: `http://127.0.0.1:${port}/`, on: ["started"] };
  expect((await there("POST", "/v1/notice-targets", target)).status).toBe(201);

  const submit = async (call = there) =>
    (await call("POST", "/v1/resource-requests", { component: "alice", resources: { gpu: 1 } })).body.number;
  const first = await submit();
  const numbers = () => received.map(({ request }) => request.number);
  await expect.poll(numbers, { timeout: 20_000 }).toEqual([first]); // One of two servers.

  isAway = true;
  const second = await submit();
  const state = async () => (await there("GET", "/v1/notice-targets/hook")).body;
  await expect.poll(state, { timeout: 20_000 }).toMatchObject({ state: "failing", pending: 1 });
  await leading.close();
  servers.splice(servers.indexOf(leading), 1);
  isAway = false;
  await expect.poll(async () => (await there("GET", "/readyz")).status, { timeout: 30_000 }).toBe(200);
  await expect.poll(numbers, { timeout: 60_000 }).toEqual([first, second]);
  const third = await submit();
  await expect.poll(numbers, { timeout: 20_000 }).toEqual([first, second, third]);
  expect(new Set(received.map(({ id }) => id)).size).toBe(3);
  await expect.poll(state).toMatchObject({ state: "good", pending: 0, sent: 3 });
});
