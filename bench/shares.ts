// How long a full update of fair shares takes: on a given tree, beside its limit, and on trees that grow.
// Usage: npm run bench:shares -- TREE.json, a scenario of `kind: shares`.

import { readFileSync } from "node:fs";
import {
  computeFairShares,
  type ShareGroup,
  type ShareInput,
  type ShareOperation,
} from "../src/engine/disciplines/fair_share/shares.ts";
import { type ShareSnapshot, toShareInput } from "../test/reference/share-snapshot.ts";

const LIMIT_MS = 10;
const EXPONENT_LIMIT = 1.2;
const SIZES = [100, 1_000, 10_000];

const file = process.argv[2];
if (file === undefined) {
  console.error("Which tree? npm run bench:shares -- TREE.json");
  process.exit(2);
}

// The trees that grow come first and warm the code up on trees of other shapes than the given one.
for (const gangPercent of [0, 10]) {
  const times = SIZES.map((size) => medianMs(grownTree(size, gangPercent)));
  const exponent = growthExponent(times);
  const limit = gangPercent === 0 ? ` (limit ${EXPONENT_LIMIT})` : "";
  console.log(`\n${gangPercent === 0 ? "without gangs" : `with ${gangPercent} % gangs`}`);
  SIZES.forEach((size, index) => {
    console.log(`  ${String(size).padStart(6)} operations  ${times[index]!.toFixed(3).padStart(9)} ms`);
  });
  console.log(`  growth exponent ${exponent.toFixed(2)}${limit}`);
}

const input = toShareInput(JSON.parse(readFileSync(file, "utf8")) as ShareSnapshot);
const ms = medianMs(input);
const { groups, operations, gangs } = countElements(input.root);
console.log(`\n${groups} groups, ${operations} operations (${gangs} gangs), ${input.total.length} keys`);
console.log(`  full update ${ms.toFixed(3)} ms (limit ${LIMIT_MS} ms, ratio ${(ms / LIMIT_MS).toFixed(2)})`);

/** The median of enough updates to fill about a second, after as many to warm up. */
function medianMs(tree: ShareInput): number {
  const run = (): number => {
    const start = performance.now();
    computeFairShares(tree);
    return performance.now() - start;
  };
  for (let spent = 0; spent < 500; ) spent += run();
  const times: number[] = [];
  for (let spent = 0; spent < 1_000; spent += times.at(-1)!) times.push(run());
  return times.sort((a, b) => a - b)[times.length >> 1]!;
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
  const operation = (order: number): ShareOperation => {
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
  const policy = (index: number): ShareGroup => ({
    kind: "group",
    name: `policy-${index}`,
    weight: random(1, 4),
    ...(random(0, 1) === 1 && { reserved: [random(0, 20), undefined, undefined] }),
    mode: random(0, 3) === 0 ? "fifo" : "fair_share",
    members: Array.from({ length: 10 }, (_, place) => operation(index * 10 + place)),
  });
  const group = (index: number): ShareGroup => ({
    kind: "group",
    name: `group-${index}`,
    weight: random(1, 4),
    members: Array.from({ length: 10 }, (_, place) => policy(index * 10 + place)),
  });
  const members = Array.from({ length: operationCount / 100 }, (_, index) => group(index));
  return { total, mainKey: 0, root: { kind: "group", name: "root", members } };
}

function countElements(root: ShareGroup): { groups: number; operations: number; gangs: number } {
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
