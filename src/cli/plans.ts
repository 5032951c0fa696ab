// Before a change that costs a user something: what will happen, and whether to go on.

import type { WirePlan, WirePlanAnswer } from "../protocol/index.ts";
import { type CliContext, CliError } from "./context.ts";
import type { PlanOptions } from "./options.ts";
import { formatOf, type OutputOptions, plainIfNeeded, toJson, toYaml } from "./output/print.ts";
import { counted, durationText, printable } from "./output/text.ts";

const SHOWN_MAX = 10;

export type Affected = WirePlan["cancelled"][number];
/** What happens to requests, in a plan of one change or of several. */
type Effects = WirePlanAnswer["now"];

/** In words; empty if nobody is touched. */
export function planLines(plan: Effects): string[] {
  const { granted, preempted, rejected, cancelled, stopped, lost } = plan;
  return [
    ...about(lost, "loses its node", "lose their nodes"),
    ...about(preempted, "is preempted", "are preempted", ({ reason }) => ` (${reason})`),
    ...about(
      stopped.filter(({ at }) => at === undefined),
      "is stopped",
      "are stopped",
    ),
    ...about(
      stopped.filter(({ at }) => at !== undefined),
      "is stopped later",
      "are stopped later",
      ({ at = "" }) => ` (in ${durationText((Date.parse(at) - Date.now()) / 1000)} unless it ends before)`,
    ),
    ...about(cancelled, "is cancelled", "are cancelled"),
    ...about(
      rejected,
      "is rejected",
      "are rejected",
      ({ reasons }) => ` (${[...new Set(reasons.map(({ code }) => code))].join(", ")})`,
    ),
    ...about(granted, "starts", "start"),
  ];
}

/** Whether anybody loses something by it. */
export function isHarmful({ preempted, rejected, cancelled, stopped, lost }: Effects): boolean {
  return preempted.length + rejected.length + cancelled.length + stopped.length + lost.length > 0;
}

function about<Item extends Affected>(
  items: readonly Item[],
  one: string,
  many: string,
  detail: (item: Item) => string = () => "",
): string[] {
  if (items.length === 0) return [];
  const shown = items.slice(0, SHOWN_MAX).map((item) => `${titleOfAffected(item)}${detail(item)}`);
  const more = items.length > SHOWN_MAX ? ` and ${items.length - SHOWN_MAX} more` : "";
  return [
    `${counted(items.length, "request")} ${items.length === 1 ? one : many}: ${shown.join(", ")}${more}`,
  ];
}

export function titleOfAffected({ number, name, component }: Affected): string {
  if (number === undefined) return "another team's";
  const title = name ? `#${number} ${printable(name)}` : `#${number}`;
  return component === undefined ? title : `${title} of ${printable(component)}`;
}

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
  const lines = planLines(plan);
  const text =
    lines.length === 0 ? "  No request is touched.\n" : lines.map((line) => `  ${line}\n`).join("");
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
