// How long a full update of fair shares takes: on a given tree, beside its limit, and on trees that grow.
// Usage: npm run bench:shares -- TREE.json, a scenario of `kind: shares`.

import { readFileSync } from "node:fs";
import { type ShareElement, setClaim } from "../src/engine/disciplines/fair_share/share-tree.ts";
import { updateShares } from "../src/engine/disciplines/fair_share/shares.ts";
import {
  buildShareTree,
  claimOf,
  computeFairShares,
  type ShareInput,
  type SnapshotGroup,
  type SnapshotOperation,
} from "../src/engine/disciplines/fair_share/snapshot.ts";
import { type ShareSnapshot, toShareInput } from "../test/reference/share-snapshot.ts";

const LIMIT_MS = 10;
const EXPONENT_LIMIT = 1.2;
const CHANGE_LIMIT_MS = 10;
const WARM_UP_RUNS = 20;
const SIZES = [100, 1_000, 10_000];

const file = process.argv[2];
if (file === undefined) {
  console.error("Which tree? npm run bench:shares -- TREE.json");
  process.exit(2);
}

const input = toShareInput(JSON.parse(readFileSync(file, "utf8")) as ShareSnapshot);
const { medianMs, bestMs, processorMs } = measure(() => computeFairShares(input), 200);
const { groups, operations, gangs } = countElements(input.root);
console.log(`${groups} groups, ${operations} operations (${gangs} gangs), ${input.total.length} keys`);
const ratio = (processorMs / LIMIT_MS).toFixed(2);
console.log(
  `  full update ${processorMs.toFixed(3)} ms of processor time (limit ${LIMIT_MS} ms, ratio ${ratio})`,
);
console.log(`  by the clock ${medianMs.toFixed(3)} ms in the middle, ${bestMs.toFixed(3)} ms at best`);

for (const gangPercent of [0, 10]) {
  const trees = SIZES.map((size) => grownTree(size, gangPercent));
  const updates = trees.map((tree) => measure(() => computeFairShares(tree), WARM_UP_RUNS).processorMs);
  const changes = trees.map(changeMs);
  console.log(`\n${gangPercent === 0 ? "without gangs" : `with ${gangPercent} % gangs`}, processor time`);
  SIZES.forEach((size, index) => {
    const [update, change] = [updates[index]!.toFixed(3), changes[index]!.toFixed(3)];
    console.log(
      `${String(size).padStart(8)} operations  full update ${update} ms, after one change ${change} ms (limit ${CHANGE_LIMIT_MS} ms)`,
    );
  });
  const limit = gangPercent === 0 ? ` (limit ${EXPONENT_LIMIT})` : "";
  console.log(`  growth exponent of a full update ${growthExponent(updates).toFixed(2)}${limit}`);
}

interface Times {
  medianMs: number;
  bestMs: number;
  processorMs: number;
}

/**
 * As many runs as fit into a second, at least five, after some to warm up. Limits are for the processor time of a
 * run on average, which depends little on what else the machine does.
 */
function measure(work: () => unknown, warmUpRuns: number): Times {
  const run = (): number => {
    const start = performance.now();
    work();
    return performance.now() - start;
  };
  for (let runs = 0; runs < warmUpRuns; runs++) run();
  const times: number[] = [];
  const before = process.cpuUsage();
  for (let spent = 0; spent < 1_000 || times.length < 5; spent += times.at(-1)!) times.push(run());
  const { user, system } = process.cpuUsage(before);
  times.sort((a, b) => a - b);
  return {
    medianMs: times[times.length >> 1]!,
    bestMs: times[0]!,
    processorMs: (user + system) / 1_000 / times.length,
  };
}

/** The time of updates that each follow a change of the usage of one operation. */
function changeMs(input: ShareInput): number {
  const random = seededRandom(1);
  const { tree, elements } = buildShareTree(input);
  const operations = [...elements].filter(
    (entry): entry is [SnapshotOperation, ShareElement] => entry[0].kind === "operation",
  );
  return measure(() => {
    const [operation, element] = operations[random(0, operations.length - 1)]!;
    const usage = operation.demand.map((units) => random(0, units));
    setClaim(element, claimOf({ ...operation, usage }, input.total));
    updateShares(tree);
  }, WARM_UP_RUNS).processorMs;
}

/** The slope of the line through the logarithms of size and time, by least squares. */
function growthExponent(times: readonly number[]): number {
  const xs = SIZES.map((size) => Math.log(size));
  const ys = times.map((time) => Math.log(time));
  const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
  const [meanX, meanY] = [mean(xs), mean(ys)];
  const covariance = xs.reduce((sum, x, index) => sum + (x - meanX) * (ys[index]! - meanY), 0);
  return covariance / xs.reduce((sum, x) => sum + (x - meanX) ** 2, 0);
}

/** Ten operations to a policy and ten policies to a group, wanting about twice what there is. */
function grownTree(operationCount: number, gangPercent: number): ShareInput {
  const random = seededRandom(operationCount);
  const total = [operationCount * 4, operationCount * 32_000, operationCount * 256_000];
  const operation = (order: number): SnapshotOperation => {
    const demand = [random(1, 16), random(1_000, 128_000), random(8_000, 1_024_000)];
    const isRunning = random(0, 1) === 1;
    return {
      kind: "operation",
      name: `operation-${order}`,
      isGang: random(0, 99) < gangPercent,
      demand,
      usage: demand.map((units) => (isRunning ? random(0, units) : 0)),
      order,
    };
  };
  const policy = (index: number): SnapshotGroup => ({
    kind: "group",
    name: `policy-${index}`,
    weight: random(1, 4),
    ...(random(0, 1) === 1 && { reserved: [random(0, 20), undefined, undefined] }),
    mode: random(0, 3) === 0 ? "fifo" : "fair_share",
    members: Array.from({ length: 10 }, (_, place) => operation(index * 10 + place)),
  });
  const group = (index: number): SnapshotGroup => ({
    kind: "group",
    name: `group-${index}`,
    weight: random(1, 4),
    members: Array.from({ length: 10 }, (_, place) => policy(index * 10 + place)),
  });
  const members = Array.from({ length: operationCount / 100 }, (_, index) => group(index));
  return { total, mainKey: 0, root: { kind: "group", name: "root", members } };
}

function countElements(root: SnapshotGroup): { groups: number; operations: number; gangs: number } {
  const count = { groups: 1, operations: 0, gangs: 0 };
  for (const member of root.members) {
    if (member.kind === "operation") {
      count.operations++;
      if (member.isGang) count.gangs++;
      continue;
    }
    const below = countElements(member);
    count.groups += below.groups;
    count.operations += below.operations;
    count.gangs += below.gangs;
  }
  return count;
}

/** Whole numbers from `min` to `max`, the same ones every time. */
function seededRandom(seed: number): (min: number, max: number) => number {
  let state = seed;
  return (min, max) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return min + Math.floor((state / 2 ** 32) * (max - min + 1));
  };
}
