// berth export: pools, groups, nodes and policies as a file for `berth apply`.

import type { Command } from "commander";
import type { WireGroupAnswer, WireNodeAnswer, WirePolicyAnswer, WirePoolAnswer } from "../protocol/index.ts";
import {
  declaredCapacity,
  GROUP_DEFAULTS,
  NODE_DEFAULTS,
  POLICY_DEFAULTS,
  type Present,
  readPresent,
} from "./apply/changes.ts";
import { POOL_SETTING_DEFAULTS } from "./apply/defaults.ts";
import type { CliContext } from "./context.ts";
import { type ConnectionOptions, oneOf, withConnection } from "./options.ts";
import { toJson, toYaml } from "./output/print.ts";
import { connect, findPool } from "./session.ts";

interface ExportOptions extends ConnectionOptions {
  readonly pool?: string;
  readonly output?: string;
  readonly full?: boolean;
}

const HELP = `
Settings that are as in a new pool are left out, so that a file says what you have decided. With --full all are written.

Examples:
  berth export > pools.yaml
  berth export --pool lab -o json
  berth export --context staging | berth apply --context production -f - --dry-run
  berth export alerts > berth-alerts.yaml           rules for Prometheus
  berth export grafana > berth-dashboard.json       a dashboard for Grafana, to be imported there
`;

export function define(command: Command, context: CliContext): void {
  withConnection(command.argument("[what]", "grafana or alerts; left out: pools, groups and policies"))
    .option("--pool <pool>", "only this pool")
    .option("--full", "also the settings that are as in a new pool")
    .option("-o, --output <form>", "yaml or json", "yaml")
    .addHelpText("after", HELP)
    .action((what: string | undefined, options: ExportOptions) =>
      what === undefined ? exportAll(options, context) : exportForPrometheus(what, context),
    );
}

/** What Prometheus and Grafana take; no server is asked (H7). */
async function exportForPrometheus(what: string, context: CliContext): Promise<void> {
  const { alertRules, grafanaDashboard } = await import("./prometheus.ts");
  if (oneOf("The argument", what, ["grafana", "alerts"]) === "alerts")
    context.write(await toYaml(alertRules()));
  else context.write(`${toJson(grafanaDashboard(), 2)}\n`);
}

async function exportAll(options: ExportOptions, context: CliContext): Promise<void> {
  const form = oneOf("--output", options.output ?? "yaml", ["yaml", "json"]);
  const { client } = connect(options);
  const only = options.pool === undefined ? undefined : (await findPool(client, options.pool)).name;
  const present = await readPresent(client);
  const document = {
    pools: present.pools
      .filter(({ name }) => only === undefined || name === only)
      .map((pool) =>
        asPool(
          pool,
          present.groups.filter((group) => group.pool === pool.name),
          options.full === true,
        ),
      ),
    ...nodesIn(present, only),
    policies: present.policies.filter(({ pool }) => only === undefined || pool === only).map(asPolicy),
  };
  context.write(form === "json" ? `${toJson(document, 2)}\n` : await toYaml(document));
}

function asPool(pool: WirePoolAnswer, groups: readonly WireGroupAnswer[], isFull: boolean) {
  const { name, description, labels, discipline, capacity, node_backed, settings } = pool;
  const said = isFull ? settings : withoutDefaults(settings, POOL_SETTING_DEFAULTS);
  return {
    name,
    ...(description !== "" && { description }),
    discipline,
    ...(!node_backed && { capacity }),
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(Object.keys(said).length > 0 && { settings: said }),
    ...(groups.length > 0 && {
      groups: groups.map(({ pool: _, ...group }) => withoutDefaults(group, GROUP_DEFAULTS)),
    }),
  };
}

function nodesIn({ nodes }: Present, only: string | undefined): { nodes?: object[] } {
  const shown = nodes.filter(({ pool }) => only === undefined || pool === only);
  return shown.length === 0 ? {} : { nodes: shown.map(asNode) };
}

/** What people decide about a node; its state and what runs there are not theirs to write. */
function asNode(node: WireNodeAnswer) {
  const { name, pool, labels, topology } = node;
  const fields = withoutDefaults({ labels, topology }, NODE_DEFAULTS);
  return { name, pool, capacity: declaredCapacity(node), ...fields };
}

/** Without what `berth apply` assumes anyway. */
function asPolicy(answer: WirePolicyAnswer) {
  const {
    closing: _,
    id: _id,
    created_at: _created,
    updated_at: _updated,
    component_type,
    ...policy
  } = answer;
  return { ...withoutDefaults(policy, POLICY_DEFAULTS), ...(component_type !== "" && { component_type }) };
}

function withoutDefaults(fields: object, defaults: object): Record<string, unknown> {
  const usual = defaults as Readonly<Record<string, unknown>>;
  return Object.fromEntries(
    Object.entries(fields).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(usual[name])),
  );
}
