// Exact fractions, for references that must not round.

export interface Fraction {
  readonly n: bigint;
  readonly d: bigint;
}

export const ZERO: Fraction = { n: 0n, d: 1n };
export const ONE: Fraction = { n: 1n, d: 1n };

/** A number as the fraction that it stands for in binary, so without loss. */
export function fractionOf(value: number): Fraction {
  let n = value;
  let d = 1n;
  while (!Number.isInteger(n)) {
    n *= 2;
    d *= 2n;
  }
  return reduced(BigInt(n), d);
}

export function toNumber({ n, d }: Fraction): number {
  // Scaled first: both parts may be far too large for a number.
  const scale = 10n ** 18n;
  return Number((n * scale) / d) / 1e18;
}

export const plus = (a: Fraction, b: Fraction): Fraction => reduced(a.n * b.d + b.n * a.d, a.d * b.d);
export const minus = (a: Fraction, b: Fraction): Fraction => reduced(a.n * b.d - b.n * a.d, a.d * b.d);
export const times = (a: Fraction, b: Fraction): Fraction => reduced(a.n * b.n, a.d * b.d);
export const over = (a: Fraction, b: Fraction): Fraction => reduced(a.n * b.d, a.d * b.n);
export const isLess = (a: Fraction, b: Fraction): boolean => a.n * b.d < b.n * a.d;
export const isEqual = (a: Fraction, b: Fraction): boolean => a.n === b.n && a.d === b.d;
export const least = (a: Fraction, b: Fraction): Fraction => (isLess(b, a) ? b : a);
export const greatest = (a: Fraction, b: Fraction): Fraction => (isLess(a, b) ? b : a);

function reduced(n: bigint, d: bigint): Fraction {
  if (d < 0n) return reduced(-n, -d);
  let a = n < 0n ? -n : n;
  let b = d;
  while (b > 0n) [a, b] = [b, a % b];
  return { n: n / a, d: d / a };
}
