// Amounts as people write them: `gpu=8,memory_mb=64GiB`, JSON or YAML, and `--gpu 2 --cpu 4 --memory 16GiB -r licences=1`.

import { CliError } from "./context.ts";

export type Amounts = Record<string, number>;

export async function parseAmounts(text: string): Promise<Amounts> {
  const entries = await entriesOf(text);
  const amounts: Amounts = {};
  for (const [key, value] of entries) amounts[key] = await parseUnits(key, value);
  return amounts;
}

export interface ResourceOptions {
  readonly gpu?: string;
  readonly cpu?: string;
  readonly memory?: string;
  readonly resource?: readonly string[];
}

/** Units per key. The server judges whether they can be had. */
export async function parseResources(options: ResourceOptions): Promise<Amounts> {
  const { gpu, cpu, memory, resource = [] } = options;
  const resources: Amounts = {};
  for (const text of resource) Object.assign(resources, await parseAmounts(text));
  if (gpu !== undefined) resources.gpu = await parseUnits("gpu", gpu);
  if (cpu !== undefined) resources.mcpu = (await import("./parsing.ts")).mcpu(cpu);
  if (memory !== undefined) resources.memory_mb = (await import("./parsing.ts")).memoryMb(memory);
  return resources;
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
