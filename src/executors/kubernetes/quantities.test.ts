import fc from "fast-check";
import { expect, test } from "vitest";
import { parseQuantity, toCount, toMcpu, toMemoryMb } from "./quantities.ts";

const cases: Record<string, bigint | undefined> = {
  "0": 0n,
  "1": 1_000_000_000n,
  "+1": 1_000_000_000n,
  "-1": -1_000_000_000n,
  "1.": 1_000_000_000n,
  ".5": 500_000_000n,
  "100m": 100_000_000n,
  "1930m": 1_930_000_000n,
  "250u": 250_000n,
  "7n": 7n,
  "0.1n": 1n,
  "1.0000000001": 1_000_000_001n,
  "1k": 1_000n * 1_000_000_000n,
  "1Ki": 1_024n * 1_000_000_000n,
  "1.5Gi": 1_610_612_736n * 1_000_000_000n,
  "0.1Ki": 102_400_000_000n,
  "16Ei": 18_446_744_073_709_551_616n * 1_000_000_000n,
  "2E": 2_000_000_000_000_000_000n * 1_000_000_000n,
  "12e3": 12_000n * 1_000_000_000n,
  "12E3": 12_000n * 1_000_000_000n,
  "1e-3": 1_000_000n,
  "16301060Ki": 16_692_285_440n * 1_000_000_000n,
  "": undefined,
  ".": undefined,
  "1 Gi": undefined,
  "1gi": undefined,
  "1K": undefined,
  "1Mi1": undefined,
  "0x10": undefined,
  "1e": undefined,
  "१": undefined,
};

for (const [text, want] of Object.entries(cases))
  test(`K3: "${text}" is ${want === undefined ? "no quantity" : `${want} billionths`}`, () =>
    expect(parseQuantity(text)).toBe(want));

test("K3: amounts are whole, and never more than there is", () => {
  expect(toMcpu(parseQuantity("1999999u") as bigint)).toBe(1_999);
  expect(toMemoryMb(parseQuantity("16301060Ki") as bigint)).toBe(15_919);
  expect(toMemoryMb(parseQuantity("1048575") as bigint)).toBe(0);
  expect(toCount(parseQuantity("7999m") as bigint)).toBe(7);
});

test("K3: every suffix is the power that it stands for", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 1_000_000 }),
      fc.constantFrom(
        ["Ki", 1024n],
        ["Mi", 1024n ** 2n],
        ["k", 1000n],
        ["M", 1000n ** 2n],
        ["G", 1000n ** 3n],
      ),
      (count, [suffix, power]) => {
        expect(parseQuantity(`${count}${suffix}`)).toBe(BigInt(count) * (power as bigint) * 1_000_000_000n);
      },
    ),
  );
});
