// berth context list|use|show|delete: which server, as whom.

import type { Command } from "commander";
import { noContext, readContexts, type SavedContext, writeContexts } from "./connection.ts";
import { type CliContext, CliError } from "./context.ts";
import { withOutput } from "./options.ts";
import { type OutputOptions, printOne, printRows, type Shape } from "./output/print.ts";

/** Tokens are never shown. */
interface ShownContext {
  readonly name: string;
  readonly current: boolean;
  readonly url: string;
  readonly component: string | null;
}

const SHAPE: Shape<ShownContext> = {
  nameOf: ({ name }) => name,
  columns: [
    { name: "current", value: ({ current }) => (current ? "*" : "") },
    { name: "name", value: ({ name }) => name },
    { name: "url", value: ({ url }) => url },
    { name: "component", value: ({ component }) => component ?? "-" },
  ],
};

const HELP = `
What counts first: options, then BERTH_URL, BERTH_API_TOKEN and BERTH_CONTEXT, then the context in use.

Examples:
  berth context list
  berth context use local
  berth context show -o json
`;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);
  const list = command.command("list").alias("ls").description("all saved contexts");
  withOutput(list).addHelpText("after", "\nExamples:\n  berth context list\n");
  list.action((options: OutputOptions) => printRows(all(), SHAPE, options, context));

  command
    .command("use")
    .description("use this context from now on")
    .argument("<context>", "its name")
    .addHelpText("after", "\nExamples:\n  berth context use local\n")
    .action((name: string) => {
      const file = readContexts();
      if (!Object.hasOwn(file.contexts, name)) throw noContext(name, file);
      writeContexts({ ...file, current: name });
      context.write(`Using context ${name}.\n`);
    });

  const show = command.command("show").description("the context in use, or another one");
  withOutput(show.argument("[context]", "its name")).addHelpText(
    "after",
    "\nExamples:\n  berth context show\n",
  );
  show.action((name: string | undefined, options: OutputOptions) => {
    const wanted = name ?? (process.env.BERTH_CONTEXT || readContexts().current);
    const found = all().find((one) => one.name === wanted);
    if (found !== undefined) return printOne(found, SHAPE, options, context);
    if (wanted !== undefined) throw noContext(wanted, readContexts());
    throw new CliError(
      "not_found",
      "No context is in use.",
      "Start a server with `berth up`, or save one with `berth login URL`.",
    );
  });

  command
    .command("delete")
    .alias("rm")
    .description("forget a context and its token")
    .argument("<context>", "its name")
    .addHelpText("after", "\nExamples:\n  berth context delete old-lab\n")
    .action((name: string) => {
      const file = readContexts();
      if (!Object.hasOwn(file.contexts, name)) throw noContext(name, file);
      const { [name]: _, ...contexts } = file.contexts;
      const { current } = file;
      writeContexts(current === undefined || current === name ? { contexts } : { current, contexts });
      context.write(`Context ${name} deleted.\n`);
    });
}

function all(): ShownContext[] {
  const { current, contexts } = readContexts();
  const inUse = process.env.BERTH_CONTEXT || current;
  return Object.entries(contexts).map(([name, { url, component }]: [string, SavedContext]) => ({
    name,
    current: name === inUse,
    url,
    component: component ?? null,
  }));
}
