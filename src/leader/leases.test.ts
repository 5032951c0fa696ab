import { expect, test } from "vitest";
import type { RequestId } from "../engine/index.ts";
import { createLeases, type Leases, type WantedLease } from "./leases.ts";

const MINUTE_MS = 60_000;
const terms = { group: "main", leaseMs: 5 * MINUTE_MS, patienceMs: 7.5 * MINUTE_MS, silentAfterMs: 40_000 };

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

const granted = (token: number, client = `client ${token}`): WantedLease => ({
  token,
  client,
  attended: false,
  terms,
});

/** Holders 0 … count-1, each a client of its own unless it is named, last heard of at its time. */
function holdersHeardAt({ leases, at }: World, timesMs: readonly number[], client?: string): void {
  for (const [number, ms] of timesMs.entries()) {
    at(ms);
    leases.keep(id(number), granted(number, client));
    leases.renew(id(number), number);
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
  "six of twenty are exactly thirty per cent, and not more": {
    heardAtMs: [0, 0, 0, 0, 0, 0, ...Array.from({ length: 14 }, () => 400_000)],
    want: [0, 1, 2, 3, 4, 5],
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
  world.leases.keep(id(1), granted(1));
  world.leases.keep(id(1), granted(2));
  expect(world.leases.renew(id(1), 1)).toBe(false);
  expect(world.leases.renew(id(1), 2)).toBe(true);
  world.leases.keep(id(1), null);
  expect(world.leases.renew(id(1), 2)).toBe(false);
  expect(world.leases.nextCheckMs()).toBeNull();
});

test("keeping a lease that is right does not renew it, but takes new terms over", () => {
  const world = createWorld();
  world.leases.keep(id(1), granted(1));
  world.at(10_000);
  world.leases.keep(id(1), { ...granted(1), terms: { ...terms, leaseMs: 20_000, patienceMs: 30_000 } });
  expect(world.leases.stateOf(id(1))).toMatchObject({ heardAtMs: 0, expiresAtMs: 20_000 });
  world.leases.renew(id(1), 1);
  expect(world.leases.nextCheckMs()).toBe(40_000);
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

test("a grant that nobody takes up is given up after one lease, one that was taken up after one and a half", () => {
  const world = createWorld();
  for (const number of [1, 2, 3]) world.leases.keep(id(number), granted(number));
  world.leases.renew(id(1), 1);
  world.leases.restore(id(4), granted(4)); // Nobody remembers whether it was taken up.
  expect(world.leases.stateOf(id(2))).toMatchObject({ isFree: true, givenUpAtMs: 5 * MINUTE_MS });
  expect(world.leases.nextCheckMs()).toBe(5 * MINUTE_MS);
  world.at(5 * MINUTE_MS - 1);
  expect(world.lost()).toEqual([]);
  world.at(5 * MINUTE_MS);
  expect(world.leases.expired().lost.map(({ untaken }) => untaken)).toEqual([true, true]);
  expect(world.lost()).toEqual([2, 3]);
  world.at(7.5 * MINUTE_MS);
  expect(world.leases.expired().lost.map(({ untaken }) => untaken)).toEqual([false, false]);
  expect(world.lost()).toEqual([1, 4]);
});

test("one client that held many grants is one client to the brake", () => {
  const world = createWorld();
  holdersHeardAt(world, [0, 0, 0, 0, 0, 0], "one orchestrator");
  world.at(450_000);
  expect(world.lost()).toEqual([0, 1, 2, 3, 4, 5]);
});

test("a client is heard of through any of its grants", () => {
  const world = createWorld();
  holdersHeardAt(world, [0, 0, 0, 0, 0]);
  for (const number of [10, 11]) world.leases.keep(id(number), granted(number, "client 0"));
  world.at(400_000);
  world.leases.renew(id(10), 10, "client 0");
  world.at(450_000);
  expect(world.lost()).toEqual([0, 1, 2, 3, 4, 11]);
});

test("clients that name themselves are counted by their names", () => {
  const world = createWorld();
  for (const number of [0, 1, 2, 3, 4]) {
    world.leases.keep(id(number), granted(number, "one token"));
    world.leases.renew(id(number), number, `process ${number}`);
  }
  world.at(450_000);
  expect(world.leases.expired().alerts).toMatchObject([{ silent: 5, clients: 5 }]);
  expect(world.leases.stateOf(id(0))?.givenUpAtMs).toBe(450_000 + 15 * MINUTE_MS);
});

test("an operator can take the brake off, and it does not come back for the same silence", () => {
  const world = createWorld();
  holdersHeardAt(world, [0, 0, 0, 0, 0]);
  world.at(450_000);
  expect(world.lost()).toEqual([]);
  expect(world.leases.lift("elsewhere")).toBe(false);
  expect(world.leases.lift("main")).toBe(true);
  expect(world.leases.lift("main")).toBe(false);
  expect(world.lost()).toEqual([0, 1, 2, 3, 4]);
});

test("a grant that was not taken up is free at once, that of an attended request when it has missed its renewals", () => {
  const world = createWorld();
  world.leases.keep(id(1), granted(1));
  world.leases.keep(id(2), { ...granted(2), attended: true });
  world.leases.keep(id(3), granted(3));
  world.leases.renew(id(3), 3);
  const free = () => [1, 2, 3].map((number) => world.leases.stateOf(id(number))?.isFree);
  const silent = () => [1, 2, 3].map((number) => world.leases.stateOf(id(number))?.isSilent);
  world.at(40_000);
  expect([free(), silent()]).toEqual([
    [true, false, false],
    [false, false, false],
  ]);
  world.at(40_001);
  expect([free(), silent()]).toEqual([
    [true, true, false],
    [true, true, true],
  ]);
});
