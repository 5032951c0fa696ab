// berth share: who is owed how much of a pool, and who has it.

import type { Command } from "commander";
import type { WirePolicyAnswer, WirePoolAnswer, WireRequest, WireShareElement } from "../protocol/index.ts";
import type { Client } from "../sdk/index.ts";
import { type CliContext, CliError } from "./context.ts";
import { type ConnectionOptions, withConnection, withOutput, withWatch } from "./options.ts";
import type { Shape } from "./output/print.ts";
import { ageOf, durationText, listed } from "./output/text.ts";
import { showRows, type WatchOptions } from "./output/watch.ts";
import { connect, findPool, gather } from "./session.ts";

/** One line: a component of any pool, or an element of a fair-share tree; in units of one key. */
interface Share {
  readonly pool: string;
  readonly who: string;
  readonly kind: WireShareElement["kind"];
  /** Names from the top of the pool down to it. */
  readonly path: readonly string[];
  readonly key: string;
  readonly capacity: number;
  /** Reserved, or in discipline fair_share the fair share. */
  readonly owed: number;
  readonly got: number;
  /** What it has and what it waits for. */
  readonly demand: number;
  /** What it has above its reserve, and what of its reserve others have; null for operations, which have none. */
  readonly borrowed: number | null;
  readonly lent: number | null;
  /** The rest is known in discipline fair_share only. */
  readonly satisfaction: number | null;
  readonly status: WireShareElement["status"] | null;
  readonly below_since: string | null;
  readonly starves_at: string | null;
  readonly starving_since: string | null;
  readonly exceeds_fair_share: boolean;
}

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
  withWatch(withOutput(withConnection(command))).addHelpText("after", HELP);
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
      { name: "owed", value: ({ owed }) => numberText(owed), alignsRight: true },
      { name: "got", value: ({ got }) => numberText(got), alignsRight: true },
      { name: "demand", value: ({ demand }) => numberText(demand), alignsRight: true },
      {
        name: "waiting",
        value: ({ demand, got }) => numberText(demand - got),
        alignsRight: true,
        isHidden: true,
      },
      { name: "borrowed", value: ({ borrowed }) => numberText(borrowed), alignsRight: true },
      { name: "lent", value: ({ lent }) => numberText(lent), alignsRight: true },
      { name: "satisfied", value: ({ satisfaction }) => partText(satisfaction), alignsRight: true },
      { name: "bar", value: barText },
      { name: "status", value: statusText },
    ],
  };
}

async function sharesOf(client: Client, pool: WirePoolAnswer, options: Options): Promise<Share[]> {
  if (pool.discipline === "fair_share") {
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
function keysOf({ name, settings }: WirePoolAnswer, known: readonly string[], wanted?: string): string[] {
  const keys = known.toSorted();
  if (wanted === "all") return keys;
  if (wanted !== undefined && !keys.includes(wanted) && keys.length > 0) {
    throw new CliError(
      "usage",
      `Pool ${name} has no shares of ${wanted}.`,
      `It has shares of ${listed(keys)}.`,
    );
  }
  const main = [wanted, settings.main_key, "gpu", "mcpu"].find((key) => key && keys.includes(key));
  return [main ?? keys[0] ?? "gpu"];
}

// --- Discipline fair_share

function fairShares(
  pool: WirePoolAnswer,
  elements: readonly WireShareElement[],
  key: string,
  isTree: boolean,
): Share[] {
  const capacity = pool.capacity[key] ?? 0;
  const units = (shares: Readonly<Record<string, number>> | null) => shares && (shares[key] ?? 0) * capacity;
  // Operations are below policies, everything else is below groups.
  const rowsBelow = (parent: string | null, path: readonly string[], isPolicy: boolean): Share[] =>
    elements
      .filter((each) => each.parent === parent && (each.kind === "operation") === isPolicy)
      .flatMap((each) => {
        const row: Share = {
          pool: pool.name,
          who: each.element,
          kind: each.kind,
          path: [...path, each.element],
          key,
          capacity,
          owed: units(each.fair_share) ?? 0,
          got: units(each.usage_share) ?? 0,
          demand: units(each.demand_share) ?? 0,
          borrowed: units(each.borrowed),
          lent: units(each.lent),
          satisfaction: each.satisfaction,
          status: each.status,
          below_since: each.below_since,
          starves_at: each.starves_at,
          starving_since: each.starving_since,
          exceeds_fair_share: each.exceeds_fair_share,
        };
        if (each.kind === "operation") return [row];
        return [row, ...rowsBelow(each.element, row.path, each.kind === "policy")];
      });
  const rows = rowsBelow(null, [], false);
  return isTree ? rows : rows.filter(({ kind }) => kind === "policy");
}

// --- The other disciplines

function reservedShares(
  pool: WirePoolAnswer,
  policies: readonly WirePolicyAnswer[],
  live: readonly WireRequest[],
  key: string,
): Share[] {
  const capacity = pool.capacity[key] ?? 0;
  const sum = (requests: readonly WireRequest[]) =>
    requests.reduce((total, { resources, nodes }) => total + (resources[key] ?? 0) * nodes, 0);
  const rows = policies.map(({ component, reserved }) => {
    const own = live.filter((request) => request.component === component);
    const got = sum(own.filter((request) => request.pool === pool.name));
    const waiting = sum(own.filter(({ status }) => status === "queued"));
    return { component, got, demand: got + waiting, owed: reserved[key] ?? 0 };
  });
  // Of what is reserved and idle, the part that is free is lent to nobody; all lend alike.
  const idle = rows.reduce((total, { owed, got }) => total + Math.max(0, owed - got), 0);
  const free = Math.max(0, capacity - (pool.usage[key] ?? 0));
  const lentPart = idle > free ? 1 - free / idle : 0;
  return rows.map(({ component, got, demand, owed }) => ({
    pool: pool.name,
    who: component,
    kind: "policy",
    path: [component],
    key,
    capacity,
    owed,
    got,
    demand,
    borrowed: Math.max(0, got - owed),
    lent: Math.max(0, owed - got) * lentPart,
    satisfaction: null,
    status: null,
    below_since: null,
    starves_at: null,
    starving_since: null,
    exceeds_fair_share: false,
  }));
}

// --- In words

function numberText(amount: number | null): string {
  return amount === null ? "-" : String(Math.round(amount * 10) / 10);
}

function partText(satisfaction: number | null): string {
  return satisfaction === null ? "-" : `${Math.round(satisfaction * 100)}%`;
}

function statusText({ status, starves_at, starving_since, exceeds_fair_share }: Share): string {
  const note = exceeds_fair_share ? "; asks for more than it is owed" : "";
  switch (status) {
    case null:
      return "-";
    case "normal":
      return `normal${note}`;
    case "below_fair_share": {
      const left = durationText((Date.parse(starves_at ?? "") - Date.now()) / 1000);
      return `below its fair share, starves in ${left}${note}`;
    }
    case "starving":
      return `starving for ${ageOf(starving_since)}${note}`;
    case "aggressively_starving":
      return `starving for ${ageOf(starving_since)}, takes aggressively${note}`;
  }
}

const BAR_WIDTH = 20;

/** What it has, within its reserve and beyond, as parts of the pool. */
function barText({ capacity, got, borrowed }: Share): string {
  if (capacity === 0) return "-";
  const cells = Math.round((got / capacity) * BAR_WIDTH);
  const beyond = Math.min(cells, Math.round(((borrowed ?? 0) / capacity) * BAR_WIDTH));
  return `${"█".repeat(cells - beyond)}${"░".repeat(beyond)}`;
}
