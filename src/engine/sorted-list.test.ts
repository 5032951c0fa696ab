// The ordered list against a plain array, over random insertions and removals.

import fc from "fast-check";
import { expect, test } from "vitest";
import { SortedList } from "./sorted-list.ts";

interface Item {
  readonly place: number;
  readonly weight: readonly number[];
  readonly rank: number;
}

const items = fc.uniqueArray(
  fc.record({
    place: fc.integer({ min: 0, max: 5000 }),
    weight: fc.tuple(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 0, max: 3 })),
    rank: fc.integer({ min: 0, max: 50 }),
  }),
  { selector: ({ place }) => place, maxLength: 900 },
);

function listOf(all: readonly Item[]): SortedList<Item> {
  const list = new SortedList<Item>((a, b) => a.place - b.place, {
    key: ({ place }) => place >> 3, // Some share it, so that the rest of the order decides.
    weigh: ({ weight }) => weight,
    rank: ({ rank }) => rank,
  });
  for (const item of all) list.insert(item);
  return list;
}

test("holds what a sorted array holds, whatever is inserted and removed", () => {
  fc.assert(
    fc.property(items, fc.integer({ min: 1, max: 7 }), (all, step) => {
      const list = listOf(all);
      const kept = all.filter((_, index) => index % step !== 0);
      for (const item of all.filter((_, index) => index % step === 0)) list.remove(item);
      const sorted = kept.toSorted((a, b) => a.place - b.place);
      expect([...list]).toEqual(sorted);
      expect([...list.backwards()]).toEqual(sorted.toReversed());
      expect([list.size, list.first(), list.last()]).toEqual([sorted.length, sorted[0], sorted.at(-1)]);
    }),
    { numRuns: 60 },
  );
});

test("finds by rank, by sum and by place what a walk from the start finds", () => {
  fc.assert(
    fc.property(
      items,
      fc.integer({ min: 0, max: 50 }),
      fc.integer({ min: 0, max: 3000 }),
      (all, rankMax, bound) => {
        const list = listOf(all);
        const sorted = all.toSorted((a, b) => a.place - b.place);
        expect(list.firstRankedAtMost(rankMax)).toBe(sorted.find(({ rank }) => rank <= rankMax));
        let sum = 0;
        const crossing = sorted.find(({ weight }) => {
          sum += weight[0] as number;
          return sum > bound;
        });
        expect(list.firstWhereSumExceeds(0, bound)).toBe(crossing);
        expect(list.countWhile(({ place }) => place < bound)).toBe(
          sorted.filter(({ place }) => place < bound).length,
        );
        const middle = sorted[sorted.length >> 1];
        if (middle === undefined) return;
        const upTo = sorted
          .slice(0, (sorted.length >> 1) + 1)
          .reduce((total, { weight }) => total + (weight[1] as number), 0);
        expect(list.sumThrough(middle, 1)).toBe(upTo);
      },
    ),
    { numRuns: 60 },
  );
});

test("a rank that leaves the list is forgotten", () => {
  const list = listOf([]);
  const short = { place: 1, weight: [0, 0], rank: 1 };
  const long = { place: 2, weight: [0, 0], rank: 9 };
  list.insert(short);
  list.insert(long);
  expect(list.firstRankedAtMost(5)).toBe(short);
  list.remove(short);
  expect(list.firstRankedAtMost(5)).toBeUndefined();
});

test("removing what is not there is a bug, and says so", () => {
  expect(() => listOf([]).remove({ place: 1, weight: [0, 0], rank: 0 })).toThrow("not in the list");
});

test("a list that became empty fills again", () => {
  const [only, next] = [
    { place: 3, weight: [2, 1], rank: 4 },
    { place: 1, weight: [5, 0], rank: 7 },
  ] as const;
  const list = listOf([only]);
  list.remove(only);
  expect([...list, ...list.backwards()]).toEqual([]);
  expect([list.size, list.first(), list.last(), list.sum(0), list.rankMin()]).toEqual([
    ...[0, undefined, undefined, 0, Number.POSITIVE_INFINITY],
  ]);
  expect([list.countWhile(() => true), list.sumThrough(only, 0), list.has(only)]).toEqual([0, 0, false]);
  list.insert(next);
  expect([[...list], list.sum(0), list.rankMin()]).toEqual([[next], 5, 7]);
});
