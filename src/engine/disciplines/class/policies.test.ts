// What policies say about classes: the highest that may be used (A5), and what their kind forces (10.7, 10.8).

import { expect, test } from "vitest";
import type { Command, PolicyChange } from "../../commands.ts";
import { decide } from "../../decide.ts";
import { type ComponentName, PLAIN_REQUEST, type PoolName, type RequestId } from "../../records.ts";
import { createState, type EngineState } from "../../state.ts";
import { queueOf } from "../../views.ts";

const TEAM = "team" as ComponentName;
const pool = (name: string) => name as PoolName;

/** Pools of discipline class with two GPUs each, and what the team may do there. */
function worldWith(
  policies: Readonly<Record<string, Omit<PolicyChange, "pool" | "component">>>,
): EngineState {
  const state = createState();
  for (const [name, policy] of Object.entries(policies)) {
    const capacity = { gpu: 2 };
    accepted(state, { kind: "createPool", name: pool(name), capacity, discipline: "class" });
    accepted(state, { kind: "attachPolicy", policy: { ...policy, pool: pool(name), component: TEAM } });
  }
  return state;
}

function accepted(state: EngineState, command: Command): void {
  const decision = decide(state, command, 0);
  if (decision.outcome === "refused") throw new Error(decision.refusal.message);
}

function submit(state: EngineState, id: string, asks: Partial<typeof PLAIN_REQUEST> = {}, gpu = 1) {
  const spec = { ...PLAIN_REQUEST, ...asks, id: id as RequestId, component: TEAM, resources: { gpu } };
  const decision = decide(state, { kind: "submitRequest", spec }, 0);
  if (decision.outcome === "refused") return decision.refusal.code;
  const { progress } = state.requests.get(id as RequestId) ?? {};
  return progress?.rejection?.map(({ code, key }) => `${code} ${key}`).join() ?? progress?.status;
}

test("a class that no policy of the component allows is refused", () => {
  const state = worldWith({ one: { maxClass: 3 }, two: { maxClass: 6 } });
  expect(submit(state, "high", { preemptionClass: 7 })).toBe("invalid_class");
  expect(state.requests.size).toBe(0);
});

test("a class that one policy allows waits in that pool only", () => {
  const state = worldWith({ one: { maxClass: 3 }, two: { maxClass: 6 } });
  submit(state, "first", { preemptionClass: 6 }, 2);
  expect(submit(state, "second", { preemptionClass: 6 })).toBe("queued");
  expect(queueOf(state, pool("one"), 0)).toEqual([]);
  expect(queueOf(state, pool("two"), 0)).toEqual(["second"]);
});

test("a sensitive policy makes all its work sensitive and of class 10, inside its reserve", () => {
  const state = worldWith({ ward: { kind: "sensitive", reserved: { gpu: 1 } } });
  expect(submit(state, "small", { preemptionClass: 0 })).toBe("allocated");
  expect(submit(state, "large", { preemptionClass: 0 }, 2)).toBe("over_reserved gpu");
  expect(submit(state, "next", { preemptionClass: 10 })).toBe("queued"); // The reserve is full, the pool is not.
});

test("sensitive work is of class 10, whatever it says", () => {
  const state = worldWith({ lab: { reserved: { gpu: 1 } } });
  expect(submit(state, "claim", { sensitive: true, preemptionClass: 2 }, 2)).toBe("over_reserved gpu");
  expect(submit(state, "plain", { preemptionClass: 2 }, 2)).toBe("allocated");
});

test("a sensitive claim takes back its reserve from lower classes, and class 10 waits for class 10", () => {
  const state = worldWith({ lab: { reserved: { gpu: 1 } } });
  submit(state, "low", { preemptionClass: 9, checkpoint: "auto" }, 2);
  expect(submit(state, "claim", { sensitive: true })).toBe("queued");
  expect(state.requests.get("low" as RequestId)?.progress.allocation?.stop?.reason).toBe("sensitive");
  expect(submit(state, "equal", { sensitive: true })).toBe("queued");
  expect(state.requests.get("equal" as RequestId)?.progress.hold).toBeNull();
});
