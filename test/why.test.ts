// Explanations, suggestions and plans are true (14, 30): a small part of `npm run prove:why`. A failure names its world.

import { expect, test } from "vitest";
import { newTally, tryWorld, WORLDS } from "./reference/why-trial.ts";

const SEEDS = [1, 2, 3, 4, 5, 6];
const TIMEOUT_MS = 600_000;

test.each(Object.entries(WORLDS))("%s: what is said is so", { timeout: TIMEOUT_MS }, (_, worldOf) => {
  const tally = newTally();
  for (const seed of SEEDS)
    tryWorld(worldOf(seed), { explainEvery: 3, suggestEvery: 5, planEvery: 4 }, tally);
  expect(tally.falsehoods).toEqual([]);
  expect(tally.unsound).toEqual([]);
  expect(tally.inexact).toEqual([]);
  expect(tally.waiting).toBeGreaterThan(20);
  expect(tally.running).toBeGreaterThan(10);
  expect(tally.plans).toBeGreaterThan(10);
});
