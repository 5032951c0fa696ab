// berth down: stops what `berth up` has started.

import type { Command } from "commander";
import { type CliContext, CliError } from "./context.ts";
import { dataDirectory } from "./paths.ts";
import { findRunning, isAlive, type RunningNote } from "./serving/running.ts";

const HELP = `
What runs under a grant goes on, and is found again at the next start.

Examples:
  berth down
  berth down --data-dir /tmp/try
`;

const LOOK_MS = 50;
const PATIENCE_MS = 30_000;

export function define(command: Command, context: CliContext): void {
  command
    .option("--data-dir <directory>", "where its data is")
    .addHelpText("after", HELP)
    .action((options: { dataDir?: string }) => down(dataDirectory(options.dataDir), context));
}

async function down(directory: string, context: CliContext): Promise<void> {
  const running = findRunning(directory);
  if (running === undefined) return context.tell("Berth is not running.\n");
  await stopRunning(running);
  context.write(`Stopped ${running.url} (pid ${running.pid}).\n`);
}

/** Resolves when its process has ended. */
export async function stopRunning(running: RunningNote): Promise<void> {
  process.kill(running.pid, "SIGTERM");
  for (let waitedMs = 0; isAlive(running); waitedMs += LOOK_MS) {
    if (waitedMs > PATIENCE_MS) {
      throw new CliError(
        "timeout",
        `Process ${running.pid} is still running.`,
        "Look at what it says, or try again.",
      );
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
