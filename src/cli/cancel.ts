// berth cancel: what waits leaves the queue, what runs is stopped first.

import type { Command } from "commander";
import type { WirePlan, WireRequest } from "../protocol/index.ts";
import { hasEnded } from "../sdk/index.ts";
import type { CliContext } from "./context.ts";
import { type ConnectionOptions, type PlanOptions, withConnection, withOutput } from "./options.ts";
import { type OutputOptions, printDone } from "./output/print.ts";
import { amountsText, printable } from "./output/text.ts";
import { confirm, planLines, printPlan } from "./plans.ts";
import { connect, findRequest, titleOf } from "./session.ts";
import { REQUEST } from "./shapes.ts";

type Options = ConnectionOptions & OutputOptions & PlanOptions & { readonly abandoned?: boolean };

export const CANCEL_HELP = `
A run is asked to stop, and keeps its units until it has stopped. A grant that was not taken up ends at once.

Examples:
  berth cancel 42
  berth cancel train eval -y
  berth cancel 42 --dry-run
  berth cancel 42 --abandoned
  berth ps --status queued -o name | xargs berth cancel -y
`;

export function define(command: Command, context: CliContext): void {
  withOutput(withConnection(command.argument("<request...>", "numbers, names or ids")))
    .option("--abandoned", "for operators: its holder is silent and counts as lost; units come free at once")
    .option("--dry-run", "say what would happen, and change nothing")
    .option("-y, --yes", "do not ask")
    .addHelpText("after", CANCEL_HELP)
    .action((texts: string[], options: Options) => cancel(texts, options, context));
}

export async function cancel(texts: readonly string[], options: Options, context: CliContext): Promise<void> {
  const { client } = connect(options);
  const { abandoned = false } = options;
  const requests: WireRequest[] = [];
  for (const text of texts) {
    const request = await findRequest(client, text);
    if (!hasEnded(request)) requests.push(request);
    else context.tell(`${printable(`${titleOf(request)} has ended already: ${request.status}.`)}\n`);
  }
  if (requests.length === 0) return;
  const planned: { request: WireRequest; plan: WirePlan }[] = [];
  for (const request of requests) {
    planned.push({ request, plan: await client.requests.cancel(request.id, { abandoned, dryRun: true }) });
  }
  if (options.dryRun === true) {
    for (const { request, plan } of planned) {
      await printPlan(`${titleOf(request)} would be cancelled.`, plan, options, context);
    }
    return;
  }
  const lines = planned.flatMap(({ request, plan }) => [
    whatGoes(request, abandoned),
    ...planLines(withoutSelf(plan, request)),
  ]);
  await confirm(
    `Cancel ${requests.length === 1 ? titleOf(requests[0] as WireRequest) : `${requests.length} requests`}?`,
    lines,
    options,
    context,
  );
  for (const { id } of requests) {
    const after = await client.requests.cancel(id, { abandoned });
    await printDone(sentenceAbout(after), after, REQUEST, options, context);
  }
}

function whatGoes(request: WireRequest, abandoned: boolean): string {
  if (request.pool === null) return `${titleOf(request)} leaves the queue`;
  if (abandoned) return `${titleOf(request)} ends, and its units come free, whatever still runs`;
  return `${titleOf(request)} is stopped; ${amountsText(request.resources)} of pool ${request.pool} come free when it has ended`;
}

function withoutSelf(plan: WirePlan, { id }: WireRequest): WirePlan {
  const others = <Item extends { id: string | null }>(items: readonly Item[]) =>
    items.filter((item) => item.id !== id);
  return { ...plan, cancelled: others(plan.cancelled), stopped: others(plan.stopped) };
}

function sentenceAbout(request: WireRequest): string {
  return request.status === "cancelled" ? `Canceled ${titleOf(request)}.` : `Stopping ${titleOf(request)}.`;
}
