// What the adapters of all clusters do on the command line: their state, their way to the servers, and their end.

import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { takeDirectory } from "../../agent/index.ts";
import type { ExecutorLoop } from "../../executors/index.ts";
import { type Client, createClient } from "../../sdk/index.ts";
import { resolveConnection } from "../connection.ts";
import { type CliContext, CliError } from "../context.ts";
import { shownPath } from "../paths.ts";
import { listenForEnd } from "../serving/host.ts";

export interface AdapterFlags {
  readonly pool: string;
  readonly url?: string;
  readonly nodes?: boolean;
  readonly stateDir?: string;
  readonly startWithin: string;
}

/** What every adapter is started with. */
export interface AdapterBasics {
  readonly client: Client;
  readonly pool: string;
  readonly stateDirectory: string;
  readonly version: string;
  readonly startMsMax: number;
  readonly tell: (text: string) => void;
}

/** Runs until it is asked to end; jobs go on. `start` returns with the name and version of the cluster. */
export async function runAdapter(
  flags: AdapterFlags,
  context: CliContext,
  start: (basics: AdapterBasics) => Promise<{ readonly running: ExecutorLoop; readonly cluster: string }>,
): Promise<void> {
  const { pool } = flags;
  const ending = listenForEnd();
  const stateDirectory = stateDirectoryOf(flags);
  const other = takeDirectory(stateDirectory);
  if (other !== undefined) {
    throw new CliError(
      "name_taken",
      `An adapter works with ${shownPath(stateDirectory)} already (pid ${other}).`,
    );
  }
  const { urls, token } = resolveConnection(flags.url === undefined ? {} : { url: flags.url });
  const { durationSeconds } = await import("../parsing.ts");
  const { running, cluster } = await start({
    client: createClient({ urls, ...(token !== undefined && { token }) }),
    ...{ pool, stateDirectory, version: context.version },
    startMsMax: durationSeconds(flags.startWithin) * 1000,
    tell: (text) => context.tell(`berth: ${text}\n`),
  });
  context.write(`${cluster} runs the jobs of pool ${pool}. Ctrl-C stops the adapter; jobs go on.\n`);
  await ending.asked;
  await running.close();
  ending.stop();
}

function stateDirectoryOf({ stateDir, pool }: AdapterFlags): string {
  const home = join(process.env.XDG_STATE_HOME || join(homedir(), ".local", "state"), "berth", "adapter");
  const root = process.getuid?.() === 0 ? "/var/lib/berth-adapter" : home;
  return resolve(stateDir ?? join(root, pool.replaceAll(/[^\w.-]/g, "_")));
}
