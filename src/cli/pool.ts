// berth pool create|list|show|update|resume-expiry|delete|queue

import type { Command } from "commander";
import type { WirePool } from "../protocol/index.ts";
import { parseAmounts } from "./amounts.ts";
import { CHOICES } from "./choices.ts";
import type { CliContext } from "./context.ts";
import {
  type ConnectionOptions,
  collect,
  given,
  oneOf,
  type PlanOptions,
  parseLabels,
  withConnection,
  withIdempotencyKey,
  withOutput,
  withPlan,
  withWatch,
} from "./options.ts";
import { type OutputOptions, printDone, printOne } from "./output/print.ts";
import { counted, printable } from "./output/text.ts";
import { tellWarnings } from "./output/warnings.ts";
import { showRows, type WatchOptions } from "./output/watch.ts";
import { confirm, isHarmful, planLines, printPlan, somethingOf } from "./plans.ts";
import { connect, findPool, gather } from "./session.ts";
import { POOL, REQUEST } from "./shapes.ts";

type Options = ConnectionOptions & OutputOptions & PlanOptions & { readonly idempotencyKey?: string };

interface PoolOptions extends Options {
  readonly capacity?: string;
  readonly discipline?: string;
  readonly description?: string;
  readonly label?: readonly string[];
  readonly set?: readonly string[];
}

const HELP = `
A pool is a named bucket of capacity: how many units there are of each key. Policies say who may use how much.

Examples:
  berth pool create lab --capacity gpu=8,mcpu=64000
  berth pool update lab --capacity gpu=12 --set grace_seconds=1m
  berth pool list
  berth pool queue lab
`;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);

  const create = command.command("create").description("create a pool").argument("<name>", "its name");
  withFields(create)
    .option("--discipline <name>", "priority, fair_share or class; cannot be changed later")
    .option("--dry-run", "check, and change nothing")
    .addHelpText(
      "after",
      `
Without --capacity the pool takes its capacity from nodes (berth node add).

Examples:
  berth pool create lab --capacity gpu=8
  berth pool create lab --capacity '{"gpu": 8, "memory_mb": 512000}' --description "Room 4"
  berth pool create trainers --discipline class --capacity gpu=16 --set near_completion_seconds=10m
`,
    );
  withIdempotencyKey(withOutput(withConnection(create))).action((name: string, options: PoolOptions) =>
    createPool(name, options, context),
  );

  const list = command.command("list").alias("ls").description("all pools");
  withWatch(list).addHelpText("after", "\nExamples:\n  berth pool list\n  berth pool list -o wide --watch\n");
  list.action((options: Options & WatchOptions) => {
    const session = connect(options);
    const load = () => gather(session.client.pools.all());
    return showRows(session, { load, shape: POOL }, options, context);
  });

  const show = command.command("show").alias("describe").description("one pool at length");
  withOutput(withConnection(show.argument("<pool>", "its name"))).addHelpText(
    "after",
    "\nExamples:\n  berth pool show lab\n  berth pool show lab -o json\n",
  );
  show.action(async (name: string, options: Options) => {
    const { client } = connect(options);
    await printOne(await findPool(client, name), POOL, options, context);
  });

  const update = command
    .command("update")
    .description("change a pool; capacity is merged by key, 0 removes one")
    .argument("<pool>", "its name");
  withPlan(withOutput(withConnection(withFields(update)))).addHelpText(
    "after",
    `
Lowering capacity never touches running work by itself, but requests that fit no more are rejected.

Examples:
  berth pool update lab --capacity gpu=4 --dry-run
  berth pool update lab --capacity gpu=4,licences=2
  berth pool update lab --set backfill=none --set max_preemptions=3
`,
  );
  update.action((name: string, options: PoolOptions) => updatePool(name, options, context));

  const resume = command
    .command("resume-expiry")
    .description("give silent holders up again, after many fell silent at once")
    .argument("<pool>", "its name");
  withConnection(resume).addHelpText(
    "after",
    `
When at least 5 and more than 30 % of the clients that hold something fall silent within a minute, the network is to
blame more often than they are. Nothing expires in the pool then for up to 15 minutes, unless this command says so.

Examples:
  berth pool resume-expiry lab
`,
  );
  resume.action(async (name: string, options: ConnectionOptions) => {
    const { client } = connect(options);
    const pool = await findPool(client, name);
    await client.pools.resumeExpiry(pool.name);
    context.tell(
      pool.expiry_paused === undefined
        ? `Expiry in pool ${pool.name} was not paused.\n`
        : `Silent holders in pool ${pool.name} are given up again.\n`,
    );
  });

  const remove = command
    .command("delete")
    .alias("rm")
    .description("delete a pool")
    .argument("<pool>", "its name");
  withPlan(withOutput(withConnection(remove))).addHelpText(
    "after",
    "\nExamples:\n  berth pool delete lab\n  berth pool delete lab --force -y\n",
  );
  remove.action((name: string, options: Options) => deletePool(name, options, context));

  const queue = command.command("queue").description("what waits in a pool, in order");
  withWatch(queue.argument("<pool>", "its name")).addHelpText(
    "after",
    "\nExamples:\n  berth pool queue lab\n  berth pool queue lab -o name | head -1 | xargs berth why\n",
  );
  queue.action(async (text: string, options: Options & WatchOptions) => {
    const session = connect(options);
    const { name } = await findPool(session.client, text);
    const load = async () => (await session.client.pools.queue(name, { limit: 1000 })).items;
    await showRows(session, { load, shape: REQUEST, events: { pool: name } }, options, context);
  });
}

function withFields(command: Command): Command {
  return command
    .option("-c, --capacity <amounts>", "gpu=8,mcpu=64000, or JSON or YAML")
    .option("-d, --description <text>", "what it is for")
    .option("--label <key=value>", "a label; may be repeated", collect)
    .option("--set <setting=value>", "a setting, such as grace_seconds=30; may be repeated", collect);
}

async function fieldsOf({ capacity, description, label, set }: PoolOptions): Promise<Partial<WirePool>> {
  return given({
    capacity: capacity === undefined ? undefined : await parseAmounts(capacity),
    description,
    labels: label && parseLabels(label),
    settings: set && ((await import("./parsing.ts")).parseSettings(set) as WirePool["settings"]),
  });
}

export async function createPool(name: string, options: PoolOptions, context: CliContext): Promise<void> {
  const { client } = connect(options);
  const discipline = options.discipline && oneOf("--discipline", options.discipline, CHOICES.discipline);
  const pool: WirePool = { name, ...(await fieldsOf(options)), ...(discipline && { discipline }) };
  if (options.dryRun === true) {
    const plan = await client.pools.create(pool, { dryRun: true });
    return printPlan(`Pool ${name} would be created.`, plan, options, context);
  }
  const made = await client.pools.create(pool, given({ idempotencyKey: options.idempotencyKey }));
  tellWarnings(made, context);
  await printDone(`Pool ${name} created.`, made, POOL, options, context);
}

export async function updatePool(text: string, options: PoolOptions, context: CliContext): Promise<void> {
  const fields = somethingOf(await fieldsOf(options), "--capacity, --description, --label or --set");
  const { client } = connect(options);
  const { name } = await findPool(client, text);
  const { force = false } = options;
  const plan = await client.pools.update(name, fields, { dryRun: true, force });
  if (options.dryRun === true) return printPlan(`Pool ${name} would be changed.`, plan, options, context);
  if (isHarmful(plan)) await confirm(`Change pool ${name}?`, planLines(plan), options, context);
  const changed = await client.pools.update(name, fields, { force });
  tellWarnings(changed, context);
  await printDone(`Pool ${name} updated.`, changed, POOL, options, context);
}

export async function deletePool(text: string, options: Options, context: CliContext): Promise<void> {
  const { client } = connect(options);
  const { name } = await findPool(client, text);
  const { force = false } = options;
  const plan = await client.pools.delete(name, { dryRun: true, force });
  if (options.dryRun === true) return printPlan(`Pool ${name} would be deleted.`, plan, options, context);
  await confirm(`Delete pool ${name} with its policies and groups?`, planLines(plan), options, context);
  await client.pools.delete(name, { force });
  // By force, it goes with the last of its runs.
  const left = force ? (await gather(client.pools.all())).find((pool) => pool.name === name) : undefined;
  const done =
    left === undefined
      ? "deleted."
      : `takes nothing new. It is deleted with the end of its last run: ${counted(left.running, "run")} left.`;
  context.tell(`${printable(`Pool ${name} ${done}`)}\n`);
}
