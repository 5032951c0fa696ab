// berth share: who is owed how much of a pool, and who has it.

import type { Command } from "commander";
import type { WirePolicyAnswer, WirePoolAnswer, WireRequest, WireShares } from "../protocol/index.ts";
import type { Client } from "../sdk/index.ts";
import type { CliContext } from "./context.ts";
import { type ConnectionOptions, withConnection, withOutput, withWatch } from "./options.ts";
import type { Shape } from "./output/print.ts";
import { showRows, type WatchOptions } from "./output/watch.ts";
import { connect, findPool, gather } from "./session.ts";

/** One line: a component of any pool, or an element of a fair-share tree. */
interface Share {
  readonly pool: string;
  readonly who: string;
  readonly key: string;
  readonly capacity: number;
  /** Reserved, or in discipline fair_share the fair share. */
  readonly owed: number;
  readonly got: number;
  readonly borrowed: number;
  readonly waiting: number;
  readonly status: string;
}

const HELP = `
In discipline fair_share, owed is the fair share now; in the others, what is reserved.

Examples:
  berth share
  berth share lab --watch
  berth share lab -o json
`;

const SHAPE: Shape<Share> = {
  nameOf: ({ pool, who, key }) => `${pool}/${who}/${key}`,
  columns: [
    { name: "pool", value: ({ pool }) => pool },
    { name: "who", value: ({ who }) => who },
    { name: "key", value: ({ key }) => key },
    { name: "owed", value: ({ owed }) => numberText(owed), alignsRight: true },
    { name: "got", value: ({ got }) => numberText(got), alignsRight: true },
    { name: "borrowed", value: ({ borrowed }) => numberText(borrowed), alignsRight: true },
    { name: "waiting", value: ({ waiting }) => numberText(waiting), alignsRight: true },
    { name: "bar", value: barText },
    { name: "status", value: ({ status }) => status || "-", isWide: true },
  ],
};

export function define(command: Command, context: CliContext): void {
  command.argument("[pool]", "its name");
  withWatch(withOutput(withConnection(command))).addHelpText("after", HELP);
  command.action(async (text: string | undefined, options: ConnectionOptions & WatchOptions) => {
    const session = connect(options);
    const { client } = session;
    const only = text === undefined ? undefined : (await findPool(client, text)).name;
    const load = async () => {
      const pools = only === undefined ? await gather(client.pools.all()) : [await client.pools.get(only)];
      return (await Promise.all(pools.map((pool) => sharesOf(client, pool)))).flat();
    };
    await showRows(session, { load, shape: SHAPE }, options, context);
  });
}

async function sharesOf(client: Client, pool: WirePoolAnswer): Promise<Share[]> {
  const [policies, live, shares] = await Promise.all([
    gather(client.policies.all(pool.name)),
    gather(client.requests.all({ status: "queued,allocated,preempting", limit: 1000 })),
    pool.discipline === "fair_share" ? client.pools.shares(pool.name) : undefined,
  ]);
  const key = mainKey(pool);
  return policies.map((policy) => shareOf({ pool, policy, live, shares, key }));
}

function mainKey({ capacity, settings }: WirePoolAnswer): string {
  const keys = Object.keys(capacity);
  return settings.main_key ?? ["gpu", "mcpu"].find((key) => keys.includes(key)) ?? keys.sort()[0] ?? "gpu";
}

function shareOf({
  pool,
  policy,
  live,
  shares,
  key,
}: {
  pool: WirePoolAnswer;
  policy: WirePolicyAnswer;
  live: readonly WireRequest[];
  shares: WireShares | undefined;
  key: string;
}): Share {
  const own = live.filter(({ component }) => component === policy.component);
  const sum = (requests: readonly WireRequest[]) =>
    requests.reduce((total, { resources }) => total + (resources[key] ?? 0), 0);
  const got = sum(own.filter((request) => request.pool === pool.name));
  const element = shares?.elements.find((one) => one.kind === "policy" && one.element === policy.component);
  const capacity = pool.capacity[key] ?? 0;
  const owed =
    element === undefined ? (policy.reserved[key] ?? 0) : (element.fair_share[key] ?? 0) * capacity;
  return {
    pool: pool.name,
    who: policy.component,
    key,
    capacity,
    owed,
    got,
    borrowed: Math.max(0, got - (policy.reserved[key] ?? 0)),
    waiting: sum(own.filter(({ status }) => status === "queued")),
    status: element?.status ?? "",
  };
}

function numberText(amount: number): string {
  return String(Math.round(amount * 10) / 10);
}

const BAR_WIDTH = 20;

/** What it has, within its share and beyond, as parts of the pool. */
function barText({ capacity, got, borrowed }: Share): string {
  if (capacity === 0) return "-";
  const cells = Math.round((got / capacity) * BAR_WIDTH);
  const beyond = Math.min(cells, Math.round((borrowed / capacity) * BAR_WIDTH));
  return `${"█".repeat(cells - beyond)}${"░".repeat(beyond)}`;
}
