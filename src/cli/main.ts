// The command line. To add a command, write a file with a `define` function and name it in the table below.
// A command's file is loaded only when that command is used, so that `berth` starts quickly.

import { Command, CommanderError } from "commander";
import { type CliContext, CliError, type CommandModule } from "./context.ts";

interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<CommandModule>;
}

const COMMANDS: readonly CommandEntry[] = [
  {
    name: "run",
    summary: "run a command as soon as its resources are granted",
    load: () => import("./run.ts"),
  },
  {
    name: "checkpoint",
    summary: "said by a running command: its state is saved, being saved, or not yet",
    load: () => import("./checkpoint.ts"),
  },
  {
    name: "scenario",
    summary: "run scenario files: small stories that test your pools and policies",
    load: () => import("./scenario.ts"),
  },
  { name: "version", summary: "print the version", load: () => import("./version.ts") },
];

const EXIT_USAGE = 2;
const EXIT_BERTH_FAILED = 125;

const EXAMPLES = `
Examples:
  berth scenario run scenarios/            try all stories of a directory
  berth scenario run --trace story.yaml    follow one step by step
  berth help scenario                      more about one command
`;

/** Runs one command line, without the program's own name, and says what to exit with. Never throws. */
export async function main(args: readonly string[], context: CliContext): Promise<number> {
  try {
    const program = await createProgram(args, context);
    await program.parseAsync(args, { from: "user" });
    return context.exitCode;
  } catch (error) {
    return await explain(error, context);
  }
}

async function createProgram(args: readonly string[], context: CliContext): Promise<Command> {
  const program = new Command("berth")
    .description(
      "Berth shares scarce compute between teams: pools, policies, fair queues, explained preemption.",
    )
    .version(context.version, "-V, --version")
    .addHelpText("after", EXAMPLES)
    .showHelpAfterError("(berth --help shows what there is)")
    .exitOverride()
    .configureOutput({ writeOut: context.write, writeErr: context.tell });

  const used = args.filter((arg) => !arg.startsWith("-")).slice(0, 2);
  for (const { name, summary, load } of COMMANDS) {
    // Commands made by `command()` inherit how the program reports errors and writes its output.
    const command = program.command(name).description(summary);
    if (used[0] === name || (used[0] === "help" && used[1] === name)) (await load()).define(command, context);
  }
  return program;
}

async function explain(error: unknown, context: CliContext): Promise<number> {
  // Commander has already said what is wrong with the command line; help and version end here too.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_USAGE;
  if (error instanceof CliError) {
    context.tell(`berth: ${error.message} [${error.code}]\n${error.hint === "" ? "" : `${error.hint}\n`}`);
    const { ERRORS } = await import("../protocol/index.ts");
    return ERRORS[error.code].exitCode;
  }
  const message = error instanceof Error ? error.message : String(error);
  context.tell(`berth: something failed inside Berth: ${message} [internal_error]\n`);
  return EXIT_BERTH_FAILED;
}
