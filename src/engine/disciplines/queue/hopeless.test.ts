// Heads for which nobody can be stopped, on so many nodes that they are asked in slices (V3).

import { expect, test } from "vitest";
import type { Command } from "../../commands.ts";
import {
  type ComponentName,
  type NodeName,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
} from "../../records.ts";
import { type Course, courseOf } from "../../slices.fixture.ts";
import { createState } from "../../state.ts";

const POOL = "p" as PoolName;
const NODES = 200;

test("nodes are asked in slices, and the course is the same", () => {
  const [whole, sliced] = [false, true].map((isCut) => courseOf(createState(), commands(), isCut)) as [
    Course,
    Course,
  ];
  expect(sliced.happened).toEqual(whole.happened);
  expect(whole.cutLooks).toBe(0);
  expect(sliced.cutLooks).toBeGreaterThan(1);
  expect(whole.happened.filter(({ kind }) => kind === "preemptionDecided")).toHaveLength(1);
});

function* commands(): Generator<readonly [number, Command]> {
  for (const command of steps()) yield [0, command];
}

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
