// Questions that take long let those go first who wait for a commit (X4).

import { expect, onTestFinished, test } from "vitest";
import { startLeader } from "../../src/leader/index.ts";
import { startServer } from "../../src/server/index.ts";
import { openMemoryStore } from "../../src/store/index.ts";
import { callerOf, UNLIMITED } from "./server-support.ts";

test("a question gives way before it is served, and again before what the thread has found is presented", async () => {
  const store = await openMemoryStore();
  const leader = await startLeader({ store, onFatal: () => undefined });
  let times = 0;
  const giveWay = () => {
    times++;
    return leader.giveWay();
  };
  const server = await startServer({
    leader: { ...leader, giveWay },
    ...{ store, listen: "127.0.0.1:0", rates: UNLIMITED },
  });
  onTestFinished(async () => {
    await server.close();
    await leader.close();
    await store.close();
  });
  const { secret } = await server.makeAdminToken("admin");
  const call = callerOf(server.url, secret);
  await call("PUT", "/v1/pools/gpus", { capacity: { gpu: 1 } });
  await call("PUT", "/v1/pools/gpus/policies/vision", {});
  const wanted = { component: "vision", resources: { gpu: 1 } };
  const { id } = (await call("POST", "/v1/resource-requests", wanted)).body;
  const change = { method: "PATCH", path: "/v1/pools/gpus", body: { capacity: { gpu: 2 } } };
  const timesIn = async (...question: Parameters<typeof call>) => {
    const before = times;
    expect((await call(...question)).status).toBe(200);
    return times - before;
  };

  expect(await timesIn("GET", `/v1/resource-requests/${id}`)).toBe(0);
  expect(await timesIn("GET", "/v1/usage")).toBe(1);
  expect(await timesIn("GET", `/v1/resource-requests/${id}/explanation`)).toBe(2);
  expect(await timesIn("POST", "/v1/plans", { changes: [change] })).toBe(2);
});
