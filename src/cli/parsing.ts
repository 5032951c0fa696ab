// Values that need the parsers of the protocol. Loaded only by commands that were given such values, since the protocol
// brings all its schemas with it.

import { type Parsed, parseDurationSeconds, parseMcpu, parseMemoryMb } from "../protocol/index.ts";
import { CliError } from "./context.ts";

export function durationSeconds(text: string): number {
  const parsed = parseDurationSeconds(text);
  if (parsed.ok) return parsed.value;
  throw new CliError("usage", parsed.message, parsed.hint);
}

export function memoryMb(text: string): number {
  return orRefuse(parseMemoryMb(text));
}

export function mcpu(text: string): number {
  return orRefuse(parseMcpu(text));
}

function orRefuse(parsed: Parsed<number>): number {
  if (parsed.ok) return parsed.value;
  throw new CliError("invalid_amount", parsed.message, parsed.hint);
}

/** `grace_seconds=30s`, `backfill=none`, `share_keys=["gpu"]`: times may have units. */
export function parseSettings(texts: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    texts.map((text) => {
      const [key = "", ...rest] = text.split("=");
      const value = rest.join("=");
      if (key === "" || rest.length === 0) {
        throw new CliError(
          "usage",
          `"${text.slice(0, 60)}" is not a setting.`,
          "Write it like grace_seconds=30.",
        );
      }
      return [key, settingValue(value)];
    }),
  );
}

function settingValue(text: string): unknown {
  const duration = parseDurationSeconds(text);
  if (duration.ok) return duration.value;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
