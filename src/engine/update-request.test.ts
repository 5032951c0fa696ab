// Changing requests (Q9): every index follows, and what is refused leaves no trace.

import { expect, test } from "vitest";
import { violations } from "./invariants.fixture.ts";
import { createCluster } from "./placement/cluster.fixture.ts";
import type { RequestId } from "./records.ts";

const id = (name: string) => name as RequestId;

function fullPool() {
  const policies = { team: {}, other: {} };
  const cluster = createCluster({}, { discipline: "class", policies, capacity: { gpu: 2, lic: 2 } });
  cluster.submit("run", { resources: { gpu: 2 }, walltimeMs: 60_000, operation: "one" });
  cluster.submit("first", { resources: { gpu: 1 }, waitTimeoutMs: 60_000, operation: "one" });
  cluster.submit("second", { resources: { gpu: 1 }, waitTimeoutMs: 60_000 });
  return cluster;
}

test("indexes and timers follow a change of what waits and of what runs", () => {
  const cluster = fullPool();
  const { state } = cluster;
  cluster.send({ kind: "updateRequest", requestId: id("first"), change: { resources: { gpu: 2 } } });
  expect(violations(state, cluster.nowMs)).toEqual([]);
  cluster.send({ kind: "updateRequest", requestId: id("second"), change: { waitTimeoutMs: null } });
  cluster.send({ kind: "updateRequest", requestId: id("run"), change: { walltimeMs: 120_000 } });
  expect(violations(state, cluster.nowMs)).toEqual([]);
  cluster.nowMs = 60_000;
  cluster.send({ kind: "tick" });
  expect(["run", "first", "second"].map((name) => cluster.status(name))).toEqual([
    "allocated",
    "expired",
    "queued",
  ]);
  expect(violations(state, cluster.nowMs)).toEqual([]);
});

test("a refused change leaves everything as it was", () => {
  const cluster = fullPool();
  const before = cluster.state.seq;
  const tooMuch = { resources: { gpu: 9 } };
  const change = () => cluster.send({ kind: "updateRequest", requestId: id("first"), change: tooMuch });
  expect(change).toThrow(/over_capacity/);
  expect(cluster.state.seq).toBe(before);
  expect(cluster.state.requests.get(id("first"))?.spec.resources).toEqual({ gpu: 1 });
  expect(violations(cluster.state, cluster.nowMs)).toEqual([]);
});
