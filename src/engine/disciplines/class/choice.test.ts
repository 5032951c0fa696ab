import { describe, expect, test } from "vitest";
import type { Run } from "../../state.ts";
import type { Permission } from "./candidates.ts";
import { type Bounds, bestSet, type Candidate, Groups } from "./choice.ts";
import { costOf } from "./cost.ts";

const NOW_MS = 100 * 3_600_000;
const MINUTE_MS = 60_000;

interface Spec {
  token: number;
  held?: number[];
  preemptionClass?: number;
  isUnbounded?: boolean;
  checkpoint?: "none" | "auto";
  checkpointMinutes?: number;
  walltimeMinutes?: number;
  ranMinutes?: number;
}

function candidate(spec: Spec): Candidate {
  const { token, held = [1], preemptionClass = 1, isUnbounded = false } = spec;
  const { checkpoint = "auto", checkpointMinutes, walltimeMinutes, ranMinutes = 0 } = spec;
  const startedAtMs = NOW_MS - ranMinutes * MINUTE_MS;
  const walltimeMs = walltimeMinutes === undefined ? null : walltimeMinutes * MINUTE_MS;
  const checkpointMs = checkpointMinutes === undefined ? null : checkpointMinutes * MINUTE_MS;
  const run = {
    token,
    startedAtMs,
    endMs: startedAtMs + (walltimeMs ?? Number.POSITIVE_INFINITY),
    request: { spec: { walltimeMs }, progress: { lastCheckpointAtMs: null } },
    poolLine: { line: { shape: { checkpoint, checkpointMs, nodes: 1, resources: { gpu: 1 } } } },
  } as unknown as Run;
  return { run, ...costOf(run, NOW_MS), reason: "class", isUnbounded, held, preemptionClass };
}

/** Sorts the candidates into groups, as a search does, and asks for the best set. */
function choose(specs: Spec[], bounds: Partial<Bounds> = {}): number[] | null {
  const all: Bounds = { lacking: [1], victimsMax: 3, value: [1e9], nowMs: NOW_MS, ...bounds };
  const groups = new Groups(all);
  for (const each of specs.map(candidate)) {
    const permission = { kind: { poolLine: each }, held: each.held } as unknown as Permission;
    groups.add(groups.groupOf(permission, each.isUnbounded ? "unbounded" : "bounded"), each);
  }
  const set = bestSet(groups, all);
  return set === null ? null : set.map(({ run }) => run.token).sort((a, b) => a - b);
}

const minutes = (count: number): Pick<Bounds, "value"> => ({ value: [count, MINUTE_MS] });

interface Case {
  specs: Spec[];
  bounds?: Partial<Bounds>;
  want: number[] | null;
}

const cases: Record<string, Case> = {
  "the lower class goes, however dear": {
    specs: [
      { token: 1, preemptionClass: 2, checkpointMinutes: 90 },
      { token: 2, preemptionClass: 3, checkpointMinutes: 1 },
    ],
    want: [1],
  },
  "two of a low class go before one of a higher class": {
    specs: [
      { token: 1, preemptionClass: 2 },
      { token: 2, preemptionClass: 2 },
      { token: 3, preemptionClass: 3, held: [2] },
    ],
    bounds: { lacking: [2] },
    want: [1, 2],
  },
  "in one class the cheaper set goes, even if it has more members": {
    specs: [
      { token: 1, checkpointMinutes: 2 },
      { token: 2, checkpointMinutes: 2 },
      { token: 3, checkpointMinutes: 5, held: [2] },
    ],
    bounds: { lacking: [2] },
    want: [1, 2],
  },
  "equally dear: fewer": {
    specs: [
      { token: 1, checkpointMinutes: 2 },
      { token: 2, checkpointMinutes: 2 },
      { token: 3, checkpointMinutes: 4, held: [2] },
    ],
    bounds: { lacking: [2] },
    want: [3],
  },
  "equally dear and many: the latest start": {
    specs: [{ token: 1 }, { token: 3 }, { token: 2 }],
    want: [3],
  },
  "percentages of different walltimes tie exactly": {
    // 1/3 + 1/3 of a walltime, and 2/3 of another: no number holds any of them.
    specs: [
      { token: 1, checkpointMinutes: 0, walltimeMinutes: 3, ranMinutes: 1 },
      { token: 2, checkpointMinutes: 0, walltimeMinutes: 9, ranMinutes: 3 },
      { token: 3, checkpointMinutes: 0, walltimeMinutes: 6, ranMinutes: 4, held: [2] },
    ],
    bounds: { lacking: [2] },
    want: [3],
  },
  "a set as dear as the waiter is worth is not taken": {
    specs: [{ token: 1, checkpointMinutes: 7 }],
    bounds: minutes(7),
    want: null,
  },
  "a set dearer than the waiter is worth is taken back": {
    specs: [{ token: 1, checkpointMinutes: 7, isUnbounded: true }],
    bounds: minutes(7),
    want: [1],
  },
  "one that is taken bounds those that are taken back with it": {
    specs: [
      { token: 1, checkpointMinutes: 4, isUnbounded: true },
      { token: 2, checkpointMinutes: 4 },
    ],
    bounds: { ...minutes(7), lacking: [2] },
    want: null,
  },
  "a set that could leave one out is none": {
    // 2 and 3 cost least, but 3 alone is enough.
    specs: [
      { token: 1, held: [2], checkpointMinutes: 9 },
      { token: 2, held: [1], checkpointMinutes: 1 },
      { token: 3, held: [4], checkpointMinutes: 20 },
    ],
    bounds: { lacking: [3] },
    want: [1, 2],
  },
  "more than max_victims would be needed": {
    specs: [{ token: 1 }, { token: 2 }, { token: 3 }, { token: 4 }],
    bounds: { lacking: [4] },
    want: null,
  },
};

for (const [name, { specs, bounds, want }] of Object.entries(cases)) {
  test(name, () => expect(choose(specs, bounds)).toEqual(want));
}

describe("the search finds what trying all sets finds", () => {
  const seeds = Array.from({ length: 300 }, (_, index) => index + 1);
  test.each(seeds)("seed %i", (seed) => {
    const int = diceOf(seed);
    const keyCount = int(1, 2);
    const lacking = Array.from({ length: keyCount }, () => int(1, 6));
    const specs = Array.from({ length: int(1, 12) }, (_, index): Spec => {
      const hasWalltime = int(0, 1) === 1;
      return {
        token: index + 1,
        held: lacking.map(() => int(0, 3)),
        preemptionClass: int(0, 2),
        isUnbounded: int(0, 2) === 0,
        checkpoint: int(0, 2) === 0 ? "none" : "auto",
        checkpointMinutes: int(0, 4),
        ranMinutes: int(0, 6),
        ...(hasWalltime && { walltimeMinutes: [7, 9, 12, 18, 60][int(0, 4)] as number }),
      };
    });
    const bounds = { lacking, victimsMax: int(1, 4), ...minutes(int(1, 120)) };
    expect(choose(specs, bounds)).toEqual(tryAllSets(specs, bounds));
  });
});

describe("among 64 candidates of different kinds nothing is overlooked", () => {
  const seeds = Array.from({ length: 12 }, (_, index) => index + 1);
  test.each(seeds)("seed %i", (seed) => {
    const int = diceOf(1000 + seed);
    // No two hold the same, so that none can stand for another, and no branch can be left early for want of units.
    const specs = Array.from(
      { length: 64 },
      (_, index): Spec => ({
        token: index + 1,
        held: [3 + (index % 8), 3 + Math.floor(index / 8)],
        preemptionClass: int(0, 2),
        checkpointMinutes: int(1, 5),
        ranMinutes: int(0, 6),
        ...(int(0, 1) === 1 && { walltimeMinutes: [7, 9, 12, 18, 60][int(0, 4)] as number }),
      }),
    );
    const bounds = { lacking: [int(10, 26), int(10, 26)], victimsMax: 3, ...minutes(int(20, 5000)) };
    expect(choose(specs, bounds)).toEqual(tryAllSets(specs, bounds));
  });
});

/** The same question, answered slowly. Costs are whole once they are multiplied by what all walltimes divide. */
function tryAllSets(
  specs: Spec[],
  bounds: Pick<Bounds, "lacking" | "victimsMax" | "value">,
): number[] | null {
  const SCALE = 7 * 9 * 4 * 5;
  const costOfSpec = ({ checkpoint, checkpointMinutes = 0, ranMinutes = 0, walltimeMinutes }: Spec) => {
    const own = checkpoint === "none" ? ranMinutes : checkpointMinutes;
    if (walltimeMinutes === undefined) return own * SCALE;
    const used = ranMinutes / walltimeMinutes;
    if (used >= 0.9) return (own + 1000) * SCALE;
    return (
      (own + (used < 0.1 ? 1 : 0)) * SCALE + (used < 0.1 ? 0 : (ranMinutes * 100 * SCALE) / walltimeMinutes)
    );
  };
  const sum = (set: Spec[], of: (spec: Spec) => number) => set.reduce((total, spec) => total + of(spec), 0);
  const covers = (set: Spec[]) =>
    bounds.lacking.every((amount, key) => sum(set, ({ held }) => held?.[key] ?? 0) >= amount);
  const worth = ((bounds.value[0] as number) * SCALE) as number;
  const rank = (set: Spec[]) => [
    Math.max(...set.map(({ preemptionClass = 1 }) => preemptionClass)),
    sum(set, costOfSpec),
    set.length,
    ...set.map(({ token }) => -token).sort((a, b) => a - b),
  ];
  let best: Spec[] | null = null;
  for (const set of setsOf(specs, bounds.victimsMax)) {
    const isMinimal = covers(set) && set.every((one) => !covers(set.filter((other) => other !== one)));
    if (!isMinimal || set.length === 0) continue;
    if (!set.every(({ isUnbounded }) => isUnbounded) && sum(set, costOfSpec) >= worth) continue;
    if (best === null || isBefore(rank(set), rank(best))) best = set;
  }
  return best === null ? null : best.map(({ token }) => token).sort((a, b) => a - b);
}

/** All sets of at most so many, from one place on. */
function* setsOf(specs: readonly Spec[], sizeMax: number, from = 0): Generator<Spec[]> {
  yield [];
  if (sizeMax === 0) return;
  for (let i = from; i < specs.length; i++) {
    for (const rest of setsOf(specs, sizeMax - 1, i + 1)) yield [specs[i] as Spec, ...rest];
  }
}

function isBefore(a: number[], b: number[]): boolean {
  const place = a.findIndex((value, index) => value !== b[index]);
  return place >= 0 && (a[place] as number) < (b[place] as number);
}

/** A small generator (mulberry32): the same seed gives the same numbers. */
function diceOf(seed: number): (min: number, max: number) => number {
  let state = seed;
  return (min, max) => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return min + (((value ^ (value >>> 14)) >>> 0) % (max - min + 1));
  };
}
