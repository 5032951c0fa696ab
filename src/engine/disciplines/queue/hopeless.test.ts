// Heads for which nobody can be stopped are remembered, as long as nothing gives them hope (V3).

import { expect, test } from "vitest";
import type { Command } from "../../commands.ts";
import { decide } from "../../decide.ts";
import {
  type ComponentName,
  type NodeName,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
} from "../../records.ts";
import { createState } from "../../state.ts";

const POOL = "p" as PoolName;
const NODES = 20;

test("a head has hope again when work that it may stop has started on some node", () => {
  const state = createState();
  const events = [...steps()].flatMap((command) => {
    const decision = decide(state, command, 0);
    return decision.outcome === "accepted" ? decision.events : [];
  });
  const decisions = events.filter((event) => event.kind === "preemptionDecided");
  expect(decisions.map(({ waiter, victims }) => [waiter, victims.map(({ requestId }) => requestId)])).toEqual(
    [["last", ["taken"]]],
  );
});

/** All nodes are full of work of a higher priority; in the end one of them has work of a lower one. */
function* steps(): Generator<Command> {
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
