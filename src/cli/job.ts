// berth job list|show|logs|cancel|signal

import type { Command } from "commander";
import type { WireJob } from "../protocol/index.ts";
import { CANCEL_HELP, cancel } from "./cancel.ts";
import type { CliContext } from "./context.ts";
import { define as defineLogs } from "./logs.ts";
import {
  type ConnectionOptions,
  type PlanOptions,
  withConnection,
  withOutput,
  withWatch,
} from "./options.ts";
import { type OutputOptions, printOne } from "./output/print.ts";
import { printable } from "./output/text.ts";
import { showRows, type WatchOptions } from "./output/watch.ts";
import { signalNamed } from "./run/plan.ts";
import { connect, findRequest, gather, titleOf } from "./session.ts";
import { JOB, REQUEST } from "./shapes.ts";

const HELP = `
A job is a request that Berth starts itself, on a node of a pool with an executor.

Examples:
  berth submit --gpu 1 -- python train.py
  berth job list
  berth job show 42
  berth logs -f 42
`;

type Options = ConnectionOptions & OutputOptions;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);

  const list = command.command("list").alias("ls").description("jobs that run and wait");
  withWatch(list)
    .option("-a, --all", "also those that have ended")
    .option("--operation <name>", "only those that belong to it")
    .addHelpText("after", "\nExamples:\n  berth job list\n  berth job list --all -o wide\n")
    .action((options: Options & WatchOptions & { all?: boolean; operation?: string }) =>
      listJobs(options, context),
    );

  const show = command
    .command("show")
    .alias("describe")
    .description("one job: what it runs, where, how it ended");
  withOutput(withConnection(show.argument("<job>", "number, name or id")))
    .addHelpText("after", "\nExamples:\n  berth job show 42\n  berth job show train -o json\n")
    .action(async (text: string, options: Options) => {
      const { client } = connect(options);
      const { id } = await findRequest(client, text);
      await printOne<WireJob>(await client.jobs.get(id), JOB, options, context);
    });

  defineLogs(command.command("logs").description("its output"), context);

  const end = command.command("cancel").description("cancel jobs; what runs is stopped first");
  withOutput(withConnection(end.argument("<job...>", "numbers, names or ids")))
    .option("--dry-run", "say what would happen, and change nothing")
    .option("-y, --yes", "do not ask")
    .addHelpText("after", CANCEL_HELP)
    .action((texts: string[], options: Options & PlanOptions) => cancel(texts, options, context));

  const signal = command.command("signal").description("send a signal to a job where it runs");
  withConnection(signal.argument("<job>", "number, name or id").argument("<signal>", "such as USR1"))
    .addHelpText("after", "\nExamples:\n  berth job signal 42 USR1\n")
    .action(async (text: string, name: string, options: ConnectionOptions) => {
      const { client } = connect(options);
      const request = await findRequest(client, text);
      const { delivered } = await client.jobs.signal(request.id, signalNamed(name));
      const what = delivered ? "Sent" : "The node has not confirmed";
      context.tell(`${printable(`${what} ${signalNamed(name)} to ${titleOf(request)}.`)}\n`);
    });
}

async function listJobs(
  options: Options & WatchOptions & { all?: boolean; operation?: string },
  context: CliContext,
): Promise<void> {
  const session = connect(options);
  const query = {
    limit: 1000,
    ...(options.all !== true && { status: "queued,allocated,preempting" }),
    ...(options.operation !== undefined && { operation: options.operation }),
  };
  const load = () => gather(session.client.jobs.all(query), 1000);
  await showRows(session, { load, shape: REQUEST }, options, context);
}
