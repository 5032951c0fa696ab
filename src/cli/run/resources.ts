// Resources as people write them: --gpu 2 --cpu 4 --memory 16GiB -r tensorrt_sessions=1.

import { type Parsed, parseMcpu, parseMemoryMb } from "../../protocol/index.ts";
import { CliError } from "../context.ts";

export interface ResourceOptions {
  readonly gpu?: string;
  readonly cpu?: string;
  readonly memory?: string;
  readonly resource?: readonly string[];
}

/** Units per key. The server judges whether they can be had. */
export function parseResources({ gpu, cpu, memory, resource = [] }: ResourceOptions): Record<string, number> {
  const resources: Record<string, number> = {};
  for (const text of resource) Object.assign(resources, parseMap(text));
  if (gpu !== undefined) resources.gpu = parseUnits("gpu", gpu);
  if (cpu !== undefined) resources.mcpu = readOrRefuse(parseMcpu(cpu));
  if (memory !== undefined) resources.memory_mb = readOrRefuse(parseMemoryMb(memory));
  return resources;
}

/** `gpu=8,mcpu=64000`, or a JSON object. */
export function parseMap(text: string): Record<string, number> {
  const entries = text.trim().startsWith("{") ? jsonEntries(text) : text.split(",").map(keyAndValue);
  return Object.fromEntries(entries.map(([key, value]) => [key, parseUnits(key, value)]));
}

function jsonEntries(text: string): [string, string][] {
  try {
    return Object.entries(JSON.parse(text) as Record<string, unknown>).map(([key, value]) => [
      key,
      String(value),
    ]);
  } catch {
    throw unreadable(text);
  }
}

function keyAndValue(text: string): [string, string] {
  const [, key, value] = /^\s*([^=\s]+)\s*=\s*([^=]+?)\s*$/.exec(text) ?? [];
  if (key === undefined || value === undefined) throw unreadable(text);
  return [key, value];
}

function unreadable(text: string): CliError {
  return new CliError(
    "invalid_amount",
    `"${text.slice(0, 60)}" does not say how much of what.`,
    "Write it like gpu=2, or gpu=2,mcpu=4000.",
  );
}

function parseUnits(key: string, text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new CliError(
    "invalid_amount",
    `"${text.slice(0, 40)}" is not an amount of ${key}.`,
    "Amounts are whole numbers.",
  );
}

export function readOrRefuse<Value>(parsed: Parsed<Value>): Value {
  if (parsed.ok) return parsed.value;
  throw new CliError("invalid_amount", parsed.message, parsed.hint);
}
