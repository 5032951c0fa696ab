// berth adapter slurm: the jobs of a pool run on a cluster that a site already has (21, 22).

import { mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { takeDirectory } from "../agent/index.ts";
import { createSlurm, POLICY_FILE, programsIn, startSlurmAdapter } from "../executors/index.ts";
import { createClient } from "../sdk/index.ts";
import { resolveConnection } from "./connection.ts";
import { type CliContext, CliError } from "./context.ts";
import { shownPath } from "./paths.ts";
import { listenForEnd } from "./serving/host.ts";

interface SlurmFlags {
  readonly pool: string;
  readonly url?: string;
  readonly nodes?: boolean;
  readonly partition?: string;
  readonly account?: string;
  readonly workDir?: string;
  readonly stateDir?: string;
  readonly policy?: string;
  readonly secrets: string;
  readonly startWithin: string;
}

const HELP = `
An adapter speaks for one pool, with a token of its own: berth token create slurm --role executor --pool POOL.
It can be stopped and started again at any time: jobs go on meanwhile, and are found again by their names.

Examples:
  BERTH_API_TOKEN=… berth adapter slurm --pool lab --nodes --partition berth
`;

const SLURM_HELP = `
Runs where sbatch works, Slurm 22.05 or newer; SLURM_BIN names another directory of its programs. A job runs as the user of
the adapter; as root it runs jobs only as the users that ${POLICY_FILE} permits.

The work directory holds the output and the checkpoints of jobs, and must be on a file system that all nodes share.

Examples:
  berth adapter slurm --pool lab                        the pool has a capacity of its own; Slurm chooses the nodes
  berth adapter slurm --pool lab --nodes --partition gpu  the nodes of the partition are the nodes of the pool
`;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);
  command
    .command("slurm")
    .description("let Slurm run the jobs of a pool")
    .requiredOption("--pool <pool>", "whose jobs")
    .option("--url <urls>", "the servers, separated by commas; default: BERTH_URL, then the context")
    .option("--nodes", "the nodes of Slurm are the nodes of the pool, with what they have and their states")
    .option("--partition <name>", "where jobs go, and whose nodes count")
    .option("--account <name>", "the account in Slurm that jobs are charged to")
    .option("--work-dir <directory>", "output and checkpoints, shared by all nodes; default: ~/berth-jobs")
    .option(
      "--state-dir <directory>",
      "what the adapter keeps; default: /var/lib/berth-adapter/POOL for root",
    )
    .option("--policy <file>", `who may run as whom, for root; default: ${POLICY_FILE}`)
    .option("--secrets <directory>", "a file per secret, or a folder per component", "/etc/berth/secrets")
    .option("--start-within <duration>", "given back if Slurm has not started it by then", "10m")
    .addHelpText("after", SLURM_HELP)
    .action((flags: SlurmFlags) => slurm(flags, context));
}

async function slurm(flags: SlurmFlags, context: CliContext): Promise<void> {
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
  const client = createClient({ urls, ...(token !== undefined && { token }) });
  const slurm = createSlurm(programsIn(process.env.SLURM_BIN, process.env));
  const version = await slurm.version().catch((error: Error) => {
    throw new CliError("unavailable", error.message, "Run this where sbatch works, or set SLURM_BIN.");
  });
  const workDirectory = resolve(flags.workDir ?? join(homedir(), "berth-jobs"));
  mkdirSync(workDirectory, { recursive: true, mode: 0o711 });
  const { durationSeconds } = await import("./parsing.ts");
  const running = startSlurmAdapter({
    ...{ client, slurm, pool, stateDirectory, workDirectory, version: context.version },
    reportsNodes: flags.nodes === true,
    partition: flags.partition,
    account: flags.account,
    policyFile: flags.policy,
    secrets: flags.secrets,
    startMsMax: durationSeconds(flags.startWithin) * 1000,
    tell: (text) => context.tell(`berth: ${text}\n`),
  });
  context.write(`Slurm ${version} runs the jobs of pool ${pool}. Ctrl-C stops the adapter; jobs go on.\n`);
  await ending.asked;
  await running.close();
  ending.stop();
}

function stateDirectoryOf({ stateDir, pool }: SlurmFlags): string {
  const home = join(process.env.XDG_STATE_HOME || join(homedir(), ".local", "state"), "berth", "adapter");
  const root = process.getuid?.() === 0 ? "/var/lib/berth-adapter" : home;
  return resolve(stateDir ?? join(root, pool.replaceAll(/[^\w.-]/g, "_")));
}
