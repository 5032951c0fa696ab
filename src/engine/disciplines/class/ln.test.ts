import { expect, test } from "vitest";
import { ln } from "./ln.ts";

test("it agrees with the logarithm of the runtime to about the last digit", () => {
  for (let x = 1; x < 1e7; x = x * 1.0007 + 1e-5) {
    expect(Math.abs(ln(x) - Math.log(x))).toBeLessThanOrEqual(4e-16 * Math.max(1, Math.log(x)));
  }
});

test("it is exact where the logarithm is nothing", () => expect(ln(1)).toBe(0));

test("it never falls from one hour, minute or second of waiting to the next", () => {
  for (const stepMs of [1000, 60_000, 3_600_000]) {
    let before = 0;
    for (let waitMs = 0; waitMs < 20_000 * stepMs; waitMs += stepMs) {
      const now = ln(1 + waitMs / 3_600_000);
      expect(now).toBeGreaterThanOrEqual(before);
      before = now;
    }
  }
});
