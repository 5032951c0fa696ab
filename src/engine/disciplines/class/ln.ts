// The natural logarithm, of our own: runtimes may round theirs differently, and a replay must see the same order.

/** ln(2) in two parts, the first with so few digits that small multiples of it are exact. */
const LN_2_HIGH = 0.6931471803691238;
const LN_2_LOW = 1.908214929270587e-10;

/** 1/3, 1/5, … 1/25: with arguments this small the next term is below the precision of a number. */
const COEFFICIENTS = Array.from({ length: 12 }, (_, i) => 1 / (2 * i + 3)).reverse();

/** ln(x) for x ≥ 1, to about the last digit; only additions, multiplications and one division. */
export function ln(x: number): number {
  let twos = 0;
  let rest = x;
  for (; rest > 1.41; twos++) rest /= 2; // Halving is exact. Now 0.705 < rest ≤ 1.41.
  // ln(rest) = 2·artanh(s) = 2·(s + s³/3 + s⁵/5 + …), and |s| < 0.174.
  const s = (rest - 1) / (rest + 1);
  const square = s * s;
  let series = 0;
  for (const coefficient of COEFFICIENTS) series = (series + coefficient) * square;
  return twos * LN_2_HIGH + (twos * LN_2_LOW + 2 * (s + s * series));
}
