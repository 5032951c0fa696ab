// berth usage: unit-hours per team, pool, user or month, exact to the second, for people and for chargeback (H6).

import type { Command } from "commander";
import type { WireUsageRow } from "../protocol/index.ts";
import { type CliContext, CliError } from "./context.ts";
import { type ConnectionOptions, collect, withConnection, withOutput } from "./options.ts";
import { type OutputOptions, printRows, type Shape } from "./output/print.ts";
import { connect, findPool } from "./session.ts";

interface Options extends ConnectionOptions, OutputOptions {
  readonly by?: string;
  readonly from?: string;
  readonly to?: string;
  readonly pool?: string;
  readonly halfLife?: string;
  readonly price?: readonly string[];
}

const HELP = `
In hours of one unit: 2 gpu for 3 hours are 6. In share and borrowed together are what the pool gave. Lent is reserve that others
had in use; lost is what attempts had done since their last checkpoint when they were preempted; waited is what was asked for, times the time
in the queue, counted on the day of the start. Days are those of UTC. Days are kept after requests are forgotten.

Examples:
  berth usage
  berth usage --by team --from 2026-10-01 --to 2026-11-01 -o csv
  berth usage --by user,month --pool lab
  berth usage --by team --half-life 7d
  berth usage --by team --price gpu=2.50 --price mcpu=0.00002 -o csv
`;

export function define(command: Command, context: CliContext): void {
  withOutput(withConnection(command))
    .option("--by <what>", "team, user, pool, month or day, one or more separated by commas", "pool,team")
    .option("--from <day>", "the first day, such as 2026-10-01; default: the first of this month")
    .option("--to <day>", "the day after the last one; default: now")
    .option("--pool <pool>", "only this pool")
    .option("--component <component>", "only this team")
    .option("--half-life <time>", "also usage in which each such time counts half as much, such as 7d")
    .option("--price <key=price>", "of one unit for an hour; adds a column", collect)
    .addHelpText("after", HELP);
  command.action((options: Options) => usage(options, context));
}

async function usage({ component, ...options }: Options, context: CliContext): Promise<void> {
  const { client } = connect(options);
  const prices = pricesOf(options.price ?? []);
  const pool = options.pool === undefined ? undefined : (await findPool(client, options.pool)).name;
  const { rows } = await client.call("getUsage", {
    query: {
      ...{ by: options.by, pool, component },
      from: options.from === undefined ? undefined : momentOf("--from", options.from),
      to: options.to === undefined ? undefined : momentOf("--to", options.to),
      half_life: options.halfLife === undefined ? undefined : await secondsOf(options.halfLife),
    },
  });
  await printRows(rows, shapeFor(options.by ?? "", options.halfLife !== undefined, prices), options, context);
}

async function secondsOf(text: string): Promise<number> {
  return (await import("./parsing.ts")).durationSeconds(text);
}

/** A day, which begins in UTC, or a time. */
function momentOf(option: string, text: string): string {
  const written = /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text;
  if (/^\d{4}-\d\d-\d\dT/.test(written) && !Number.isNaN(Date.parse(written))) return written;
  throw new CliError("usage", `${option} takes a day such as 2026-10-01, not "${text.slice(0, 40)}".`);
}

function pricesOf(texts: readonly string[]): ReadonlyMap<string, number> {
  return new Map(
    texts.map((text) => {
      const [, key, price] = /^([a-z][a-z0-9_.-]{0,62})=(\d{1,9}(?:\.\d{1,9})?)$/.exec(text) ?? [];
      if (key === undefined)
        throw new CliError(
          "usage",
          `--price takes a key and a number, such as gpu=2.50, not "${text.slice(0, 40)}".`,
        );
      return [key, Number(price)];
    }),
  );
}

type About = "pool" | "team" | "user" | "month" | "day";

function shapeFor(by: string, hasDecay: boolean, prices: ReadonlyMap<string, number>): Shape<WireUsageRow> {
  const about = by.split(",") as About[];
  const hours = (name: string, value: (row: WireUsageRow) => number) => ({
    ...{ name, value: (row: WireUsageRow) => hoursText(value(row)), alignsRight: true },
  });
  return {
    nameOf: (row) => [...about.map((field) => row[field] ?? ""), row.key].join("/"),
    columns: [
      ...about.map((field) => ({ name: field, value: (row: WireUsageRow) => row[field] ?? "" })),
      { name: "key", value: ({ key }) => key },
      hours("used", ({ in_share, borrowed }) => in_share + borrowed),
      hours("in_share", ({ in_share }) => in_share),
      hours("borrowed", ({ borrowed }) => borrowed),
      hours("lent", ({ lent }) => lent),
      hours("lost", ({ lost }) => lost),
      hours("waited", ({ waited }) => waited),
      { name: "starts", value: ({ starts }) => String(starts), alignsRight: true },
      { name: "preempted", value: ({ preempted }) => String(preempted), alignsRight: true },
      ...(hasDecay ? [hours("decayed", ({ decayed = 0 }) => decayed)] : []),
      ...(prices.size === 0
        ? []
        : [{ name: "cost", value: (row: WireUsageRow) => costText(row, prices), alignsRight: true }]),
    ],
  };
}

const SECONDS_PER_HOUR = 3_600;

/** To the second: a ten-thousandth of an hour is 0.36 s. */
function hoursText(seconds: number): string {
  return (seconds / SECONDS_PER_HOUR).toFixed(4);
}

function costText({ key, in_share, borrowed }: WireUsageRow, prices: ReadonlyMap<string, number>): string {
  const price = prices.get(key);
  return price === undefined ? "" : (((in_share + borrowed) / SECONDS_PER_HOUR) * price).toFixed(2);
}
