import { expect, test } from "vitest";
import type { Lease } from "../store/index.ts";
import { createLeaseWatch } from "./watch.ts";

const TIMES = { silenceMs: 8_000, hintedSilenceMs: 1_200 };
const held = (renewals: number, epoch = 3): Lease => ({ epoch, holder: "other", renewals });

interface Case {
  /** What was read at which moment; null: the database did not answer. */
  readonly seen: readonly (readonly [atMs: number, lease: Lease | null])[];
  readonly isHinted?: boolean;
  readonly tries: boolean;
}

const cases: Record<string, Case> = {
  "a row that was seen once says nothing about silence": { seen: [[0, held(1)]], tries: false },
  "a row that stood still for 8 s is tried": {
    seen: [
      [0, held(1)],
      [4_000, held(1)],
      [8_000, held(1)],
    ],
    tries: true,
  },
  "a little less is not enough": {
    seen: [
      [0, held(1)],
      [7_999, held(1)],
    ],
    tries: false,
  },
  "with the hint 1.2 s are enough": {
    seen: [
      [0, held(1)],
      [1_200, held(1)],
    ],
    isHinted: true,
    tries: true,
  },
  "a row that moves restarts the clock, with the hint as well": {
    seen: [
      [0, held(1)],
      [1_100, held(2)],
      [2_200, held(2)],
    ],
    isHinted: true,
    tries: false,
  },
  "another epoch restarts the clock, though the renewals are the same": {
    seen: [
      [0, held(1, 3)],
      [8_000, held(1, 4)],
      [15_999, held(1, 4)],
    ],
    tries: false,
  },
  "the clock stands while the database does not answer": {
    seen: [
      [0, held(1)],
      [1_000, null],
      [60_000, held(1)],
      [67_000, held(1)],
    ],
    tries: false,
  },
  "and goes on afterwards from where it stood": {
    seen: [
      [0, held(1)],
      [4_000, held(1)],
      [5_000, null],
      [60_000, held(1)],
      [64_000, held(1)],
    ],
    tries: true,
  },
  "nothing is tried while the database does not answer": {
    seen: [
      [0, held(1)],
      [9_000, held(1)],
      [9_100, null],
    ],
    tries: false,
  },
  "a released row is tried at once": {
    seen: [[0, { epoch: 3, holder: null, renewals: 9 }]],
    tries: true,
  },
  "a row that is offered to this server is tried at once": {
    seen: [[0, { epoch: 3, holder: null, renewals: 9, offeredTo: "me" }]],
    tries: true,
  },
  "a row that is offered to another is left to it": {
    seen: [
      [0, { epoch: 3, holder: null, renewals: 9, offeredTo: "other" }],
      [1_000, { epoch: 3, holder: null, renewals: 9, offeredTo: "other" }],
    ],
    tries: false,
  },
  "unless that one does not come": {
    seen: [
      [0, { epoch: 3, holder: null, renewals: 9, offeredTo: "other" }],
      [8_000, { epoch: 3, holder: null, renewals: 9, offeredTo: "other" }],
    ],
    tries: true,
  },
  "our own row, from before the database was away, is tried at once": {
    seen: [[0, { epoch: 3, holder: "me", renewals: 9 }]],
    tries: true,
  },
};

for (const [name, { seen, isHinted = false, tries }] of Object.entries(cases)) {
  test(name, () => {
    const watch = createLeaseWatch("me", TIMES);
    for (const [atMs, lease] of seen) {
      if (lease === null) watch.failed();
      else watch.seen(lease, atMs);
    }
    // The attempt names the row that was observed (C2).
    expect(watch.toTry(isHinted)).toEqual(tries ? seen.at(-1)?.[1] : undefined);
  });
}

test("a failed try does not restart the clock: only a row that changed does", () => {
  const watch = createLeaseWatch("me", TIMES);
  watch.seen(held(1), 0);
  watch.seen(held(1), 8_000);
  expect(watch.toTry(false)).toBeDefined();
  watch.seen(held(1), 8_250);
  expect(watch.toTry(false)).toBeDefined();
});
