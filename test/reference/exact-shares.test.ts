// Random trees: the engine's shares against exact fractions, and what must hold for every tree.

import { describe, expect, test } from "vitest";
import {
  removeMember,
  type ShareElement,
  setClaim,
} from "../../src/engine/disciplines/fair_share/share-tree.ts";
import { updateShares } from "../../src/engine/disciplines/fair_share/shares.ts";
import {
  buildShareTree,
  claimOf,
  computeFairShares,
  type ElementShare,
  type SnapshotElement as EngineElement,
  type SnapshotGroup,
  type SnapshotOperation,
} from "../../src/engine/disciplines/fair_share/snapshot.ts";
import { exactShares } from "./exact-shares.ts";
import { type Random, randomShareTree } from "./random-shares.ts";
import { type ShareSnapshot, type SnapshotElement, toShareInput } from "./share-snapshot.ts";

const TOLERANCE = 1e-9;
const seeds = (count: number): number[] => Array.from({ length: count }, (_, seed) => seed + 1);

describe("shares of random trees", () => {
  test.each(seeds(150))("seed %i: agree with exact fractions", (seed) => {
    const snapshot = randomShareTree(seededRandom(seed));
    const exact = exactShares(snapshot);
    for (const [name, { fairShare }] of sharesByName(snapshot)) {
      const want = [...exact.get(name)!.values()];
      expect(distance(fairShare, want), `${name}: ${fairShare} instead of ${want}`).toBeLessThan(TOLERANCE);
    }
  });

  test.each(seeds(300))("seed %i: keep to demand, limits and guarantees", (seed) => {
    const snapshot = randomShareTree(seededRandom(seed));
    expect(violations(snapshot)).toEqual([]);
  });

  test.each(seeds(50))("seed %i: do not depend on names", (seed) => {
    const snapshot = randomShareTree(seededRandom(seed));
    const renamed = { ...snapshot, tree: renamedTree(snapshot.tree) };
    const shares = (tree: ShareSnapshot) => [...sharesByName(tree).values()].map((share) => share.fairShare);
    expect(shares(renamed)).toEqual(shares(snapshot));
  });

  test.each(seeds(50))("seed %i: are numbers even if the pool is empty", (seed) => {
    const { total, ...snapshot } = randomShareTree(seededRandom(seed));
    const nothing = Object.fromEntries(Object.keys(total).map((key) => [key, 0]));
    for (const { fairShare } of sharesByName({ ...snapshot, total: nothing }).values()) {
      expect(fairShare.every((share) => share === 0)).toBe(true);
    }
  });
});

test.each(seeds(60))("seed %i: shares that follow changes are those of a new tree", (seed) => {
  const random = seededRandom(seed);
  let input = toShareInput(randomShareTree(random));
  const { tree, elements } = buildShareTree(input);
  const made = new Map(elements);
  for (let step = 0; step < 20; step++) {
    const operations = [...made.keys()].filter((element) => element.kind === "operation");
    if (operations.length === 0) return;
    const chosen = operations[random.int(0, operations.length - 1)] as SnapshotOperation;
    const element = made.get(chosen) as ShareElement;
    made.delete(chosen);
    const goes = chosen.reserved === undefined && random.int(1, 6) === 1; // Guarantees are fixed.
    const next = goes ? undefined : changedOperation(chosen, random);
    input = { ...input, root: replaced(input.root, chosen, next, made) as SnapshotGroup };
    if (next === undefined) removeMember(element.parent as ShareElement, element);
    else {
      setClaim(element, claimOf(next, input.total));
      made.set(next, element);
    }
    updateShares(tree);
    for (const [each, { fairShare }] of computeFairShares(input).shares) {
      expect(
        distance((made.get(each) as ShareElement).fairShare, fairShare),
        `${each.name} in step ${step}`,
      ).toBeLessThan(TOLERANCE / 1000);
    }
  }
});

function changedOperation(operation: SnapshotOperation, random: Random): SnapshotOperation {
  if (random.int(0, 3) === 0) return { ...operation, isGang: !operation.isGang };
  if (random.int(0, 3) === 0) return { ...operation, demand: operation.demand.map(() => random.int(0, 9)) };
  return { ...operation, usage: operation.demand.map((units) => random.int(0, units)) };
}

/** The tree with another operation, or none, in the place of one; groups above it are new objects with the same element. */
function replaced(
  element: EngineElement,
  chosen: SnapshotOperation,
  next: SnapshotOperation | undefined,
  made: Map<EngineElement, ShareElement>,
): EngineElement | undefined {
  if (element === chosen) return next;
  if (element.kind === "operation") return element;
  const members = element.members.flatMap((member) => replaced(member, chosen, next, made) ?? []);
  if (
    members.length === element.members.length &&
    members.every((member, i) => member === element.members[i])
  ) {
    return element;
  }
  const copy = { ...element, members };
  made.set(copy, made.get(element) as ShareElement);
  made.delete(element);
  return copy;
}

function sharesByName(snapshot: ShareSnapshot): Map<string, ElementShare> {
  const { shares } = computeFairShares(toShareInput(snapshot));
  return new Map([...shares].map(([{ name }, share]) => [name, share]));
}

function distance(a: readonly number[], b: readonly number[]): number {
  return Math.max(...a.map((value, index) => Math.abs(value - b[index]!)));
}

/** Sentences about what does not hold. */
function violations(snapshot: ShareSnapshot, shares = sharesByName(snapshot)): string[] {
  const found: string[] = [];
  const walk = (element: SnapshotElement, isInLine: boolean): number[] => {
    const { fairShare, guarantee } = shares.get(element.name)!;
    const children = element.children ?? [];
    const isLine = element.mode === "fifo";
    const demands = children.map((child) => walk(child, isInLine || isLine));
    const demand = Object.entries(snapshot.total).map(([key, total], index) =>
      element.type === "operation"
        ? (element.demand?.[key] ?? 0) / total
        : demands.reduce((sum, below) => sum + below[index]!, 0),
    );
    Object.entries(snapshot.total).forEach(([key, total], index) => {
      const share = fairShare[index]!;
      const say = (what: string): number => found.push(`${element.name} ${key}: ${what}`);
      if (!(share >= 0)) say(`${share} is no share`);
      if (share > demand[index]! + TOLERANCE) say(`${share} is more than the demand of ${demand[index]}`);
      const limit = (element.limit?.[key] ?? total) / total;
      // A policy in a line bounds grants only (9.11).
      if (share > limit + TOLERANCE && !(isInLine && element.type === "group"))
        say(`${share} > limit ${limit}`);
      const below = children.reduce((sum, { name }) => sum + shares.get(name)!.fairShare[index]!, 0);
      if (children.length > 0 && below > share + TOLERANCE) say(`members have ${below} of ${share}`);
      const promised = children.reduce((sum, { name }) => sum + shares.get(name)!.guarantee[index]!, 0);
      if (!isLine && promised > guarantee[index]! + TOLERANCE)
        say(`${promised} promised of ${guarantee[index]}`);
    });
    // Whoever wants no more than its guarantee on any key has all of it, if nothing below it is in the way.
    const wantsLess = demand.every((wanted, index) => wanted <= guarantee[index]!);
    if (!isInLine && wantsLess && children.every(isFree) && distance(fairShare, demand) > TOLERANCE) {
      found.push(`${element.name} has ${fairShare} of the guaranteed ${demand}`);
    }
    return demand;
  };
  walk(snapshot.tree, false);
  return found;
}

/** Whether neither limits nor gangs keep it from its demand. */
function isFree({ limit, gang, mode, children = [] }: SnapshotElement): boolean {
  return limit === undefined && gang !== true && mode !== "fifo" && children.every(isFree);
}

describe("what is wrong with shares is noticed", () => {
  const snapshot: ShareSnapshot = {
    total: { gpu: 10 },
    main_key: "gpu",
    tree: {
      name: "root",
      type: "group",
      children: [
        {
          name: "g",
          type: "group",
          reserved: { gpu: 6 },
          children: [
            { name: "a", type: "operation", demand: { gpu: 3 }, usage: {}, order: 1 },
            { name: "b", type: "operation", demand: { gpu: 3 }, usage: {}, order: 2 },
          ],
        },
        { name: "c", type: "operation", limit: { gpu: 4 }, demand: { gpu: 9 }, usage: {}, order: 3 },
      ],
    },
  };
  const cases: Record<string, { who: string; share: number; guarantee?: number; want: RegExp }> = {
    "more than the demand": { who: "a", share: 0.4, want: /a gpu: 0.4 is more than the demand/ },
    "more than the limit": { who: "c", share: 0.5, want: /c gpu: 0.5 > limit 0.4/ },
    "less than what is guaranteed": { who: "g", share: 0.5, want: /g has 0.5 of the guaranteed 0.6/ },
    "members that have more than their group": { who: "g", share: 0.3, want: /members have 0.6 of 0.3/ },
    "no number": { who: "a", share: Number.NaN, want: /a gpu: NaN is no share/ },
    "more promised than there is": {
      who: "c",
      share: 0.4,
      guarantee: 0.5,
      want: /root gpu: 1.1 promised of 1/,
    },
  };
  test("and nothing else", () => expect(violations(snapshot)).toEqual([]));
  for (const [name, { who, share, guarantee = 0, want }] of Object.entries(cases)) {
    test(name, () => {
      const shares = new Map(sharesByName(snapshot));
      shares.set(who, { guarantee: [guarantee || shares.get(who)!.guarantee[0]!], fairShare: [share] });
      expect(violations(snapshot, shares).join("\n")).toMatch(want);
    });
  }
});

function renamedTree(element: SnapshotElement): SnapshotElement {
  const name = [...element.name].reverse().join("");
  return { ...element, name, ...(element.children && { children: element.children.map(renamedTree) }) };
}

function seededRandom(seed: number): Random {
  let state = seed;
  return {
    int(min, max) {
      state = (state + 0x6d2b79f5) | 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return min + Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * (max - min + 1));
    },
  };
}
