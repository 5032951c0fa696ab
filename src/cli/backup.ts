// berth backup FILE: a copy of the embedded store, while a server may be running on it.

import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { readContexts } from "./connection.ts";
import { type CliContext, CliError } from "./context.ts";
import { dataDirectory, shownPath } from "./paths.ts";
import { asCliError, hostingOf } from "./serving/host.ts";
import { findRunning } from "./serving/running.ts";

export const STORE_FILE = "berth.db";

const HELP = `
The copy is the store at one moment, complete and checked against the disk before it has its name. A server neither
waits nor notices. For PostgreSQL use its own tools, such as pg_dump.

Examples:
  berth backup /backups/berth-2026-11-16.db
  berth backup --data-dir /var/lib/berth /backups/today.db
`;

export function define(command: Command, context: CliContext): void {
  command
    .argument("<file>", "where to write it; must not exist")
    .option("--data-dir <directory>", "where the store is")
    .addHelpText("after", HELP)
    .action((file: string, options: { dataDir?: string }) => backup(resolve(file), options, context));
}

async function backup(to: string, { dataDir }: { dataDir?: string }, context: CliContext): Promise<void> {
  if (dataDir === undefined && !process.env.BERTH_DATA_DIR) checkContext(dataDirectory(undefined));
  const from = storeIn(dataDir);
  const hosting = await hostingOf(context);
  try {
    await hosting.backup(from, to);
  } catch (error) {
    throw asCliError(hosting, error);
  }
  context.write(`${shownPath(to)}: ${megabytes(statSync(to).size)} of ${shownPath(from)}\n`);
}

/** Without --data-dir one means the server of the context in use: a copy of another store would look like success. */
function checkContext(directory: string): void {
  const { current, contexts } = readContexts();
  const name = process.env.BERTH_CONTEXT || current;
  const saved = name === undefined ? undefined : contexts[name];
  if (saved === undefined) return;
  const isIts =
    saved.store === undefined ? findRunning(directory)?.url === saved.url : saved.store === directory;
  if (isIts) return;
  throw new CliError(
    "usage",
    `The context in use, ${name} (${saved.url}), is not the server of the data in ${shownPath(directory)}.`,
    `Add --data-dir ${saved.store ?? shownPath(directory)} to copy the data there. For PostgreSQL use pg_dump.`,
  );
}

export function storeIn(dataDir: string | undefined): string {
  const file = join(dataDirectory(dataDir), STORE_FILE);
  if (statSync(file, { throwIfNoEntry: false }) !== undefined) return file;
  throw new CliError("file_not_found", `There is no store at ${shownPath(file)}.`, "Say --data-dir.");
}

export function megabytes(bytes: number): string {
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
