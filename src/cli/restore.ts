// berth restore FILE: puts a backup where no store is.

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { STORE_FILE } from "./backup.ts";
import { type CliContext, CliError } from "./context.ts";
import type { PlanOptions } from "./options.ts";
import { dataDirectory, shownPath } from "./paths.ts";
import { confirm } from "./plans.ts";
import { asCliError, hostingOf } from "./serving/host.ts";
import { findRunning } from "./serving/running.ts";

const HELP = `
The backup is read and checked as a whole first. It does not know what happened after it was made: holders of newer
grants are refused and stop, and tokens that were revoked since then can be used again until you revoke them again. A
store that exists is never overwritten: move it away.

Examples:
  berth restore /backups/berth-2026-11-16.db
  berth restore /backups/today.db --data-dir /var/lib/berth -y
`;

export function define(command: Command, context: CliContext): void {
  command
    .argument("<file>", "a file that `berth backup` has written")
    .option("--data-dir <directory>", "where the store belongs")
    .option("-y, --yes", "do not ask")
    .addHelpText("after", HELP)
    .action((file: string, options: PlanOptions & { dataDir?: string }) =>
      restore(resolve(file), options, context),
    );
}

async function restore(
  from: string,
  options: PlanOptions & { dataDir?: string },
  context: CliContext,
): Promise<void> {
  const directory = dataDirectory(options.dataDir);
  const to = join(directory, STORE_FILE);
  if (!existsSync(from)) throw new CliError("file_not_found", `There is no backup at ${shownPath(from)}.`);
  const running = findRunning(directory);
  if (running !== undefined) {
    throw new CliError(
      "in_use",
      `A server runs on this data: ${running.url} (pid ${running.pid}).`,
      "Stop it first: berth down",
    );
  }
  if (existsSync(to)) {
    throw new CliError(
      "name_taken",
      `There is a store at ${shownPath(to)}.`,
      `Move it away first, such as: mv ${shownPath(to)} ${shownPath(to)}.old`,
    );
  }
  const lines = [
    `${shownPath(to)} is made from ${shownPath(from)}`,
    "Grants that are newer than the backup are void",
    "Tokens that were revoked after the backup can be used again: revoke them again",
  ];
  await confirm("Restore this backup?", lines, options, context);
  const hosting = await hostingOf(context);
  try {
    await hosting.restore(from, to);
  } catch (error) {
    throw asCliError(hosting, error);
  }
  context.write(`${shownPath(to)} is restored. Start the server as usual.\n`);
}
