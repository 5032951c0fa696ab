// berth request submit|list|show|why|update|cancel|delete

import type { Command } from "commander";
import type { WireRequest } from "../protocol/index.ts";
import { type Client, isBerthError } from "../sdk/index.ts";
import { define as defineCancel } from "./cancel.ts";
import type { CliContext } from "./context.ts";
import { type ConnectionOptions, type PlanOptions, withConnection, withOutput } from "./options.ts";
import type { OutputOptions } from "./output/print.ts";
import { confirm } from "./plans.ts";
import { listRequests, type PsOptions, withFilters } from "./ps.ts";
import { connect, findRequest, titleOf } from "./session.ts";
import { define as defineShow } from "./show.ts";
import { define as defineSubmit } from "./submit.ts";
import { define as defineUpdate } from "./update.ts";
import { define as defineWhy } from "./why.ts";

const HELP = `
Examples:
  berth request submit --gpu 1 --name train
  berth request list --status rejected
  berth request show 42
  berth request update 42 --walltime 2h
  berth request delete 42
`;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);
  defineSubmit(command.command("submit").alias("create").description("ask for resources"), context);

  const list = command.command("list").alias("ls").description("all requests, also ended ones");
  withFilters(list).addHelpText(
    "after",
    "\nExamples:\n  berth request list\n  berth request list --status failed,expired\n",
  );
  list.action((options: PsOptions) => listRequests(options, context));

  defineShow(command.command("show").alias("describe").description("one request at length"), context);
  defineWhy(command.command("why").description("why it waits, was stopped or was rejected"), context);
  defineUpdate(
    command.command("update").description("change a request that waits, or a little of one that runs"),
    context,
  );
  defineCancel(command.command("cancel").description("cancel requests"), context);

  const remove = command
    .command("delete")
    .alias("rm")
    .description("delete the record of an ended request")
    .argument("<request...>", "numbers, names or ids");
  withOutput(withConnection(remove))
    .option("--force", "cancel it first if it has not ended; its record goes when it has stopped")
    .option("-y, --yes", "do not ask")
    .addHelpText("after", "\nExamples:\n  berth request delete 42\n  berth request delete 42 43 -y\n");
  remove.action((texts: string[], options: ConnectionOptions & OutputOptions & PlanOptions) =>
    deleteRequests(texts, options, context),
  );
}

export async function deleteRequests(
  texts: readonly string[],
  options: ConnectionOptions & PlanOptions,
  context: CliContext,
): Promise<void> {
  const { client } = connect(options);
  const { force = false } = options;
  const requests = [];
  for (const text of texts) requests.push(await findRequest(client, text));
  const lines = requests.map(
    (request) => `${titleOf(request)}: ${request.status}, its record and its history go`,
  );
  await confirm(
    `Delete ${requests.length === 1 ? "this record" : "these records"}?`,
    lines,
    options,
    context,
  );
  for (const request of requests) {
    await client.requests.delete(request.id, { force });
    context.tell(`${await deletionText(client, request)}\n`);
  }
}

/** What runs is stopped first, and its record is deleted when it has ended. */
export async function deletionText(client: Client, request: WireRequest): Promise<string> {
  const isGone = await client.requests.get(request.id).then(
    () => false,
    (error: unknown) => isBerthError(error, "not_found"),
  );
  return isGone
    ? `Deleted ${titleOf(request)}.`
    : `Stopping ${titleOf(request)}. Its record is deleted when it has ended.`;
}
