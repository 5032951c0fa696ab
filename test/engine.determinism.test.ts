// The same commands give the same bytes, whatever was tried, refused and taken back before, and however often the
// state was recovered from its journal or a snapshot (D2, D3). One world is checked closely after every step, forked,
// and restarted; the other is left alone. A failure names its seed; `SEED=17 npx vitest run test/engine.determinism.test.ts` repeats it.

import { describe, expect, test } from "vitest";
import { simulate } from "./simulation/engine/simulate.ts";

const { SEED, SEEDS = "10" } = process.env;
const seeds =
  SEED === undefined ? Array.from({ length: Number(SEEDS) }, (_, index) => index + 1) : [Number(SEED)];

describe.each([false, true])("on nodes: %s", (onNodes) => {
  test.each(["priority", "class", "fair_share"] as const)(
    "discipline %s: what was tried before changes nothing",
    { timeout: 600_000 },
    (discipline) => {
      for (const seed of seeds) {
        const options = { steps: 120, discipline, onNodes };
        const disturbed = simulate(seed, options).journal.map((event) => JSON.stringify(event));
        const alone = simulate(seed, { ...options, isUndisturbed: true });
        expect(disturbed, `seed ${seed}`).toEqual(alone.journal.map((event) => JSON.stringify(event)));
        expect(alone.journal.length).toBeGreaterThan(0);
      }
    },
  );
});
