// berth notify add|list|show|test|remove|desktop|watch: be told when requests start, are stopped, rejected or end (H2).

import type { Command } from "commander";
import type { NoticeKind, WireTarget } from "../protocol/index.ts";
import { CHOICES } from "./choices.ts";
import { type CliContext, CliError } from "./context.ts";
import {
  DESKTOP,
  type NoticeCommand,
  noticeFilePath,
  readCommands,
  saveCommand,
  showerOf,
} from "./notices/here.ts";
import { watchNotices } from "./notices/watch.ts";
import { type ConnectionOptions, given, oneOf, withConnection, withOutput } from "./options.ts";
import { type OutputOptions, printDone, printOne, printRows } from "./output/print.ts";
import { printable } from "./output/text.ts";
import { shownPath } from "./paths.ts";
import { connect, gather } from "./session.ts";
import { TARGET } from "./shapes.ts";

interface AddOptions extends ConnectionOptions, OutputOptions {
  /** Where notices go: the server is the one of the context. */
  readonly url?: string;
  readonly name?: string;
  readonly on?: string;
  readonly pool?: string;
  readonly askedOnly?: boolean;
}

const HELP = `
A target is where notices go: a channel of Slack or what is compatible with it, a webhook, or a command on this machine. The server
sends them as soon as something is decided, tries again for 24 hours, and never sends more than one a second: what is more
becomes one summary. Targets hear of what the token that added them reaches.

Examples:
  berth notify add slack --url https://hooks.slack.com/services/T0/B0/x --on preempted,ended --component alice
  berth notify add webhook --name ci --url https://ci.example.com/berth --pool cluster
  berth notify add command --name say -- sh -c 'espeak "$BERTH_NOTICE"'
  berth notify test slack
  berth notify desktop &
  berth run --notify slack --gpu 1 -- python train.py
`;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);
  defineAdd(command, context);
  defineLooks(command, context);
  defineHere(command, context);
}

function withFilter(command: Command): Command {
  return command
    .option("--on <kinds>", `of ${CHOICES.on.join(", ")}, separated by commas; by default all`)
    .option(
      "--component <component>",
      "only requests of this component; by default all that your token reaches",
    )
    .option("--pool <pool>", "only requests in this pool");
}

function defineAdd(command: Command, context: CliContext): void {
  const add = command
    .command("add")
    .usage("[options] <slack|webhook|command> [-- COMMAND...]")
    .description("send notices somewhere from now on")
    .argument("<target-kind>", "slack, webhook or command")
    .argument("[command...]", "of kind command: what to run, with the notice in BERTH_NOTICE")
    .option("--url <address>", "where to send them, with https")
    .option("--context <context>", "saved context to use")
    .option("--name <name>", "what to call it; by default its kind")
    .option("--asked-only", "only for requests that name it: berth run --notify NAME");
  withOutput(withFilter(add)).addHelpText(
    "after",
    `
The secret of a webhook is shown once: with it the receiver checks the signature of each message (Standard Webhooks).
A command is kept on this machine and run here, by \`berth notify watch\` and \`berth run --notify\`; the server never learns of it.

Examples:
  berth notify add slack --url https://hooks.slack.com/services/T0/B0/x
  berth notify add webhook --name ci --url https://ci.example.com/berth --on ended
  berth notify add command --name log --on ended -- logger -t berth
`,
  );
  add.action((kind: string, words: string[], options: AddOptions) =>
    oneOf("the kind of a target", kind, CHOICES.targetKind) === "command"
      ? addCommand(words, options, context)
      : addTarget(kind as WireTarget["kind"], words, options, context),
  );
}

function addCommand(words: readonly string[], options: AddOptions, context: CliContext): void {
  const { name = "command", component, pool } = options;
  if (words.length === 0) {
    throw new CliError(
      "usage",
      "There is no command to run for notices.",
      "Put it after `--`: -- logger -t berth",
    );
  }
  if (name === DESKTOP || Object.hasOwn(readCommands(), name)) {
    throw new CliError(
      "name_taken",
      `There is a target "${name}" on this machine already.`,
      "Choose another --name.",
    );
  }
  saveCommand(name, { command: [...words], on: kindsOf(options.on), ...given({ component, pool }) });
  context.tell(`${printable(`Command ${name} saved in ${shownPath(noticeFilePath())}.`)}\n`);
  context.tell(`Next:  ${context.program ?? "berth"} notify watch\n`);
}

async function addTarget(
  kind: WireTarget["kind"],
  words: readonly string[],
  options: AddOptions,
  context: CliContext,
): Promise<void> {
  const { name = kind, url, component, pool, askedOnly } = options;
  if (words.length > 0)
    throw new CliError("usage", `A target of kind ${kind} takes no command.`, "Use --url ADDRESS.");
  if (url === undefined) {
    throw new CliError(
      "usage",
      "Where should notices go?",
      "Add --to, such as --url https://example.com/hook.",
    );
  }
  const { client } = connect(given({ context: options.context }));
  const target = await client.targets.create({
    ...{ name, kind, url, on: [...kindsOf(options.on)] },
    ...given({ component, pool, asked_only: askedOnly }),
  });
  if (options.output !== undefined) return printOne(target, TARGET, options, context);
  if (target.secret !== undefined) context.write(`${target.secret}\n`);
  const secret = target.secret === undefined ? "" : " The secret is not shown again.";
  context.tell(`${printable(`Created target ${name}.${secret}`)}\n`);
  context.tell(`Next:  ${context.program ?? "berth"} notify test ${name}\n`);
}

function defineLooks(command: Command, context: CliContext): void {
  const list = command.command("list").alias("ls").description("where notices go, and how that goes");
  withOutput(withConnection(list)).addHelpText("after", "\nExamples:\n  berth notify list\n");
  list.action(async (options: ConnectionOptions & OutputOptions) => {
    const { client } = connect(options);
    await printRows(await gather(client.targets.all()), TARGET, options, context);
    const here = Object.entries(readCommands());
    if (here.length > 0)
      context.tell(printable(`On this machine: ${here.map(([name]) => name).join(", ")}`).concat("\n"));
  });
  const show = command.command("show").description("one target").argument("<target>", "its name");
  withOutput(withConnection(show)).addHelpText("after", "\nExamples:\n  berth notify show slack\n");
  show.action(async (name: string, options: ConnectionOptions & OutputOptions) => {
    await printOne(await connect(options).client.targets.get(name), TARGET, options, context);
  });
  const test = command.command("test").description("send a test").argument("<target>", "its name");
  withOutput(withConnection(test)).addHelpText("after", "\nExamples:\n  berth notify test slack\n");
  test.action(async (name: string, options: ConnectionOptions & OutputOptions) => {
    const { client } = connect(options);
    const { delivered, problem } = await client.targets.test(name);
    if (!delivered) {
      throw new CliError(
        "not_delivered",
        `The test did not arrive: ${problem}.`,
        "Check the address and the receiver.",
      );
    }
    const tested = await client.targets.get(name);
    await printDone(`The test has arrived at ${name}.`, tested, TARGET, options, context);
  });
  const remove = command.command("remove").alias("delete").description("send nothing there any more");
  withConnection(remove.argument("<target>", "its name")).addHelpText(
    "after",
    "\nExamples:\n  berth notify remove slack\n",
  );
  remove.action(async (name: string, options: ConnectionOptions) => {
    if (Object.hasOwn(readCommands(), name)) saveCommand(name, undefined);
    else await connect(options).client.targets.remove(name);
    context.tell(`${printable(`Target ${name} removed.`)}\n`);
  });
}

function defineHere(command: Command, context: CliContext): void {
  const desktop = command.command("desktop").description("show notices on this screen, until Ctrl-C");
  withConnection(withFilter(desktop)).addHelpText(
    "after",
    `
Uses notify-send, or osascript on macOS; without one of them it rings the bell of the terminal. Each notice is also a line on stdout.

Examples:
  berth notify desktop &
  berth notify desktop --on ended --component alice
`,
  );
  desktop.action(async (options: ConnectionOptions & { on?: string; pool?: string }) => {
    const { component, pool } = options;
    const { client } = connect(given({ url: options.url, context: options.context }));
    const show = showerOf(DESKTOP, context.tell)!;
    await watchNotices(client, [{ on: kindsOf(options.on), ...given({ component, pool }), show }], context);
  });
  const watch = command
    .command("watch")
    .description("run the commands of this machine for notices, until Ctrl-C");
  withConnection(watch.argument("[name...]", "which of them; by default all")).addHelpText(
    "after",
    "\nExamples:\n  berth notify watch &\n  berth notify watch log\n",
  );
  watch.action(async (names: string[], options: ConnectionOptions) => {
    const { client } = connect(options);
    await watchNotices(client, commandsNamed(names, context), context);
  });
}

function commandsNamed(names: readonly string[], { tell }: CliContext) {
  const commands = readCommands();
  const wanted = names.length === 0 ? Object.keys(commands) : names;
  if (wanted.length === 0) {
    throw new CliError(
      "not_found",
      "There is no command for notices on this machine.",
      "Add one: berth notify add command --name log -- logger -t berth",
    );
  }
  return wanted.map((name) => {
    const command: NoticeCommand | undefined = commands[name];
    const show = showerOf(name, tell);
    if (command === undefined || show === undefined) {
      throw new CliError("not_found", `There is no command "${name}" on this machine.`, "berth notify list");
    }
    return { ...command, show };
  });
}

function kindsOf(text: string | undefined): readonly NoticeKind[] {
  if (text === undefined) return CHOICES.on;
  return text.split(",").map((one) => oneOf("--on", one.trim(), CHOICES.on));
}
