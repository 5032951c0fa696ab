// Why no node will do: the first obstacle of each (14).

import { expect, test } from "vitest";
import { explain } from "../explain.ts";
import type { NodeName, RequestId } from "../records.ts";
import { type Cluster, createCluster } from "./cluster.fixture.ts";

const nodesFor = ({ state, nowMs }: Cluster, id: string) =>
  explain(state, id as RequestId, nowMs)?.pools[0]?.nodes;

test("each node is counted by the first thing that stands in the way", () => {
  const cluster = createCluster({
    plain: { capacity: { gpu: 8 } },
    small: { capacity: { gpu: 1 }, labels: { disk: "fast" } },
    busy: { capacity: { gpu: 4 }, labels: { disk: "fast" } },
    draining: { capacity: { gpu: 4 }, labels: { disk: "fast" } },
    suspect: { capacity: { gpu: 4 }, labels: { disk: "fast" } },
    down: { capacity: { gpu: 4 }, labels: { disk: "fast" } },
  });
  const constraints = { disk: "fast" };
  for (const id of ["a", "b", "c", "d"]) cluster.submit(id, { resources: { gpu: 3 }, constraints });
  cluster.send({ kind: "drainNode", name: "draining" as NodeName });
  cluster.send({ kind: "suspectNode", name: "suspect" as NodeName });
  cluster.send({ kind: "loseNode", name: "down" as NodeName });
  cluster.submit("late", { resources: { gpu: 2 }, constraints });
  expect(nodesFor(cluster, "late")).toEqual({
    asked: 1,
    fitting: 0,
    total: 6,
    obstacles: { labels: 1, too_small: 1, taken: 1, draining: 1, suspect: 1, down: 1 },
  });
});

test("a gang is told how many of its nodes there are", () => {
  const cluster = createCluster({ n1: { capacity: { gpu: 4 } }, n2: { capacity: { gpu: 4 } } });
  cluster.submit("small", { resources: { gpu: 1 } });
  cluster.submit("gang", { resources: { gpu: 4 }, nodes: 2 });
  expect(nodesFor(cluster, "gang")).toEqual({ asked: 2, fitting: 1, total: 2, obstacles: { taken: 1 } });
});

test("what is free but promised to somebody before it is said to be promised", () => {
  const cluster = createCluster(
    { n1: { capacity: { gpu: 4 } } },
    { discipline: "class", policies: { team: {} } },
  );
  cluster.submit("low", { resources: { gpu: 3 }, preemptionClass: 1, checkpoint: "auto" });
  cluster.submit("urgent", { resources: { gpu: 4 }, preemptionClass: 8 });
  cluster.submit("late", { resources: { gpu: 1 }, preemptionClass: 1 });
  expect(nodesFor(cluster, "late")).toEqual({
    asked: 1,
    fitting: 0,
    total: 1,
    obstacles: { promised: 1 },
  });
});

test("one that only waits for its turn is told nothing about nodes", () => {
  const cluster = createCluster({ n1: { capacity: { gpu: 4 } } });
  cluster.submit("big", { resources: { gpu: 3 } });
  cluster.submit("head", { resources: { gpu: 2 } });
  cluster.submit("late", { resources: { gpu: 1 } });
  expect(nodesFor(cluster, "late")).toBeNull();
});
