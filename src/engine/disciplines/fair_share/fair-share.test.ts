// Discipline `fair_share` through the engine's front door; the rules themselves are in the scenario files.

import { expect, test } from "vitest";
import {
  type Command,
  type ComponentName,
  createState,
  decide,
  type EngineState,
  type Event,
  explain,
  type GroupName,
  type NodeName,
  nextWakeMs,
  PLAIN_REQUEST,
  type PolicyChange,
  type PoolName,
  type PoolSettings,
  preview,
  queueOf,
  type RequestId,
  type RequestSpec,
  requestOf,
  restoreState,
  shareViewOf,
  snapshotOf,
} from "../../index.ts";
import { type Course, courseOf } from "../../slices.fixture.ts";
import { requirePool } from "../../state.ts";

const POOL = "p" as PoolName;

test("equal operations are looked at as one and share alike", () => {
  const state = worldWith(pool(4), policy("a"), policy("b"));
  for (let i = 0; i < 6; i++) send(state, 0, submit(`a${i}`, "a", 1));
  send(state, 0, submit("b0", "b", 1));
  // Four of a run, two wait with b's.
  const { waiting = [], running = [] } = requirePool(state, POOL).shareTree ?? {};
  expect(Array.from(running, ({ operations }) => operations.size)).toEqual([4]);
  expect(Array.from(waiting, ({ operations }) => operations.size)).toEqual([2, 1]);
  expect(viewOf(state, "a0")?.fairShare.gpu).toBeCloseTo(0.125);
  expect(viewOf(state, "a5")?.fairShare.gpu).toBeCloseTo(0.125);
  expect(viewOf(state, "b0")).toMatchObject({ fairShare: { gpu: 0.25 }, parent: "b", starvesAtMs: 30_000 });
  expect(queueOf(state, POOL, 0)).toEqual(["b0", "a4", "a5"]);
});

test("clocks go on after a restart from a snapshot", () => {
  const live = starving();
  const restored = restoreState(structuredClone(snapshotOf(live)));
  expect(nextWakeMs(live)).toBe(30_000);
  expect(nextWakeMs(restored)).toBeLessThanOrEqual(30_000);
  send(restored, 20_000, { kind: "tick" }); // What a server does first.
  expect(nextWakeMs(restored)).toBe(30_000);
  const events = [live, restored].map((state) => send(state, 30_000, { kind: "tick" }));
  expect(events[1]).toEqual(events[0]);
  expect(victimsIn(events[0] as Event[])).toEqual(["h3"]);
});

test("a tree of many operations is taken over in slices, and the course is the same", () => {
  const teams = Array.from({ length: 20 }, (_, i) => `team-${i}`);
  const before = worldWith(pool(100, { starvationTimeoutMs: 10_000 }), ...teams.map((team) => policy(team)));
  for (let i = 0; i < 300; i++)
    send(before, i, submit(`r${i}`, teams[(i * 7) % 20] as string, 1 + (i % 3), { walltimeMs: 3_600_000 }));
  const commands: (readonly [number, Command])[] = [
    [1_000, { kind: "tick" }],
    [2_000, submit("late", "team-3", 2)],
    [3_600_000, { kind: "tick" }], // All walltimes are over.
  ];
  const [whole, sliced] = [false, true].map((isCut) =>
    courseOf(restoreState(structuredClone(snapshotOf(before))), commands, isCut),
  ) as [Course, Course];
  expect(sliced.happened).toEqual(whole.happened);
  expect(whole.cutLooks).toBe(0);
  expect(sliced.cutLooks).toBeGreaterThan(4);
});

test("a what-if changes nothing, neither statuses nor what the next look finds", () => {
  const [state, other] = [starving(), starving()];
  preview(state, submit("x", "prod", 2), 10_000);
  preview(state, { kind: "cancelRequest", requestId: "p0" as RequestId }, 10_000);
  expect(JSON.stringify(snapshotOf(state))).toBe(JSON.stringify(snapshotOf(other)));
  expect(send(state, 30_000, { kind: "tick" })).toEqual(send(other, 30_000, { kind: "tick" }));
});

test("what is reserved, idle and in others' hands is lent; free units are lent by nobody", () => {
  const state = worldWith(
    pool(12),
    { kind: "createGroup", pool: POOL, group: { name: "g" as GroupName, reserved: { gpu: 4 } } },
    policy("inner", POOL, { group: "g" as GroupName, reserved: { gpu: 2 } }),
    policy("idle", POOL, { group: "g" as GroupName, reserved: { gpu: 2 } }),
    policy("owner", POOL, { reserved: { gpu: 4 } }),
    policy("guest"),
    submit("o", "owner", 1),
    submit("i", "inner", 1),
    submit("x", "guest", 7),
  );
  const loans = (name: string) => {
    const told = viewOf(state, name)?.loans;
    return [told?.borrowed.gpu, told?.lent.gpu].map((share) => Math.round((share ?? 0) * 1200) / 100);
  };
  // Three units are free and four are nobody's; of the six that are reserved and idle, three are lent, half of each one's.
  expect({ guest: loans("guest"), owner: loans("owner"), g: loans("g") }).toEqual({
    guest: [7, 0],
    owner: [0, 1.5],
    g: [0, 1.5],
  });
  expect([loans("inner"), loans("idle")]).toEqual([
    [0, 0.5],
    [0, 1],
  ]);
});

test("nobody lends anything where more is in use than there is", () => {
  const state = worldWith(pool(2), policy("guest"), policy("owner", POOL, { reserved: { gpu: 1 } }));
  send(state, 0, submit("x", "guest", 2));
  send(state, 0, { kind: "updatePool", name: POOL, capacity: { gpu: 1 }, force: true });
  expect(viewOf(state, "guest")?.loans?.lent).toEqual({ gpu: 0 });
  send(state, 0, { kind: "detachPolicy", pool: POOL, component: "owner" as ComponentName });
  expect(viewOf(state, "guest")?.loans?.lent).toEqual({ gpu: 0 });
});

test("a request that waits in two pools is demand in both until one of them grants it", () => {
  const other = "q" as PoolName;
  const state = worldWith(
    pool(1),
    pool(1, {}, other),
    policy("a"),
    policy("a", other),
    submit("a0", "a", 1),
    submit("a1", "a", 1),
    submit("a2", "a", 1),
  );
  expect(requestOf(state, "a1" as RequestId)?.progress.allocation?.pool).toBe("q");
  const demandIn = (name: PoolName) => viewOf(state, "a", name)?.demandShare.gpu;
  expect([demandIn(POOL), demandIn(other)]).toEqual([2, 2]);
  send(state, 1_000, { kind: "reportEnd", requestId: "a1" as RequestId, outcome: "succeeded" });
  expect([demandIn(POOL), demandIn(other)]).toEqual([1, 1]);
});

test("a request for two nodes preempts on both, and starts when both are free", () => {
  const state = worldWith(
    {
      kind: "createPool",
      name: POOL,
      discipline: "fair_share",
      settings: { preemptionSatisfactionThreshold: 0.5 },
    },
    putNode("n1", 2),
    putNode("n2", 2),
    policy("hog"),
    policy("prod", POOL, { weight: 3 }),
  );
  for (let i = 0; i < 4; i++) send(state, 0, submit(`h${i}`, "hog", 1, { operation: "mass" }));
  send(state, 0, submit("big", "prod", 1, { nodes: 2 }));
  const victims = victimsIn(send(state, 30_000, { kind: "tick" }));
  expect(victims.sort()).toEqual(["h1", "h3"]);
  for (const requestId of victims) send(state, 31_000, { kind: "reportEnd", requestId, outcome: "stopped" });
  const placement = requestOf(state, "big" as RequestId)?.progress.allocation?.placement;
  expect(placement?.map((place) => place.node)).toEqual(["n1", "n2"]);
});

test.each<[string, Command]>([
  ["its node", { kind: "drainNode", name: "n1" as NodeName }],
  ["the labels for which its node was chosen", putNode("n1", 4)],
])("a hold ends with %s", (_, change) => {
  const state = worldWith(
    { kind: "createPool", name: POOL, discipline: "fair_share" },
    putNode("n1", 4, { disk: "fast" }),
    putNode("n2", 2, { disk: "fast" }),
    { kind: "drainNode", name: "n2" as NodeName }, // It admits, but takes nobody.
    policy("hog"),
    policy("prod"),
  );
  for (let i = 0; i < 4; i++) send(state, 0, submit(`h${i}`, "hog", 1, { operation: "mass" }));
  send(state, 0, submit("p0", "prod", 2, { constraints: { disk: "fast" } }));
  expect(victimsIn(send(state, 30_000, { kind: "tick" }))).toEqual(["h3", "h2"]);
  const events = send(state, 31_000, change);
  expect(events).toContainEqual(expect.objectContaining({ kind: "holdEnded", why: "node_lost" }));
});

test("an operation is as old as the oldest record of it", () => {
  const state = worldWith(pool(1), policy("a"));
  send(state, 0, submit("busy", "a", 1));
  send(state, 0, submit("x0", "a", 1, { operation: "x" }));
  send(state, 1_000, { kind: "cancelRequest", requestId: "x0" as RequestId });
  send(state, 2_000, submit("y0", "a", 1, { operation: "y" }));
  send(state, 3_000, submit("x1", "a", 1, { operation: "x" }));
  expect(queueOf(state, POOL, 3_000)).toEqual(["x1", "y0"]);
  send(state, 4_000, { kind: "forgetEnded", endedBeforeMs: 4_000 });
  expect(queueOf(state, POOL, 4_000)).toEqual(["y0", "x1"]);
});

test("an explanation says whose turn comes first, and when starvation begins", () => {
  const state = worldWith(pool(4), policy("hog"), policy("prod"), policy("late"));
  for (let i = 0; i < 4; i++) send(state, 0, submit(`h${i}`, "hog", 1, { operation: "mass" }));
  send(state, 1_000, submit("p0", "prod", 1));
  send(state, 2_000, submit("l0", "late", 3));
  expect(explain(state, "l0" as RequestId, 2_000)?.pools[0]).toMatchObject({
    position: 2,
    queueLength: 2,
    blockedBy: { rule: "units", head: "p0", short: [{ key: "gpu", asked: 3, free: 0 }] },
    preemptionNeeds: null,
    share: {
      operation: { name: "l0", status: "below_fair_share", starvesAtMs: 32_000 },
      above: [{ name: "late", kind: "policy" }],
      ahead: [{ theirs: { kind: "policy", name: "prod", satisfaction: 0 }, mine: { name: "late" } }],
      aheadCount: 1,
      mayPreempt: "no",
      exceedsFairShare: true,
    },
  });
  send(state, 31_000, { kind: "tick" });
  expect(explain(state, "p0" as RequestId, 31_000)?.pools[0]?.blockedBy).toEqual({
    rule: "holds",
    waitsFor: ["h3"],
  });
});

test("who waits behind others in a FIFO group asks for more than its fair share only if the group could not serve it (9.10)", () => {
  const group: Command = {
    kind: "createGroup",
    pool: POOL,
    group: { name: "line" as GroupName, mode: "fifo" },
  };
  const state = worldWith(pool(8), group, policy("a", POOL, { group: "line" as GroupName }), policy("b"));
  send(state, 0, submit("b0", "b", 4, { operation: "other" }));
  send(state, 0, submit("a0", "a", 4, { operation: "first" }));
  send(state, 0, submit("b1", "b", 4, { operation: "other" }));
  send(state, 1_000, submit("a1", "a", 3, { operation: "second" }));
  send(state, 1_000, submit("a2", "a", 5, { operation: "large" }));
  const beyond = (name: string) => viewOf(state, name)?.exceedsFairShare;
  expect(viewOf(state, "second")?.fairShare).toEqual({ gpu: 0 });
  expect([beyond("first"), beyond("second"), beyond("large")]).toEqual([false, false, true]);
});

test("what is granted in the decision in which it came was never below its fair share (9.4)", () => {
  const state = worldWith(pool(2), policy("a"), policy("b"));
  const kindsOf = (command: Command) => send(state, 0, command).map(({ kind }) => kind);
  expect(kindsOf(submit("a0", "a", 1))).toEqual(["requestSubmitted", "requestAllocated"]);
  expect(kindsOf(submit("b0", "b", 1))).toEqual(["requestSubmitted", "requestAllocated"]);
});

test("a promise stands when the weight of the waiter is lowered; others take back by starving, in their time (V5, 9.7)", () => {
  const settings = { starvationTimeoutMs: 2_000, preemptiveBackoffMs: 0 };
  const state = worldWith(pool(8, settings), policy("a"), policy("b"));
  for (let i = 0; i < 8; i++) send(state, 0, submit(`a${i}`, "a", 1, { operation: "a" }));
  for (let i = 0; i < 4; i++) send(state, 1_000, submit(`b${i}`, "b", 1, { operation: "b" }));
  expect(victimsIn(send(state, 3_000, { kind: "tick" }))).toEqual(["a7", "a6", "a5", "a4"]);

  const lowered = { pool: POOL, component: "b" as ComponentName, weight: 0.1 };
  send(state, 5_000, { kind: "updatePolicy", policy: lowered });
  for (const id of ["a7", "a6", "a5", "a4"]) {
    const token = requestOf(state, id as RequestId)?.progress.allocation?.token as number;
    send(state, 6_000, { kind: "reportEnd", requestId: id as RequestId, token, outcome: "stopped" });
  }
  const running = () =>
    [0, 1, 2, 3].filter((i) => requestOf(state, `b${i}` as RequestId)?.progress.status === "allocated");
  expect(running()).toEqual([0, 1, 2, 3]);
  expect(victimsIn(send(state, 7_999, { kind: "tick" }))).toEqual([]);
  expect(victimsIn(send(state, 8_000, { kind: "tick" }))).toEqual(["b3", "b2"]); // Up to 0.8 of the fair share of a.
});

/** Four units in use by one operation; another has waited from the beginning. */
function starving(): EngineState {
  const state = worldWith(pool(4), policy("hog"), policy("prod"));
  for (let i = 0; i < 4; i++) send(state, 0, submit(`h${i}`, "hog", 1, { operation: "mass" }));
  send(state, 0, submit("p0", "prod", 1));
  return state;
}

function worldWith(...commands: Command[]): EngineState {
  const state = createState();
  for (const command of commands) send(state, 0, command);
  return state;
}

function send(state: EngineState, nowMs: number, command: Command): readonly Event[] {
  const decision = decide(state, command, nowMs);
  if (decision.outcome === "refused") throw new Error(decision.refusal.message, { cause: decision.bug });
  return decision.events;
}

function victimsIn(events: readonly Event[]): RequestId[] {
  return events.flatMap((event) =>
    event.kind === "preemptionDecided" ? event.victims.map(({ requestId }) => requestId) : [],
  );
}

function pool(gpu: number, settings: Partial<PoolSettings> = {}, name = POOL): Command {
  return { kind: "createPool", name, capacity: { gpu }, discipline: "fair_share", settings };
}

function putNode(name: string, gpu: number, labels: Readonly<Record<string, string>> = {}): Command {
  return { kind: "putNode", node: { name: name as NodeName, pool: POOL, capacity: { gpu }, labels } };
}

function policy(component: string, name = POOL, rest: Partial<PolicyChange> = {}): Command {
  return { kind: "attachPolicy", policy: { pool: name, component: component as ComponentName, ...rest } };
}

function viewOf(state: EngineState, element: string, name = POOL) {
  return shareViewOf(state, name).elements.find((each) => each.name === element);
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
