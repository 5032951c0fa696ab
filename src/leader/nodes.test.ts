// The clocks of nodes (E3): suspicion, loss, the brake, and what is spared.

import { expect, test } from "vitest";
import { openJobPool } from "../../test/support/job-pool.ts";
import type { Command, NodeName, PoolSettings, RequestId } from "../engine/index.ts";
import { createNodeClocks } from "./nodes.ts";

const node = (name: string) => name as NodeName;

function world(names: readonly string[], settings: Partial<PoolSettings> = {}) {
  let nowMs = 0;
  const { state, pool, send, submit } = openJobPool({ executor: "agents", ...settings }, () => nowMs);
  for (const name of names) send({ kind: "putNode", node: { name: node(name), pool, capacity: { gpu: 1 } } });
  const clocks = createNodeClocks(() => nowMs);
  clocks.keep(state);
  return {
    ...{ clocks, pool },
    state,
    send,
    submit,
    /** Time passes, the named ones are heard of, and what silence means is done. */
    pass(seconds: number, heard: readonly string[] = []): Command[] {
      nowMs += seconds * 1000;
      for (const name of heard) clocks.hear(node(name));
      const { commands } = clocks.expired(state);
      for (const command of commands) send(command);
      clocks.keep(state);
      return [...commands];
    },
    stateOf: (name: string) => state.nodes.get(node(name))?.record.state,
  };
}

test("a node is suspect after 20 s of silence, and down after node_lost_seconds", () => {
  const { pass, stateOf, clocks } = world(["a", "b"]);
  expect(clocks.nextCheckMs()).toBe(20_000);
  expect(pass(19, ["b"])).toEqual([]);
  expect(pass(1, ["b"])).toEqual([{ kind: "suspectNode", name: "a" }]);
  expect(pass(279, ["b"])).toEqual([]);
  expect(pass(1, ["b"])).toEqual([{ kind: "loseNode", name: "a" }]);
  expect([stateOf("a"), stateOf("b")]).toEqual(["down", "ready"]);
  expect(clocks.heardAtMs(node("a"))).toBeUndefined(); // Down: it has no clock until it is heard of.
});

test("nodes of a pool without agents have no clock", () => {
  const { pass, clocks } = world(["a"], { executor: "none" });
  expect(clocks.nextCheckMs()).toBeNull();
  expect(pass(1_000)).toEqual([]);
});

test("many nodes that fall silent together are not given up at once (L3)", () => {
  const names = ["a", "b", "c", "d", "e", "f"];
  const { pass, clocks, pool } = world(names);
  pass(20);
  expect(pass(280).filter(({ kind }) => kind === "loseNode")).toEqual([]);
  expect(clocks.brakes()).toMatchObject([{ group: pool, silent: 6, clients: 6 }]);
  expect(clocks.lift(pool)).toBe(true);
  expect(pass(1)).toHaveLength(6);
});

test("after a pause of the server all clocks start afresh", () => {
  const { pass, clocks } = world(["a"]);
  pass(250);
  clocks.amnesty();
  expect(pass(100)).toEqual([]);
});

test("what may run on keeps its units and its node; the rest there is lost (E3)", () => {
  const { pass, send, submit, stateOf, state } = world(["a"], { allowRunOn: true });
  send({ kind: "putNode", node: { name: node("a"), capacity: { gpu: 2 } } });
  submit("stays", { runsOn: true });
  submit("goes", { requeue: "never" });
  pass(20);
  pass(280);
  const statusOf = (id: string) => state.requests.get(id as RequestId)?.progress.status;
  expect([statusOf("stays"), statusOf("goes"), stateOf("a")]).toEqual(["allocated", "expired", "suspect"]);
});

test("where something runs on, a node that is given up before it is suspected gets nothing new (E3)", () => {
  const { pass, submit, stateOf } = world(["a"], { allowRunOn: true, nodeLostMs: 10_000 });
  submit("stays", { runsOn: true });
  pass(10);
  expect(stateOf("a")).toBe("suspect");
});

test("a drained node stays drained, however silent it is (N4)", () => {
  const { pass, send, submit, stateOf } = world(["a"]);
  submit("job");
  send({ kind: "drainNode", name: node("a") });
  pass(20);
  expect(pass(280)).toMatchObject([{ kind: "loseHolder", requestId: "job" }]);
  expect(stateOf("a")).toBe("drained");
});
