// berth apply -f FILE_OR_DIR: makes pools, groups, nodes and policies as files say.

import type { Command } from "commander";
import { type BerthError, type Client, isBerthError } from "../sdk/index.ts";
import { type Change, changesFor, readPresent } from "./apply/changes.ts";
import { applySchema, readWanted } from "./apply/document.ts";
import { type CliContext, CliError } from "./context.ts";
import { type ConnectionOptions, collect, type PlanOptions, withConnection } from "./options.ts";
import { plainIfNeeded } from "./output/print.ts";
import { counted, printable } from "./output/text.ts";
import { changesOf, type PlannedChange } from "./planned.ts";
import { confirm, isHarmful, planLines } from "./plans.ts";
import { connect } from "./session.ts";

interface ApplyOptions extends ConnectionOptions, PlanOptions {
  readonly file?: readonly string[];
  readonly prune?: boolean;
  readonly schema?: boolean;
}

const HELP = `
A file has pools, nodes and policies, written as in the API, in YAML or JSON:

  pools:
    - name: lab
      capacity: {gpu: 8}
      groups: [{name: research, limit: {gpu: 6}}]
    - name: cluster
  nodes:
    - {name: n1, pool: cluster, capacity: {gpu: 8}, labels: {disk: fast}, topology: rack1}
  policies:
    - {pool: lab, component: vision, priority: 10, reserved: {gpu: 2}, group: research}

It is the whole truth about each policy, group and node that it names; settings of a pool that it leaves out stay as they
are. Nothing else is touched, unless --prune: then what no file names is deleted; nodes only if a file has nodes at all.

Examples:
  berth apply -f pools.yaml --dry-run
  berth apply -f pools/
  berth apply -f pools/ --prune
  berth export | berth apply -f -
  berth apply --schema > berth.schema.json
`;

export function define(command: Command, context: CliContext): void {
  withConnection(command)
    .option("-f, --file <file_or_dir>", "a file, a directory, or - for stdin; may be repeated", collect)
    .option("--prune", "delete what the files do not name")
    .option("--schema", "print the JSON schema of such files")
    .option("--dry-run", "say what would happen, and change nothing")
    .option("--force", "also where it ends what is queued or running there, or leaves a debt")
    .option("-y, --yes", "do not ask")
    .addHelpText("after", HELP)
    .action((options: ApplyOptions) => apply(options, context));
}

async function apply(options: ApplyOptions, context: CliContext): Promise<void> {
  if (options.schema === true) return context.write(`${applySchema()}\n`);
  if (options.file === undefined)
    throw new CliError("usage", "There is no file to apply.", "Say -f FILE_OR_DIR.");
  const wanted = await readWanted(options.file, context.readStdin);
  const { client } = connect(options);
  const changes = changesFor(client, wanted, await readPresent(client), options.prune === true);
  if (changes.length === 0) return context.tell("Nothing to change: everything is as in the files.\n");

  const { lines, isHarm } = await preview(client, changes, options.force === true);
  if (options.dryRun === true) {
    context.write(plainIfNeeded(`${lines.join("\n")}\n`, context));
    return context.tell("Nothing is changed yet.\n");
  }
  if (isHarm || changes.some(({ verb }) => verb === "delete")) {
    await confirm(`Make ${counted(changes.length, "change")}?`, lines, options, context);
  }
  await performAll(changes, options.force === true, context);
}

/** What the changes would do together; where one would be refused in this order, what each would do alone. */
async function preview(
  client: Client,
  changes: readonly Change[],
  force: boolean,
): Promise<{ lines: string[]; isHarm: boolean }> {
  const planned: PlannedChange[] = [];
  for (const change of changes)
    planned.push(...(await changesOf(() => change.perform({ dryRun: true, force }))));
  try {
    const { now } = await client.plans.make({ changes: planned });
    const effects = planLines(now).map((line) => `  ${line}`);
    return { lines: [...changes.map(describe), ...effects], isHarm: isHarmful(now) };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return previewEach(changes, force);
  }
}

/** What each change would do. Those that need another one first can only be named. */
async function previewEach(
  changes: readonly Change[],
  force: boolean,
): Promise<{ lines: string[]; isHarm: boolean }> {
  let isHarm = false;
  const lines: string[] = [];
  for (const change of changes) {
    lines.push(describe(change));
    try {
      const plan = await change.perform({ dryRun: true, force });
      if (plan === undefined) continue;
      isHarm ||= isHarmful(plan);
      lines.push(...planLines(plan).map((line) => `  ${line}`));
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // What is not there yet is made by a change before this one.
      if (error.code !== "not_found")
        lines.push(`  refused as things are: ${printable(error.message)} [${error.code}]`);
    }
  }
  return { lines, isHarm };
}

function isRefusal(error: unknown): error is BerthError {
  return isBerthError(error) && error.status >= 400 && error.status < 500;
}

function describe({ verb, what, differences }: Change): string {
  return printable(`${verb} ${what}${differences.length === 0 ? "" : `: ${differences.join(", ")}`}`);
}

/** What is refused may only be too early: it is tried again as long as others succeed. */
async function performAll(changes: readonly Change[], force: boolean, context: CliContext): Promise<void> {
  let left = [...changes];
  while (left.length > 0) {
    const refused: { change: Change; error: unknown }[] = [];
    for (const change of left) {
      try {
        await change.perform({ dryRun: false, force });
        context.write(plainIfNeeded(`${DONE[change.verb]} ${printable(change.what)}\n`, context));
      } catch (error) {
        if (!isRefusal(error)) throw error;
        refused.push({ change, error });
      }
    }
    const [first] = refused;
    if (first !== undefined && refused.length === left.length) throw first.error;
    left = refused.map(({ change }) => change);
  }
}

const DONE = { create: "created", change: "changed", delete: "deleted" } as const;
