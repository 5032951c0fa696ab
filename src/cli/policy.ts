// berth policy attach|list|show|update|detach

import type { Command } from "commander";
import type { WirePolicy, WirePolicyAnswer } from "../protocol/index.ts";
import type { Client } from "../sdk/index.ts";
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
  parseLabels,
  wholeNumber,
  withConnection,
  withIdempotencyKey,
  withOutput,
  withPlan,
  withWatch,
} from "./options.ts";
import { type OutputOptions, printDone, printOne } from "./output/print.ts";
import { printable } from "./output/text.ts";
import { tellWarnings } from "./output/warnings.ts";
import { showRows, type WatchOptions } from "./output/watch.ts";
import { confirm, isHarmful, planLines, printPlan, somethingOf } from "./plans.ts";
import { connect, findPolicy, findPool, gather } from "./session.ts";
import { POLICY } from "./shapes.ts";

export type PolicyOptions = Omit<ConnectionOptions, "component"> &
  OutputOptions &
  PlanOptions & {
    readonly idempotencyKey?: string;
    readonly componentType?: string;
    readonly priority?: string;
    readonly reserved?: string;
    readonly limit?: string;
    readonly weight?: string;
    readonly kind?: string;
    readonly maxClass?: string;
    readonly group?: string;
    readonly home?: readonly string[];
  };

const HELP = `
A policy lets one component use one pool: how much is reserved for it, how much it may hold at most, and how it
stands beside the others.

Examples:
  berth policy attach lab vision --priority 10 --reserved gpu=2 --limit gpu=4
  berth policy update lab vision --limit gpu=6 --dry-run
  berth policy list lab
  berth policy detach lab vision
`;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);

  const attach = withPair(
    command.command("attach").alias("create").description("let a component use a pool"),
  );
  withPlan(withIdempotencyKey(withOutput(withConnection(withFields(attach))))).addHelpText(
    "after",
    "\nExamples:\n  berth policy attach lab vision --priority 10 --reserved gpu=2 --limit gpu=4\n  berth policy attach lab batch\n",
  );
  attach.action((pool: string, component: string, options: PolicyOptions) =>
    attachPolicy(pool, component, options, context),
  );

  const list = command.command("list").alias("ls").description("policies of a pool, or of all pools");
  withWatch(list.argument("[pool]", "its name"))
    .option("--component <component>", "only those of this component")
    .addHelpText(
      "after",
      "\nExamples:\n  berth policy list\n  berth policy list lab -o wide\n  berth policy list --component vision\n",
    );
  list.action((pool: string | undefined, options: ListOptions) => listPolicies(pool, options, context));

  const show = withPair(command.command("show").alias("describe").description("one policy at length"));
  withOutput(withConnection(show)).addHelpText("after", "\nExamples:\n  berth policy show lab vision\n");
  show.action(async (pool: string, component: string, options: PolicyOptions) => {
    const { client } = connect(options);
    const { name } = await findPool(client, pool);
    await printOne(await findPolicy(client, name, component), POLICY, options, context);
  });

  const update = withPair(command.command("update").description("change a policy; what is not said stays"));
  withPlan(withOutput(withConnection(withFields(update)))).addHelpText(
    "after",
    "\nExamples:\n  berth policy update lab vision --priority 20\n  berth policy update lab vision --reserved gpu=4 --dry-run\n",
  );
  update.action((pool: string, component: string, options: PolicyOptions) =>
    updatePolicy(pool, component, options, context),
  );

  const detach = withPair(command.command("detach").alias("delete").description("take a policy away"));
  withPlan(withOutput(withConnection(detach))).addHelpText(
    "after",
    "\nExamples:\n  berth policy detach lab vision\n  berth policy detach lab vision --force -y\n",
  );
  detach.action((pool: string, component: string, options: PolicyOptions) =>
    detachPolicy(pool, component, options, context),
  );
}

function withPair(command: Command): Command {
  return command.argument("<pool>", "its name").argument("<component>", "who asks");
}

function withFields(command: Command): Command {
  return command
    .option("-p, --priority <number>", "higher comes first")
    .option("-r, --reserved <amounts>", "its own share, such as gpu=2")
    .option("-l, --limit <amounts>", "the most it may hold at once, such as gpu=4")
    .option("-t, --component-type <type>", "orchestrator, step_operator, or any other word")
    .option("--weight <number>", "its part of what is left over, in discipline fair_share")
    .option("--kind <kind>", "batch, training, service, sensitive or interactive")
    .option("--max-class <number>", "the highest preemption class it may use")
    .option("--group <group>", "the group it belongs to")
    .option("--home <key=value>", "labels of the nodes that are its home; may be repeated", collect);
}

export async function policyFields(options: PolicyOptions): Promise<Partial<WirePolicy>> {
  const { priority, reserved, limit, weight, kind, maxClass, group, home, componentType } = options;
  return given({
    component_type: componentType,
    priority: priority === undefined ? undefined : wholeNumber("--priority", priority),
    reserved: reserved === undefined ? undefined : await parseAmounts(reserved),
    limit: limit === undefined ? undefined : await parseAmounts(limit),
    weight: weight === undefined ? undefined : decimalNumber("--weight", weight),
    kind: kind === undefined ? undefined : oneOf("--kind", kind, CHOICES.kind),
    max_class: maxClass === undefined ? undefined : wholeNumber("--max-class", maxClass),
    group,
    home: home && parseLabels(home),
  });
}

export async function attachPolicy(
  poolText: string,
  component: string,
  options: PolicyOptions,
  context: CliContext,
): Promise<void> {
  const { client } = connect(options);
  const { name: pool } = await findPool(client, poolText);
  const policy = { component, ...(await policyFields(options)) };
  const { force = false } = options;
  if (options.dryRun === true) {
    const plan = await client.policies.attach(pool, policy, { dryRun: true, force });
    return printPlan(`Component ${component} would get a policy in pool ${pool}.`, plan, options, context);
  }
  const made = await client.policies.attach(pool, policy, {
    force,
    ...given({ idempotencyKey: options.idempotencyKey }),
  });
  tellWarnings(made, context);
  const sentence = `Component ${component} may use pool ${pool} with priority ${made.priority}.`;
  await printDone(sentence, made, POLICY, options, context);
}

async function updatePolicy(
  poolText: string,
  componentText: string,
  options: PolicyOptions,
  context: CliContext,
): Promise<void> {
  const fields = somethingOf(await policyFields(options), "for example --priority, --reserved or --limit");
  const { client } = connect(options);
  const { name: pool } = await findPool(client, poolText);
  const { component } = await findPolicy(client, pool, componentText);
  const { force = false } = options;
  const plan = await client.policies.update(pool, component, fields, { dryRun: true, force });
  const what = `policy of ${component} in pool ${pool}`;
  if (options.dryRun === true) return printPlan(`The ${what} would be changed.`, plan, options, context);
  if (isHarmful(plan)) await confirm(`Change the ${what}?`, planLines(plan), options, context);
  const changed = await client.policies.update(pool, component, fields, { force });
  tellWarnings(changed, context);
  await printDone(`Updated the ${what}.`, changed, POLICY, options, context);
}

export async function detachPolicy(
  poolText: string,
  componentText: string,
  options: PolicyOptions,
  context: CliContext,
): Promise<void> {
  const { client } = connect(options);
  const { name: pool } = await findPool(client, poolText);
  const { component } = await findPolicy(client, pool, componentText);
  const { force = false } = options;
  const plan = await client.policies.detach(pool, component, { dryRun: true, force });
  const what = `policy of ${component} in pool ${pool}`;
  if (options.dryRun === true) return printPlan(`The ${what} would be detached.`, plan, options, context);
  await confirm(`Detach the ${what}?`, planLines(plan), options, context);
  await client.policies.detach(pool, component, { force });
  context.tell(`${printable(`Component ${component} no longer uses pool ${pool}.`)}\n`);
}

type ListOptions = ConnectionOptions & WatchOptions;

async function listPolicies(
  poolText: string | undefined,
  { component, ...options }: ListOptions,
  context: CliContext,
): Promise<void> {
  const session = connect(options);
  const pool = poolText === undefined ? undefined : (await findPool(session.client, poolText)).name;
  const load = () => policiesIn(session.client, pool, component);
  await showRows(session, { load, shape: POLICY, ...(pool && { events: { pool } }) }, options, context);
}

export async function policiesIn(
  client: Client,
  pool: string | undefined,
  component?: string,
): Promise<WirePolicyAnswer[]> {
  const found: WirePolicyAnswer[] = [];
  const pools = pool === undefined ? (await gather(client.pools.all())).map(({ name }) => name) : [pool];
  for (const name of pools) {
    for await (const policy of client.policies.all(name)) {
      if (component === undefined || policy.component === component) found.push(policy);
    }
  }
  return found;
}
