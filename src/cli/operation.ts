// berth operation list|show|cancel: requests that belong together.

import type { Command } from "commander";
import type { WireOperation } from "../protocol/index.ts";
import type { CliContext } from "./context.ts";
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
import { confirm } from "./plans.ts";
import { connect, gather } from "./session.ts";
import { OPERATION } from "./shapes.ts";

const HELP = `
Requests with the same operation belong together: a pipeline run, an array of jobs.

Examples:
  berth operation list
  berth operation show sweep
  berth operation cancel sweep -y
`;

type Options = ConnectionOptions & OutputOptions & { readonly of?: string };

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);

  const list = command
    .command("list")
    .alias("ls")
    .description("operations with something that waits or runs");
  withWatch(list)
    .addHelpText("after", "\nExamples:\n  berth operation list\n")
    .action(async (options: Options & WatchOptions) => {
      const session = connect(options);
      const load = () => gather(session.client.operations.all());
      await showRows(session, { load, shape: OPERATION }, options, context);
    });

  const show = named(command.command("show").alias("describe").description("one operation"));
  withOutput(withConnection(show))
    .addHelpText("after", "\nExamples:\n  berth operation show sweep -o json\n")
    .action(async (operation: string, options: Options) => {
      const { client } = connect(options);
      await printOne<WireOperation>(
        await client.operations.get(operation, scopeOf(options)),
        OPERATION,
        options,
        context,
      );
    });

  const cancel = named(command.command("cancel").description("cancel all of it that waits or runs"));
  withConnection(cancel)
    .option("-y, --yes", "do not ask")
    .addHelpText("after", "\nExamples:\n  berth operation cancel sweep -y\n")
    .action(async (operation: string, options: Options & PlanOptions) => {
      const { client } = connect(options);
      const { statuses } = await client.operations.get(operation, scopeOf(options));
      const lines = Object.entries(statuses).map(([status, count]) => `${count} ${status}`);
      await confirm(`Cancel operation ${operation}?`, lines, options, context);
      const { cancelled } = await client.operations.cancel(operation, scopeOf(options));
      context.tell(`${printable(`Cancelled ${cancelled} requests of operation ${operation}.`)}\n`);
    });
}

function named(command: Command): Command {
  return command
    .argument("<operation>", "its name")
    .option("--of <component>", "of this component, where several have one of this name");
}

function scopeOf({ of }: Options): { component?: string } {
  return of === undefined ? {} : { component: of };
}
