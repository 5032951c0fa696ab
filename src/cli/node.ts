// berth node add|update|enroll|list|show|drain|undrain|confirm-lost|remove

import type { Command } from "commander";
import type { WireEnrolmentAnswer } from "../protocol/index.ts";
import { parseAmounts } from "./amounts.ts";
import { type CliContext, CliError } from "./context.ts";
import {
  type ConnectionOptions,
  collect,
  given,
  type PlanOptions,
  parseLabels,
  withConnection,
  withIdempotencyKey,
  withOutput,
  withPlan,
  withWatch,
} from "./options.ts";
import { type OutputOptions, printDone, printOne, type Shape } from "./output/print.ts";
import { printable } from "./output/text.ts";
import { showRows, type WatchOptions } from "./output/watch.ts";
import { confirm, isHarmful, planLines, printPlan } from "./plans.ts";
import { connect, findNode, findPool, gather } from "./session.ts";
import { NODE } from "./shapes.ts";

type Options = ConnectionOptions & OutputOptions & PlanOptions;

interface NodeOptions extends Options {
  readonly pool: string;
  readonly capacity: string;
  readonly label?: readonly string[];
  readonly topology?: string;
  readonly idempotencyKey?: string;
}

type UpdateOptions = Options & Partial<Pick<NodeOptions, "capacity" | "label" | "topology">>;

const HELP = `
A pool without a capacity of its own has that of its nodes.

Examples:
  berth pool create cluster
  berth node add n1 --pool cluster --capacity gpu=8 --label zone=a
  berth node drain n1 --deadline 10m
  berth node list
`;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);

  const add = command.command("add").alias("create").description("register a node");
  add
    .argument("<name>", "its name")
    .requiredOption("--pool <pool>", "the pool it belongs to")
    .requiredOption("-c, --capacity <amounts>", "what it has, such as gpu=8")
    .option("--label <key=value>", "a label; may be repeated", collect)
    .option("--topology <group>", "which nodes it is close to, such as a rack");
  withIdempotencyKey(withOutput(withConnection(add))).addHelpText(
    "after",
    "\nExamples:\n  berth node add n1 --pool cluster --capacity gpu=8 --topology rack1\n",
  );
  add.action(async (name: string, options: NodeOptions) => {
    const { client } = connect(options);
    const { name: pool } = await findPool(client, options.pool);
    const node = {
      name,
      pool,
      capacity: await parseAmounts(options.capacity),
      ...given({ labels: options.label && parseLabels(options.label), topology: options.topology }),
    };
    const made = await client.nodes.create(node, given({ idempotencyKey: options.idempotencyKey }));
    await printDone(`Node ${name} added to pool ${pool}.`, made, NODE, options, context);
  });

  const update = withName(command.command("update").description("change what a node has"));
  update
    .option("-c, --capacity <amounts>", "all that it has from now on, such as gpu=8")
    .option("--label <key=value>", "its labels from now on; may be repeated", collect)
    .option("--topology <group>", "which nodes it is close to, such as a rack");
  withPlan(withOutput(withConnection(update))).addHelpText(
    "after",
    `
Of a node with an agent the capacity is the most that the agent may offer. A node that was changed takes work again.

Examples:
  berth node update n1 --capacity gpu=4 --dry-run
  berth node update n1 --label zone=b --topology rack2
`,
  );
  update.action((text: string, options: UpdateOptions) => updateNode(text, options, context));

  const enroll = command.command("enroll").alias("enrol").description("let a machine join as this node");
  enroll
    .argument("<name>", "its name")
    .requiredOption("--pool <pool>", "the pool it belongs to, with executor agents")
    .option("-c, --capacity <amounts>", "the most that it may offer; default: what its agent finds");
  withOutput(withConnection(enroll)).addHelpText(
    "after",
    "\nThe token works once, for ten minutes.\n\nExamples:\n  berth node enroll gpu-1 --pool cluster\n",
  );
  enroll.action(async (name: string, options: Omit<NodeOptions, "capacity"> & { capacity?: string }) => {
    const { client, urls } = connect(options);
    const { name: pool } = await findPool(client, options.pool);
    const capacity = options.capacity === undefined ? undefined : await parseAmounts(options.capacity);
    const made = await client.nodes.enrol(name, { pool, ...given({ capacity }) });
    const shape: Shape<WireEnrolmentAnswer> = { nameOf: ({ node }) => node, columns: [] };
    context.tell(`${printable(`To type on ${name}, before ${made.expires_at}:`)}\n`);
    const line = `berth agent --url ${urls[0]} --name ${name} --join ${made.join_token}`;
    await printDone(line, made, shape, options, context);
  });

  const list = command.command("list").alias("ls").description("all nodes, or those of one pool");
  withWatch(list)
    .option("--pool <pool>", "only those of this pool")
    .addHelpText("after", "\nExamples:\n  berth node list\n  berth node list --pool cluster -o wide\n");
  list.action(async (options: ConnectionOptions & WatchOptions & { pool?: string }) => {
    const session = connect(options);
    const pool = options.pool === undefined ? undefined : (await findPool(session.client, options.pool)).name;
    await showRows(
      session,
      { load: () => gather(session.client.nodes.all(pool)), shape: NODE },
      options,
      context,
    );
  });

  const show = withName(command.command("show").alias("describe").description("one node"));
  withOutput(withConnection(show)).addHelpText("after", "\nExamples:\n  berth node show n1 -o json\n");
  show.action(async (text: string, options: Options) => {
    const { client } = connect(options);
    await printOne(await findNode(client, text), NODE, options, context);
  });

  const drain = withName(command.command("drain").description("let no new work onto a node"));
  withPlan(withOutput(withConnection(drain)))
    .option("--deadline <duration>", "stop what still runs there after this time, such as 10m")
    .addHelpText("after", "\nExamples:\n  berth node drain n1\n  berth node drain n1 --deadline 10m -y\n");
  drain.action((text: string, options: Options & { deadline?: string }) => drainNode(text, options, context));

  const undrain = withName(command.command("undrain").description("let work onto a node again"));
  withOutput(withConnection(undrain)).addHelpText("after", "\nExamples:\n  berth node undrain n1\n");
  undrain.action(async (text: string, options: Options) => {
    const { client } = connect(options);
    const { name } = await findNode(client, text);
    await printDone(
      `Node ${name} takes work again.`,
      await client.nodes.undrain(name, {}),
      NODE,
      options,
      context,
    );
  });

  const lost = withName(
    command
      .command("confirm-lost")
      .description("nothing runs on a silent node any more: give up what it held"),
  );
  withPlan(withOutput(withConnection(lost))).addHelpText(
    "after",
    "\nExamples:\n  berth node confirm-lost gpu-1 --dry-run\n  berth node confirm-lost gpu-1 -y\n",
  );
  lost.action((text: string, options: Options) => confirmLost(text, options, context));

  const remove = withName(command.command("remove").alias("delete").alias("rm").description("remove a node"));
  withPlan(withOutput(withConnection(remove))).addHelpText("after", "\nExamples:\n  berth node remove n1\n");
  remove.action((text: string, options: Options) => removeNode(text, options, context));
}

function withName(command: Command): Command {
  return command.argument("<node>", "its name");
}

async function updateNode(text: string, options: UpdateOptions, context: CliContext) {
  const { client } = connect(options);
  const { name } = await findNode(client, text);
  const { capacity, label, topology } = options;
  const node = given({
    capacity: capacity === undefined ? undefined : await parseAmounts(capacity),
    labels: label && parseLabels(label),
    topology,
  });
  if (Object.keys(node).length === 0) {
    const hint = "Give at least one of --capacity, --label, --topology.";
    throw new CliError("usage", "There is nothing to change.", hint);
  }
  const plan = await client.nodes.put(name, node, { dryRun: true });
  if (options.dryRun === true) return printPlan(`Node ${name} would be changed.`, plan, options, context);
  if (isHarmful(plan)) await confirm(`Change node ${name}?`, planLines(plan), options, context);
  await printDone(`Node ${name} updated.`, await client.nodes.put(name, node, {}), NODE, options, context);
}

async function drainNode(text: string, options: Options & { deadline?: string }, context: CliContext) {
  const { client } = connect(options);
  const { name } = await findNode(client, text);
  const { deadline } = options;
  const body =
    deadline === undefined
      ? {}
      : { deadline_seconds: (await import("./parsing.ts")).durationSeconds(deadline) };
  const plan = await client.nodes.drain(name, body, { dryRun: true });
  if (options.dryRun === true) return printPlan(`Node ${name} would be drained.`, plan, options, context);
  if (isHarmful(plan)) await confirm(`Drain node ${name}?`, planLines(plan), options, context);
  await printDone(
    `Node ${name} takes no new work.`,
    await client.nodes.drain(name, body, {}),
    NODE,
    options,
    context,
  );
}

async function confirmLost(text: string, options: Options, context: CliContext) {
  const { client } = connect(options);
  const { name } = await findNode(client, text);
  const plan = await client.nodes.confirmLost(name, { dryRun: true });
  if (options.dryRun === true) return printPlan(`Node ${name} would be given up.`, plan, options, context);
  await confirm(`Give up what node ${name} holds?`, planLines(plan), options, context);
  await printDone(`Node ${name} is down.`, await client.nodes.confirmLost(name, {}), NODE, options, context);
}

async function removeNode(text: string, options: Options, context: CliContext) {
  const { client } = connect(options);
  const { name } = await findNode(client, text);
  const { force = false } = options;
  const plan = await client.nodes.remove(name, { dryRun: true, force });
  if (options.dryRun === true) return printPlan(`Node ${name} would be removed.`, plan, options, context);
  await confirm(`Remove node ${name}?`, planLines(plan), options, context);
  await client.nodes.remove(name, { force });
  context.tell(`${printable(`Node ${name} removed.`)}\n`);
}
