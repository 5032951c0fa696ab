// The adapter of a pool over HTTP (21, 22): one sync for all of it, with its machines; tokens of role `executor`.

import { afterAll, beforeAll, expect, test } from "vitest";
import { type Caller, openTestServer, type TestServer } from "./server-support.ts";

let server: TestServer;
let adapter: Caller;
beforeAll(async () => {
  server = await openTestServer();
  await server.admin("POST", "/v1/pools", { name: "cluster", settings: { executor: "slurm" } });
  await server.admin("POST", "/v1/pools", {
    ...{ name: "sums", capacity: { gpu: 4 }, settings: { executor: "slurm" } },
  });
  await server.admin("POST", "/v1/pools", { name: "agents", settings: { executor: "agents" } });
  for (const pool of ["cluster", "sums"])
    await server.admin("POST", `/v1/pools/${pool}/policies`, { component: pool });
  adapter = (await server.token("executor", { pools: ["cluster", "sums", "agents"] })).call;
});
afterAll(() => server.close());

const RUN = { command: ["train"] };
const submit = async (component: string, more: object = {}) =>
  (await server.admin("POST", "/v1/jobs", { component, resources: { gpu: 1 }, run: RUN, ...more })).body;
const job = async (id: string) => (await server.admin("GET", `/v1/jobs/${id}`)).body;
const sync = (pool: string, more: object = {}, session = "s") =>
  adapter("POST", `/v1/pools/${pool}/sync`, { session, agent_version: "0", jobs: [], ...more });
const machine = (name: string, state = "ready") => ({ name, state, capacity: { gpu: 2 } });

test("a token of role executor speaks for its pools, reads nothing, and must be bound", async () => {
  const made = await server.admin("POST", "/v1/tokens", { name: "x", role: "executor" });
  expect(made).toMatchObject({ status: 400, body: { errors: [{ pointer: "/pools" }] } });
  const { call: other } = await server.token("executor", { pools: ["elsewhere"] });
  const body = { session: "s", agent_version: "0", jobs: [] };
  expect((await other("POST", "/v1/pools/cluster/sync", body)).status).toBe(403);
  expect((await server.admin("POST", "/v1/pools/cluster/sync", body)).status).toBe(403);
  expect((await adapter("GET", "/v1/pools/cluster")).status).toBe(403);
  expect((await sync("agents")).body.code).toBe("no_executor");
});

test("its machines are the pool's nodes; an attempt on two of them is one part (E7)", async () => {
  await sync("cluster", { nodes: [machine("n1"), machine("n2"), machine("n3", "down")] });
  const { body: nodes } = await server.admin("GET", "/v1/pools/cluster/nodes");
  expect(nodes.items.map(({ name, state }: { name: string; state: string }) => [name, state])).toEqual([
    ["n1", "ready"],
    ["n2", "ready"],
    ["n3", "down"],
  ]);
  const { id } = await submit("cluster", { nodes: 2, resources: { gpu: 2 } });
  const [wanted] = (await sync("cluster")).body.jobs;
  expect(wanted).toMatchObject({ request_id: id, nodes: ["n1", "n2"], rank: 0, run: RUN });
  const part = { request_id: id, token: wanted.token };
  await sync("cluster", { jobs: [{ ...part, phase: "starting", progress: "Slurm: Priority" }] });
  expect(await job(id)).toMatchObject({
    phase: "starting",
    where: [
      { node: "n1", progress: "Slurm: Priority" },
      { node: "n2", progress: "Slurm: Priority" },
    ],
  });
  const { body: why } = await server.admin("GET", `/v1/resource-requests/${id}/explanation`);
  expect(why.text).toMatchObject([
    {
      sentence: expect.stringContaining("was granted in pool cluster, and has not started yet"),
      lines: [{ label: "starting", text: "Slurm: Priority" }],
    },
  ]);
  await sync("cluster", { jobs: [{ ...part, phase: "running" }] });
  expect(await job(id)).toMatchObject({ phase: "running" });
  const end = { outcome: "succeeded", exit_code: 0, log_tail: [Buffer.from("done\n").toString("base64")] };
  const { body } = await sync("cluster", { jobs: [{ ...part, phase: "ended", end }] });
  expect(body.jobs).toEqual([]);
  expect(await job(id)).toMatchObject({ status: "released", exit: { exit_code: 0 } });
});

test("a pool of sums has jobs without nodes; an adapter that starts anew loses none of them (S2)", async () => {
  const { id } = await submit("sums");
  const [wanted] = (await sync("sums")).body.jobs;
  expect(wanted).toMatchObject({ request_id: id, nodes: [] });
  const part = { request_id: id, token: wanted.token };
  await sync("sums", { jobs: [{ ...part, phase: "running" }] });
  expect((await sync("sums", {}, "another process")).body.jobs).toHaveLength(1);
  expect(await job(id)).toMatchObject({ status: "allocated", phase: "running" });
  // News wakes a sync that waits.
  const { body: known } = await sync("sums", { jobs: [{ ...part, phase: "running" }] });
  const waiting = sync("sums", {
    jobs: [{ ...part, phase: "running" }],
    seen: known.version,
    wait_seconds: 5,
  });
  await server.admin("POST", `/v1/resource-requests/${id}/cancel`);
  expect((await waiting).body.jobs[0].instruction.do).toBe("stop");
  await sync("sums", { jobs: [{ ...part, phase: "ended", end: { outcome: "stopped" } }] });
  expect(await job(id)).toMatchObject({ status: "cancelled" });
});

test("a checkpoint report and a log come from the adapter of the pool", async () => {
  const { id } = await submit("sums", { checkpoint: "auto" });
  const [wanted] = (await sync("sums")).body.jobs;
  const part = { request_id: id, token: wanted.token, phase: "running" };
  await sync("sums", { jobs: [part] });
  const report = { request_id: id, token: wanted.token, report: "progress" };
  expect((await adapter("POST", "/v1/pools/cluster/checkpoint", report)).status).toBe(404);
  expect((await adapter("POST", "/v1/pools/sums/checkpoint", report)).status).toBe(200);
  const reading = fetch(`${server.url}/v1/jobs/${id}/logs`, {
    headers: { authorization: `Bearer ${server.adminSecret}` },
  });
  let logs: { reader: string }[] = [];
  while (logs.length === 0) ({ logs } = (await sync("sums", { jobs: [part] })).body);
  const piece = { from: 0, parts: [{ stream: "stdout", data: Buffer.from("hello\n").toString("base64") }] };
  const path = `/v1/pools/sums/logs/${logs[0]?.reader}`;
  await adapter("POST", path, { ...piece, is_end: false });
  await adapter("POST", path, { from: 6, parts: [], is_end: true });
  expect(await (await reading).text()).toBe("hello\n");
  await sync("sums", { jobs: [{ ...part, phase: "ended", end: { outcome: "succeeded" } }] });
});

test("S3: what ran longer than its cluster permits has failed by walltime", async () => {
  const { id } = await submit("sums");
  const [wanted] = (await sync("sums")).body.jobs;
  const end = { outcome: "failed", cause: "walltime", exit_code: 143, message: "It ran too long." };
  await sync("sums", { jobs: [{ request_id: id, token: wanted.token, phase: "ended", end }] });
  expect(await job(id)).toMatchObject({
    status: "failed",
    exit: { reason: "walltime", exit_code: 143, message: "It ran too long." },
  });
});

test("what the cluster did not start is given back, with an alert, once (S3, K3)", async () => {
  const { id } = await submit("sums");
  const [wanted] = (await sync("sums")).body.jobs;
  const message = "Slurm did not start it in time: Resources.";
  const end = { outcome: "failed", cause: "start_failed", message };
  const part = { request_id: id, token: wanted.token, phase: "ended", end };
  for (const attempt of ["reported", "and again, because its answer was lost"])
    expect((await sync("sums", { jobs: [part] })).status, attempt).toBe(200);
  expect(await job(id)).toMatchObject({ status: "failed", exit: { reason: "start_failed", message } });
  const { body: audit } = await server.admin("GET", "/v1/audit?limit=1000");
  expect(audit.items.filter(({ action }: { action: string }) => action === "not_started")).toMatchObject([
    { outcome: "alert", target: `request ${id}` },
  ]);
});
