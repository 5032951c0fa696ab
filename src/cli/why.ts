// berth why: why a request waits, was stopped or was rejected.

import type { Command } from "commander";
import type { WirePoolExplanation, WireRequest } from "../protocol/index.ts";
import type { Client } from "../sdk/index.ts";
import type { CliContext } from "./context.ts";
import { type ConnectionOptions, withConnection } from "./options.ts";
import { formatOf, type OutputOptions, plainIfNeeded, textOfLines, toJson, toYaml } from "./output/print.ts";
import { printable, wrapped } from "./output/text.ts";
import { connect, findRequest, gather } from "./session.ts";
import { type Situation, type Told, tellOther, tellWaiting } from "./why/words.ts";

const HELP = `
What is short, who holds it, whose turn comes first and by which rule, what preemption would need, and when it could
start. Whatever it says would start the request now has been tried by the server, as a plan.

Examples:
  berth why 2
  berth why train
  berth why 2 --all
  berth why 2 -o json
`;

type WhyOptions = ConnectionOptions & OutputOptions & { readonly all?: boolean };

export function define(command: Command, context: CliContext): void {
  withConnection(command.argument("<request...>", "numbers, names or ids"))
    .option("-o, --output <form>", "table, json, jsonl or yaml")
    .option("--all", "all changes that would start it, not only the three most useful")
    .addHelpText("after", HELP)
    .action((texts: string[], options: WhyOptions) => why(texts, options, context));
}

async function why(texts: readonly string[], options: WhyOptions, context: CliContext): Promise<void> {
  const format = formatOf(options);
  const { client } = connect(options);
  for (const text of texts) {
    const request = await findRequest(client, text);
    if (format === "table" || format === "wide") {
      for (const told of await tell(client, request, options.all === true))
        context.write(textOf(told, context));
      continue;
    }
    const explanation = await client.requests.explain(request.id);
    if (format === "json") context.write(`${toJson(explanation, 2)}\n`);
    else if (format === "jsonl") context.write(`${toJson(explanation)}\n`);
    else context.write(await toYaml(explanation));
  }
}

export async function tell(client: Client, request: WireRequest, showsAll = false): Promise<Told[]> {
  const explanation = await client.requests.explain(request.id);
  if (explanation.pools.length === 0) {
    const by = explanation.stop?.for_request ?? null;
    return [
      tellOther(request, explanation, by === null ? undefined : await orUndefined(client.requests.get(by))),
    ];
  }
  return Promise.all(
    explanation.pools.map(async (facts) =>
      tellWaiting({
        ...{ request, facts, suggestions: explanation.suggestions, showsAll },
        ...(await around(client, facts)),
      }),
    ),
  );
}

/** The pool and the others in the story, as far as they may be seen. */
async function around(
  client: Client,
  { pool: name, blocked_by: blocker }: WirePoolExplanation,
): Promise<Pick<Situation, "pool" | "head" | "stopping" | "policyOf">> {
  const headId = "head" in blocker ? blocker.head : null;
  const stoppingIds = blocker.rule === "holds" ? blocker.waits_for.filter((id) => id !== null) : [];
  const [pool, policies, head, ...stopping] = await Promise.all([
    client.pools.get(name),
    gather(client.policies.all(name)),
    headId === null ? undefined : orUndefined(client.requests.get(headId)),
    ...stoppingIds.slice(0, LOOKED_UP_MAX).map((id) => orUndefined(client.requests.get(id))),
  ]);
  const byComponent = new Map(policies.map((policy) => [policy.component, policy]));
  return {
    pool,
    head,
    stopping: stopping.filter((run) => run !== undefined),
    policyOf: (component) => byComponent.get(component) ?? NO_POLICY,
  };
}

const LOOKED_UP_MAX = 5;
const NO_POLICY = { priority: 0, reserved: {} };

/** What has gone in the meantime, or may not be seen, is left out. */
function orUndefined<T>(asked: Promise<T>): Promise<T | undefined> {
  return asked.catch(() => undefined);
}

export function textOf({ sentence, lines }: Told, context: CliContext): string {
  const columns = context.screen?.columns() ?? Number.POSITIVE_INFINITY;
  const said = `${wrapped(printable(sentence), columns).join("\n")}\n`;
  return plainIfNeeded(said, context) + textOfLines(lines, context, "  ");
}
