// The machines of a cluster as the nodes of a pool (S1, K4): each case starts from the nodes that a cluster has reported
// before, and carries the changes out on a real engine.

import { expect, test } from "vitest";
import { openJobPool } from "../../../test/support/job-pool.ts";
import { type NodeName, type PoolName, type RequestId, requestOf } from "../../engine/index.ts";
import type { WireReportedNode } from "../../protocol/index.ts";
import { nodeChanges } from "./machines.ts";

const machine = (name: string, more: Partial<WireReportedNode> = {}): WireReportedNode => ({
  ...{ name, capacity: { gpu: 2 }, state: "ready" },
  ...more,
});

function world() {
  const { state, pool, send, submit } = openJobPool({ executor: "slurm" });
  return {
    send,
    submit,
    report(...machines: WireReportedNode[]): string[] {
      const commands = nodeChanges(state, pool, machines);
      for (const command of commands) send(command);
      return commands.map(({ kind }) => kind);
    },
    end(id: string) {
      const requestId = id as RequestId;
      const token = requestOf(state, requestId)?.progress.allocation?.token as number;
      send({ kind: "reportEnd", requestId, token, outcome: "failed", end: {} });
    },
    nodes: () =>
      [...state.nodes.values()]
        .map(({ record: { name, state: its, capacity } }) => `${name} ${its} ${capacity.gpu}`)
        .toSorted(),
  };
}

test("machines become nodes, and follow the cluster; nothing new changes nothing", () => {
  const { report, nodes } = world();
  expect(report(machine("a"), machine("b", { state: "down" }))).toEqual(["putNode", "putNode"]);
  expect(nodes()).toEqual(["a ready 2", "b down 2"]);
  expect(report(machine("a"), machine("b", { state: "down" }))).toEqual([]);
  report(machine("a", { capacity: { gpu: 4 } }), machine("b"));
  expect(nodes()).toEqual(["a ready 4", "b ready 2"]);
  report(machine("a", { capacity: { gpu: 4 } }));
  expect(nodes()).toEqual(["a ready 4"]);
});

test("a drain of the cluster ends with the cluster's word, one that was ordered here does not", () => {
  const { report, nodes, send } = world();
  report(machine("a"), machine("b"));
  report(machine("a", { state: "draining" }), machine("b"));
  send({ kind: "drainNode", name: "b" as NodeName });
  expect(nodes()).toEqual(["a drained 2", "b drained 2"]);
  expect(report(machine("a", { state: "draining" }), machine("b"))).toEqual([]);
  report(machine("a"), machine("b"));
  expect(nodes()).toEqual(["a ready 2", "b drained 2"]);
});

test("J5: what ran on a machine that is down or gone keeps its units until its end is reported", () => {
  const { report, nodes, submit, end } = world();
  report(machine("a"));
  submit("r");
  report(machine("a", { state: "down" }));
  expect(nodes()).toEqual(["a suspect 2"]);
  report();
  expect(nodes()).toEqual(["a suspect 2"]);
  end("r");
  report(machine("a", { state: "down" }));
  expect(nodes()).toEqual(["a down 2"]);
  report(machine("a"));
  expect(nodes()).toEqual(["a ready 2"]);
});

test("a node of another pool is left alone", () => {
  const { report, send } = world();
  send({ kind: "createPool", name: "other" as PoolName, settings: {} });
  send({ kind: "putNode", node: { name: "a" as NodeName, pool: "other" as PoolName, capacity: { gpu: 1 } } });
  expect(report(machine("a"))).toEqual([]);
});
