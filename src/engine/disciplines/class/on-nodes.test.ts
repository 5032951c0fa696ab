// Victims on nodes beside looking at every set of runs: the same choice, on small clusters in pieces.

import fc from "fast-check";
import { expect, test } from "vitest";
import { createCluster } from "../../placement/cluster.fixture.ts";
import type { ComponentName, RequestId } from "../../records.ts";
import type { Run } from "../../state.ts";

const VICTIMS_MAX = 3;

interface World {
  readonly nodeGpus: readonly number[];
  readonly runs: readonly { gpu: number; nodes: number; preemptionClass: number; minutes: number }[];
  readonly waiter: { gpu: number; nodes: number };
}

const worlds: fc.Arbitrary<World> = fc.record({
  nodeGpus: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 5 }),
  runs: fc.array(
    fc.record({
      gpu: fc.integer({ min: 1, max: 3 }),
      nodes: fc.constantFrom(1, 1, 1, 2),
      preemptionClass: fc.integer({ min: 1, max: 4 }),
      minutes: fc.integer({ min: 0, max: 3 }),
    }),
    { minLength: 1, maxLength: 9 },
  ),
  waiter: fc.record({ gpu: fc.integer({ min: 1, max: 4 }), nodes: fc.integer({ min: 1, max: 3 }) }),
});

test("the set that is chosen is the best of all minimal sets (10.5, N2)", () => {
  let choices = 0;
  fc.assert(
    fc.property(worlds, ({ nodeGpus, runs, waiter }) => {
      const nodes = Object.fromEntries(nodeGpus.map((gpu, i) => [`n${i}`, { capacity: { gpu } }]));
      const cluster = createCluster(nodes, { discipline: "class", policies: { lab: {}, urgent: {} } });
      // The higher classes come first, so that none of them stops another.
      const inOrder = [...runs].sort((a, b) => b.preemptionClass - a.preemptionClass);
      for (const [i, { gpu, nodes: count, preemptionClass, minutes }] of inOrder.entries()) {
        const asks = { resources: { gpu }, nodes: count, preemptionClass, checkpoint: "auto" } as const;
        cluster.submit(`r${i}`, { ...asks, checkpointMs: minutes * 60_000, component: "lab" });
        const id = `r${i}` as RequestId;
        if (cluster.status(id) === "queued") cluster.send({ kind: "cancelRequest", requestId: id });
      }
      const running = [...cluster.state.requests.values()].flatMap(({ run }) => run ?? []);
      const urgent = "urgent" as ComponentName;
      const want = bestOfAll(running, nodeGpus.length, waiter, cluster.state.nodes.values());
      const asks = { resources: { gpu: waiter.gpu }, nodes: waiter.nodes, preemptionClass: 9 };
      const events = cluster.submit("w", { ...asks, component: urgent, walltimeMs: 1e9 });
      const decision = events.find((event) => event.kind === "preemptionDecided");
      expect(decision?.victims.map(({ requestId }) => requestId).sort()).toEqual(want?.sort());
      if (want !== undefined) choices++;
    }),
    { numRuns: 400, seed: 1 },
  );
  expect(choices).toBeGreaterThan(100);
});

/** Every set of at most three, judged by counting the nodes that would have room. */
function bestOfAll(
  running: readonly Run[],
  nodeCount: number,
  { gpu, nodes: count }: World["waiter"],
  nodes: Iterable<{ readonly free: readonly number[] }>,
): string[] | undefined {
  const all = [...nodes];
  const fits = (set: readonly Run[]) =>
    all.filter((node) => {
      const back = set.filter((run) => (run.nodes as readonly object[]).includes(node));
      return (node.free[0] as number) + back.reduce((sum, run) => sum + gpuOf(run), 0) >= gpu;
    }).length >= count;
  if (fits([]) || nodeCount < count) return undefined;
  const sets = subsetsOf(running).filter(
    (set) =>
      set.length <= VICTIMS_MAX && fits(set) && set.every((run) => !fits(set.filter((r) => r !== run))),
  );
  sets.sort(
    (a, b) =>
      highest(a) - highest(b) ||
      cost(a) - cost(b) ||
      a.length - b.length ||
      compareLatest(latest(a), latest(b)),
  );
  return sets[0]?.map((run) => run.request.spec.id);
}

const gpuOf = (run: Run) => run.request.spec.resources.gpu as number;
const highest = (set: readonly Run[]) => Math.max(...set.map((run) => run.request.spec.preemptionClass));
const cost = (set: readonly Run[]) =>
  set.reduce((sum, run) => sum + (run.request.spec.checkpointMs as number), 0);
const latest = (set: readonly Run[]) => set.map((run) => run.token).sort((a, b) => b - a);

function compareLatest(a: readonly number[], b: readonly number[]): number {
  const place = a.findIndex((token, i) => token !== b[i]);
  return place < 0 ? 0 : (b[place] as number) - (a[place] as number);
}

function subsetsOf(runs: readonly Run[]): Run[][] {
  const [first, ...rest] = runs;
  if (first === undefined) return [[]];
  return subsetsOf(rest).flatMap((subset) => [subset, [first, ...subset]]);
}
