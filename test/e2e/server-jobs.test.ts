// Jobs and agents over HTTP: enrolment, sync, phases and ends, logs, signals, dependencies, arrays and operations (19, 20).

import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { agentWith, joinAgent, type ScriptedAgent } from "../support/scripted-agent.ts";
import { openTestServer, type TestServer } from "./server-support.ts";

let server: TestServer;
let one: ScriptedAgent;
let two: ScriptedAgent;
beforeAll(async () => {
  server = await openTestServer();
  await server.admin("POST", "/v1/pools", { name: "cluster", settings: { executor: "agents" } });
  await server.admin("POST", "/v1/pools/cluster/policies", { component: "vision" });
  await server.admin("POST", "/v1/pools", { name: "plain", capacity: { gpu: 8 } });
  await server.admin("POST", "/v1/pools/plain/policies", { component: "plain" });
  one = await joinAgent(server, "one");
  two = await joinAgent(server, "two");
});
afterAll(() => server.close());
afterEach(async () => {
  // Whatever a test has left ends.
  const { body } = await server.admin("GET", "/v1/jobs?status=queued,allocated,preempting&limit=1000");
  for (const { id } of body.items) await server.admin("POST", `/v1/resource-requests/${id}/cancel`);
  for (const agent of [one, two]) {
    for (const { token } of (await agent.sync()).jobs) await agent.end(token, { outcome: "stopped" });
    agent.jobs.clear();
    await agent.sync();
  }
});

const RUN = { command: ["train", "--lr", "0.1"], environment: { SECRET: "hunter2" }, directory: "/data" };
const submit = async (wanted: object = {}, call = server.admin) => {
  const body = { component: "vision", resources: { gpu: 1 }, run: RUN, ...wanted };
  return (await call("POST", "/v1/jobs", body)).body;
};
const job = async (id: string, call = server.admin) => (await call("GET", `/v1/jobs/${id}`)).body;
const eventually = (look: () => Promise<void>) => vi.waitFor(look, { timeout: 20_000, interval: 50 });
const base64 = (text: string) => Buffer.from(text).toString("base64");

/** The agent on which a job was placed. */
async function agentOf(id: string): Promise<ScriptedAgent> {
  const { where } = await job(id);
  return where[0].node === "one" ? one : two;
}

test("a join token works once, for its node only, and becomes a token of the node (E1)", async () => {
  const { body: enrolled } = await server.admin("POST", "/v1/nodes/three/enrol", {
    pool: "cluster",
    capacity: { gpu: 2 },
  });
  expect((await server.admin("GET", "/v1/nodes/three")).body).toMatchObject({ state: "down" });
  expect(Math.round((Date.parse(enrolled.expires_at) - Date.now()) / 60_000)).toBe(10);
  const joining = server.as(enrolled.join_token);
  const capacity = { gpu: 8, mcpu: 1000 };
  expect((await joining("POST", "/v1/nodes/one/join", { capacity })).status).toBe(403);
  expect((await joining("GET", "/v1/pools")).status).toBe(403);
  const stranger = await joining("POST", "/v1/nodes/three/join", { capacity: { mcpu: 1000 } });
  expect(stranger).toMatchObject({
    status: 400,
    body: { code: "empty_capacity", hint: expect.stringContaining("--capacity mcpu=1000") },
  });
  const joined = await joining("POST", "/v1/nodes/three/join", { capacity });
  // It may offer less than was enrolled, not more, and nothing else.
  expect(joined).toMatchObject({ status: 201, body: { node: "three", capacity: { gpu: 2 } } });
  expect((await joining("POST", "/v1/nodes/three/join", { capacity })).status).toBe(401);
  expect((await server.admin("GET", "/v1/nodes/three")).body).toMatchObject({
    state: "ready",
    capacity: { gpu: 2 },
    enrolled: { gpu: 2 },
  });
  const agent = agentWith(server.as(joined.body.node_token), "three", "s");
  await agent.sync({ more: { capacity: { gpu: 1 } } });
  expect((await server.admin("GET", "/v1/nodes/three")).body.capacity).toEqual({ gpu: 1 });
  await agent.sync({ more: { capacity: { gpu: 99 } } });
  expect((await server.admin("GET", "/v1/nodes/three")).body.capacity).toEqual({ gpu: 2 });
  await server.admin("DELETE", "/v1/nodes/three?force=true");
});

test("two machines with one join token: one of them joins", async () => {
  const { body: enrolled } = await server.admin("POST", "/v1/nodes/race/enrol", { pool: "cluster" });
  const join = () => server.as(enrolled.join_token)("POST", "/v1/nodes/race/join", { capacity: { gpu: 1 } });
  const answers = await Promise.all([join(), join(), join()]);
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 401, 401]);
  await server.admin("DELETE", "/v1/nodes/race?force=true");
});

test("a pool without agents enrols nobody, and starts no jobs", async () => {
  const enrolled = await server.admin("POST", "/v1/nodes/x/enrol", { pool: "plain" });
  expect(enrolled.body).toMatchObject({ code: "no_executor" });
  const rejected = await submit({ component: "plain" });
  expect(rejected).toMatchObject({ status: "rejected", reasons: [{ pool: "plain", code: "no_executor" }] });
});

test("a node token reaches its own node, and nothing else", async () => {
  for (const [method, path, body] of [
    ["GET", "/v1/nodes", undefined],
    ["GET", "/v1/jobs", undefined],
    ["GET", "/v1/whoami", undefined],
    ["POST", "/v1/jobs", { component: "vision", resources: { gpu: 1 }, run: RUN }],
    ["POST", "/v1/nodes/two/sync", { session: "s", boot_id: "b", agent_version: "0", jobs: [] }],
    ["POST", "/v1/nodes/two/enrol", { pool: "cluster" }],
  ] as const) {
    expect((await one.call(method, path, body)).status).toBe(403);
  }
  expect((await server.admin("POST", "/v1/tokens", { name: "x", role: "node" })).status).toBe(400);
  const sync = { session: "s", boot_id: "b", agent_version: "0", jobs: [] };
  expect((await server.admin("POST", "/v1/nodes/one/sync", sync)).status).toBe(403);
});

test("a job is assigned, starts, runs and ends where it was placed (J1, J4, J5)", async () => {
  const submitted = await submit({ name: "train" });
  expect(submitted).toMatchObject({ status: "allocated", is_job: true, phase: "assigned", run: RUN });
  const agent = await agentOf(submitted.id);
  const [wanted] = (await agent.sync()).jobs;
  expect(wanted).toMatchObject({
    request_id: submitted.id,
    run: RUN,
    attempt: 1,
    rank: 0,
    nodes: [agent.node],
    instruction: { do: "carry_on" },
  });
  expect(wanted.devices).toHaveLength(1);
  agent.jobs.set(wanted.token, { request_id: submitted.id, token: wanted.token, phase: "starting" });
  expect((await agent.sync()).jobs[0].run).toBeUndefined(); // It has that now.
  expect((await job(submitted.id)).phase).toBe("starting");
  agent.jobs.get(wanted.token).phase = "running";
  agent.jobs.get(wanted.token).progress = "epoch 3";
  await agent.sync();
  const running = await job(submitted.id);
  expect(running).toMatchObject({ phase: "running", where: [{ node: agent.node, progress: "epoch 3" }] });
  const after = await agent.end(wanted.token, {
    outcome: "failed",
    exit_code: 3,
    log_tail: [base64("it went wrong\n")],
    log_bytes: 100,
  });
  expect(after.jobs).toEqual([]);
  expect(await job(submitted.id)).toMatchObject({
    status: "failed",
    phase: null,
    exit: { reason: "exited", exit_code: 3 },
  });
  // The node sends nothing: what is kept is the end of it, in its place.
  const read = (query: string) => server.admin("GET", `/v1/jobs/${submitted.id}/logs?${query}`);
  const [whole, rest, last] = await Promise.all([read(""), read("from=89"), read("from=-6")]);
  expect(whole).toMatchObject({ status: 200, body: "[86 bytes are missing]\nit went wrong\n" });
  expect(rest.body).toBe("went wrong\n");
  expect(last.body).toBe("wrong\n");
});

test("what a job runs is in no event and in no audit entry, and its environment is its submitter's (J2)", async () => {
  const user = await server.token("user", { components: ["vision"] });
  const submitted = await submit({ name: "secret" }, user.call);
  expect((await job(submitted.id, user.call)).run).toEqual(RUN);
  expect((await job(submitted.id)).run.environment).toEqual({ SECRET: null });
  const other = await server.token("user", { components: ["vision"] });
  expect(await job(submitted.id, other.call)).toMatchObject({ run: null });
  expect((await other.call("GET", `/v1/jobs/${submitted.id}/logs`)).status).toBe(403);
  const events = await server.store.readEvents(1, 10_000);
  expect(JSON.stringify(events)).not.toContain("hunter2");
  expect(JSON.stringify(await server.store.listAudit({ limit: 1000 }))).not.toContain("hunter2");
  expect(
    (
      await user.call("POST", "/v1/jobs", {
        ...submitted.x,
        component: "vision",
        resources: { gpu: 1 },
        run: { ...RUN, user: "root" },
      })
    ).status,
  ).toBe(403);
});

test("a held sync is answered as soon as there is something to do (E2)", async () => {
  await one.sync();
  await two.sync();
  const held = Promise.race([one.sync({ hold: true }), two.sync({ hold: true })]);
  const submitted = await submit();
  const answer = await held;
  expect(answer.jobs).toMatchObject([{ request_id: submitted.id }]);
});

test("syncs that are lost, late or repeated do no harm", async () => {
  const submitted = await submit();
  const agent = await agentOf(submitted.id);
  await agent.takeUp();
  const [token] = [...agent.jobs.keys()] as [string];
  const late = { jobs: [{ request_id: submitted.id, token, phase: "starting" }] };
  await agent.sync({ more: late });
  expect((await job(submitted.id)).phase).toBe("running");
  const end = { outcome: "succeeded", exit_code: 0 };
  const ended = { jobs: [{ request_id: submitted.id, token, phase: "ended", end }] };
  await Promise.all([agent.sync({ more: ended }), agent.sync({ more: ended })]);
  await agent.sync({ more: ended });
  await agent.sync({ more: late });
  const shown = await job(submitted.id);
  expect(shown).toMatchObject({ status: "released", attempts: [{ outcome: "succeeded" }] });
  expect(shown.attempts).toHaveLength(1);
});

test("a part that another node reports, or with a token that is not ours, changes nothing", async () => {
  const submitted = await submit();
  const agent = await agentOf(submitted.id);
  const stranger = agent === one ? two : one;
  await agent.takeUp();
  const [token] = [...agent.jobs.keys()] as [string];
  const end = { outcome: "failed", exit_code: 1 };
  await stranger.sync({ more: { jobs: [{ request_id: submitted.id, token, phase: "ended", end }] } });
  const forged = `1.${"A".repeat(43)}`;
  await agent.sync({ more: { jobs: [{ request_id: submitted.id, token: forged, phase: "ended", end }] } });
  expect((await job(submitted.id)).status).toBe("allocated");
  const checkpoint = { request_id: submitted.id, token, report: "done" };
  expect((await stranger.call("POST", `/v1/nodes/${stranger.node}/checkpoint`, checkpoint)).status).toBe(404);
});

test("its executor alone says how a job ends", async () => {
  const submitted = await submit();
  const release = { token: submitted.token, outcome: "succeeded" };
  const released = await server.admin("POST", `/v1/resource-requests/${submitted.id}/release`, release);
  expect(released.body).toMatchObject({ code: "invalid_request" });
  const abandoned = await server.admin("POST", `/v1/resource-requests/${submitted.id}/cancel?abandoned=true`);
  expect(abandoned.body).toMatchObject({ code: "in_use" });
});

test("a preempted job is asked for a checkpoint, stops, and resumes (11, J4)", async () => {
  await server.admin("PATCH", "/v1/pools/cluster/policies/vision", { reserved: {} });
  await server.admin("PUT", "/v1/pools/cluster/policies/owner", { reserved: { gpu: 8 }, priority: 9 });
  const victim = await submit({ nodes: 2, resources: { gpu: 4 }, checkpoint: "auto" });
  for (const agent of [one, two]) await agent.takeUp();
  const waiter = await submit({ component: "owner", resources: { gpu: 4 } });
  expect(await job(victim.id)).toMatchObject({ status: "preempting", phase: "checkpointing" });
  const [wanted] = (await one.sync()).jobs;
  expect(wanted.instruction).toMatchObject({ do: "checkpoint", reason: expect.any(String) });
  expect(wanted.instruction.left_seconds).toBeGreaterThan(300);
  const report = { request_id: victim.id, token: wanted.token, report: "done" };
  expect((await one.call("POST", "/v1/nodes/one/checkpoint", report)).status).toBe(200);
  expect((await one.sync()).jobs[0].instruction.do).toBe("stop");
  for (const agent of [one, two]) {
    for (const token of agent.jobs.keys()) await agent.end(token, { outcome: "stopped", exit_code: 0 });
  }
  expect(await job(victim.id)).toMatchObject({
    status: "queued",
    resume: true,
    exit: { reason: "preempted" },
  });
  expect(await job(waiter.id)).toMatchObject({ status: "allocated" });
  await server.admin("DELETE", "/v1/pools/cluster/policies/owner?force=true");
});

test("of a job on several nodes, the first failure stops the others and is the attempt's (E7)", async () => {
  const gang = await submit({ nodes: 2, resources: { gpu: 2 } });
  await one.takeUp();
  expect((await job(gang.id)).phase).toBe("starting"); // One part runs, the other has not begun.
  await two.takeUp();
  expect((await job(gang.id)).phase).toBe("running");
  const [first] = [...one.jobs.keys()] as [string];
  await one.end(first, { outcome: "failed", exit_code: 9 });
  const [other] = (await two.sync()).jobs;
  expect(other).toMatchObject({ rank: expect.any(Number), instruction: { do: "stop", reason: "failure" } });
  expect((await one.sync()).jobs).toHaveLength(1); // Until the last part has ended.
  await two.end(other.token, { outcome: "stopped", signal: "SIGTERM" });
  await one.sync();
  expect(await job(gang.id)).toMatchObject({ status: "failed", exit: { reason: "exited", exit_code: 9 } });
});

test("an agent that has lost its memory does not start a job twice (J5)", async () => {
  const submitted = await submit({ requeue: "never" });
  const agent = await agentOf(submitted.id);
  await agent.takeUp();
  const fresh = agentWith(agent.call, agent.node, "another session");
  expect((await fresh.sync()).jobs).toEqual([]);
  expect((await job(submitted.id)).exit).toMatchObject({ reason: "lost" });
});

test("a signal goes to where the job runs, and is acknowledged", async () => {
  const submitted = await submit();
  const agent = await agentOf(submitted.id);
  await agent.takeUp();
  const [token] = [...agent.jobs.keys()] as [string];
  const sent = server.admin("POST", `/v1/jobs/${submitted.id}/signal`, { signal: "SIGUSR1" });
  let wanted = (await agent.sync({ hold: true })).jobs[0];
  await eventually(async () => {
    wanted = (await agent.sync({ hold: true })).jobs[0];
    expect(wanted.signals).toMatchObject([{ signal: "SIGUSR1" }]);
  });
  agent.jobs.get(token).signals = [wanted.signals[0].id];
  await agent.sync();
  expect(await sent).toMatchObject({ status: 200, body: { delivered: true } });
  expect((await agent.sync()).jobs[0].signals).toEqual([]);
});

test("a log is passed on from the node as it grows, each byte once and in order (J6)", async () => {
  const submitted = await submit();
  const agent = await agentOf(submitted.id);
  await agent.takeUp();
  const answer = fetch(`${server.url}/v1/jobs/${submitted.id}/logs?follow=true`, {
    headers: { authorization: `Bearer ${server.adminSecret}` },
  });
  const reader = await wantedReader(agent);
  const send = (from: number, parts: [string, string][], is_end = false) =>
    agent.call("POST", `/v1/nodes/${agent.node}/logs/${reader}`, {
      from,
      parts: parts.map(([stream, text]) => ({ stream, data: base64(text) })),
      is_end,
    });
  expect((await send(0, [["stdout", "one\n"]])).body).toEqual({ go_on: true, position: 4 });
  expect((await send(8, [["stdout", "lost\n"]])).body).toEqual({ go_on: true, position: 4 }); // A gap.
  expect(
    (
      await send(0, [
        ["stdout", "one\n"],
        ["stderr", "two\n"],
      ])
    ).body.position,
  ).toBe(8); // Half of it again.
  expect((await send(8, [["stdout", "end\n"]], true)).body).toEqual({ go_on: false, position: 12 });
  expect(await (await answer).text()).toBe("one\ntwo\nend\n");
  expect((await send(12, [["stdout", "late"]])).body.go_on).toBe(false);
});

test("one stream of a log, as events, and a log that the node does not have", async () => {
  const submitted = await submit();
  const agent = await agentOf(submitted.id);
  await agent.takeUp();
  const path = `${server.url}/v1/jobs/${submitted.id}/logs?format=events&stream=stderr`;
  const answer = fetch(path, { headers: { authorization: `Bearer ${server.adminSecret}` } });
  const piece = (parts: object[], more: object = {}) => ({ from: 0, parts, is_end: true, ...more });
  const parts = [
    { stream: "stdout", data: base64("out") },
    { stream: "stderr", data: base64("\0\x1b[31m") },
  ];
  const to = (reader: string) => `/v1/nodes/${agent.node}/logs/${reader}`;
  await agent.call("POST", to(await wantedReader(agent)), piece(parts));
  const lines = (await (await answer).text()).trim().split("\n");
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { position: 3, stream: "stderr", data: base64("\0\x1b[31m") },
    { end: true },
  ]);
  const missing = server.admin("GET", `/v1/jobs/${submitted.id}/logs`);
  await agent.call("POST", to(await wantedReader(agent)), piece([], { is_missing: true }));
  expect((await missing).status).toBe(503);
});

async function wantedReader(agent: ScriptedAgent): Promise<string> {
  let reader = "";
  await eventually(async () => {
    const { logs } = await agent.sync({ hold: true });
    expect(logs).toHaveLength(1);
    reader = logs[0].reader;
  });
  return reader;
}

test("a log is read no longer than the token of its reader lives, nor by more readers than a token may have", async () => {
  const submitted = await submit();
  const agent = await agentOf(submitted.id);
  await agent.takeUp();
  const abort = new AbortController();
  const read = (secret: string) =>
    fetch(`${server.url}/v1/jobs/${submitted.id}/logs?follow=true`, {
      headers: { authorization: `Bearer ${secret}` },
      signal: abort.signal,
    });
  const known = new Set<string>();
  /** Answers the reader that is new, so that it stays. */
  const feed = () =>
    eventually(async () => {
      const { logs } = await agent.sync();
      const reader = logs.map((log: { reader: string }) => log.reader).find((one: string) => !known.has(one));
      expect(reader).toBeDefined();
      known.add(reader);
      const piece = { from: 0, parts: [{ stream: "stdout", data: base64("one\n") }], is_end: false };
      await agent.call("POST", `/v1/nodes/${agent.node}/logs/${reader}`, piece);
    });
  const short = await server.token("operator", { expires_in_seconds: 3 });
  const brief = await Promise.all([read(short.secret), feed()]);
  await expect(brief[0].text()).rejects.toThrow(); // Cut off: what it has must not be taken for the whole.
  const long = await server.token("operator");
  const readers: Response[] = []; // Kept: the connection of an answer that is collected as garbage is closed.
  while (readers.length < 50) {
    const [answer] = await Promise.all([read(long.secret), feed()]);
    readers.push(answer);
  }
  expect((await read(long.secret)).status).toBe(429);
  expect(new Set(readers.map(({ status }) => status))).toEqual(new Set([200]));
  abort.abort();
});

test("whoever enrols a machine reaches everybody who uses its pool: it gets what their jobs run", async () => {
  const { call } = await server.token("operator", { components: ["vision"] });
  const enrol = () => call("POST", "/v1/nodes/one/enrol", { pool: "cluster", capacity: { gpu: 1 } });
  await server.admin("POST", "/v1/pools/cluster/policies", { component: "speech" });
  expect(await enrol()).toMatchObject({ status: 403, body: { code: "forbidden" } });
  expect((await server.admin("GET", "/v1/nodes/one")).body.enrolled).toEqual({ gpu: 4 });
  await server.admin("DELETE", "/v1/pools/cluster/policies/speech");
  const { body } = await call("POST", "/v1/nodes/four/enrol", { pool: "cluster" });
  expect(body).toMatchObject({ node: "four", join_token: expect.stringContaining("berth_") });
});

test("a job waits for another, by its number, and is cancelled when that fails (J9)", async () => {
  const first = await submit({ name: "prepare" });
  const second = await submit({ after: [{ id: `${first.number}` }] });
  expect(second).toMatchObject({ status: "queued", blocked: true, after: [{ id: first.id, when: "ok" }] });
  const { body: why } = await server.admin("GET", `/v1/resource-requests/${second.id}/explanation`);
  expect(why.blocked).toEqual({ after: [first.id], at_once: null });
  const after = { label: "after", text: `#${first.number} prepare` };
  expect(why.text[0].lines).toEqual([after]);
  const agent = await agentOf(first.id);
  await agent.takeUp();
  const [token] = [...agent.jobs.keys()] as [string];
  await agent.end(token, { outcome: "failed", exit_code: 1 });
  expect(await job(second.id)).toMatchObject({ status: "cancelled", cancelled_because: first.id });
  const { body: over } = await server.admin("GET", `/v1/resource-requests/${second.id}/explanation`);
  expect(over.text[0].lines).toEqual([after]);
  expect(
    (
      await server.admin("POST", "/v1/jobs", {
        component: "vision",
        resources: { gpu: 1 },
        run: RUN,
        after: [{ id: "99999" }],
      })
    ).status,
  ).toBe(404);
});

test("an array is one operation, of which so many run at once (J9)", async () => {
  const array = {
    job: { component: "vision", resources: { gpu: 1 }, run: RUN, name: "sweep" },
    indices: [0, 1, 2, 3, 4],
    at_once: 2,
  };
  const { body } = await server.admin("POST", "/v1/jobs/array", array);
  const { operation } = body.results[0];
  expect(body.results.map((result: { array: object }) => result.array)).toEqual(
    array.indices.map((index) => ({ index, at_once: 2 })),
  );
  const look = async () => (await server.admin("GET", `/v1/operations/${operation}`)).body;
  expect(await look()).toMatchObject({
    component: "vision",
    statuses: { allocated: 2, blocked: 3 },
    usage: { gpu: 2 },
    shares: [{ pool: "cluster", usage_share: 0.25, fair_share: null, satisfaction: null, status: null }],
    ended_at: null,
  });
  const scraped = (await server.admin("GET", "/metrics")).body;
  expect(scraped).toContain('berth_operations{pool="cluster",state="running"} 1');
  expect(scraped).toContain('berth_operations{pool="cluster",state="waiting"} 0');
  const agent = await agentOf(body.results[0].id);
  const wanted = await agent.takeUp();
  expect(wanted.jobs[0].array_index).toBe(0);
  await agent.end(wanted.jobs[0].token, { outcome: "succeeded" });
  expect((await look()).statuses).toEqual({ released: 1, allocated: 2, blocked: 2 });
  const { body: list } = await server.admin("GET", "/v1/operations?component=vision");
  expect(list.items.map((item: { operation: string }) => item.operation)).toContain(operation);
  const cancelled = await server.admin("POST", `/v1/operations/${operation}/cancel`);
  expect(cancelled.body.cancelled).toBe(4);
  expect((await server.admin("POST", "/v1/operations/nothing/cancel")).status).toBe(404);
  const twice = await server.admin("POST", "/v1/jobs/array", { ...array, indices: [1, 1] });
  expect(twice.status).toBe(400);
});

test("a page of operations costs what it shows, and so does a look for jobs among other requests", async () => {
  const crowd = await openTestServer();
  await crowd.admin("POST", "/v1/pools", { name: "plain", capacity: { gpu: 1 } });
  await crowd.admin("POST", "/v1/pools/plain/policies", { component: "plain" });
  const items = Array.from({ length: 1_000 }, (_, index) => ({
    ...{ component: "plain", resources: { gpu: 1 }, operation: `op-${1_000 + (index % 500)}` },
  }));
  await crowd.admin("POST", "/v1/resource-requests/bulk", { items });
  let walked = 0;
  await crowd.leader.read(({ state }) => {
    for (const requests of state.operations.values()) {
      const walk = requests[Symbol.iterator].bind(requests);
      requests[Symbol.iterator] = () => {
        walked += 1;
        return walk();
      };
    }
  });
  const names: string[] = [];
  let page = await crowd.admin("GET", "/v1/operations?limit=3");
  for (let pages = 1; pages <= 3; pages++) {
    names.push(...page.body.items.map(({ operation }: { operation: string }) => operation));
    page = await crowd.admin("GET", `/v1/operations?limit=3&cursor=${page.body.next_cursor}`);
  }
  expect(names).toEqual(items.slice(0, 9).map(({ operation }) => operation));
  expect(walked).toBe(4 * 4); // Three that are shown, and one that shows that more follow.
  const asked = vi.spyOn(crowd.store, "listRequests");
  const { body } = await crowd.admin("GET", "/v1/jobs?limit=100");
  expect([body.items, typeof body.next_cursor, asked.mock.calls.length]).toEqual([[], "string", 5]);
  await crowd.close();
});

test("a drained node gets nothing new, and with a deadline what runs there is stopped (N4)", async () => {
  const submitted = await submit();
  const agent = await agentOf(submitted.id);
  await agent.takeUp();
  await server.admin("POST", `/v1/nodes/${agent.node}/drain`, { deadline_seconds: 0 });
  const answer = await agent.sync();
  expect(answer).toMatchObject({ state: "draining", jobs: [{ instruction: { do: "stop" } }] });
  await agent.end(answer.jobs[0].token, { outcome: "stopped" });
  expect((await server.admin("GET", `/v1/nodes/${agent.node}`)).body.state).toBe("drained");
  await agent.sync(); // Being heard of does not make it ready.
  expect((await server.admin("GET", `/v1/nodes/${agent.node}`)).body.state).toBe("drained");
  await server.admin("POST", `/v1/nodes/${agent.node}/undrain`);
});

test("the plan of a drain names who is stopped, and when (N4, X1)", async () => {
  const submitted = await submit({ name: "long" });
  const agent = await agentOf(submitted.id);
  await agent.takeUp();
  const plan = async (body: object) =>
    (await server.admin("POST", `/v1/nodes/${agent.node}/drain?dry_run=true`, body)).body;
  expect(await plan({})).toMatchObject({ dry_run: true, stopped: [] });
  expect((await plan({ deadline_seconds: 0 })).stopped).toMatchObject([{ id: submitted.id, name: "long" }]);
  const [later] = (await plan({ deadline_seconds: 600 })).stopped;
  expect(later).toMatchObject({ id: submitted.id });
  const inSeconds = (Date.parse(later.at) - Date.now()) / 1000;
  expect(Math.round(inSeconds / 100)).toBe(6);
  expect((await server.admin("GET", `/v1/nodes/${agent.node}`)).body.state).toBe("ready");
});

test("a token says as whom its jobs run; without a word operators may name anybody, users nobody (E6)", async () => {
  const bound = await server.token("user", { components: ["vision"], run_as: ["alice", "bob"] });
  const free = await server.token("user", { components: ["vision"] });
  const runAs = async (call: typeof server.admin, user?: string) => {
    const run = { ...RUN, ...(user !== undefined && { user }) };
    const { status, body } = await call("POST", "/v1/jobs", {
      ...{ component: "vision", resources: { gpu: 1 }, run },
    });
    return status === 201 ? body.run.user : body.code;
  };
  expect(await runAs(bound.call)).toBe("alice");
  expect(await runAs(bound.call, "bob")).toBe("bob");
  expect(await runAs(bound.call, "carol")).toBe("forbidden");
  expect(await runAs(free.call)).toBeUndefined();
  expect(await runAs(free.call, free.name)).toBe("forbidden");
  expect(await runAs(server.admin, "carol")).toBe("carol");
  expect((await bound.call("GET", "/v1/whoami")).body.run_as).toEqual(["alice", "bob"]);
  expect((await server.admin("GET", `/v1/tokens/${free.name}`)).body.run_as).toBeNull();
});

test("a node that answers cannot be confirmed lost", async () => {
  await one.sync();
  const refused = await server.admin("POST", "/v1/nodes/one/confirm-lost");
  expect(refused.body).toMatchObject({ code: "in_use" });
});

test("an operation outlives the pool that it ran in", async () => {
  await server.admin("PUT", "/v1/pools/brief", { capacity: { gpu: 1 } });
  await server.admin("PUT", "/v1/pools/brief/policies/brief", {});
  const asked = { component: "brief", resources: { gpu: 1 }, operation: "brief" };
  const { body } = await server.admin("POST", "/v1/resource-requests", asked);
  await server.admin("POST", `/v1/resource-requests/${body.id}/release`, {
    ...{ token: body.token, outcome: "succeeded" },
  });
  expect((await server.admin("DELETE", "/v1/pools/brief?force=true")).status).toBeLessThan(300);
  const { status, body: list } = await server.admin("GET", "/v1/operations?component=brief");
  expect(status).toBe(200);
  expect(list.items).toMatchObject([{ operation: "brief", statuses: { released: 1 }, shares: [] }]);
});
