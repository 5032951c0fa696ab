// Before a change that costs a user something: what will happen, and whether to go on.

import type { WirePlan } from "../protocol/index.ts";
import { planLines } from "../sdk/index.ts";
import { type CliContext, CliError } from "./context.ts";
import type { PlanOptions } from "./options.ts";
import { formatOf, type OutputOptions, plainIfNeeded, toJson, toYaml } from "./output/print.ts";
import { printable } from "./output/text.ts";

export { type Affected, isHarmful, planLines, titleOfAffected } from "../sdk/index.ts";

/** The fields of a change; one of nothing is refused. */
export function somethingOf<Fields extends object>(fields: Fields, choices: string): Fields {
  if (Object.keys(fields).length > 0) return fields;
  throw new CliError("usage", "There is nothing to change.", `Say ${choices}.`);
}

/** The answer to `--dry-run`. */
export async function printPlan(
  what: string,
  plan: WirePlan,
  options: OutputOptions,
  context: CliContext,
): Promise<void> {
  const format = formatOf(options);
  if (format === "json" || format === "jsonl")
    return context.write(`${toJson(plan, format === "json" ? 2 : undefined)}\n`);
  if (format === "yaml") return context.write(await toYaml(plan));
  const touched = planLines(plan);
  const lines = [...(touched.length === 0 ? ["No request is touched."] : touched), ...plan.warnings];
  const text = lines.map((line) => `  ${printable(line)}\n`).join("");
  context.write(plainIfNeeded(`${printable(what)} (nothing is changed yet)\n${text}`, context));
}

/** Says what will happen and asks. Throws unless the answer is yes. */
export async function confirm(
  what: string,
  lines: readonly string[],
  { yes }: PlanOptions,
  context: CliContext,
): Promise<void> {
  if (yes === true) return;
  const said = lines.map((line) => `  ${printable(line)}\n`).join("");
  if (context.ask === undefined) {
    throw new CliError(
      "usage",
      `There is no terminal to ask on: ${what}${lines.length === 0 ? "" : ` ${lines.join("; ")}.`}`,
      "Add -y if you mean it, or --dry-run to see what would happen.",
    );
  }
  context.tell(`${printable(what)}\n${said}`);
  const answer = await context.ask("Go on? [y/N] ");
  if (!/^y(es)?$/i.test(answer)) throw new CliError("cancelled", "Nothing was changed.");
}
