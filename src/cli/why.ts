// berth why: why a request waits, runs where it runs, was stopped or was rejected. The words are the server's.

import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { WireExplanation, WireRequest, WireWhyText } from "../protocol/index.ts";
import type { Client } from "../sdk/index.ts";
import type { CliContext } from "./context.ts";
import { type ConnectionOptions, withConnection } from "./options.ts";
import {
  formatOf,
  type Line,
  type OutputOptions,
  plainIfNeeded,
  textOfLines,
  toJson,
  toYaml,
} from "./output/print.ts";
import { printable, wrapped } from "./output/text.ts";
import { connect, findRequest } from "./session.ts";

const HELP = `
What is short, who holds it, whose turn comes first and by which rule, what preemption would need, and when it could
start. Whatever it says would start the request now has been tried by the server, as a plan. Of a run: what of it is
borrowed, who could take it and what protects it.

Examples:
  berth why 2
  berth why train
  berth why 2 --all
  berth why 8 --before 7
  berth why 2 --watch
  berth why 2 -o json
`;

type WhyOptions = ConnectionOptions &
  OutputOptions & { readonly all?: boolean; readonly before?: string; readonly watch?: boolean };

export function define(command: Command, context: CliContext): void {
  withConnection(command.argument("<request...>", "numbers, names or ids"))
    .option("-o, --output <form>", "table, json, jsonl or yaml")
    .option("--all", "all changes that would start it, not only the three most useful")
    .option("--before <request>", "which of the two comes first in the queue, and by which part of the order")
    .option("-w, --watch", "go on, and say it again when the answer has changed")
    .addHelpText("after", HELP)
    .action((texts: string[], options: WhyOptions) => why(texts, options, context));
}

async function why(texts: readonly string[], options: WhyOptions, context: CliContext): Promise<void> {
  const { client } = connect(options);
  const other = options.before === undefined ? undefined : await findRequest(client, options.before);
  for (const text of texts) {
    const request = await findRequest(client, text);
    const ask = () => client.requests.explain(request.id, other === undefined ? {} : { before: other.id });
    if (options.watch === true) await watch(ask, options, context);
    else context.write(await shown(await ask(), options, context));
  }
}

async function shown(
  explanation: WireExplanation,
  options: WhyOptions,
  context: CliContext,
): Promise<string> {
  const format = formatOf(options);
  if (format === "json") return `${toJson(explanation, 2)}\n`;
  if (format === "jsonl") return `${toJson(explanation)}\n`;
  if (format === "yaml") return toYaml(explanation);
  const changes: Line[] =
    options.all === true ? explanation.suggestions.map(({ text }) => ["now if", text] as const) : [];
  const texts = explanation.text.map((text) => textOf(text, context, options.all === true));
  return texts.join("") + (changes.length === 0 ? "" : textOfLines(changes, context, "  "));
}

const WATCH_EVERY_MS = 2_000;
const OPEN: ReadonlySet<string> = new Set(["queued", "allocated", "preempting"]);

/** Says it again when it has become another answer, until the request has ended or the command is. */
async function watch(
  ask: () => Promise<WireExplanation>,
  options: WhyOptions,
  context: CliContext,
): Promise<void> {
  let before = "";
  while (context.signal?.aborted !== true) {
    const explanation = await ask();
    const text = await shown(explanation, options, context);
    if (timeless(text) !== before) context.write(text);
    before = timeless(text);
    if (!OPEN.has(explanation.status)) return;
    await sleep(WATCH_EVERY_MS, undefined, { signal: context.signal }).catch(() => undefined);
  }
}

/** That time has passed is no other answer. */
function timeless(text: string): string {
  return text.replaceAll(/\d[\d.]* ?(?:min|[dhms])(?:\d+[hms])*\b/g, "");
}

/** What the server says about a request, in each pool in which it waits. */
export async function tell(client: Client, request: WireRequest): Promise<readonly WireWhyText[]> {
  return (await client.requests.explain(request.id)).text;
}

export function textOf(
  { sentence, lines }: WireWhyText,
  context: CliContext,
  withoutChanges = false,
): string {
  const columns = context.screen?.columns() ?? Number.POSITIVE_INFINITY;
  const said = `${wrapped(printable(sentence), columns).join("\n")}\n`;
  const kept = lines.filter(({ label }) => !withoutChanges || label !== "now if");
  const shownLines = kept.map(({ label, text }): Line => [label, printable(text)]);
  return plainIfNeeded(said, context) + textOfLines(shownLines, context, "  ");
}
