// berth plan: what changes would do, before they are made (X1–X3). The changes are files as for `berth apply`, or the words of
// another command.

import { existsSync } from "node:fs";
import type { Command } from "commander";
import type { WirePlanAnswer } from "../protocol/index.ts";
import { accountLines, isBerthError, laterLines } from "../sdk/index.ts";
import { changesFor, readPresent } from "./apply/changes.ts";
import { readWanted } from "./apply/document.ts";
import { type CliContext, CliError, type CommandModule } from "./context.ts";
import { type ConnectionOptions, collect, withConnection, withOutput } from "./options.ts";
import { formatOf, type OutputOptions, plainIfNeeded, toJson, toYaml } from "./output/print.ts";
import { counted, printable } from "./output/text.ts";
import { durationSeconds } from "./parsing.ts";
import { changesOf, type PlannedChange } from "./planned.ts";
import { confirm, isHarmful, planLines } from "./plans.ts";
import { connect, type Session } from "./session.ts";

interface Options extends ConnectionOptions, OutputOptions {
  readonly file?: readonly string[];
  readonly prune?: boolean;
  readonly horizon?: string;
  readonly apply?: boolean;
  readonly yes?: boolean;
}

/** In a pool that is busy a plan may be outdated each time; then it is for the caller to decide. */
const TRIES_MAX = 3;

interface Commands {
  isCommand(word: string): boolean;
  run(words: readonly string[], context: CliContext): Promise<void>;
}

const HELP = `
Nothing is changed, unless --apply: then the changes are made as shown, if nothing has happened meanwhile in the pools that
they touch; otherwise they are planned anew.

Examples:
  berth plan pools.yaml
  berth plan policy update local alice --priority 5
  berth plan pool update lab --capacity gpu=3 --horizon 6h
  berth plan submit --gpu 4 --walltime 2h
  berth plan cancel 7
  berth plan pools.yaml --apply
`;

export function planning(commands: Commands): CommandModule {
  return {
    define(command: Command, context: CliContext) {
      withConnection(withOutput(command))
        .argument("[files_or_command...]", "files as for berth apply, or another command with its options")
        .option("-f, --file <file_or_dir>", "a file, a directory, or - for stdin; may be repeated", collect)
        .option("--prune", "delete what the files do not name")
        .option("--horizon <time>", "also who starts earlier or later in that time, by walltimes; such as 6h")
        .option("--apply", "make the changes as planned")
        .option("-y, --yes", "do not ask")
        .allowUnknownOption()
        .addHelpText("after", HELP)
        .action((words: string[], options: Options) => plan(words, options, commands, context));
    },
  };
}

async function plan(
  words: string[],
  options: Options,
  commands: Commands,
  context: CliContext,
): Promise<void> {
  const session = connect(options);
  const changes = await collectChanges(words, options, commands, { session, context });
  if (changes.length === 0) return context.tell("Nothing to change: everything is as in the files.\n");
  const horizon = options.horizon === undefined ? {} : { horizon_seconds: durationSeconds(options.horizon) };
  const body = { changes, ...horizon };
  for (let tries = 1; ; tries++) {
    const made = await session.client.plans.make(body);
    await show(made, options, context);
    if (options.apply !== true) return;
    if (isHarmful(made.now))
      await confirm(`Make ${counted(changes.length, "change")}?`, [], options, context);
    try {
      await session.client.plans.apply({ changes }, made.at_seq);
      return context.tell(`${counted(changes.length, "change")} made.\n`);
    } catch (error) {
      if (tries >= TRIES_MAX || !isBerthError(error, "plan_outdated")) throw error;
      context.tell("A pool that the plan touches has changed meanwhile. Planned anew:\n");
    }
  }
}

async function collectChanges(
  words: readonly string[],
  options: Options,
  commands: Commands,
  { session, context }: { session: Session; context: CliContext },
): Promise<PlannedChange[]> {
  const [first = ""] = words;
  const isFile = options.file !== undefined || (first !== "" && !commands.isCommand(first));
  if (first === "" && options.file === undefined)
    throw new CliError(
      "usage",
      "There is nothing to plan.",
      "Name files, or another command with its options.",
    );
  if (!isFile) return changesOf(() => commands.run([...words, ...connectionWords(options)], context));
  const files = [...(options.file ?? []), ...words];
  const missing = files.find((file) => file !== "-" && !existsSync(file));
  if (missing !== undefined)
    throw new CliError(
      "file_not_found",
      `"${missing}" is neither a file nor a command.`,
      "See berth plan --help.",
    );
  const wanted = await readWanted(files, context.readStdin);
  const present = await readPresent(session.client);
  const changes: PlannedChange[] = [];
  for (const change of changesFor(session.client, wanted, present, options.prune === true))
    changes.push(...(await changesOf(() => change.perform({ dryRun: true, force: false }))));
  return changes;
}

function connectionWords({ url, context }: ConnectionOptions): string[] {
  return [
    ...(url === undefined ? [] : ["--url", url]),
    ...(context === undefined ? [] : ["--context", context]),
  ];
}

async function show(made: WirePlanAnswer, options: OutputOptions, context: CliContext): Promise<void> {
  const format = formatOf(options);
  if (format === "json" || format === "jsonl")
    return context.write(`${toJson(made, format === "json" ? 2 : undefined)}\n`);
  if (format === "yaml") return context.write(await toYaml(made));
  const lines = [...planLines(made.now), ...accountLines(made), ...laterLines(made), ...made.warnings];
  const said = lines.length === 0 ? ["No request is touched."] : lines;
  const text = said.map((line) => `  ${printable(line)}\n`).join("");
  context.write(plainIfNeeded(`Plan at event ${made.at_seq}\n${text}`, context));
}
