// Lists that go on: whenever something happens, they are read again, and what has changed is shown.

import { isBerthError } from "../../sdk/index.ts";
import type { CliContext } from "../context.ts";
import type { Session } from "../session.ts";
import { formatOf, NOTHING, type OutputOptions, printRows, type Shape, textOfRows, toYaml } from "./print.ts";
import { styleOf } from "./text.ts";

export interface WatchOptions extends OutputOptions {
  readonly watch?: boolean;
}

export interface Watched<Row> {
  readonly load: () => Promise<readonly Row[]>;
  readonly shape: Shape<Row>;
  /** A row that is no longer in the list, as it ended. */
  readonly last?: (row: Row) => Promise<Row | undefined>;
  readonly events?: { readonly pool?: string; readonly request?: string; readonly component?: string };
}

const QUIET_MS = 200;
const TICK_MS = 1_000;
const HOME_AND_CLEAR = "\u001b[H\u001b[J";
const CLEAR_SCREEN = "\u001b[2J";

/** Once, or with `--watch` until the command is ended. */
export async function showRows<Row extends object>(
  session: Session,
  watched: Watched<Row>,
  options: WatchOptions,
  context: CliContext,
): Promise<void> {
  if (options.watch !== true) return printRows(await watched.load(), watched.shape, options, context);
  const format = formatOf(options);
  const redraws = context.screen !== undefined && (format === "table" || format === "wide");
  const screen = redraws ? redrawer(watched, options, context) : undefined;
  const show: (rows: readonly Row[]) => void | Promise<void> =
    screen?.show ?? appender(watched, options, context);
  const ticking = screen && setInterval(screen.tick, TICK_MS);
  let isToldLost = false;
  const stream = session.client.events.stream(watched.events, {
    signal: context.signal,
    onInterruption: () => {
      if (!isToldLost) context.tell("berth: the server does not answer; trying again.\n");
      isToldLost = true;
    },
  });
  const look = oneAtATime(async () => {
    try {
      await show(await watched.load());
      isToldLost = false;
    } catch (error) {
      if (!isBerthError(error, "unavailable", "timeout", "rate_limited")) throw error;
    }
  });
  try {
    await Promise.race([
      look.failed,
      (async () => {
        for await (const _ of stream) look.now();
      })(),
    ]);
  } finally {
    clearInterval(ticking);
  }
}

/** The whole table, in the same place. Ages go on between two changes, and the last line says how old the rows are. */
function redrawer<Row extends object>({ shape }: Watched<Row>, options: OutputOptions, context: CliContext) {
  let isFirst = true;
  let latest: { readonly rows: readonly Row[]; readonly readAt: string } | undefined;
  const tick = () => {
    if (latest === undefined) return;
    const text = textOfRows(latest.rows, shape, options, context) || `${NOTHING}\n`;
    const updated = styleOf(context).faint(`updated ${latest.readAt}`);
    context.write(`${isFirst ? CLEAR_SCREEN : ""}${HOME_AND_CLEAR}${text}${updated}\n`);
    isFirst = false;
  };
  const show = (rows: readonly Row[]): void => {
    latest = { rows, readAt: new Date().toLocaleTimeString("en-GB") };
    tick();
  };
  return { show, tick };
}

/** The rows that have changed, one after the other: what pipes and logs need. */
function appender<Row extends object>(
  { shape, last }: Watched<Row>,
  options: OutputOptions,
  context: CliContext,
) {
  const format = formatOf(options);
  const seen = new Map<string, { row: Row; text: string }>();
  let isFirst = true;
  const print = async (rows: readonly Row[]) => {
    if (format === "yaml") for (const row of rows) context.write(`---\n${await toYaml(row)}`);
    else {
      const headers = options.headers !== false && isFirst;
      context.write(textOfRows(rows, shape, { ...options, headers }, context));
    }
    if (rows.length > 0) isFirst = false;
  };
  return async (rows: readonly Row[]): Promise<void> => {
    const now = new Map(rows.map((row) => [shape.nameOf(row), { row, text: contentOf(row) }]));
    const changed = [...now]
      .filter(([name, { text }]) => seen.get(name)?.text !== text)
      .map(([, { row }]) => row);
    const gone = [...seen].filter(([name]) => !now.has(name)).map(([, { row }]) => row);
    const ended = last === undefined ? [] : await Promise.all(gone.map((row) => last(row)));
    for (const row of gone) seen.delete(shape.nameOf(row));
    for (const [name, entry] of now) seen.set(name, entry);
    await print([...changed, ...ended.filter((row) => row !== undefined)]);
  };
}

/** What renewals change all the time is no news. */
function contentOf(row: object): string {
  return JSON.stringify(row, (key, value: unknown) => (key === "lease_expires_at" ? undefined : value));
}

/** Runs again if it was wanted while it ran, with a pause so that a storm of events is one look. */
function oneAtATime(act: () => Promise<void>): { now: () => void; failed: Promise<never> } {
  let isRunning = false;
  let isWanted = false;
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<never>((_, reject) => {
    fail = reject;
  });
  const run = async () => {
    isRunning = true;
    while (isWanted) {
      isWanted = false;
      await act();
      await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
    }
    isRunning = false;
  };
  const now = () => {
    isWanted = true;
    if (!isRunning) run().catch(fail);
  };
  return { now, failed };
}
