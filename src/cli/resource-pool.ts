// berth resource-pool …: pools and policies, spelled as in ZenML, with its options and defaults.

import type { Command } from "commander";
import type { WirePolicyAnswer, WireRequest } from "../protocol/index.ts";
import type { Client } from "../sdk/index.ts";
import { parseAmounts, withoutFractions } from "./amounts.ts";
import { CHOICES } from "./choices.ts";
import { type CliContext, CliError } from "./context.ts";
import { given, oneOf, withConnection, withIdempotencyKey } from "./options.ts";
import { type OutputOptions, printOne, type Shape } from "./output/print.ts";
import { showRows, type WatchOptions } from "./output/watch.ts";
import { printPlan } from "./plans.ts";
import { attachPolicy, type PolicyOptions, policiesIn } from "./policy.ts";
import { createPool, deletePool } from "./pool.ts";
import { connect, findPolicy, findPool, gather } from "./session.ts";
import { POLICY, POOL } from "./shapes.ts";
import { filterRows, type ListFilters, withListFilters, withZenOutput, ZEN_REQUEST } from "./zenml.ts";

const HELP = `
The command lines that ZenML's users know. \`berth pool\` and \`berth policy\` can do more.

Examples:
  berth resource-pool create training-gpus --capacity '{"gpu": 8, "step_run": 32}'
  berth resource-pool attach-policy training-gpus my-orchestrator --priority 10 --reserved '{"gpu": 2}' --limit '{"gpu": 4}'
  berth resource-pool requests training-gpus --view queued
`;

interface Options extends OutputOptions, WatchOptions {
  readonly url?: string;
  readonly context?: string;
  readonly capacity?: string;
  readonly description?: string;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
}

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);
  definePools(command, context);
  definePolicies(command, context);

  const requests = command
    .command("requests")
    .description("what is queued and what is active in a pool")
    .argument("<pool>", "its name")
    .option("--view <view>", "queued, active or all", "all");
  withZenOutput(withConnection(requests)).addHelpText(
    "after",
    "\nExamples:\n  berth resource-pool requests training-gpus --view queued\n",
  );
  requests.action((pool: string, options: Options & { view: string }) => listIn(pool, options, context));
}

function definePools(command: Command, context: CliContext): void {
  const create = command.command("create").description("create a pool").argument("<name>", "its name");
  withDryRun(withIdempotencyKey(withConnection(create)))
    .requiredOption("-c, --capacity <amounts>", `JSON or YAML, such as '{"gpu": 8}'; or gpu=8`)
    .option("-d, --description <text>", "what it is for")
    .option("-o, --output <form>", "show the pool in this form")
    .addHelpText(
      "after",
      `\nExamples:\n  berth resource-pool create training-gpus --capacity '{"gpu": 8}'\n`,
    );
  create.action(async (name: string, { capacity = "", ...options }: Options) =>
    createPool(name, { ...options, capacity: await withoutFractions(capacity) }, context),
  );

  const update = command.command("update").description("change capacity or description");
  withDryRun(withConnection(update.argument("<pool>", "its name")))
    .option("-c, --capacity <amounts>", "merged by key; 0 removes one")
    .option("-d, --description <text>", "what it is for")
    .addHelpText(
      "after",
      `\nExamples:\n  berth resource-pool update training-gpus --capacity '{"gpu": 4}'\n`,
    );
  update.action(async (text: string, { capacity, description, ...options }: Options) => {
    if (capacity === undefined && description === undefined) return context.tell("No updates specified.\n");
    const { client } = connect(options);
    const { name } = await findPool(client, text);
    const amounts = capacity === undefined ? undefined : await parseAmounts(await withoutFractions(capacity));
    const fields = given({ capacity: amounts, description });
    if (options.dryRun === true) {
      const plan = await client.pools.update(name, fields, { dryRun: true });
      return printPlan(`Pool ${name} would be changed.`, plan, options, context);
    }
    await client.pools.update(name, fields, {});
    context.write(`Pool ${name} is changed.\n`);
  });

  const describe = command.command("describe").description("one pool at length");
  withZenOutput(withConnection(describe.argument("<pool>", "its name"))).addHelpText(
    "after",
    "\nExamples:\n  berth resource-pool describe training-gpus\n",
  );
  describe.action(async (text: string, options: Options) => {
    await printOne(await findPool(connect(options).client, text), POOL, options, context);
  });

  const list = command.command("list").description("all pools, with what is occupied");
  withListFilters(withZenOutput(withConnection(list)))
    .option("--name <name>", "only these")
    .addHelpText(
      "after",
      "\nExamples:\n  berth resource-pool list\n  berth resource-pool list --name contains:gpu -o json\n",
    );
  list.action((options: Options & ListFilters) => {
    const session = connect(options);
    if (options.user !== undefined) {
      context.tell("berth: all pools are shown, not only your own; the audit log says who created them.\n");
    }
    const load = async () => filterRows(await gather(session.client.pools.all()), options, POOL_FILTERS);
    const columns = options.columns ?? "id,name,capacity,occupied_resources";
    return showRows(session, { load, shape: POOL }, { ...options, columns }, context);
  });

  const remove = command.command("delete").description("delete a pool");
  withDryRun(withConnection(remove.argument("<pool>", "its name")))
    .option("-y, --yes", "do not ask")
    .addHelpText("after", "\nExamples:\n  berth resource-pool delete training-gpus --yes\n");
  remove.action((text: string, options: Options) => deletePool(text, options, context));
}

const POOL_FILTERS = ["name", "id", "created", "updated"];

/** ZenML's columns, whose maps are JSON. */
const ZEN_POLICY: Shape<WirePolicyAnswer> = {
  nameOf: POLICY.nameOf,
  columns: [
    { name: "id", value: ({ id }) => id },
    { name: "component", value: ({ component }) => component },
    { name: "pool", value: ({ pool }) => pool },
    { name: "priority", value: ({ priority }) => String(priority) },
    { name: "reserved", value: ({ reserved }) => JSON.stringify(reserved) },
    { name: "limit", value: ({ limit }) => JSON.stringify(limit) },
    { name: "created", value: ({ created_at }) => created_at ?? "-" },
    { name: "component_type", value: ({ component_type }) => component_type, isWide: true },
  ],
};

function definePolicies(command: Command, context: CliContext): void {
  const attach = withPair(command.command("attach-policy").description("let a component use a pool"));
  withDryRun(withIdempotencyKey(withConnection(attach)))
    .option("-t, --component-type <type>", "orchestrator or step_operator, or any other word", "orchestrator")
    .option("-p, --priority <number>", "higher comes first", "0")
    .option("-r, --reserved <amounts>", `its own share, such as '{"gpu": 2}'`)
    .option("-l, --limit <amounts>", `the most it may hold at once, such as '{"gpu": 4}'`)
    .option("-o, --output <form>", "show the policy in this form")
    .addHelpText(
      "after",
      `\nExamples:\n  berth resource-pool attach-policy training-gpus my-orchestrator --priority 10 --reserved '{"gpu": 2}' --limit '{"gpu": 4}'\n`,
    );
  attach.action(async (pool: string, component: string, { reserved, limit, ...options }: PolicyOptions) => {
    const amounts = given({
      reserved: reserved && (await withoutFractions(reserved)),
      limit: limit && (await withoutFractions(limit)),
    });
    const name = await ownName(pool, component, options);
    if (name !== component) {
      context.tell(`berth: ${component} is another type of component here; this one is called ${name}.\n`);
    }
    await attachPolicy(pool, name, { ...options, ...amounts }, context);
  });

  const detach = withPair(command.command("detach-policy").description("take a policy away"));
  withDryRun(withConnection(detach))
    .option("-t, --component-type <type>", "orchestrator or step_operator", "orchestrator")
    .addHelpText("after", "\nExamples:\n  berth resource-pool detach-policy training-gpus my-orchestrator\n");
  detach.action(async (poolText: string, text: string, options: Options & { componentType: string }) => {
    const { client } = connect(options);
    const { name: pool } = await findPool(client, poolText);
    const { component, component_type: type } = await findTyped(client, pool, text, options.componentType);
    if (type !== "" && type !== options.componentType) {
      throw new CliError(
        "not_found",
        `Pool ${pool} has no policy for the ${options.componentType} ${text}.`,
        `${component} is a ${type} here: add --component-type ${type}.`,
      );
    }
    if (options.dryRun === true) {
      const plan = await client.policies.detach(pool, component, { dryRun: true });
      return printPlan(`Component ${component} would no longer use pool ${pool}.`, plan, options, context);
    }
    await client.policies.detach(pool, component, {});
    context.write(`Component ${component} no longer uses pool ${pool}.\n`);
  });

  const list = command.command("list-policies").description("policies of a pool, of a component, or all");
  withConnection(list.argument("[pool]", "its name"))
    .option("-c, --component <component>", "only those of this component")
    .option("-t, --component-type <type>", "only those of components of this type");
  withZenOutput(list, { hasShortColumns: false }).addHelpText(
    "after",
    "\nExamples:\n  berth resource-pool list-policies training-gpus\n  berth resource-pool list-policies --component my-orchestrator\n",
  );
  list.action(
    async (
      text: string | undefined,
      { component, componentType, ...options }: Options & { component?: string; componentType?: string },
    ) => {
      const session = connect(options);
      const pool = text === undefined ? undefined : (await findPool(session.client, text)).name;
      const load = async () =>
        (await policiesIn(session.client, pool, component)).filter(
          ({ component_type: type }) => componentType === undefined || type === componentType,
        );
      await showRows(session, { load, shape: ZEN_POLICY }, options, context);
    },
  );
}

/**
 * In ZenML an orchestrator and a step operator may share a name. A component of Berth is known by its name alone, so the
 * second one is called `type.name`.
 */
async function ownName(poolText: string, component: string, options: PolicyOptions): Promise<string> {
  const { componentType: type = "" } = options;
  const { client } = connect(options);
  const { name: pool } = await findPool(client, poolText);
  const taken = (await gather(client.policies.all(pool))).find((policy) => policy.component === component);
  const isOther = taken !== undefined && taken.component_type !== "" && taken.component_type !== type;
  return isOther ? `${type}.${component}` : component;
}

async function findTyped(client: Client, pool: string, text: string, type: string) {
  const qualified = `${type}.${text}`;
  const policies = await gather(client.policies.all(pool));
  return policies.find(({ component }) => component === qualified) ?? findPolicy(client, pool, text);
}

/** Not of ZenML, but of every change here. */
function withDryRun(command: Command): Command {
  return command.option("--dry-run", "say what would happen, and change nothing");
}

function withPair(command: Command): Command {
  return command.argument("<pool>", "its name").argument("<component>", "name of the component");
}

async function listIn(text: string, options: Options & { view: string }, context: CliContext): Promise<void> {
  const view = oneOf("--view", options.view, CHOICES.view);
  const session = connect(options);
  const { client } = session;
  const { name: pool } = await findPool(client, text);
  const load = async (): Promise<WireRequest[]> => {
    const active =
      view === "queued"
        ? []
        : await gather(client.requests.all({ pool, status: "allocated,preempting", limit: 1000 }));
    const queued = view === "active" ? [] : (await client.pools.queue(pool, { limit: 1000 })).items;
    return [...active, ...queued];
  };
  const columns = options.columns ?? "id,state,status,component,step_run,created";
  await showRows(session, { load, shape: ZEN_REQUEST, events: { pool } }, { ...options, columns }, context);
}
