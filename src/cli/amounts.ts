// Maps of amounts as people write them: `gpu=8,memory_mb=64GiB`, JSON, or YAML.

import { CliError } from "./context.ts";

export type Amounts = Record<string, number>;

export async function parseAmounts(text: string): Promise<Amounts> {
  const entries = await entriesOf(text);
  const amounts: Amounts = {};
  for (const [key, value] of entries) amounts[key] = await parseUnits(key, value);
  return amounts;
}

/** The same amounts as JSON, without what comes after a decimal point: 4.9 is 4 in ZenML. */
export async function withoutFractions(text: string): Promise<string> {
  const entries = await entriesOf(text);
  const whole = (value: unknown) => String(value).replace(/^\s*(-?\d+)\.\d+\s*$/, "$1");
  return JSON.stringify(Object.fromEntries(entries.map(([key, value]) => [key, whole(value)])));
}

async function entriesOf(text: string): Promise<[string, unknown][]> {
  const trimmed = text.trim();
  if (!/^[[{]/.test(trimmed) && trimmed.includes("=")) return trimmed.split(",").map(keyAndValue);
  const { parse } = await import("./yaml.ts"); // JSON is YAML, too.
  let parsed: unknown;
  try {
    parsed = parse(trimmed, { uniqueKeys: true });
  } catch {
    throw unreadable(text);
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw unreadable(text);
  return Object.entries(parsed);
}

function keyAndValue(text: string): [string, unknown] {
  const [, key, value] = /^\s*([^=\s]+)\s*=\s*([^=]+?)\s*$/.exec(text) ?? [];
  if (key === undefined || value === undefined) throw unreadable(text);
  return [key, value];
}

/** Whole numbers; of memory also sizes. Whether they make sense is the server's to judge. */
async function parseUnits(key: string, value: unknown): Promise<number> {
  const text = String(value).trim();
  if (/^-?\d{1,15}$/.test(text)) return Number(text);
  if (key === "memory_mb" && /[A-Za-z]$/.test(text)) {
    return (await import("./parsing.ts")).memoryMb(text);
  }
  throw new CliError(
    "invalid_amount",
    `"${text.slice(0, 40)}" is not an amount of ${key}.`,
    "Amounts are whole numbers.",
  );
}

function unreadable(text: string): CliError {
  return new CliError(
    "invalid_amount",
    `"${text.slice(0, 60)}" does not say how much of what.`,
    `Write it like gpu=8,mcpu=64000, or as JSON or YAML: '{"gpu": 8}'.`,
  );
}
