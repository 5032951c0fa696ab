// A fixed point that is cut into the smallest slices, with restarts between them, takes the same course as one that is
// not. A failure names its seed; `SEED=17 npx vitest run test/engine.slices.test.ts` repeats it.

import { describe, expect, test } from "vitest";
import type { Event } from "../src/engine/index.ts";
import { simulate } from "./simulation/engine/simulate.ts";

const { SEED, SEEDS = "12" } = process.env;
const seeds =
  SEED === undefined ? Array.from({ length: Number(SEEDS) }, (_, index) => index + 1) : [Number(SEED)];

let cuts = 0;

describe.each([false, true])("on nodes: %s", (onNodes) => {
  test.each(["priority", "class", "fair_share"] as const)(
    "discipline %s: slices change nothing",
    { timeout: 600_000 },
    (discipline) => {
      for (const seed of seeds) {
        const options = { steps: 100, discipline, onNodes };
        const whole = simulate(seed, options).journal;
        const sliced = simulate(seed, { ...options, areSlicesCut: true }).journal;
        expect(courseOf(sliced), `seed ${seed}`).toEqual(courseOf(whole));
        cuts += sliced.length - courseOf(sliced).length;
      }
    },
  );
});

test("there were cuts", () => {
  expect(cuts).toBeGreaterThan(0);
});

/** All that happened but the cuts, and without positions in the journal, where cuts count. */
function courseOf(journal: readonly Event[]): string[] {
  return journal
    .filter(({ kind }) => kind !== "schedulingPaused" && kind !== "schedulingSettled")
    .map((event) => JSON.stringify(event, (key, value) => (key === "createdSeq" ? undefined : value)));
}
