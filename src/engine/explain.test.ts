// Why a request waits (14): the facts behind the words.

import { expect, test } from "vitest";
import {
  type Command,
  type ComponentName,
  createState,
  decide,
  type EngineState,
  explain,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
  type RequestSpec,
} from "./index.ts";
import { createCluster } from "./placement/cluster.fixture.ts";

const POOL = "p" as PoolName;

function worldWith(...commands: Command[]): EngineState {
  const state = createState();
  for (const command of commands) {
    const decision = decide(state, command, 0);
    if (decision.outcome === "refused") throw new Error(decision.refusal.message);
  }
  return state;
}

function pool(gpu: number): Command {
  return { kind: "createPool", name: POOL, capacity: { gpu } };
}

function policy(
  component: string,
  rest: { priority?: number; reserved?: { gpu: number }; limit?: { gpu: number } } = {},
): Command {
  return { kind: "attachPolicy", policy: { pool: POOL, component: component as ComponentName, ...rest } };
}

function submit(id: string, component: string, gpu: number, rest: Partial<RequestSpec> = {}): Command {
  return {
    kind: "submitRequest",
    spec: {
      ...PLAIN_REQUEST,
      id: id as RequestId,
      component: component as ComponentName,
      resources: { gpu, step_run: 1 },
      ...rest,
    },
  };
}

const of = (state: EngineState, id: string) => explain(state, id as RequestId, 0)?.pools[0];

test("the head is told what is short, who holds it, and when it could start", () => {
  const state = worldWith(
    pool(2),
    policy("a"),
    submit("x", "a", 2, { walltimeMs: 60_000 }),
    submit("y", "a", 1),
  );
  expect(of(state, "y")).toMatchObject({
    position: 1,
    queueLength: 1,
    blockedBy: {
      rule: "units",
      short: [{ key: "gpu", asked: 1, free: 0, promised: 0, comingFree: 0 }],
      head: "y",
    },
    holders: [{ requestId: "x", units: { gpu: 2 }, endsAtMs: 60_000 }],
    preemptionNeeds: { gpu: 1 },
    couldStartAtMs: 60_000,
  });
});

test.each(["priority", "class", "fair_share"] as const)(
  "what a node does not meter has no number: the others are added up (%s, R4)",
  (discipline) => {
    const capacity = { gpu: 1 };
    const nodes = { a: { capacity }, b: { capacity: { ...capacity, mcpu: 1_000 } } };
    const cluster = createCluster(nodes, { discipline });
    const resources = { gpu: 1, mcpu: 600 };
    for (const id of ["x", "y", "z"]) cluster.submit(id, { resources });
    expect(of(cluster.state, "z")?.blockedBy).toMatchObject({
      rule: "units",
      short: [
        { key: "gpu", asked: 1, free: 0, promised: 0, comingFree: 0 },
        { key: "mcpu", asked: 600, free: expect.any(Number), promised: 0, comingFree: 0 },
      ],
    });
    const facts = JSON.stringify(of(cluster.state, "z"), (_, value: unknown) =>
      typeof value === "number" && !Number.isFinite(value) ? "no number" : value,
    );
    expect(facts).not.toContain("no number");
  },
);

test("candidates are named by kind, with the rule that forbids them", () => {
  const state = worldWith(
    pool(2),
    policy("a", { priority: 5 }),
    policy("b", { priority: 5 }),
    submit("x", "a", 2),
    submit("y", "b", 1),
  );
  expect(of(state, "y")?.considered).toMatchObject([
    { component: "a", count: 1, verdict: { permit: null, bar: "priority_not_lower" } },
  ]);
});

test("in a pool of discipline class, candidates are named with class and cost beside the value of the waiter (10.5)", () => {
  const state = worldWith(
    { kind: "createPool", name: POOL, capacity: { gpu: 2 }, discipline: "class" },
    policy("a"),
    submit("dear", "a", 2, { preemptionClass: 2, checkpoint: "manual" }),
    submit("cheap", "a", 1, { preemptionClass: 8, walltimeMs: 60_000 }),
  );
  expect(of(state, "cheap")).toMatchObject({
    value: 800, // Class 8 × 1 GPU × 1 minute.
    considered: [{ preemptionClass: 2, cost: 1000, verdict: { bar: "costs_too_much" } }],
    preemption: { why: "too_little", keys: [{ key: "gpu", lacking: 1, permitted: 0 }] },
    blockedBy: { rule: "units" },
  });
});

test("a request over its own limit is told so, and holds up nobody (G3)", () => {
  const state = worldWith(
    pool(4),
    policy("a", { limit: { gpu: 1 } }),
    submit("x", "a", 1),
    submit("y", "a", 1),
  );
  expect(of(state, "y")?.blockedBy).toEqual({
    rule: "limit",
    key: "gpu",
    asked: 1,
    used: 1,
    allowed: 1,
    group: null,
  });
});

test("who could run but would delay the head is told who that is (G4)", () => {
  const state = worldWith(
    pool(4),
    policy("own", { reserved: { gpu: 3 } }),
    policy("a"),
    submit("n", "own", 3, { preemptible: false }),
    submit("big", "a", 2),
    submit("small", "a", 1),
  );
  expect(of(state, "small")).toMatchObject({
    position: 2,
    blockedBy: { rule: "behind_head", head: "big" },
    preemptionNeeds: null,
  });
});

test("a waiter whose victims stop is told which", () => {
  const state = worldWith(
    pool(1),
    policy("lo"),
    policy("hi", { priority: 9 }),
    submit("l", "lo", 1),
    submit("h", "hi", 1),
  );
  expect(of(state, "h")?.blockedBy).toEqual({ rule: "holds", waitsFor: ["l"] });
  expect(explain(state, "l" as RequestId, 0)?.stop).toMatchObject({ reason: "priority", forRequest: "h" });
});

test("the place in a deep line is counted, not walked", () => {
  const state = worldWith(pool(1), policy("a"), submit("x", "a", 1));
  for (let i = 0; i < 1000; i++) decide(state, submit(`w${i}`, "a", 1), 0);
  expect(of(state, "w700")).toMatchObject({ position: 701, queueLength: 1000, preemptionNeeds: null });
});

test("what no pool admits is told why by each of them (A3)", () => {
  const state = worldWith(pool(1), policy("a"), submit("x", "a", 2));
  expect(explain(state, "x" as RequestId, 0)).toMatchObject({
    status: "rejected",
    rejection: [{ pool: "p", code: "over_capacity", key: "gpu", asked: 2, allowed: 1 }],
  });
});
