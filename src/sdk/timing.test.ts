import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { fullJitter, sleep } from "./timing.ts";

describe("full jitter", () => {
  const bounds = { minMs: 100, maxMs: 5_000 };
  const cases: Record<string, { tries: number; random: number; want: number }> = {
    "may be nothing at all": { tries: 3, random: 0, want: 0 },
    "is up to the shortest delay at first": { tries: 0, random: 1, want: 100 },
    "doubles with every try": { tries: 3, random: 1, want: 800 },
    "has a longest delay": { tries: 9, random: 1, want: 5_000 },
    "does not overflow": { tries: 5_000, random: 0.5, want: 2_500 },
  };
  for (const [name, { tries, random, want }] of Object.entries(cases)) {
    test(name, () => expect(fullJitter(tries, { ...bounds, random: () => random })).toBe(want));
  }
});

describe("a sleep", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const isOver = async (sleeping: Promise<void>) =>
    (await Promise.race([sleeping.then(() => true), vi.advanceTimersByTimeAsync(0)])) === true;

  test("ends with its time, or with its signal", async () => {
    const wake = new AbortController();
    const sleeping = sleep(1_000, wake.signal);
    await vi.advanceTimersByTimeAsync(999);
    expect(await isOver(sleeping)).toBe(false);
    wake.abort();
    expect(await isOver(sleeping)).toBe(true);
    expect(await isOver(sleep(1_000, wake.signal))).toBe(true);
    const other = sleep(10);
    await vi.advanceTimersByTimeAsync(10);
    expect(await isOver(other)).toBe(true);
  });

  test("of for ever is not over at once", async () => {
    const wake = new AbortController();
    const sleeping = sleep(Number.POSITIVE_INFINITY, wake.signal);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await isOver(sleeping)).toBe(false);
    wake.abort();
  });
});
