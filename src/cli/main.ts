// The command line. To add a command, write a file with a `define` function and name it in the table below.
// A command's file is loaded only when that command is used, so that `berth` starts quickly.

import { Command, CommanderError } from "commander";
import { type CliContext, CliError, type CommandModule } from "./context.ts";
import { printable } from "./output/text.ts";

interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  readonly group: string;
  readonly isHidden?: boolean;
  readonly load: () => Promise<CommandModule>;
}

const DAILY = "Every day:";
const ADMINISTRATION = "Administration:";
const SERVER = "The server:";
const HERE = "On this machine:";

const COMMANDS: readonly CommandEntry[] = [
  entry(DAILY, "up", "start Berth on this machine, with a pool to try it", () => import("./up.ts")),
  entry(DAILY, "down", "stop what `berth up` has started", () => import("./down.ts")),
  entry(DAILY, "run", "run a command as soon as its resources are granted", () => import("./run.ts")),
  entry(
    DAILY,
    "submit",
    "have a command started where there is room, or only ask",
    () => import("./submit.ts"),
  ),
  entry(DAILY, "logs", "the output of a job", () => import("./logs.ts")),
  entry(DAILY, "ps", "what runs and what waits", () => import("./ps.ts")),
  entry(DAILY, "why", "why a request waits, was stopped or was rejected", () => import("./why.ts")),
  entry(DAILY, "show", "one request, pool or node at length", () => import("./show.ts")),
  entry(DAILY, "cancel", "cancel requests; what runs is stopped first", () => import("./cancel.ts")),
  entry(DAILY, "events", "what happens, as it happens", () => import("./events.ts")),
  entry(DAILY, "share", "who is owed how much, and who has it", () => import("./share.ts")),
  entry(DAILY, "wait", "until requests have started or ended", () => import("./wait.ts")),
  entry(DAILY, "top", "pools, what runs, and what waits and why, on one screen", () => import("./top.ts")),
  entry(DAILY, "usage", "unit-hours per team, pool, user or month", () => import("./usage.ts")),
  entry(DAILY, "notify", "be notified when requests start, are stopped or end", () => import("./notify.ts")),
  entry(DAILY, "dashboard", "a link that opens the dashboard in a browser", () => import("./dashboard.ts")),
  entry(DAILY, "demo", "see borrowing, a queue and a reclaim in under a minute", () => import("./demo.ts")),
  entry(DAILY, "job", "jobs: list, show, logs, cancel, signal", () => import("./job.ts")),
  entry(
    DAILY,
    "operation",
    "requests that belong together: list, show, cancel",
    () => import("./operation.ts"),
  ),
  entry(ADMINISTRATION, "pool", "pools: capacity, discipline, settings", () => import("./pool.ts")),
  entry(ADMINISTRATION, "policy", "policies: who may use how much of a pool", () => import("./policy.ts")),
  entry(ADMINISTRATION, "group", "groups of a pool's share tree", () => import("./group.ts")),
  entry(ADMINISTRATION, "node", "nodes of node-backed pools", () => import("./node.ts")),
  entry(
    ADMINISTRATION,
    "request",
    "requests: submit, list, show, cancel, delete",
    () => import("./request.ts"),
  ),
  entry(ADMINISTRATION, "token", "tokens: who may do what", () => import("./token.ts")),
  entry(ADMINISTRATION, "plan", "what changes would do, before they are made", loadPlan),
  entry(ADMINISTRATION, "apply", "make pools, groups and policies as files say", () => import("./apply.ts")),
  entry(
    ADMINISTRATION,
    "export",
    "write pools, groups and policies as such a file",
    () => import("./export.ts"),
  ),
  entry(
    ADMINISTRATION,
    "scenario",
    "run scenario files: stories that test your pools and policies",
    () => import("./scenario.ts"),
  ),
  entry(SERVER, "serve", "run a server for a team", () => import("./serve.ts")),
  entry(
    SERVER,
    "agent",
    "make this machine a node, and run what is placed on it",
    () => import("./agent.ts"),
  ),
  entry(SERVER, "adapter", "let Slurm or Kubernetes run the jobs of a pool", () => import("./adapter.ts")),
  entry(SERVER, "backup", "copy the embedded store while a server runs", () => import("./backup.ts")),
  entry(SERVER, "restore", "put such a copy back", () => import("./restore.ts")),
  entry(SERVER, "migrate", "move the store into PostgreSQL, or back", () => import("./migrate.ts")),
  entry(
    SERVER,
    "doctor",
    "check this machine, the context, the server and its data",
    () => import("./doctor.ts"),
  ),
  entry(SERVER, "cluster", "the servers on one database: status, handover", () => import("./cluster.ts")),
  entry(HERE, "login", "save a server and a token as a context", () => import("./login.ts")),
  entry(HERE, "context", "saved contexts: list, use, show, delete", () => import("./contexts.ts")),
  entry(
    HERE,
    "checkpoint",
    "said by a running command: its state is saved, being saved, or not yet",
    () => import("./checkpoint.ts"),
  ),
  entry(HERE, "completion", "completion for bash, zsh and fish", () => import("./completion.ts")),
  entry(HERE, "version", "print the version", () => import("./version.ts")),
  entry(
    "As in ZenML:",
    "resource-pool",
    "pools and policies, spelled as in ZenML",
    () => import("./resource-pool.ts"),
  ),
  entry(
    "As in ZenML:",
    "resource-request",
    "requests, spelled as in ZenML",
    () => import("./resource-request.ts"),
  ),
  { ...entry("", "__complete", "", loadCompletion), isHidden: true },
];

function entry(
  group: string,
  name: string,
  summary: string,
  load: () => Promise<CommandModule>,
): CommandEntry {
  return { group, name, summary, load };
}

/** A plan is made of other commands, which are run as far as the calls that they would make. */
async function loadPlan(): Promise<CommandModule> {
  return (await import("./plan.ts")).planning({
    isCommand: (word) => commandNames.includes(word),
    run: async (words, context) => {
      await (await createProgram(words, context)).parseAsync(words, { from: "user" });
    },
  });
}

/** Completion needs the program, which is why it is given and not imported there. */
async function loadCompletion(): Promise<CommandModule> {
  return (await import("./complete.ts")).completing(createProgram);
}

const EXIT_USAGE = 2;
const EXIT_BERTH_FAILED = 125;

const EXAMPLES = `
Examples:
  berth up --capacity gpu=2          start here
  berth run --gpu 1 -- echo hello    run something under a grant
  berth ps                           what runs and what waits
  berth why 2                        why request #2 waits
  berth help pool                    more about one command

Everywhere: -o json and its relatives, --help with examples, names, numbers (42 or #42) and beginnings of names.
`;

export const commandNames: readonly string[] = COMMANDS.filter(({ isHidden }) => !isHidden).map(
  ({ name }) => name,
);

/** Runs one command line, without the program's own name, and says what to exit with. Never throws. */
export async function main(args: readonly string[], context: CliContext): Promise<number> {
  try {
    const words = withoutHelpVerb(args);
    const program = await createProgram(words, context);
    await program.parseAsync(words, { from: "user" });
    return context.exitCode;
  } catch (error) {
    return await explain(error, context, wantsJson(args));
  }
}

/** `help pool create` is `pool create --help`. */
function withoutHelpVerb(args: readonly string[]): readonly string[] {
  const [verb, ...path] = args;
  if (verb !== "help" || path.length === 0) return args;
  return COMMANDS.some(({ name }) => name === path[0]) ? [...path, "--help"] : path;
}

/** The program with the commands that these words name at length, and the others in name only. */
export async function createProgram(args: readonly string[], context: CliContext): Promise<Command> {
  const program = new Command("berth")
    .description(
      "Berth shares scarce compute between teams: pools, policies, fair queues, explained preemption.",
    )
    .version(context.version, "-V, --version")
    .addHelpText("after", EXAMPLES)
    .exitOverride()
    .configureOutput({
      writeOut: context.write,
      writeErr: context.tell,
      getOutHelpWidth: () => context.screen?.columns() ?? 100,
      getErrHelpWidth: () => context.screen?.columns() ?? 100,
      outputError: () => undefined, // Errors are printed in one place.
    });

  const used = args.find((arg) => !arg.startsWith("-"));
  for (const { name, summary, group, load, isHidden = false } of COMMANDS) {
    // Commands made by `command()` inherit how the program reports errors and writes its output.
    const command = program.command(name, { hidden: isHidden }).description(summary).helpGroup(group);
    if (used === name) (await load()).define(command, context);
  }
  return program;
}

/** Known before anything is parsed, since what cannot be parsed must be told in the right form, too. */
function wantsJson(args: readonly string[]): boolean {
  const own = args[0] === "run" ? [] : args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  const at = own.findLastIndex((arg) => arg === "-o" || arg === "--output");
  const attached = own.findLast((arg) => /^(-o|--output=)./.test(arg));
  const form =
    own[at + 1] !== undefined && at >= 0 ? own[at + 1] : attached?.replace(/^(-o|--output=)=?/, "");
  return /^jsonl?$/.test(form ?? (process.env.BERTH_OUTPUT || ""));
}

async function explain(error: unknown, context: CliContext, isJson: boolean): Promise<number> {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0; // It was asked for help or for the version.
    if (error.code === "commander.help" && !isJson) return EXIT_USAGE; // What there is has been shown.
  }
  const { code, message, hint, exitCode, problem } = await knownError(error);
  if (isJson) await tellProblem(code, message, hint, context, problem);
  else context.tell(`berth: ${printable(message)} [${code}]\n${hint === "" ? "" : `${printable(hint)}\n`}`);
  const { ERRORS, isErrorCode } = await import("./problems.ts");
  return exitCode ?? (isErrorCode(code) ? ERRORS[code].exitCode : EXIT_BERTH_FAILED);
}

interface KnownError {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly exitCode?: number | undefined;
  readonly problem?: object | undefined;
}

async function knownError(error: unknown): Promise<KnownError> {
  if (error instanceof CliError) return error;
  const { hintAsCommand, OTHER_VERBS, withoutPointers } = await import("./hints.ts");
  if (error instanceof CommanderError) return usageError(error, OTHER_VERBS);
  const { isBerthError } = await import("../sdk/index.ts");
  if (isBerthError(error)) {
    const message = withoutPointers(withFields(error.message, error.problem));
    return { ...error, message, hint: hintAsCommand(error.hint) };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { code: "internal_error", message: `Something failed inside Berth: ${message}`, hint: "" };
}

/** Commander puts what may have been meant into brackets on a line of its own. */
function usageError(
  { code, message }: CommanderError,
  otherVerbs: Readonly<Record<string, string>>,
): CliError {
  if (code === "commander.help") return new CliError("usage", "A command is missing.");
  const [, what = "", meant] = /^(?:error: )?(.*?)\.?(?:\n\((.*)\))?$/s.exec(message) ?? [];
  const sentence = `${what.charAt(0).toUpperCase()}${what.slice(1)}.`;
  const [, verb = ""] = code === "commander.unknownCommand" ? (/'(.*)'/.exec(what) ?? []) : [];
  return new CliError("usage", sentence, otherVerbs[verb] ?? meant ?? "Add --help to see what there is.");
}

/** What is wrong with which field, after the sentence about the whole. */
function withFields(
  message: string,
  problem: { errors?: { pointer: string; message: string }[] | undefined } | undefined,
) {
  const errors = (problem?.errors ?? []).filter(
    ({ pointer }) => pointer === "" || !message.includes(pointer),
  );
  if (errors.length === 0) return message;
  return `${message} (${errors.map((field) => `${field.pointer} ${field.message}`).join("; ")})`;
}

async function tellProblem(
  code: string,
  detail: string,
  hint: string,
  context: CliContext,
  problem?: object,
): Promise<void> {
  const { isErrorCode, toProblem } = await import("./problems.ts");
  const { toJson } = await import("./output/print.ts");
  const known = isErrorCode(code) ? code : "internal_error";
  const told = problem ?? { ...toProblem(known, detail, hint === "" ? {} : { hint }), code };
  context.tell(`${toJson(told)}\n`);
}
