// Victims beside a choice that looks at every run and every node (10.5): the same set, on small pools and clusters.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Cluster, createCluster, POOL } from "../../placement/cluster.fixture.ts";
import type { ComponentName, RequestId } from "../../records.ts";
import type { Run } from "../../state.ts";

const MINUTE_MS = 60_000;
const AGE_MS = 20 * MINUTE_MS;

interface Asked {
  readonly gpu: number;
  readonly mcpu: number;
  readonly nodes: number;
  readonly preemptionClass: number;
  readonly checkpoint: "none" | "auto";
  readonly checkpointMinutes: number;
  readonly walltimeMinutes: number | null;
  /** Minutes after the one before it. */
  readonly pause: number;
}

interface World {
  readonly capacities: readonly number[];
  readonly runs: readonly Asked[];
  readonly waiter: Pick<Asked, "gpu" | "mcpu" | "nodes">;
  readonly victimsMax: number;
  readonly walltimeMinutes: number;
}

const amounts = (most: number) => ({
  gpu: fc.integer({ min: 1, max: most }),
  mcpu: fc.integer({ min: 0, max: most }),
});

const asked = fc.record<Asked>({
  ...amounts(3),
  nodes: fc.constantFrom(1, 1, 1, 2),
  preemptionClass: fc.integer({ min: 1, max: 4 }),
  checkpoint: fc.constantFrom("none", "auto"),
  checkpointMinutes: fc.integer({ min: 0, max: 3 }),
  walltimeMinutes: fc.constantFrom(null, 21, 30, 60, 60, 200),
  pause: fc.integer({ min: 0, max: 1 }),
});

const worlds = (nodesMax: number): fc.Arbitrary<World> =>
  fc.record({
    capacities: fc.array(fc.integer({ min: 2, max: 6 }), { minLength: 1, maxLength: nodesMax }),
    runs: fc.array(asked, { minLength: 1, maxLength: 5 * nodesMax }),
    waiter: fc.record({ ...amounts(6), nodes: fc.integer({ min: 1, max: Math.min(3, nodesMax) }) }),
    victimsMax: fc.integer({ min: 1, max: 6 }),
    walltimeMinutes: fc.constantFrom(1, 4, 10, 60),
  });

const gpuAndCpu = (units: number) => ({ gpu: units, mcpu: units });

/** All that fits is running, and then the waiter comes: whom it stops, and whom it should. */
function play(world: World, hasNodes: boolean): { seen: string[] | undefined; wanted: string[] | undefined } {
  const nodes = world.capacities.map((units, i) => [`n${i}`, { capacity: gpuAndCpu(units) }] as const);
  const settings = { maxVictims: world.victimsMax, nearCompletionMs: 0, backfill: "none" as const };
  const policies = { lab: {}, urgent: {} };
  const options = { discipline: "class" as const, settings, policies };
  const total = world.capacities.reduce((sum, units) => sum + units, 0);
  const cluster = hasNodes
    ? createCluster(Object.fromEntries(nodes), options)
    : createCluster({}, { ...options, capacity: gpuAndCpu(total) });
  // The higher classes come first, so that none of them stops another.
  const inOrder = world.runs.toSorted((a, b) => b.preemptionClass - a.preemptionClass);
  for (const [i, run] of inOrder.entries()) {
    cluster.nowMs += run.pause * MINUTE_MS;
    const id = `r${i}` as RequestId;
    cluster.submit(id, { ...specOf(run, hasNodes), component: "lab" as ComponentName });
    if (cluster.status(id) === "queued") cluster.send({ kind: "cancelRequest", requestId: id });
  }
  cluster.nowMs += AGE_MS - 15 * MINUTE_MS;
  const walltimeMs = world.walltimeMinutes * MINUTE_MS;
  const resources = resourcesOf(world.waiter);
  const count = hasNodes ? world.waiter.nodes : 1;
  const wanted = naiveChoice(cluster, world, {
    resources,
    count,
    valueMs: 9 * world.waiter.gpu * count * walltimeMs,
  });
  const events = cluster.submit("w", {
    resources,
    nodes: count,
    preemptionClass: 9,
    walltimeMs,
    component: "urgent" as ComponentName,
  });
  const decision = events.find((event) => event.kind === "preemptionDecided");
  return {
    seen: decision?.victims.map(({ requestId }) => requestId as string).sort(),
    wanted: wanted?.sort(),
  };
}

function resourcesOf({ gpu, mcpu }: Pick<Asked, "gpu" | "mcpu">): Record<string, number> {
  return mcpu === 0 ? { gpu } : { gpu, mcpu };
}

function specOf(run: Asked, hasNodes: boolean) {
  const { preemptionClass, checkpoint, checkpointMinutes, walltimeMinutes, nodes } = run;
  return {
    resources: resourcesOf(run),
    nodes: hasNodes ? nodes : 1,
    preemptionClass,
    checkpoint,
    checkpointMs: checkpointMinutes * MINUTE_MS,
    walltimeMs: walltimeMinutes === null ? null : walltimeMinutes * MINUTE_MS,
  };
}

interface Wanted {
  readonly resources: Readonly<Record<string, number>>;
  readonly count: number;
  readonly valueMs: number;
}

/** The rule as it is written; a pool without nodes is one large node. */
function naiveChoice({ state, nowMs }: Cluster, world: World, wanted: Wanted): string[] | undefined {
  const pool = state.pools.get(POOL)!;
  const running = [...state.requests.values()].flatMap(({ run }) => run ?? []);
  const hasNodes = pool.nodes.size > 0;
  const places = hasNodes ? [...pool.nodes.keys()] : [null];
  const isOn = (run: Run, place: string | null) =>
    place === null || run.nodes.some((node) => node.record.name === place);
  const held = (run: Run, key: string) => run.request.spec.resources[key] ?? 0;
  const missingOn = (place: string | null, gone: readonly Run[]) => {
    const node = place === null ? pool : pool.nodes.get(place as never)!;
    const staying = running.filter((run) => isOn(run, place) && !gone.includes(run));
    return Object.entries(wanted.resources).map(([key, amount]) => {
      const used = staying.reduce((sum, run) => sum + held(run, key), 0);
      return { key, lacking: amount + used - (node.capacity[pool.keys.indexOf(key)] as number) };
    });
  };
  const fitsOn = (place: string | null, gone: readonly Run[]) =>
    missingOn(place, gone).every(({ lacking }) => lacking <= 0);
  const canBePlaced = (gone: readonly Run[]) =>
    places.filter((place) => fitsOn(place, gone)).length >= wanted.count;
  if (canBePlaced([])) return undefined;

  const cost = (run: Run) => costMs(run, nowMs);
  const total = (set: readonly Run[]) => set.reduce((sum, run) => sum + cost(run), 0);
  const isWithin = (set: readonly Run[]) => set.length <= world.victimsMax && total(set) < wanted.valueMs;
  const classOf = (run: Run) => run.request.spec.preemptionClass;
  const affordable = running.filter((run) => cost(run) < wanted.valueMs);
  for (const isLargestFirst of [false, true]) {
    const choices = places.flatMap((place) => {
      if (fitsOn(place, [])) return [];
      const shortage = missingOn(place, []).filter(({ lacking }) => lacking > 0);
      const size = (run: Run) =>
        shortage.reduce((sum, { key, lacking }) => sum + Math.min(1, held(run, key) / lacking), 0);
      const sizes = (a: Run, b: Run) => (Math.abs(size(a) - size(b)) < 1e-9 ? 0 : size(b) - size(a));
      const order = affordable
        .filter((run) => isOn(run, place))
        .sort(
          (a, b) =>
            (isLargestFirst ? sizes(a, b) : 0) ||
            classOf(a) - classOf(b) ||
            cost(a) - cost(b) ||
            b.token - a.token,
        );
      const set = prefix(order, (gone) => fitsOn(place, gone));
      return set !== undefined && isWithin(set) ? [{ place: place ?? "", set }] : [];
    });
    const highest = (set: readonly Run[]) => Math.max(...set.map(classOf));
    const latest = (set: readonly Run[]) => Math.max(...set.map(({ token }) => token));
    choices.sort(
      (a, b) =>
        (isLargestFirst ? a.set.length - b.set.length : 0) ||
        highest(a.set) - highest(b.set) ||
        total(a.set) - total(b.set) ||
        a.set.length - b.set.length ||
        latest(b.set) - latest(a.set) ||
        (a.place < b.place ? -1 : 1),
    );
    const set = prefix([...new Set(choices.flatMap((choice) => choice.set))], canBePlaced);
    if (set !== undefined && isWithin(set)) return set.map((run) => run.request.spec.id);
  }
  return undefined;
}

function prefix(order: readonly Run[], isEnough: (set: readonly Run[]) => boolean): Run[] | undefined {
  const length = order.findIndex((_, i) => isEnough(order.slice(0, i + 1))) + 1;
  if (length === 0) return undefined;
  let set = order.slice(0, length);
  for (const run of set.toReversed()) {
    const without = set.filter((other) => other !== run);
    if (isEnough(without)) set = without;
  }
  return set;
}

function costMs({ request, startedAtMs }: Run, nowMs: number): number {
  const { checkpoint, checkpointMs, walltimeMs, resources, nodes } = request.spec;
  const own = checkpoint === "auto" ? checkpointMs! : (nowMs - startedAtMs) * nodes * resources.gpu!;
  if (walltimeMs === null) return own;
  const used = (100 * (nowMs - startedAtMs)) / walltimeMs;
  return own + MINUTE_MS * (used >= 90 ? 1000 : used < 10 ? 1 : used);
}

describe("the same victims as by looking at every run", () => {
  const cases = {
    "in a pool without nodes": [3, false],
    "on a few nodes": [3, true],
    "on many nodes": [12, true],
  };
  for (const [name, [nodesMax, hasNodes]] of Object.entries(cases) as [string, [number, boolean]][]) {
    test(name, () => {
      let choices = 0;
      fc.assert(
        fc.property(worlds(nodesMax), (world) => {
          const { seen, wanted } = play(world, hasNodes);
          expect(seen).toEqual(wanted);
          if (wanted !== undefined) choices++;
        }),
        { numRuns: 400, seed: 1 },
      );
      expect(choices).toBeGreaterThan(60);
    });
  }
});

test("many small runs on many nodes make room for a gang, if so many may go", () => {
  const nodes = Array.from({ length: 20 }, (_, i) => [`n${i}`, { capacity: { gpu: 10 } }] as const);
  const policies = { lab: {}, urgent: {} };
  const settings = { maxVictims: 8 };
  const cluster = createCluster(Object.fromEntries(nodes), { discipline: "class", settings, policies });
  for (let k = 0; k < 200; k++) {
    cluster.submit(`r${k}`, {
      component: "lab",
      preemptionClass: k % 4,
      checkpoint: (["none", "auto", "manual"] as const)[k % 3]!,
      checkpointMs: (60 + (k % 50)) * 1000,
      walltimeMs: (3600 + 60 * k) * 1000,
    });
  }
  const events = cluster.submit("gang", {
    component: "urgent",
    resources: { gpu: 4 },
    nodes: 2,
    preemptionClass: 8,
  });
  const decision = events.find((event) => event.kind === "preemptionDecided");
  expect(decision?.victims).toHaveLength(8);
});
