// berth ps: what runs and what waits. Also `berth request list`.

import type { Command } from "commander";
import type { WireRequest } from "../protocol/index.ts";
import type { CliContext } from "./context.ts";
import { type ConnectionOptions, wholeNumber, withWatch } from "./options.ts";
import { showRows, type WatchOptions } from "./output/watch.ts";
import { connect, findPool, gather } from "./session.ts";
import { REQUEST } from "./shapes.ts";

export interface PsOptions extends ConnectionOptions, WatchOptions {
  readonly all?: boolean;
  readonly pool?: string;
  readonly status?: string;
  readonly operation?: string;
  readonly label?: string;
  readonly limit?: string;
}

const HELP = `
Requests that run come first, then those that wait, then those that have ended, each by number.

Examples:
  berth ps
  berth ps --watch
  berth ps --all --component vision -o wide
  berth ps --status queued -o name | xargs berth why
  berth ps -o json | jq -r '.items[].id'
`;

const LIVE = "queued,allocated,preempting";
const LIMIT_DEFAULT = 1000;

export function define(command: Command, context: CliContext): void {
  withFilters(command).option("-a, --all", "also those that have ended").addHelpText("after", HELP);
  command.action((options: PsOptions) =>
    listRequests({ ...options, status: options.status ?? (options.all ? undefined : LIVE) }, context),
  );
}

export function withFilters(command: Command): Command {
  return withWatch(command)
    .option("--pool <pool>", "only those that run in this pool")
    .option("--component <component>", "only those of this component")
    .option("--status <status>", "only these, separated by commas")
    .option("--operation <name>", "only those that belong to it")
    .option("--label <key=value>", "only those with this label")
    .option("--limit <count>", `at most this many, the newest first; default ${LIMIT_DEFAULT}`);
}

type Query = Omit<PsOptions, "status"> & { readonly status?: string | undefined };

export async function listRequests(options: Query, context: CliContext): Promise<void> {
  const { component, status, operation, label } = options;
  // Here --component chooses what is shown, and says nothing about who asks.
  const session = connect({
    ...(options.url && { url: options.url }),
    ...(options.context && { context: options.context }),
  });
  const { client } = session;
  const pool = options.pool === undefined ? undefined : (await findPool(client, options.pool)).name;
  const countMax = options.limit === undefined ? LIMIT_DEFAULT : wholeNumber("--limit", options.limit);
  const filters = { status, pool, component, operation, label, limit: Math.min(1000, Math.max(1, countMax)) };
  const query = Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== undefined));
  const load = async () => (await gather(client.requests.all(query), countMax)).sort(byStanding);
  const last = (row: WireRequest) => client.requests.get(row.id).catch(() => undefined);
  await showRows(session, { load, shape: REQUEST, last }, options, context);
}

function byStanding(a: WireRequest, b: WireRequest): number {
  return standing(a) - standing(b) || a.number - b.number;
}

function standing({ status }: WireRequest): number {
  return status === "allocated" || status === "preempting" ? 0 : status === "queued" ? 1 : 2;
}
