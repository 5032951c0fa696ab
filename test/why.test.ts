// Explanations, suggestions and plans are true (14, 30): a small part of `npm run prove:why`. A failure names its world.

import { expect, test } from "vitest";
import { newTally, tryWorld, WORLDS } from "./reference/why-trial.ts";

const SEEDS = [1, 2, 3, 4, 5, 6];
const TIMEOUT_MS = 600_000;

/** In these a preview once changed what was decided after it (D2). */
test.each([
  ["fair_share", 32],
  ["fair_share on nodes", 27],
] as const)("%s, world %i: nothing is left of what was tried", { timeout: TIMEOUT_MS }, (kind, seed) => {
  const tally = newTally();
  tryWorld(WORLDS[kind]!(seed), { explainEvery: 1, suggestEvery: 1, planEvery: 3 }, tally);
  expect([...tally.falsehoods, ...tally.unsound, ...tally.inexact]).toEqual([]);
});

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
