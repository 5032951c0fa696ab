// Human sizes into whole units (R3). Decimal text is read digit by digit into a BigInt, because a floating
// point number would already have rounded what was written.

/** Something written by a person that could be read, or what is wrong with it and what to write instead. */
export type Parsed<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly message: string; readonly hint: string };

const BYTES_PER_MEGABYTE = 1_000_000n;

const BYTES_PER_UNIT: ReadonlyMap<string, bigint> = new Map(
  ["K", "M", "G", "T", "P"].flatMap((prefix, index) => {
    const power = BigInt(index + 1);
    return [
      [`${prefix}B`, 1000n ** power],
      [`${prefix}iB`, 1024n ** power],
    ];
  }),
);

const UNITS_TEXT = [...BYTES_PER_UNIT.keys()].join(" ");
const DIGITS_MAX = 40;

/** `16GiB` → 17180 decimal megabytes, rounded up. A number without a unit is refused: nobody agrees what it means. */
export function parseMemoryMb(written: string | number): Parsed<number> {
  const text = String(written).trim();
  const [, digits = "", unit = ""] = /^([0-9.]+)\s*([A-Za-z]*)$/.exec(text) ?? [];
  const amount = parseDecimal(digits);
  if (amount === undefined) {
    return unreadable(
      `"${shorten(text)}" is not a size of memory`,
      "Write a number and a unit, such as 16GiB.",
    );
  }
  if (unit === "") {
    return unreadable(
      `The memory "${shorten(text)}" has no unit`,
      `Write ${digits}MB, ${digits}GiB or another of ${UNITS_TEXT}.`,
    );
  }
  const bytesPerUnit = BYTES_PER_UNIT.get(unit);
  if (bytesPerUnit === undefined) {
    return unreadable(`"${shorten(unit)}" is not a unit of memory`, `The units are ${UNITS_TEXT}.`);
  }
  return inRange(ceilDivide(amount.digits * bytesPerUnit, amount.scale * BYTES_PER_MEGABYTE), text);
}

/** CPUs → milli-CPUs, rounded up: 2.5 → 2500, 0.0005 → 1. */
export function parseMcpu(written: string | number): Parsed<number> {
  const text = String(written).trim();
  const amount = parseDecimal(text);
  if (amount === undefined) {
    return unreadable(
      `"${shorten(text)}" is not a number of CPUs`,
      "Write a decimal number, such as 4 or 0.5.",
    );
  }
  return inRange(ceilDivide(amount.digits * 1000n, amount.scale), text);
}

export interface ResourceSettings {
  readonly gpu_count?: number | null | undefined;
  readonly cpu_count?: number | string | null | undefined;
  readonly memory?: string | number | null | undefined;
  readonly pool_resources?: Readonly<Record<string, number>> | null | undefined;
}

/** What the settings of a step ask for. Typed fields win over the same key of `pool_resources` (R3). */
export function parseSettings(settings: ResourceSettings): Parsed<Record<string, number>> {
  const resources: Record<string, number> = { ...settings.pool_resources };
  if (isGiven(settings.cpu_count)) {
    const mcpu = parseMcpu(settings.cpu_count);
    if (!mcpu.ok) return mcpu;
    if (mcpu.value === 0) return unreadable("0 CPUs are none", "Leave cpu_count out, or ask for some.");
    resources.mcpu = mcpu.value;
  }
  if (isGiven(settings.memory)) {
    const memoryMb = parseMemoryMb(settings.memory);
    if (!memoryMb.ok) return memoryMb;
    if (memoryMb.value === 0)
      return unreadable(`The memory "${settings.memory}" is none`, "Leave it out, or ask for some.");
    resources.memory_mb = memoryMb.value;
  }
  if (isGiven(settings.gpu_count)) resources.gpu = settings.gpu_count;
  if (settings.gpu_count === 0) delete resources.gpu;
  return { ok: true, value: resources };
}

/** A settings object that was written out by a program has `null` for what was not set. */
function isGiven<Value>(value: Value | null | undefined): value is Value {
  return value !== undefined && value !== null;
}

/** The number as `digits / scale`, both whole. */
interface Decimal {
  readonly digits: bigint;
  readonly scale: bigint;
}

/** Exponents are read because the text of a small number has one: `String(0.0000001)` is `1e-7`. */
function parseDecimal(text: string): Decimal | undefined {
  const match = /^(\d+)(?:\.(\d+))?(?:e([+-]?\d{1,3}))?$/i.exec(text);
  if (match === null) return undefined;
  const [, whole = "", fraction = "", exponent = "0"] = match;
  if (whole.length + fraction.length > DIGITS_MAX) return undefined;
  const power = Number(exponent) - fraction.length;
  const digits = BigInt(whole + fraction);
  return power >= 0
    ? { digits: digits * 10n ** BigInt(power), scale: 1n }
    : { digits, scale: 10n ** BigInt(-power) };
}

function ceilDivide(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}

function inRange(amount: bigint, text: string): Parsed<number> {
  if (amount <= BigInt(Number.MAX_SAFE_INTEGER)) return { ok: true, value: Number(amount) };
  return unreadable(`"${shorten(text)}" is more than can be counted exactly`, "Write a smaller amount.");
}

function unreadable(message: string, hint: string): Parsed<never> {
  return { ok: false, message: `${message}.`, hint };
}

function shorten(text: string): string {
  return text.length <= 40 ? text : `${text.slice(0, 39)}…`;
}
