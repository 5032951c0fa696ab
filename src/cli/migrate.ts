// berth migrate --to PLACE: moves the store from a directory into PostgreSQL, or back.

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { STORE_FILE, storeIn } from "./backup.ts";
import { type CliContext, CliError } from "./context.ts";
import { stopRunning } from "./down.ts";
import type { PlanOptions } from "./options.ts";
import { counted } from "./output/text.ts";
import { dataDirectory, shownPath } from "./paths.ts";
import { confirm } from "./plans.ts";
import { asCliError, hostingOf } from "./serving/host.ts";
import type { StorePlace } from "./serving/hosting.ts";
import { findRunning } from "./serving/running.ts";

interface MigrateOptions extends PlanOptions {
  readonly to: string;
  readonly from?: string;
  readonly dataDir?: string;
}

const HELP = `
Everything moves: history with its hash chain, requests, tokens, audit log, snapshots. The copy is read again from its first
row to its last before it counts. The place that it came from is kept, with a note of where it went, and is not served
any more. A server that runs on the data is stopped for the move; jobs go on, and find their server again when it is
started on the new place, at the same address or at one of several that they were given. Servers on PostgreSQL are
to be stopped first.

Examples:
  berth migrate --to postgres://berth@db/berth
  berth migrate --data-dir /var/lib/berth --to postgres://berth@db/berth -y
  berth migrate --from postgres://berth@db/berth --to /var/lib/berth-again
`;

export function define(command: Command, context: CliContext): void {
  command
    .requiredOption("--to <place>", "a PostgreSQL database without a store, or a directory")
    .option("--from <place>", "where the store is, if it is not in --data-dir")
    .option("--data-dir <directory>", "where the store is")
    .option("-y, --yes", "do not ask")
    .addHelpText("after", HELP)
    .action((options: MigrateOptions) => migrate(options, context));
}

async function migrate(options: MigrateOptions, context: CliContext): Promise<void> {
  const from = sourceOf(options);
  const to = placeOf(options.to);
  if ("file" in to && existsSync(to.file))
    throw new CliError(
      "name_taken",
      `There is a store at ${shownPath(to.file)}.`,
      "Choose another directory.",
    );
  const running = "file" in from ? findRunning(join(from.file, "..")) : undefined;
  const lines = [
    `Everything in ${shownOf(from)} moves to ${shownOf(to)}`,
    ...(running === undefined ? [] : [`The server at ${running.url} (pid ${running.pid}) is stopped`]),
    "The old store is kept, but not served any more",
  ];
  await confirm("Move the store?", lines, options, context);
  const hosting = await hostingOf(context);
  try {
    if ("databaseUrl" in to) await hosting.refuseOccupied(to);
    if (running !== undefined) await stopRunning(running);
    const { head, sizes } = await hosting.move(from, to, shownOf(to));
    const counts = [
      counted(sizes.events, "event"),
      counted(sizes.requests, "request"),
      counted(sizes.tokens, "token"),
      `${sizes.audit} audit entries`,
    ];
    context.write(`Moved and verified: ${counts.join(", ")}; the journal ends at event ${head.seq}.\n`);
  } catch (error) {
    throw asCliError(hosting, error);
  }
  context.write(`Next:  ${nextStep(to, running?.url)}\n`);
}

function sourceOf({ from, dataDir }: MigrateOptions): StorePlace {
  if (from === undefined) return { file: storeIn(dataDir) };
  if (dataDir !== undefined) throw new CliError("usage", "Give --from or --data-dir, not both.");
  return isDatabase(from) ? { databaseUrl: from } : { file: storeIn(from) };
}

function placeOf(place: string): StorePlace {
  if (isDatabase(place)) return { databaseUrl: place };
  if (/^[a-z]+:\/\//i.test(place)) {
    throw new CliError(
      "usage",
      `"${place.slice(0, 80)}" is neither a PostgreSQL database nor a directory.`,
      "Write postgres://user@host/database, or a path.",
    );
  }
  return { file: join(dataDirectory(resolve(place)), STORE_FILE) };
}

function isDatabase(place: string): boolean {
  return /^postgres(ql)?:\/\//i.test(place);
}

/** Passwords are not shown, and not written anywhere. */
function shownOf(place: StorePlace): string {
  if ("file" in place) return shownPath(place.file);
  try {
    const url = new URL(place.databaseUrl);
    url.password = "";
    url.search = "";
    return url.href;
  } catch {
    throw new CliError(
      "usage",
      "The address of the database cannot be read.",
      "Write postgres://user@host/database.",
    );
  }
}

function nextStep(to: StorePlace, url: string | undefined): string {
  const where = "file" in to ? `--data-dir ${shownPath(join(to.file, ".."))}` : "--database-url …";
  const address = url === undefined ? "" : ` --listen ${new URL(url).host}`;
  return `berth serve ${where}${address}   (instead of where it was; also in units and settings files)`;
}
