// Jobs (19): only pools with an executor admit them, their phases go forward, a part that fails stops the others; and
// requests that wait for others or for their turn in an array (J9).

import { expect, test } from "vitest";
import { explain } from "./explain.ts";
import { violations } from "./invariants.fixture.ts";
import { type Cluster, createCluster, POOL } from "./placement/cluster.fixture.ts";
import type { RequestId } from "./records.ts";

const request = (id: string) => id as RequestId;
const nodes = { a: { capacity: { gpu: 4 } }, b: { capacity: { gpu: 4 } } };
const withAgents = (settings = {}) => createCluster(nodes, { settings: { executor: "agents", ...settings } });
const progressOf = ({ state }: Cluster, id: string) => state.requests.get(request(id))?.progress;
const allocationOf = (cluster: Cluster, id: string) => progressOf(cluster, id)?.allocation;
const tokenOf = (cluster: Cluster, id: string) => allocationOf(cluster, id)?.token as number;
const after = (id: string, when: "ok" | "any" = "ok") => ({ after: [{ requestId: request(id), when }] });
const member = (index: number, atOnce: number | null = null) => ({
  operation: "sweep",
  array: { index, atOnce },
});

test("a pool without an executor does not admit a job (J3)", () => {
  const cluster = createCluster(nodes);
  cluster.submit("job", { isJob: true });
  expect(progressOf(cluster, "job")?.rejection).toMatchObject([{ pool: POOL, code: "no_executor" }]);
  cluster.submit("plain", {});
  expect(cluster.status("plain")).toBe("allocated");
});

test("a pool that loses its executor rejects the jobs that wait, and only those (P9)", () => {
  const cluster = withAgents();
  for (const id of ["x", "y"]) cluster.submit(id, { resources: { gpu: 4 } });
  cluster.submit("job", { isJob: true });
  cluster.submit("plain", {});
  cluster.send({ kind: "updatePool", name: POOL, settings: { executor: "none" } });
  expect(cluster.status("job")).toBe("rejected");
  expect(cluster.status("plain")).toBe("queued");
});

test("a job without a policy is rejected, even where others run outside all pools (A4)", () => {
  const cluster = withAgents();
  cluster.send({ kind: "changeServerSettings", unmanaged: "allow" });
  cluster.submit("job", { isJob: true, component: "stranger" });
  cluster.submit("plain", { component: "stranger" });
  expect(cluster.status("job")).toBe("rejected");
  expect(cluster.status("plain")).toBe("allocated");
});

test("phases go forward only, with the token of the grant (J4)", () => {
  const cluster = withAgents();
  cluster.submit("job", { isJob: true });
  cluster.submit("plain", {});
  const token = tokenOf(cluster, "job");
  const report = (phase: "assigned" | "starting" | "running", grant = token) =>
    cluster.send({ kind: "reportPhase", requestId: request("job"), token: grant, phase });
  expect(allocationOf(cluster, "job")?.phase).toBe("assigned");
  expect(report("running")).toHaveLength(1);
  expect(report("starting")).toEqual([]);
  expect(report("running")).toEqual([]);
  expect(allocationOf(cluster, "job")?.phase).toBe("running");
  expect(() => report("running", token - 1)).toThrow("stale_token");
  const plain = { requestId: request("plain"), token: tokenOf(cluster, "plain") };
  expect(() => cluster.send({ kind: "reportPhase", ...plain, phase: "running" })).toThrow("invalid_request");
});

test("a part that fails stops the others, and the attempt has failed (E7)", () => {
  const cluster = withAgents();
  cluster.submit("gang", { isJob: true, nodes: 2, retriesMax: 1, requeue: "on_failure" });
  const fail = { kind: "failPart", requestId: request("gang"), token: tokenOf(cluster, "gang") } as const;
  cluster.send(fail);
  expect(allocationOf(cluster, "gang")?.stop).toMatchObject({ cause: "failure", phase: "terminate" });
  expect(cluster.send(fail)).toEqual([]); // Said twice.
  const events = cluster.end("gang", "stopped");
  expect(events.find(({ kind }) => kind === "attemptEnded")).toMatchObject({
    outcome: "failed",
    status: "queued",
  });
});

test("what is preempted already is not stopped again by a part that fails", () => {
  const cluster = withAgents();
  cluster.submit("gang", { isJob: true, nodes: 2, checkpoint: "auto" });
  cluster.send({ kind: "drainNode", name: "a" as never, deadlineMs: 0 });
  expect(allocationOf(cluster, "gang")?.stop?.phase).toBe("checkpoint");
  const token = tokenOf(cluster, "gang");
  expect(cluster.send({ kind: "failPart", requestId: request("gang"), token })).toEqual([]);
});

// --- Dependencies

test("a request enters the queue when the one before it has ended well (J9)", () => {
  const cluster = withAgents();
  cluster.submit("first", {});
  cluster.submit("second", { ...after("first"), waitTimeoutMs: 1000 });
  expect(progressOf(cluster, "second")).toMatchObject({ status: "queued", delayed: true, blocked: true });
  expect(explain(cluster.state, request("second"), 0)?.blocked).toEqual({ after: ["first"], atOnce: null });
  cluster.nowMs = 5000;
  cluster.send({ kind: "tick" }); // The wait timeout counts from the entry into the queue.
  expect(cluster.status("second")).toBe("queued");
  cluster.end("first");
  expect(progressOf(cluster, "second")).toMatchObject({
    status: "allocated",
    attempt: 1,
    blocked: false,
    queuedAtMs: 5000,
  });
  expect(violations(cluster.state, cluster.nowMs)).toEqual([]);
});

test("what can no longer happen cancels whoever waits for it, and whoever waits for that", () => {
  const cluster = withAgents();
  cluster.submit("first", {});
  cluster.submit("second", after("first"));
  cluster.submit("third", after("second"));
  cluster.submit("anyway", after("first", "any"));
  cluster.send({ kind: "cancelRequest", requestId: request("first"), noHolder: "not_taken_up" });
  expect(progressOf(cluster, "second")).toMatchObject({ status: "cancelled", cancelledBecause: "first" });
  expect(progressOf(cluster, "third")).toMatchObject({ status: "cancelled", cancelledBecause: "second" });
  expect(cluster.status("anyway")).toBe("allocated");
});

test("a further attempt of the one before is not its end", () => {
  const cluster = withAgents();
  cluster.submit("first", { retriesMax: 1, requeue: "on_failure" });
  cluster.submit("second", after("first"));
  cluster.send({ kind: "reportEnd", requestId: request("first"), outcome: "failed" });
  expect(progressOf(cluster, "second")?.blocked).toBe(true);
  cluster.end("first");
  expect(cluster.status("second")).toBe("allocated");
});

test("several must all have ended, also those that have left the memory meanwhile", () => {
  const cluster = withAgents();
  cluster.submit("one", {});
  cluster.submit("two", {});
  const both = ["one", "two"].map((id) => ({ requestId: request(id), when: "ok" as const }));
  cluster.submit("last", { after: both });
  cluster.end("one");
  cluster.nowMs = 60_000;
  cluster.send({ kind: "forgetEnded", endedBeforeMs: 60_000 });
  expect(progressOf(cluster, "last")?.blocked).toBe(true);
  cluster.end("two");
  expect(cluster.status("last")).toBe("allocated");
});

test("a dependency that has failed before the submission cancels at once; an unknown one is refused", () => {
  const cluster = withAgents();
  cluster.submit("first", {});
  cluster.send({ kind: "reportEnd", requestId: request("first"), outcome: "failed" });
  cluster.submit("second", after("first"));
  expect(progressOf(cluster, "second")).toMatchObject({ status: "cancelled", cancelledBecause: "first" });
  expect(() => cluster.submit("third", after("nobody"))).toThrow("not_found");
  expect(() => cluster.submit("self", after("self"))).toThrow("invalid_request");
});

test("what no pool admits is rejected before it waits for others (A3)", () => {
  const cluster = withAgents();
  cluster.submit("first", {});
  cluster.submit("large", { ...after("first"), resources: { gpu: 99 } });
  expect(cluster.status("large")).toBe("rejected");
  expect(violations(cluster.state, cluster.nowMs)).toEqual([]);
});

// --- Arrays

test("at most so many of an array are in the queue or running (J9)", () => {
  const cluster = withAgents();
  for (let index = 0; index < 5; index++) cluster.submit(`m${index}`, member(index, 2));
  const running = () => [0, 1, 2, 3, 4].filter((index) => cluster.status(`m${index}`) === "allocated");
  expect(running()).toEqual([0, 1]);
  cluster.end("m1");
  expect(running()).toEqual([0, 2]);
  cluster.send({ kind: "cancelRequest", requestId: request("m3") }); // Blocked: it takes nobody's turn.
  expect(running()).toEqual([0, 2]);
  cluster.end("m0");
  expect(running()).toEqual([2, 4]);
  expect(violations(cluster.state, cluster.nowMs)).toEqual([]);
  cluster.end("m2");
  cluster.end("m4");
  expect(cluster.state.arrays.size).toBe(0);
});

test("a member that is preempted keeps its turn", () => {
  const cluster = createCluster({ a: { capacity: { gpu: 1 } } }, { settings: { executor: "agents" } });
  for (const index of [0, 1]) cluster.submit(`m${index}`, member(index, 1));
  cluster.send({ kind: "drainNode", name: "a" as never, deadlineMs: 0 });
  cluster.end("m0", "stopped");
  expect(cluster.status("m0")).toBe("queued");
  expect(progressOf(cluster, "m1")?.blocked).toBe(true);
});

test("a member of an array needs an operation", () => {
  const cluster = withAgents();
  expect(() => cluster.submit("x", { array: { index: 0, atOnce: 1 } })).toThrow("invalid_request");
});
