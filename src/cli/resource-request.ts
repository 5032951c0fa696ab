// berth resource-request list|describe|delete: requests, spelled as in ZenML.

import type { Command } from "commander";
import type { WireRequest } from "../protocol/index.ts";
import { CHOICES } from "./choices.ts";
import type { CliContext } from "./context.ts";
import { oneOf, withConnection } from "./options.ts";
import { type OutputOptions, printOne } from "./output/print.ts";
import { showRows, type WatchOptions } from "./output/watch.ts";
import { deletionText } from "./request.ts";
import { connect, findRequest, gather } from "./session.ts";
import { REQUEST } from "./shapes.ts";
import { filterRows, type ListFilters, withListFilters, withZenOutput, ZEN_REQUEST } from "./zenml.ts";

const HELP = `
Examples:
  berth resource-request list --status queued
  berth resource-request describe 01234567-89ab-cdef-0123-456789abcdef
  berth resource-request delete 01234567-89ab-cdef-0123-456789abcdef
`;

type Options = OutputOptions & WatchOptions & { readonly url?: string; readonly context?: string };

interface RequestFilters extends ListFilters {
  readonly status?: string;
  readonly preemptible?: string;
  readonly component_id?: string;
  readonly step_run_id?: string;
  readonly pipeline_run_id?: string;
  readonly preemption_initiated_by_id?: string;
}

const LOOKED_AT_MAX = 100_000;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);
  const list = command.command("list").description("all requests that you can see");
  withListFilters(withZenOutput(withConnection(list)))
    .option("--status <status>", "only these; pending means queued")
    .option("--preemptible <bool>", "only those that may be preempted, or may not")
    .option("--component_id <component>", "only those of this component")
    .option("--step_run_id <name>", "only that of this step, by name")
    .option("--pipeline_run_id <operation>", "only those of this pipeline run")
    .option("--preemption_initiated_by_id <request>", "only those that are stopped for this one")
    .addHelpText(
      "after",
      "\nExamples:\n  berth resource-request list\n  berth resource-request list --status queued -o json\n",
    );
  list.action((options: Options & RequestFilters) => {
    const session = connect(options);
    const load = async () =>
      select(await gather(session.client.requests.all({ limit: 1000 }), LOOKED_AT_MAX), options);
    const columns = options.columns ?? "id,status,component,step_run,created";
    return showRows(session, { load, shape: ZEN_REQUEST }, { ...options, columns }, context);
  });

  const describe = command.command("describe").description("one request at length");
  withZenOutput(
    withConnection(describe.argument("<request>", "its id; also number, name or beginning")),
  ).addHelpText("after", "\nExamples:\n  berth resource-request describe 42\n");
  describe.action(async (text: string, options: Options) => {
    await printOne(await findRequest(connect(options).client, text), REQUEST, options, context);
  });

  const remove = command
    .command("delete")
    .description("drop a request; what has not ended is cancelled first");
  withConnection(remove.argument("<request>", "its id; also number, name or beginning")).addHelpText(
    "after",
    "\nExamples:\n  berth resource-request delete 42\n",
  );
  remove.action(async (text: string, options: Options) => {
    const { client } = connect(options);
    const request = await findRequest(client, text);
    await client.requests.delete(request.id, { force: true });
    context.tell(`${await deletionText(client, request)}\n`);
  });
}

function select(requests: readonly WireRequest[], filters: RequestFilters): WireRequest[] {
  const { status } = filters;
  if (status !== undefined && /^[a-z_]+$/.test(status) && status !== "pending")
    oneOf("--status", status, CHOICES.status);
  const fields = {
    status: filters.status === "pending" ? "queued" : filters.status,
    preemptible: filters.preemptible?.toLowerCase(),
    component: filters.component_id,
    name: filters.step_run_id,
    operation: filters.pipeline_run_id,
  };
  const by = filters.preemption_initiated_by_id;
  const chosen = by === undefined ? requests : requests.filter(({ stop }) => stop?.for_request === by);
  return filterRows(chosen, { ...filters, ...fields }, [
    ...Object.keys(fields),
    "id",
    "created",
    "updated",
    "user",
  ]);
}
