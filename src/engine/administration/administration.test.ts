// What is refused, with which code, and that a refusal leaves everything as it was (P4, P7, P8, R1, A5).

import { describe, expect, test } from "vitest";
import {
  type Command,
  type ComponentName,
  createState,
  decide,
  type EngineState,
  type GroupName,
  type Lifetime,
  PLAIN_REQUEST,
  type PoolName,
  preview,
  type RefusalCode,
  type RequestId,
  type RequestSpec,
  restoreState,
  snapshotOf,
} from "../index.ts";
import { violations } from "../invariants.fixture.ts";

const POOL = "p" as PoolName;
const TEAM = "team" as ComponentName;

const spec: RequestSpec = {
  ...PLAIN_REQUEST,
  id: "x" as RequestId,
  component: TEAM,
  resources: { gpu: 1 },
};
const submit = (rest: Partial<RequestSpec>): Command => ({
  kind: "submitRequest",
  spec: { ...spec, ...rest },
});
const policy = (rest: object): Command => ({
  kind: "updatePolicy",
  policy: { pool: POOL, component: TEAM, ...rest },
});

/** Four GPUs; a team that reserves two and runs on one. */
function world(): EngineState {
  const state = createState();
  const commands: Command[] = [
    {
      kind: "createPool",
      name: POOL,
      capacity: { gpu: 4 },
      groups: [{ name: "lab" as GroupName, reserved: { gpu: 3 } }],
    },
    {
      kind: "attachPolicy",
      policy: { pool: POOL, component: TEAM, reserved: { gpu: 2 }, group: "lab" as GroupName },
    },
    submit({ id: "running" as RequestId }),
  ];
  for (const command of commands) expect(decide(state, command, 0).outcome).toBe("accepted");
  return state;
}

const refused: Record<string, [Command, RefusalCode]> = {
  "a pool with a name that is taken": [
    { kind: "createPool", name: POOL, capacity: { gpu: 1 } },
    "name_taken",
  ],
  "a pool with a name in capitals": [
    { kind: "createPool", name: "P" as PoolName, capacity: { gpu: 1 } },
    "invalid_request",
  ],
  "a pool without capacity": [{ kind: "createPool", name: "q" as PoolName, capacity: {} }, "empty_capacity"],
  "a pool with half a GPU": [
    { kind: "createPool", name: "q" as PoolName, capacity: { gpu: 0.5 } },
    "invalid_amount",
  ],
  "a pool with more than numbers can count": [
    { kind: "createPool", name: "q" as PoolName, capacity: { gpu: 2e16 } },
    "invalid_amount",
  ],
  "a pool with a malformed key": [
    { kind: "createPool", name: "q" as PoolName, capacity: { "G P U": 1 } },
    "invalid_request",
  ],
  "a setting below zero": [{ kind: "updatePool", name: POOL, settings: { graceMs: -1 } }, "invalid_request"],
  "a tolerance by which those starve who have their share": [
    { kind: "updatePool", name: POOL, settings: { starvationTolerance: 1.5 } },
    "invalid_request",
  ],
  "fair shares of nothing": [
    { kind: "updatePool", name: POOL, settings: { shareKeys: [] } },
    "invalid_request",
  ],
  "an aggressive threshold above the ordinary one": [
    { kind: "updatePool", name: POOL, settings: { preemptionSatisfactionThreshold: 0.1 } },
    "invalid_request",
  ],
  "a threshold that protects nothing": [
    {
      kind: "updatePool",
      name: POOL,
      settings: { preemptionSatisfactionThreshold: 0, aggressivePreemptionSatisfactionThreshold: 0 },
    },
    "invalid_request",
  ],
  "aggressive starvation before starvation": [
    {
      kind: "updatePool",
      name: POOL,
      settings: { enableAggressiveStarvation: true, starvationTimeoutMs: 120_001 },
    },
    "invalid_request",
  ],
  "the same in a group that inherits one half of it": [
    {
      kind: "updatePool",
      name: POOL,
      settings: { starvationTimeoutMs: 120_001 },
      groups: [{ name: "eager" as GroupName, settings: { enableAggressiveStarvation: true } }],
    },
    "invalid_request",
  ],
  "fair shares of a key that the pool does not count": [
    { kind: "updatePool", name: POOL, settings: { shareKeys: ["gpu", "nope"] } },
    "unknown_key",
  ],
  "a main key that the pool does not count": [
    { kind: "updatePool", name: POOL, settings: { mainKey: "nope" } },
    "unknown_key",
  ],
  "a threshold of a key that the pool does not count": [
    { kind: "updatePool", name: POOL, settings: { nonPreemptibleUsageThreshold: { nope: 1 } } },
    "unknown_key",
  ],
  "the same threshold in a group": [
    {
      kind: "updatePool",
      name: POOL,
      groups: [{ name: "safe" as GroupName, settings: { nonPreemptibleUsageThreshold: { nope: 1 } } }],
    },
    "unknown_key",
  ],
  "a renewal that comes after the lease": [
    { kind: "updatePool", name: POOL, settings: { leaseMs: 60_000, renewalMs: 60_000 } },
    "invalid_request",
  ],
  "a lease of no time": [{ kind: "updatePool", name: POOL, settings: { leaseMs: 0 } }, "invalid_request"],
  "removing the last key": [{ kind: "updatePool", name: POOL, capacity: { gpu: 0 } }, "empty_capacity"],
  "a capacity below what is reserved (P4)": [
    { kind: "updatePool", name: POOL, capacity: { gpu: 1 } },
    "reserved_over_capacity",
  ],
  "a pool that is not there": [
    { kind: "updatePool", name: "q" as PoolName, capacity: { gpu: 1 } },
    "not_found",
  ],
  "deleting a pool in use (P8)": [{ kind: "deletePool", name: POOL }, "in_use"],
  "detaching a policy in use (P8)": [{ kind: "detachPolicy", pool: POOL, component: TEAM }, "in_use"],
  "a second policy for the same component": [
    { kind: "attachPolicy", policy: { pool: POOL, component: TEAM } },
    "policy_exists",
  ],
  "a policy for a group that is not there": [policy({ group: "none" }), "not_found"],
  "reserving more than the limit (P4)": [policy({ limit: { gpu: 1 } }), "reserved_over_limit"],
  "reserving more than the group (P4)": [policy({ reserved: { gpu: 4 } }), "reserved_over_capacity"],
  "reserving what the pool does not have (P4)": [policy({ reserved: { tpu: 1 } }), "unknown_key"],
  "reserving less than nothing": [policy({ reserved: { gpu: -1 } }), "invalid_amount"],
  "a weight of zero": [policy({ weight: 0 }), "invalid_request"],
  "a priority below zero": [policy({ priority: -1 }), "invalid_request"],
  "a group below itself": [
    { kind: "updateGroup", pool: POOL, group: { name: "lab" as GroupName, parent: "lab" as GroupName } },
    "invalid_request",
  ],
  "deleting a group with members": [{ kind: "deleteGroup", pool: POOL, name: "lab" as GroupName }, "in_use"],
  "an id that is taken": [submit({ id: "running" as RequestId }), "name_taken"],
  "asking for nothing (A5)": [submit({ resources: {} }), "invalid_request"],
  "asking for zero (R1)": [submit({ resources: { gpu: 0 } }), "invalid_amount"],
  "asking for a fraction (R1)": [submit({ resources: { gpu: 1.5 } }), "invalid_amount"],
  "class 11 (A5)": [submit({ preemptionClass: 11 }), "invalid_class"],
  "a walltime of zero": [submit({ walltimeMs: 0 }), "invalid_request"],
  "zero nodes": [submit({ nodes: 0 }), "invalid_request"],
  "cancelling what is not there": [{ kind: "cancelRequest", requestId: "nobody" as RequestId }, "not_found"],
  "an old token (L1)": [
    { kind: "reportEnd", requestId: "running" as RequestId, token: 1, outcome: "succeeded" },
    "stale_token",
  ],
  "stopping what nobody asked to stop": [
    { kind: "reportEnd", requestId: "running" as RequestId, outcome: "stopped" },
    "invalid_request",
  ],
  "deleting the record of a run (Q6)": [
    { kind: "deleteRequest", requestId: "running" as RequestId },
    "in_use",
  ],
};

describe("is refused, and changes nothing:", () => {
  for (const [name, [command, code]] of Object.entries(refused)) {
    test(name, () => {
      const state = world();
      const before = JSON.stringify(snapshotOf(state));
      const decision = decide(state, command, 5);
      expect(decision).toMatchObject({ outcome: "refused", refusal: { code } });
      if (decision.outcome === "refused") {
        expect(decision.refusal.message).toMatch(/\w.*\.$/);
        expect(decision.refusal.hint).toMatch(/\w.*\.$/);
      }
      expect(JSON.stringify(snapshotOf(state))).toBe(before);
    });
  }
});

const consistent: Record<string, Command> = {
  "a short lease, to which the default renewal adapts itself": {
    kind: "updatePool",
    name: POOL,
    settings: { leaseMs: 10_000 },
  },
  "an aggressive timeout that is short and not in use": {
    kind: "updatePool",
    name: POOL,
    settings: { aggressiveStarvationTimeoutMs: 1_000 },
  },
  "equal thresholds and equal timeouts": {
    kind: "updatePool",
    name: POOL,
    settings: {
      ...{ preemptionSatisfactionThreshold: 0.2, enableAggressiveStarvation: true },
      starvationTimeoutMs: 120_000,
    },
  },
  "keys of nodes that have not come yet": {
    kind: "createPool",
    name: "nodes" as PoolName,
    settings: { shareKeys: ["gpu", "disk"], mainKey: "gpu" },
  },
};

describe("is consistent:", () => {
  for (const [name, command] of Object.entries(consistent)) {
    test(name, () => expect(decide(world(), command, 0)).toMatchObject({ outcome: "accepted" }));
  }
});

test("force accepts a debt, and a debt that was forced blocks no other change (P7)", () => {
  const state = world();
  const shrink: Command = { kind: "updatePool", name: POOL, capacity: { gpu: 1 }, force: true };
  expect(decide(state, shrink, 0).outcome).toBe("accepted");
  expect(decide(state, policy({ priority: 3 }), 0).outcome).toBe("accepted");
  expect(decide(state, policy({ reserved: { gpu: 3 } }), 0)).toMatchObject({ outcome: "refused" });
});

test("a preview tells what would happen and leaves everything as it was (P10)", () => {
  const state = world();
  decide(state, submit({ id: "waiting" as RequestId, resources: { gpu: 4 } }), 0);
  const before = JSON.stringify(snapshotOf(state));
  const plan = preview(state, { kind: "updatePool", name: POOL, capacity: { gpu: 8 } }, 0);
  expect(plan).toMatchObject({
    outcome: "accepted",
    events: [{ kind: "poolSet" }, { kind: "requestAllocated", requestId: "waiting" }],
  });
  expect(JSON.stringify(snapshotOf(state))).toBe(before);
});

test("deleting a pool by force stops what runs, takes nothing new, and the pool goes with its last run (P8)", () => {
  const state = world();
  expect(decide(state, { kind: "deletePool", name: POOL, force: true }, 0).outcome).toBe("accepted");
  expect(decide(state, submit({}), 0)).toMatchObject({
    events: [{ kind: "requestSubmitted" }, { kind: "requestRejected", reasons: [{ code: "no_policy" }] }],
  });
  const ended = decide(
    state,
    { kind: "reportEnd", requestId: "running" as RequestId, outcome: "stopped" },
    0,
  );
  expect(ended).toMatchObject({
    events: [
      { kind: "attemptEnded", status: "queued" },
      { kind: "poolDeleted" },
      { kind: "requestRejected" },
    ],
  });
  expect(state.pools.size).toBe(0);
});

test("a pool that is being deleted says so, and how many runs are left", () => {
  const state = world();
  decide(state, { kind: "deletePool", name: POOL, force: true }, 5);
  for (const command of [
    { kind: "deletePool", name: POOL, force: true },
    { kind: "updatePool", name: POOL, description: "new" },
    { kind: "attachPolicy", policy: { pool: POOL, component: TEAM } },
  ] as const) {
    expect(decide(state, command, 6)).toMatchObject({
      outcome: "refused",
      refusal: {
        code: "in_use",
        message: expect.stringMatching(/is being deleted: \d+ runs? (is|are) left\./),
      },
    });
  }
});

describe("lifetimes of pools and policies", () => {
  test("an update and a forced removal change the time, not the position of the creation", () => {
    const state = world();
    const [pool, team] = [state.pools.get(POOL)!, state.pools.get(POOL)!.policies.get(TEAM)!];
    expect(pool.record).toMatchObject({ createdSeq: 1, createdAtMs: 0, updatedAtMs: 0 });
    const { createdSeq } = team.record;
    expect(createdSeq).toBeGreaterThan(1);
    decide(state, { kind: "updatePool", name: POOL, description: "new" }, 5);
    decide(state, { kind: "detachPolicy", pool: POOL, component: TEAM, force: true }, 7);
    expect(pool.record).toMatchObject({ createdSeq: 1, createdAtMs: 0, updatedAtMs: 5 });
    expect(team.record).toMatchObject({ closing: true, createdSeq, createdAtMs: 0, updatedAtMs: 7 });
    decide(state, { kind: "attachPolicy", policy: { pool: POOL, component: TEAM } }, 9);
    expect(team.record).toMatchObject({ closing: false, createdAtMs: 9 });
    expect(team.record.createdSeq).toBeGreaterThan(createdSeq as number);
  });

  test("a snapshot of an older version is read, and what it leaves out stays unknown until a change", () => {
    const { pools, policies, ...frame } = snapshotOf(world());
    const state = restoreState({ ...frame, pools: pools.map(older), policies: policies.map(older) });
    expect(snapshotOf(state).pools).toEqual(pools.map(older));
    decide(state, { kind: "updatePool", name: POOL, description: "new" }, 5);
    const { record } = state.pools.get(POOL)!;
    expect(record).toMatchObject({ description: "new", updatedAtMs: 5 });
    expect(record.createdAtMs).toBeUndefined();
  });

  function older<Thing extends Lifetime>(record: Thing): Thing {
    const { createdSeq: _seq, createdAtMs: _created, updatedAtMs: _updated, ...rest } = record;
    return rest as Thing;
  }
});

describe("what a change costs", () => {
  const other = "other" as ComponentName;
  const attach = (rest: object = {}): Command => ({
    kind: "attachPolicy",
    policy: { pool: POOL, component: other, ...rest },
  });
  const cases: Record<string, readonly Command[]> = {
    "a policy that comes": [attach()],
    "a policy that comes, changes and goes": [
      attach(),
      { kind: "updatePolicy", policy: { pool: POOL, component: other, limit: { gpu: 3 }, priority: 5 } },
      { kind: "detachPolicy", pool: POOL, component: other },
    ],
    "other quotas for work that runs": [policy({ limit: { gpu: 3 } })],
    "a group that comes, and gets a limit": [
      { kind: "createGroup", pool: POOL, group: { name: "new" as GroupName } },
      { kind: "updateGroup", pool: POOL, group: { name: "new" as GroupName, limit: { gpu: 1 } } },
    ],
  };
  test.each(Object.entries(cases))("%s leaves the runs of the pool where they are", (_, commands) => {
    const state = world();
    const pool = state.pools.get(POOL)!;
    const { ends, usage } = pool;
    const { runs } = pool.policies.get(TEAM)!;
    for (const command of commands) expect(decide(state, command, 0).outcome).toBe("accepted");
    expect(pool.ends).toBe(ends);
    expect(pool.usage).toBe(usage);
    expect(pool.policies.get(TEAM)!.runs).toBe(runs);
    expect(violations(state, 0)).toEqual([]);
  });

  test("a reserve of a key that nobody reserved before concerns everybody", () => {
    const state = createState();
    decide(state, { kind: "createPool", name: POOL, capacity: { gpu: 4 } }, 0);
    decide(state, attach({ reserved: { gpu: 1 } }), 0);
    expect(state.pools.get(POOL)!.isReserved).toEqual([true]);
    decide(state, { kind: "detachPolicy", pool: POOL, component: other }, 0);
    expect(state.pools.get(POOL)!.isReserved).toEqual([false]);
  });
});
