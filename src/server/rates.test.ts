import { beforeEach, expect, test } from "vitest";
import { createRateLimits, type RateLimits } from "./rates.ts";

let nowMs = 0;
let limits: RateLimits;

beforeEach(() => {
  nowMs = 1_000;
  limits = createRateLimits(
    {
      perToken: { perSecond: 5, burst: 10 },
      perStranger: { perSecond: 2, burst: 2 },
      allStrangers: { perSecond: Number.POSITIVE_INFINITY, burst: 0 },
      failedLoginsPerMinute: 3,
    },
    () => nowMs,
  );
});

/** How many calls of those that come at once are let through. */
function taken(check: () => void, calls = 100): number {
  let count = 0;
  for (let call = 0; call < calls; call++) {
    try {
      check();
      count++;
    } catch (error) {
      expect(error).toMatchObject({ problem: { code: "rate_limited" } });
    }
  }
  return count;
}

test("a burst may come at once, then it is the steady rate until the burst is there again", () => {
  const call = () => limits.checkToken("a", 1);
  expect(taken(call)).toBe(10);
  nowMs += 999;
  expect(taken(call)).toBe(0);
  nowMs += 1;
  expect(taken(call)).toBe(5);
  nowMs += 1_000;
  expect(taken(call)).toBe(10);
});

test("a call may count as several, and other callers are not concerned", () => {
  expect(taken(() => limits.checkToken("a", 5))).toBe(2);
  expect(taken(() => limits.checkToken("b", 1))).toBe(10);
});

test("a component is asked for as often as four tokens may call", () => {
  expect(taken(() => limits.checkComponent("x"))).toBe(20);
});

test("strangers of one network count together, and without a limit nothing is counted", () => {
  expect(taken(() => limits.checkStranger("2001:db8::1"))).toBe(2);
  expect(taken(() => limits.checkStranger("2001:db8::2"))).toBe(0);
  expect(taken(() => limits.checkStrangers())).toBe(100);
});

test("whoever guesses too often is not looked at for a minute from then on", () => {
  const guess = () => {
    limits.checkGuesses("192.0.2.1");
    limits.countGuess("192.0.2.1");
  };
  expect(taken(guess, 2)).toBe(2);
  nowMs += 30_000;
  expect(taken(guess)).toBe(2);
  nowMs += 59_999;
  expect(taken(guess)).toBe(0);
  expect(() => limits.checkGuesses("192.0.2.2")).not.toThrow();
  nowMs += 1;
  expect(taken(guess)).toBe(4);
});

test("it is said when the next call may come", () => {
  taken(() => limits.checkStranger("192.0.2.1"));
  nowMs += 400;
  expect(() => limits.checkStranger("192.0.2.1")).toThrow(
    expect.objectContaining({ headers: { "retry-after": "1" } }),
  );
});
