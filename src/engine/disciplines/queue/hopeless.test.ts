// Heads for which nobody can be stopped, on so many nodes that they are asked in slices (V3).

import { expect, test } from "vitest";
import type { Command } from "../../commands.ts";
import { decide } from "../../decide.ts";
import type { Event } from "../../events.ts";
import {
  type ComponentName,
  type NodeName,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
} from "../../records.ts";
import { createState } from "../../state.ts";

const POOL = "p" as PoolName;
const NODES = 200;

test("nodes are asked in slices, and the course is the same", () => {
  const [whole, sliced] = [courseOf(() => false), courseOf(() => true)];
  expect(sliced.happened).toEqual(whole.happened);
  expect(whole.cutLooks).toBe(0);
  expect(sliced.cutLooks).toBeGreaterThan(1);
  expect(whole.happened.filter(({ kind }) => kind === "preemptionDecided")).toHaveLength(1);
});

function courseOf(isTimeUp: () => boolean): { happened: readonly Event[]; cutLooks: number } {
  const state = createState();
  const events: Event[] = [];
  let cutLooks = 0;
  const goOn = (command: Command) => {
    const decision = decide(state, command, 0, isTimeUp);
    if (decision.outcome === "refused") throw new Error(decision.refusal.message, { cause: decision.bug });
    events.push(...decision.events);
    if (decision.events.at(-1)?.kind !== "schedulingPaused") return;
    if (decision.events.length === 1) cutLooks++; // Nothing has happened yet.
    goOn({ kind: "tick" });
  };
  for (const command of commands()) goOn(command);
  const happened = events.filter(({ kind }) => kind !== "schedulingPaused" && kind !== "schedulingSettled");
  return { happened, cutLooks };
}

/** All nodes are full of work of a higher priority; in the end one of them has work of a lower one. */
function* commands(): Generator<Command> {
  yield { kind: "createPool", name: POOL, discipline: "priority" };
  for (let i = 0; i < NODES; i++)
    yield { kind: "putNode", node: { name: `n${i}` as NodeName, pool: POOL, capacity: { gpu: 4 } } };
  for (const [component, priority] of [
    ["low", 1],
    ["middle", 5],
    ["high", 9],
  ] as const)
    yield {
      kind: "attachPolicy",
      policy: { pool: POOL, component: component as ComponentName, priority },
    };
  for (let i = 0; i < NODES; i++) yield submit(`r${i}`, "high", 4);
  for (let i = 0; i < 4; i++) yield submit(`head${i}`, "middle", 4);
  for (let i = 1; i < 4; i++) yield { kind: "cancelRequest", requestId: `head${i}` as RequestId };
  yield { kind: "reportEnd", requestId: "r0" as RequestId, outcome: "succeeded" };
  yield { kind: "reportEnd", requestId: "head0" as RequestId, outcome: "succeeded" };
  yield submit("taken", "low", 4);
  yield submit("last", "middle", 4);
}

function submit(id: string, component: string, gpu: number): Command {
  return {
    kind: "submitRequest",
    spec: {
      ...PLAIN_REQUEST,
      id: id as RequestId,
      component: component as ComponentName,
      resources: { gpu, step_run: 1 },
    },
  };
}
