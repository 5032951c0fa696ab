// Two requests of a component are in one line if their keys are the same: asked with and without making the keys.

import fc from "fast-check";
import { expect, test } from "vitest";
import { isSameShape, shapeKeyOf } from "./lines.ts";
import {
  type ComponentName,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
  type RequestSpec,
} from "./records.ts";

/** Few values of each field, so that equal ones are common; what does not tell lines apart differs, too. */
const specs: fc.Arbitrary<RequestSpec> = fc
  .record({
    resources: fc.dictionary(fc.constantFrom("gpu", "mcpu"), fc.integer({ min: 0, max: 1 })),
    constraints: fc.dictionary(fc.constantFrom("zone", "constructor"), fc.constantFrom("a", "b")),
    pools: fc.constantFrom(null, [], ["p" as PoolName], ["p" as PoolName, "q" as PoolName]),
    preemptible: fc.boolean(),
    preemptionClass: fc.integer({ min: 4, max: 5 }),
    sensitive: fc.boolean(),
    checkpoint: fc.constantFrom("none", "auto"),
    checkpointMs: fc.constantFrom(null, 0),
    nodes: fc.integer({ min: 1, max: 2 }),
    gang: fc.boolean(),
    isJob: fc.constantFrom(undefined, false, true),
    walltimeMs: fc.constantFrom(null, 1),
  })
  .map(({ isJob, ...rest }) => ({
    ...PLAIN_REQUEST,
    ...rest,
    ...(isJob === undefined ? {} : { isJob }),
    id: "r" as RequestId,
    component: "c" as ComponentName,
  }));

test("the shape of two requests is the same exactly if their keys are", () => {
  fc.assert(
    fc.property(specs, specs, fc.boolean(), (a, other, isCopy) => {
      const b = isCopy ? { ...a, walltimeMs: other.walltimeMs, gang: other.gang } : other;
      expect(isSameShape(a, b)).toBe(shapeKeyOf(a) === shapeKeyOf(b));
    }),
    { numRuns: 2_000 },
  );
});
