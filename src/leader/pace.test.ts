import { expect, test } from "vitest";
import { createPace } from "./pace.ts";

test("slices that take long get shorter, and slices that take no time get longer", () => {
  const pace = createPace();
  const atFirst = pace.looksMax;
  pace.note(200, true);
  expect(pace.looksMax).toBe(atFirst / 2);
  pace.note(0, true);
  expect(pace.looksMax).toBe(atFirst);
});

test("a decision that was not cut and was quick says nothing about slices", () => {
  const pace = createPace();
  const atFirst = pace.looksMax;
  pace.note(1, false);
  expect(pace.looksMax).toBe(atFirst);
});

test("a request that can be granted at once is granted in its own decision, however slow the last ones were", () => {
  const pace = createPace();
  for (let i = 0; i < 100; i++) pace.note(60_000, true);
  expect(pace.looksMax).toBeGreaterThanOrEqual(4);
});
