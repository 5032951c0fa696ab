// berth group create|list|show|update|delete

import type { Command } from "commander";
import type { WireGroup } from "../protocol/index.ts";
import { parseAmounts } from "./amounts.ts";
import { CHOICES } from "./choices.ts";
import type { CliContext } from "./context.ts";
import {
  type ConnectionOptions,
  collect,
  decimalNumber,
  given,
  oneOf,
  type PlanOptions,
  withConnection,
  withIdempotencyKey,
  withOutput,
  withPlan,
  withWatch,
} from "./options.ts";
import { type OutputOptions, printDone, printOne } from "./output/print.ts";
import { printable } from "./output/text.ts";
import { showRows, type WatchOptions } from "./output/watch.ts";
import { confirm, isHarmful, planLines, printPlan, somethingOf } from "./plans.ts";
import { connect, findGroup, findPool } from "./session.ts";
import { GROUP } from "./shapes.ts";

type GroupOptions = ConnectionOptions &
  OutputOptions &
  PlanOptions & {
    readonly idempotencyKey?: string;
    readonly parent?: string;
    readonly weight?: string;
    readonly reserved?: string;
    readonly limit?: string;
    readonly mode?: string;
    readonly set?: readonly string[];
  };

const HELP = `
Groups are the inner nodes of a pool's share tree. A group's limit caps everything below it.

Examples:
  berth group create lab research --weight 2 --limit gpu=6
  berth group create lab vision --parent research
  berth policy update lab alice --group vision
  berth group list lab
`;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);

  const create = withPair(command.command("create").description("create a group"), "<name>");
  withPlan(withIdempotencyKey(withOutput(withConnection(withFields(create))))).addHelpText(
    "after",
    "\nExamples:\n  berth group create lab research --weight 2 --reserved gpu=4\n",
  );
  create.action((pool: string, name: string, options: GroupOptions) =>
    createGroup(pool, name, options, context),
  );

  const list = command.command("list").alias("ls").description("the groups of a pool");
  withWatch(list.argument("<pool>", "its name")).addHelpText(
    "after",
    "\nExamples:\n  berth group list lab\n",
  );
  list.action(async (text: string, options: ConnectionOptions & WatchOptions) => {
    const session = connect(options);
    const { name: pool } = await findPool(session.client, text);
    const load = async () => (await session.client.groups.list(pool, { limit: 1000 })).items;
    await showRows(session, { load, shape: GROUP, events: { pool } }, options, context);
  });

  const show = withPair(command.command("show").alias("describe").description("one group at length"));
  withOutput(withConnection(show)).addHelpText(
    "after",
    "\nExamples:\n  berth group show lab research -o yaml\n",
  );
  show.action(async (poolText: string, text: string, options: GroupOptions) => {
    const { client } = connect(options);
    const { name: pool } = await findPool(client, poolText);
    await printOne(await findGroup(client, pool, text), GROUP, options, context);
  });

  const update = withPair(command.command("update").description("change a group; what is not said stays"));
  withPlan(withOutput(withConnection(withFields(update)))).addHelpText(
    "after",
    "\nExamples:\n  berth group update lab research --weight 3 --dry-run\n",
  );
  update.action((pool: string, group: string, options: GroupOptions) =>
    updateGroup(pool, group, options, context),
  );

  const remove = withPair(command.command("delete").alias("rm").description("delete a group"));
  withPlan(withOutput(withConnection(remove))).addHelpText(
    "after",
    "\nExamples:\n  berth group delete lab vision\n",
  );
  remove.action((pool: string, group: string, options: GroupOptions) =>
    deleteGroup(pool, group, options, context),
  );
}

function withPair(command: Command, second = "<group>"): Command {
  return command.argument("<pool>", "its name").argument(second, "name of the group");
}

function withFields(command: Command): Command {
  return command
    .option("--parent <group>", "the group above it")
    .option("--weight <number>", "its part of what is left over")
    .option("-r, --reserved <amounts>", "what it guarantees to its members")
    .option("-l, --limit <amounts>", "the most that everything below it may hold")
    .option("--mode <mode>", "fair_share or fifo")
    .option("--set <setting=value>", "a setting for everything below; may be repeated", collect);
}

async function fieldsOf(options: GroupOptions): Promise<Partial<WireGroup>> {
  const { parent, weight, reserved, limit, mode, set } = options;
  return given({
    parent,
    weight: weight === undefined ? undefined : decimalNumber("--weight", weight),
    reserved: reserved === undefined ? undefined : await parseAmounts(reserved),
    limit: limit === undefined ? undefined : await parseAmounts(limit),
    mode: mode === undefined ? undefined : oneOf("--mode", mode, CHOICES.mode),
    settings: set && ((await import("./parsing.ts")).parseSettings(set) as WireGroup["settings"]),
  });
}

async function createGroup(poolText: string, name: string, options: GroupOptions, context: CliContext) {
  const { client } = connect(options);
  const { name: pool } = await findPool(client, poolText);
  const group: WireGroup = { name, ...(await fieldsOf(options)) };
  const { force = false } = options;
  if (options.dryRun === true) {
    const plan = await client.groups.create(pool, group, { dryRun: true, force });
    return printPlan(`Group ${name} would be created in pool ${pool}.`, plan, options, context);
  }
  const key = given({ idempotencyKey: options.idempotencyKey });
  const made = await client.groups.create(pool, group, { force, ...key });
  await printDone(`Group ${name} created in pool ${pool}.`, made, GROUP, options, context);
}

async function updateGroup(poolText: string, text: string, options: GroupOptions, context: CliContext) {
  const fields = somethingOf(await fieldsOf(options), "for example --weight, --reserved or --limit");
  const { client } = connect(options);
  const { name: pool } = await findPool(client, poolText);
  const { name } = await findGroup(client, pool, text);
  const { force = false } = options;
  const plan = await client.groups.update(pool, name, fields, { dryRun: true, force });
  if (options.dryRun === true) return printPlan(`Group ${name} would be changed.`, plan, options, context);
  if (isHarmful(plan)) await confirm(`Change group ${name}?`, planLines(plan), options, context);
  const changed = await client.groups.update(pool, name, fields, { force });
  await printDone(`Group ${name} updated.`, changed, GROUP, options, context);
}

async function deleteGroup(poolText: string, text: string, options: GroupOptions, context: CliContext) {
  const { client } = connect(options);
  const { name: pool } = await findPool(client, poolText);
  const { name } = await findGroup(client, pool, text);
  const { force = false } = options;
  const plan = await client.groups.delete(pool, name, { dryRun: true, force });
  if (options.dryRun === true) return printPlan(`Group ${name} would be deleted.`, plan, options, context);
  await confirm(`Delete group ${name} of pool ${pool}?`, planLines(plan), options, context);
  await client.groups.delete(pool, name, { force });
  context.tell(`${printable(`Group ${name} deleted.`)}\n`);
}
