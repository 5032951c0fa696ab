// The life of nodes (12): registering, draining, losing, removing, and what that does to requests.

import { expect, test } from "vitest";
import { violations } from "../invariants.fixture.ts";
import { type Cluster, createCluster, POOL } from "../placement/cluster.fixture.ts";
import type { ComponentName, NodeName, RequestId } from "../records.ts";
import { nextWakeMs } from "../timers.ts";
import { borrowedOf, capacityOf, nodesOf, usageOf } from "../views.ts";

const node = (name: string) => name as NodeName;
const request = (id: string) => id as RequestId;
const stateOf = ({ state }: Cluster, name: string) =>
  nodesOf(state).find((each) => each.name === name)?.state;
const twoNodes = { a: { capacity: { gpu: 2 } }, b: { capacity: { gpu: 2 } } };

const refusals: Record<string, { command: Parameters<Cluster["send"]>[0]; code: string }> = {
  "a node needs a pool": {
    command: { kind: "putNode", node: { name: node("new"), capacity: { gpu: 1 } } },
    code: "invalid_request",
  },
  "a node has something": {
    command: { kind: "putNode", node: { name: node("new"), pool: POOL } },
    code: "empty_capacity",
  },
  "amounts of a node are whole and above 0": {
    command: { kind: "putNode", node: { name: node("new"), pool: POOL, capacity: { gpu: 0 } } },
    code: "invalid_amount",
  },
  "the pool of a node must be there": {
    command: {
      kind: "putNode",
      node: { name: node("new"), pool: "nowhere" as typeof POOL, capacity: { gpu: 1 } },
    },
    code: "not_found",
  },
  "a node that nobody knows cannot be drained": {
    command: { kind: "drainNode", name: node("new") },
    code: "not_found",
  },
  "a node in use is not removed without force": {
    command: { kind: "removeNode", name: node("a") },
    code: "in_use",
  },
};
for (const [name, { command, code }] of Object.entries(refusals)) {
  test(name, () => {
    const cluster = createCluster(twoNodes);
    cluster.submit("x", {});
    expect(() => cluster.send(command)).toThrow(code);
  });
}

test("a pool with a capacity of its own takes no nodes", () => {
  const cluster = createCluster({});
  cluster.send({ kind: "createPool", name: "quota" as typeof POOL, capacity: { gpu: 1 } });
  const put = { name: node("a"), pool: "quota" as typeof POOL, capacity: { gpu: 1 } };
  expect(() => cluster.send({ kind: "putNode", node: put })).toThrow("invalid_request");
});

test("a node with the last run of a pool that is being deleted goes with the pool (P8)", () => {
  for (const kind of ["removeNode", "loseNode"] as const) {
    const cluster = createCluster(twoNodes);
    cluster.submit("x", { nodes: 2 });
    cluster.send({ kind: "drainNode", name: node("b") });
    cluster.send({ kind: "deletePool", name: POOL, force: true });
    cluster.send({ kind, name: node("a"), force: true });
    expect([cluster.state.pools.size, cluster.state.nodes.size]).toEqual([0, 0]);
    expect(violations(cluster.state, cluster.state.clockMs)).toEqual([]);
  }
});

test("the capacity is that of the ready nodes, and the keys are those of all", () => {
  const cluster = createCluster({ a: { capacity: { gpu: 2 } }, b: { capacity: { gpu: 1, licence: 3 } } });
  expect(capacityOf(cluster.state, POOL)).toEqual({ gpu: 3, licence: 3 });
  cluster.send({ kind: "suspectNode", name: node("b") });
  expect(capacityOf(cluster.state, POOL)).toEqual({ gpu: 2, licence: 0 });
  cluster.send({ kind: "removeNode", name: node("b") });
  expect(capacityOf(cluster.state, POOL)).toEqual({ gpu: 2 });
});

test("a draining node takes nothing new, lets its work finish, and is drained then (N4)", () => {
  const cluster = createCluster(twoNodes);
  cluster.submit("x", {});
  cluster.send({ kind: "drainNode", name: node("a") });
  cluster.submit("y", {});
  expect([cluster.placed("x"), cluster.placed("y"), stateOf(cluster, "a")]).toEqual([
    ["a"],
    ["b"],
    "draining",
  ]);
  cluster.end("x");
  expect(stateOf(cluster, "a")).toBe("drained");
  cluster.send({ kind: "undrainNode", name: node("a") });
  cluster.submit("z", { resources: { gpu: 2 } });
  expect(cluster.placed("z")).toEqual(["a"]);
});

test("an empty node is drained at once", () => {
  const cluster = createCluster(twoNodes);
  cluster.send({ kind: "drainNode", name: node("a"), deadlineMs: 5000 });
  expect([stateOf(cluster, "a"), nextWakeMs(cluster.state)]).toEqual(["drained", null]);
});

test("at the deadline of a drain what still runs is stopped, and comes back elsewhere (N4, 11)", () => {
  const cluster = createCluster(twoNodes, { policies: { team: { reserved: { gpu: 2 } } } });
  cluster.submit("x", { preemptible: false });
  cluster.submit("y", { checkpoint: "auto" });
  cluster.send({ kind: "drainNode", name: node("a"), deadlineMs: 60_000 });
  expect([nextWakeMs(cluster.state), cluster.status("x")]).toEqual([60_000, "allocated"]);
  cluster.nowMs = 60_000;
  cluster.send({ kind: "tick" });
  expect([cluster.status("x"), cluster.status("y")]).toEqual(["preempting", "preempting"]);
  cluster.end("x", "stopped");
  cluster.end("y", "stopped");
  expect([cluster.placed("x"), cluster.placed("y"), stateOf(cluster, "a")]).toEqual([
    ["b"],
    ["b"],
    "drained",
  ]);
  expect(violations(cluster.state, cluster.nowMs)).toEqual([]);
});

test("a deadline that has passed stops at once", () => {
  const cluster = createCluster(twoNodes);
  cluster.nowMs = 10_000;
  cluster.submit("x", {});
  cluster.send({ kind: "drainNode", name: node("a"), deadlineMs: 10_000 });
  expect(cluster.status("x")).toBe("preempting");
});

test("a lost node takes whole runs with it, and rejects nobody (N4, Q3)", () => {
  const cluster = createCluster(twoNodes);
  cluster.submit("gang", { resources: { gpu: 2 }, nodes: 2 });
  cluster.submit("never", { requeue: "never" });
  cluster.end("gang");
  cluster.submit("pair", { resources: { gpu: 1 }, nodes: 2 });
  cluster.send({ kind: "loseNode", name: node("a") });
  expect([cluster.status("pair"), cluster.status("never"), stateOf(cluster, "a")]).toEqual([
    "queued",
    "expired",
    "down",
  ]);
  expect(usageOf(cluster.state, POOL)).toEqual({ gpu: 0 });
  expect(() => cluster.send({ kind: "undrainNode", name: node("a") })).toThrow("is down");
  cluster.send({ kind: "putNode", node: { name: node("a") } });
  expect(cluster.placed("pair")).toEqual(["a", "b"]);
});

test("what no node could hold is rejected when the last that could is removed (P9)", () => {
  const cluster = createCluster({ a: { capacity: { gpu: 1 } }, b: { capacity: { gpu: 4 } } });
  cluster.send({ kind: "suspectNode", name: node("b") });
  cluster.submit("x", { resources: { gpu: 2 } });
  expect(cluster.status("x")).toBe("queued");
  cluster.send({ kind: "removeNode", name: node("b") });
  expect(cluster.state.requests.get(request("x"))?.progress.rejection).toEqual([
    { pool: POOL, code: "over_capacity", key: "gpu", asked: 2, allowed: 1 },
  ]);
});

test("a request for more nodes than could hold a part of it is rejected for the lack of nodes (N4)", () => {
  const cluster = createCluster({ ...twoNodes, small: { capacity: { gpu: 1 } } });
  cluster.submit("gang", { resources: { gpu: 2 }, nodes: 3 });
  expect(cluster.state.requests.get(request("gang"))?.progress.rejection).toEqual([
    { pool: POOL, code: "over_capacity", key: "nodes", asked: 3, allowed: 2 },
  ]);
});

test("a node that comes back smaller keeps its work and gets no more until it fits", () => {
  const cluster = createCluster({ a: { capacity: { gpu: 4 } } });
  cluster.submit("x", { resources: { gpu: 3 } });
  cluster.send({ kind: "putNode", node: { name: node("a"), capacity: { gpu: 2 } } });
  cluster.submit("y", {});
  expect([cluster.status("x"), cluster.status("y")]).toEqual(["allocated", "queued"]);
  cluster.end("x");
  expect(cluster.placed("y")).toEqual(["a"]);
});

test("a promise is for the nodes of the decision: it ends when one of them is draining, not before (V5)", () => {
  const cluster = createCluster(
    { a: { capacity: { gpu: 1 } }, b: { capacity: { gpu: 1 } } },
    { policies: { low: { priority: 1 }, high: { priority: 9 } } },
  );
  cluster.submit("r1", { component: "low", checkpoint: "auto" });
  cluster.submit("r2", { component: "low", checkpoint: "auto" });
  cluster.submit("w", { component: "high" });
  cluster.send({ kind: "cancelRequest", requestId: request("r1") });
  const holds = () => cluster.state.requests.get(request("w"))?.progress.hold !== null;
  cluster.send({ kind: "suspectNode", name: node("b") });
  cluster.send({ kind: "drainNode", name: node("a") });
  expect(holds()).toBe(true);
  cluster.send({ kind: "drainNode", name: node("b") });
  expect(holds()).toBe(false);
});

test("a waiter with a hold may start elsewhere in its turn, where nothing is promised (V5)", () => {
  const cluster = createCluster(
    { a: { capacity: { gpu: 1 } }, b: { capacity: { gpu: 1 } } },
    { policies: { low: { priority: 1 }, high: { priority: 9 } } },
  );
  cluster.submit("r1", { component: "low", checkpoint: "auto" });
  cluster.submit("r2", { component: "low", checkpoint: "auto" });
  cluster.submit("w", { component: "high" });
  const progress = () => cluster.state.requests.get(request("w"))?.progress;
  expect(progress()?.hold?.placement.map(({ node: name }) => name)).toEqual(["b"]);
  cluster.end("r1", "succeeded");
  expect(progress()?.allocation?.placement.map(({ node: name }) => name)).toEqual(["a"]);
});

test("units that a victim has left on a node are kept for the one they were promised to (V5)", () => {
  const cluster = createCluster(
    { a: { capacity: { gpu: 4 } } },
    { policies: { low: { priority: 1 }, high: { priority: 9 } }, settings: { backfill: "opportunistic" } },
  );
  cluster.submit("r1", { component: "low", resources: { gpu: 2 } });
  cluster.submit("r2", { component: "low", resources: { gpu: 2 } });
  cluster.submit("w", { component: "high", resources: { gpu: 4 } });
  cluster.end("r1", "stopped");
  cluster.submit("small", { component: "low", resources: { gpu: 2 } });
  expect([cluster.status("w"), cluster.status("small")]).toEqual(["queued", "queued"]);
  cluster.end("r2", "stopped");
  expect(cluster.status("w")).toBe("allocated");
});

test("victims are those whose units fit together on a node, whatever comes first in the order (N2, 8.3)", () => {
  const cluster = createCluster(
    { a: { capacity: { gpu: 2 } }, b: { capacity: { gpu: 2 } } },
    { policies: { low: { priority: 1 }, middle: { priority: 2 }, high: { priority: 9 } } },
  );
  cluster.submit("a1", { component: "middle" });
  cluster.submit("a2", { component: "middle" });
  cluster.submit("b1", { component: "high" });
  cluster.submit("b2", { component: "low" });
  cluster.submit("w", { component: "high", resources: { gpu: 2 } });
  const preempting = ["a1", "a2", "b1", "b2"].filter((id) => cluster.status(id) === "preempting");
  expect(preempting).toEqual(["a1", "a2"]);
});

test("behind a head that waits for other nodes, the rest of the cluster goes on (G4)", () => {
  const cluster = createCluster({
    a: { capacity: { gpu: 2 }, labels: { model: "new" } },
    b: { capacity: { gpu: 2 } },
  });
  cluster.submit("x", { resources: { gpu: 2 }, constraints: { model: "new" } });
  cluster.submit("head", { resources: { gpu: 2 }, constraints: { model: "new" } });
  cluster.submit("y", { resources: { gpu: 1 } });
  expect([cluster.status("head"), cluster.placed("y")]).toEqual(["queued", ["b"]]);
});

test("behind a head a short run may use its node until it can start at the soonest (G4)", () => {
  const cluster = createCluster({ a: { capacity: { gpu: 4 } } });
  cluster.submit("x", { resources: { gpu: 2 }, walltimeMs: 60_000 });
  cluster.submit("head", { resources: { gpu: 4 } });
  cluster.submit("long", { resources: { gpu: 1 }, walltimeMs: 60_001 });
  cluster.submit("short", { resources: { gpu: 1 }, walltimeMs: 60_000 });
  expect([cluster.status("long"), cluster.status("short")]).toEqual(["queued", "allocated"]);
});

test("work on home nodes of others is borrowed, and its owner takes it back (N3, 8.2)", () => {
  const cluster = createCluster(
    { a: { capacity: { gpu: 2 }, labels: { owner: "ada" } } },
    {
      policies: {
        ada: { reserved: { gpu: 1 }, home: { owner: "ada" } },
        bob: { reserved: { gpu: 1 }, priority: 9 },
      },
    },
  );
  cluster.submit("guest", { component: "bob" });
  cluster.submit("own", { component: "ada" });
  expect(borrowedOf(cluster.state, request("guest"))).toEqual({ gpu: 1 });
  expect(borrowedOf(cluster.state, request("own"))).toEqual({ gpu: 0 });
  cluster.end("own");
  cluster.submit("guest2", { component: "bob", preemptible: false });
  cluster.submit("back", { component: "ada" });
  expect(cluster.status("guest")).toBe("preempting");
  expect(violations(cluster.state, 0)).toEqual([]);
});

test("quotas may be given before the first node is there, and a component is heard then", () => {
  const cluster = createCluster({}, { policies: { team: { reserved: { gpu: 2 } } } });
  cluster.send({
    kind: "attachPolicy",
    policy: { pool: POOL, component: "late" as ComponentName, reserved: { gpu: 1 } },
  });
  cluster.send({ kind: "putNode", node: { name: node("a"), pool: POOL, capacity: { gpu: 2 } } });
  cluster.submit("x", {});
  expect(cluster.status("x")).toBe("allocated");
});

test("N2: the GPUs of a node keep the indices that its machine has, and none is given out twice", () => {
  const cluster = createCluster({ a: { capacity: { gpu: 3 }, devices: [1, 4, 6] } });
  const devicesOf = (id: string) =>
    cluster.state.requests.get(request(id))?.progress.allocation?.placement[0]?.devices;
  cluster.submit("x", { resources: { gpu: 1 } });
  cluster.submit("y", { resources: { gpu: 2 } });
  expect([devicesOf("x"), devicesOf("y")]).toEqual([[1], [4, 6]]);
  cluster.end("x");
  // Index 1 is out of use from now on; what runs on the others goes on.
  cluster.send({ kind: "putNode", node: { name: node("a"), capacity: { gpu: 2 }, devices: [4, 6] } });
  cluster.submit("z", { resources: { gpu: 1 } });
  expect(cluster.status("z")).toBe("queued");
  cluster.end("y");
  expect(devicesOf("z")).toEqual([4]);
  expect(violations(cluster.state, cluster.nowMs)).toEqual([]);
});

test("N2: a list of devices that is too short for the capacity is refused, or forgotten when the capacity grows", () => {
  const cluster = createCluster({ a: { capacity: { gpu: 2 }, devices: [3, 5] } });
  for (const devices of [[3], [5, 3], [3, 3], [-1, 3]]) {
    const change = { name: node("a"), capacity: { gpu: 2 }, devices };
    expect(() => cluster.send({ kind: "putNode", node: change })).toThrow("invalid_request");
  }
  cluster.send({ kind: "putNode", node: { name: node("a"), capacity: { gpu: 3 } } });
  expect(nodesOf(cluster.state)[0]?.devices).toBeUndefined();
});
