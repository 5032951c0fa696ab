// Alerts about what the engine has decided: raised once, until what they are about is over.

import { expect, test } from "vitest";
import { createPool, createRig, pool, type Rig, request, submit } from "../../test/simulation/rig.ts";
import type { ComponentName, NodeName } from "../engine/index.ts";

const SHARED = pool("shared");

async function alertsOf(rig: Rig) {
  const { items } = await rig.store.listAudit({ limit: 100 });
  return items
    .filter(({ outcome }) => outcome === "alert")
    .map(({ action, target, body }) => ({ action, target, body }));
}

const setNode = (name: string, gpu: number) =>
  ({ kind: "putNode", node: { name: name as NodeName, pool: SHARED, capacity: { gpu } } }) as const;

async function createSharedPool(rig: Rig): Promise<void> {
  await rig.do({ kind: "createPool", name: SHARED, discipline: "fair_share" });
  for (const name of ["a", "b"]) await rig.do(setNode(name, 4));
  for (const component of ["red", "blue"] as ComponentName[]) {
    await rig.do({ kind: "attachPolicy", policy: { pool: SHARED, component, reserved: { gpu: 4 } } });
  }
}

test("guarantees that exceed what the nodes left are an alert, once until that is over (9.1)", async () => {
  const rig = await createRig();
  await createSharedPool(rig);
  expect(await alertsOf(rig)).toEqual([]);

  const alert = { action: "scale_guarantees", target: "shared", body: { groups: [""] } };
  await rig.do({ kind: "drainNode", name: "b" as NodeName });
  expect(await alertsOf(rig)).toEqual([alert]);
  await rig.do(setNode("c", 1));
  expect(await alertsOf(rig)).toEqual([alert]);

  await rig.do({ kind: "undrainNode", name: "b" as NodeName });
  expect(await alertsOf(rig)).toEqual([alert]);
  await rig.do({ kind: "loseNode", name: "a" as NodeName });
  expect(await alertsOf(rig)).toEqual([alert, alert]);
});

test("a leader that starts does not raise again what has been raised (9.1)", async () => {
  const rig = await createRig();
  await createSharedPool(rig);
  await rig.do({ kind: "loseNode", name: "b" as NodeName });
  await rig.leader.close();

  const restarted = await createRig({ store: rig.store });
  await restarted.do(setNode("c", 1));
  expect(await alertsOf(restarted)).toHaveLength(1);
});

test("the preemption after which a request is shielded is an alert, once (V6)", async () => {
  const rig = await createRig();
  const settings = { maxPreemptions: 1 };
  await createPool(rig, { gpu: 1, settings, components: ["team"] });
  await rig.do({
    kind: "attachPolicy",
    policy: { pool: pool("main"), component: "urgent" as ComponentName, priority: 100 },
  });
  await rig.do(submit("a"));
  await rig.do(submit("b", { component: "urgent" as ComponentName }));
  expect(await alertsOf(rig)).toEqual([]);
  await rig.do({ kind: "reportEnd", requestId: request("a"), outcome: "stopped" });
  expect(await alertsOf(rig)).toEqual([{ action: "shield", target: "a", body: null }]);
});
