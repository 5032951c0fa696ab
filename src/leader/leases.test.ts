import { expect, test } from "vitest";
import type { RequestId } from "../engine/index.ts";
import { createLeases, type Leases } from "./leases.ts";

const MINUTE_MS = 60_000;
const terms = { group: "main", leaseMs: 5 * MINUTE_MS, patienceMs: 7.5 * MINUTE_MS };

interface World {
  readonly leases: Leases;
  /** Moves time to this moment. */
  at(ms: number): void;
  /** Numbers of the requests that are lost by now; they are gone then. */
  lost(): number[];
}

function createWorld(): World {
  let nowMs = 0;
  const leases = createLeases(() => nowMs);
  return {
    leases,
    at(ms) {
      nowMs = ms;
    },
    lost() {
      const { lost } = leases.expired();
      for (const { requestId } of lost) leases.keep(requestId, null);
      return lost.map(({ requestId }) => Number(requestId));
    },
  };
}

const id = (number: number) => String(number) as RequestId;

/** Holders 0 … count-1, each last heard of at its time. */
function holdersHeardAt({ leases, at }: World, timesMs: readonly number[]): void {
  for (const [number, ms] of timesMs.entries()) {
    at(ms);
    leases.keep(id(number), { token: number, terms });
  }
}

const cases: Record<string, { heardAtMs: readonly number[]; want: readonly number[] }> = {
  "one silent holder is lost": { heardAtMs: [0, 400_000], want: [0] },
  "four at once are lost": { heardAtMs: [0, 0, 0, 0], want: [0, 1, 2, 3] },
  "five at once put the brake on": { heardAtMs: [0, 1_000, 2_000, 3_000, 60_000], want: [] },
  "five within more than a minute are lost": {
    heardAtMs: [0, 0, 0, 0, 60_001],
    want: [0, 1, 2, 3],
  },
  "five of seventeen are not more than thirty per cent": {
    heardAtMs: [0, 0, 0, 0, 0, ...Array.from({ length: 12 }, () => 400_000)],
    want: [0, 1, 2, 3, 4],
  },
  "five of sixteen are": {
    heardAtMs: [0, 0, 0, 0, 0, ...Array.from({ length: 11 }, () => 400_000)],
    want: [],
  },
};

for (const [name, { heardAtMs, want }] of Object.entries(cases)) {
  test(name, () => {
    const world = createWorld();
    holdersHeardAt(world, heardAtMs);
    world.at(450_000);
    expect(world.lost()).toEqual(want);
  });
}

test("the brake lasts a quarter of an hour at most, and does not come back for the same silence", () => {
  const world = createWorld();
  holdersHeardAt(world, [0, 0, 0, 0, 0, 0]);
  world.at(450_000);
  expect(world.leases.expired().alerts).toHaveLength(1);
  world.at(450_000 + 15 * MINUTE_MS - 1);
  expect(world.leases.expired()).toEqual({ lost: [], alerts: [] });
  world.at(450_000 + 15 * MINUTE_MS);
  expect(world.lost()).toEqual([0, 1, 2, 3, 4, 5]);
});

test("an old token renews nothing, and a renewal revives nothing", () => {
  const world = createWorld();
  world.leases.keep(id(1), { token: 1, terms });
  world.leases.keep(id(1), { token: 2, terms });
  expect(world.leases.renew(id(1), 1)).toBe(false);
  expect(world.leases.renew(id(1), 2)).toBe(true);
  world.leases.keep(id(1), null);
  expect(world.leases.renew(id(1), 2)).toBe(false);
  expect(world.leases.nextCheckMs()).toBeNull();
});

test("keeping a lease that is right does not renew it, but takes new terms over", () => {
  const world = createWorld();
  world.leases.keep(id(1), { token: 1, terms });
  world.at(10_000);
  world.leases.keep(id(1), { token: 1, terms: { ...terms, leaseMs: 20_000, patienceMs: 30_000 } });
  expect(world.leases.expiresAtMs(id(1), 1)).toBe(20_000);
  expect(world.leases.nextCheckMs()).toBe(30_000);
});

test("after an amnesty every lease has its whole time before it", () => {
  const world = createWorld();
  holdersHeardAt(world, [0, 100_000]);
  world.at(440_000);
  world.leases.amnesty();
  world.at(440_000 + 449_999);
  expect(world.lost()).toEqual([]);
  world.at(440_000 + 450_000);
  expect(world.lost()).toEqual([0, 1]);
});
