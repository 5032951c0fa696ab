// Options that many commands share, and values that many options take.

import type { Command } from "commander";
import { CliError } from "./context.ts";
import { FORMATS } from "./output/print.ts";

/** Which server, as whom. */
export function withConnection(command: Command): Command {
  return command
    .option("--url <url>", "server, or several separated by commas")
    .option("--context <context>", "saved context to use");
}

/** How to show what comes back. */
export function withOutput(command: Command): Command {
  return command
    .option("-o, --output <form>", FORMATS.join(", "))
    .option("--columns <names>", "columns to show, separated by commas, or all")
    .option("--no-headers", "leave the line of headings out");
}

/** For what is shown once, or again whenever it changes. */
export function withWatch(command: Command): Command {
  return withOutput(withConnection(command)).option("-w, --watch", "go on, and show what changes");
}

/** For whatever creates something. */
export function withIdempotencyKey(command: Command): Command {
  return command.option("--idempotency-key <key>", "the same key does it only once");
}

/** For changes that may cost a user something. */
export function withPlan(command: Command): Command {
  return command
    .option("--dry-run", "say what would happen, and change nothing")
    .option("--force", "also where it ends what is queued or running there, or leaves a debt")
    .option("-y, --yes", "do not ask");
}

export interface ConnectionOptions {
  readonly url?: string;
  readonly context?: string;
  readonly component?: string;
}

export interface PlanOptions {
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly yes?: boolean;
}

/** For options that may be given several times. */
export function collect(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

export function wholeNumber(option: string, text: string): number {
  if (/^\d{1,12}$/.test(text)) return Number(text);
  throw new CliError("usage", `${option} takes a whole number, not "${text.slice(0, 40)}".`);
}

export function decimalNumber(option: string, text: string): number {
  if (/^\d{1,12}(\.\d{1,9})?$/.test(text)) return Number(text);
  throw new CliError("usage", `${option} takes a number, not "${text.slice(0, 40)}".`);
}

export function oneOf<const Choice extends string>(
  option: string,
  text: string,
  choices: readonly Choice[],
): Choice {
  const choice = choices.find((one) => one === text);
  if (choice !== undefined) return choice;
  throw new CliError("usage", `${option} is one of ${choices.join(", ")}, not "${text.slice(0, 40)}".`);
}

/** `team=vision`, as often as wanted. */
export function parseLabels(texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    texts.map((text) => {
      const [key = "", ...value] = text.split("=");
      if (key !== "" && value.length > 0) return [key, value.join("=")];
      throw new CliError("usage", `"${text.slice(0, 60)}" is not a label.`, "Write it like team=vision.");
    }),
  );
}

/** The fields that have a value: what was not said is not sent. */
export function given<Fields extends object>(
  fields: Fields,
): { [Key in keyof Fields]: NonNullable<Fields[Key]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
