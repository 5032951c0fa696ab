// Quantities of Kubernetes, such as 100m, 1.5Gi or 12e3, without a rounding that the cluster itself would not do. Pure.

const BINARY = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] as const;
/** Decimal suffixes, with the power of ten that each stands for. */
const DECIMAL: Readonly<Record<string, number>> = {
  ...{ n: -9, u: -6, m: -3, "": 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 },
};
const SHAPE = /^([+-]?)(\d+(?:\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]?|[eE][+-]?\d{1,3})$/;
/** Nothing smaller exists in Kubernetes: what is given more finely is rounded up, as it does it. */
const NANOS_DIGITS = 9;
const NANOS = 10n ** BigInt(NANOS_DIGITS);
const MEBI = 1n << 20n;

/** In billionths. Undefined: it is no quantity. */
export function parseQuantity(text: string): bigint | undefined {
  const [, sign, digits = "", suffix = ""] = SHAPE.exec(text) ?? [];
  if (sign === undefined) return undefined;
  const [whole = "", fraction = ""] = digits.split(".");
  const power = BINARY.indexOf(suffix as (typeof BINARY)[number]) + 1;
  const exponent = power > 0 ? 0 : (DECIMAL[suffix] ?? Number(suffix.slice(1)));
  const scale = NANOS_DIGITS + exponent - fraction.length;
  const number = BigInt(whole + fraction) * 1024n ** BigInt(power);
  const nanos = scale >= 0 ? number * 10n ** BigInt(scale) : dividedUp(number, 10n ** BigInt(-scale));
  return sign === "-" ? -nanos : nanos;
}

/** Thousandths of a processor, whole ones. */
export function toMcpu(nanos: bigint): number {
  return Number(nanos / (NANOS / 1000n));
}

/** Whole mebibytes. */
export function toMemoryMb(nanos: bigint): number {
  return Number(nanos / NANOS / MEBI);
}

/** Whole ones. */
export function toCount(nanos: bigint): number {
  return Number(nanos / NANOS);
}

function dividedUp(number: bigint, by: bigint): bigint {
  return (number + by - 1n) / by;
}
