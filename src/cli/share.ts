// berth share: who is owed how much of a pool, and who has it.

import type { Command } from "commander";
import type { WirePoolAnswer } from "../protocol/index.ts";
import {
  type Client,
  fairShares,
  hasShares,
  mainKeyOf,
  reservedShares,
  type Share,
  shareNumberText,
  sharePartText,
  shareStatusText,
} from "../sdk/index.ts";
import { type CliContext, CliError } from "./context.ts";
import { type ConnectionOptions, withWatch } from "./options.ts";
import type { Shape } from "./output/print.ts";
import { listed } from "./output/text.ts";
import { showRows, type WatchOptions } from "./output/watch.ts";
import { connect, findPool, gather } from "./session.ts";

const HELP = `
Owed is the fair share now in discipline fair_share, and what is reserved in the others. Got is what it has, demand also
what it waits for. Borrowed is what it has beyond its reserve, lent what others have of its reserve. Satisfied is what it
has as a part of what it is owed: the lowest is served first, and who stays below its fair share starves.

Examples:
  berth share
  berth share lab --tree
  berth share lab --key memory_mb --watch
  berth share lab --key all -o json
`;

type Options = ConnectionOptions & WatchOptions & { readonly tree?: boolean; readonly key?: string };

export function define(command: Command, context: CliContext): void {
  command.argument("[pool]", "its name");
  command
    .option("--tree", "groups above and operations below the components too, in discipline fair_share")
    .option("--key <key>", "another key than the main one of the pool, or all");
  withWatch(command).addHelpText("after", HELP);
  command.action(async (text: string | undefined, options: Options) => {
    const session = connect(options);
    const { client } = session;
    const only = text === undefined ? undefined : (await findPool(client, text)).name;
    const load = async () => {
      const pools = only === undefined ? await gather(client.pools.all()) : [await client.pools.get(only)];
      return (await Promise.all(pools.map((pool) => sharesOf(client, pool, options)))).flat();
    };
    const shape = shapeFor(options.tree === true);
    await showRows(session, { load, shape }, options, context);
  });
}

function shapeFor(isTree: boolean): Shape<Share> {
  return {
    nameOf: ({ pool, path, key }) => [pool, ...path, key].join("/"),
    columns: [
      { name: "pool", value: ({ pool }) => pool },
      { name: "who", value: ({ who, path }) => (isTree ? "  ".repeat(path.length - 1) : "") + who },
      { name: "kind", value: ({ kind }) => kind, isWide: !isTree },
      { name: "key", value: ({ key }) => key },
      { name: "owed", value: ({ owed }) => shareNumberText(owed), alignsRight: true },
      { name: "got", value: ({ got }) => shareNumberText(got), alignsRight: true },
      { name: "demand", value: ({ demand }) => shareNumberText(demand), alignsRight: true },
      {
        name: "waiting",
        value: ({ demand, got }) => shareNumberText(demand - got),
        alignsRight: true,
        isHidden: true,
      },
      { name: "borrowed", value: ({ borrowed }) => shareNumberText(borrowed), alignsRight: true },
      { name: "lent", value: ({ lent }) => shareNumberText(lent), alignsRight: true },
      { name: "satisfied", value: ({ satisfaction }) => sharePartText(satisfaction), alignsRight: true },
      { name: "bar", value: barText },
      { name: "status", value: shareStatusText },
    ],
  };
}

async function sharesOf(client: Client, pool: WirePoolAnswer, options: Options): Promise<Share[]> {
  if (hasShares(pool)) {
    const { elements } = await client.pools.shares(pool.name);
    const shareKeys = Object.keys(elements[0]?.fair_share ?? {});
    return keysOf(pool, shareKeys, options.key).flatMap((key) =>
      fairShares(pool, elements, key, options.tree === true),
    );
  }
  const [policies, live] = await Promise.all([
    gather(client.policies.all(pool.name)),
    gather(client.requests.all({ status: "queued,allocated,preempting", limit: 1000 })),
  ]);
  return keysOf(pool, Object.keys(pool.capacity), options.key).flatMap((key) =>
    reservedShares(pool, policies, live, key),
  );
}

/** The main key of the pool, unless others are asked for. */
function keysOf(pool: WirePoolAnswer, known: readonly string[], wanted?: string): string[] {
  const keys = known.toSorted();
  if (wanted === "all") return keys;
  if (wanted === undefined || keys.length === 0) return [mainKeyOf(pool, keys)];
  if (keys.includes(wanted)) return [wanted];
  throw new CliError(
    "usage",
    `Pool ${pool.name} has no shares of ${wanted}.`,
    `It has shares of ${listed(keys)}.`,
  );
}

const BAR_WIDTH = 20;

/** What it has, within its reserve and beyond, as parts of the pool. */
function barText({ capacity, got, borrowed }: Share): string {
  if (capacity === 0) return "-";
  const cells = Math.round((got / capacity) * BAR_WIDTH);
  const beyond = Math.min(cells, Math.round(((borrowed ?? 0) / capacity) * BAR_WIDTH));
  return `${"█".repeat(cells - beyond)}${"░".repeat(beyond)}`;
}
