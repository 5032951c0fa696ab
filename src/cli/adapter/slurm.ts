// berth adapter slurm (21).

import { mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { createSlurm, programsIn, startSlurmAdapter } from "../../executors/index.ts";
import { type CliContext, CliError } from "../context.ts";
import { type AdapterFlags, runAdapter } from "./common.ts";

export interface SlurmFlags extends AdapterFlags {
  readonly partition?: string;
  readonly account?: string;
  readonly workDir?: string;
  readonly policy?: string;
  readonly secrets: string;
}

export function slurm(flags: SlurmFlags, context: CliContext): Promise<void> {
  return runAdapter(flags, context, async (basics) => {
    const slurm = createSlurm(programsIn(process.env.SLURM_BIN, process.env));
    const version = await slurm.version().catch((error: Error) => {
      throw new CliError("unavailable", error.message, "Run this where sbatch works, or set SLURM_BIN.");
    });
    const workDirectory = resolve(flags.workDir ?? join(homedir(), "berth-jobs"));
    mkdirSync(workDirectory, { recursive: true, mode: 0o711 });
    const running = startSlurmAdapter({
      ...basics,
      ...{ slurm, workDirectory },
      reportsNodes: flags.nodes === true,
      partition: flags.partition,
      account: flags.account,
      policyFile: flags.policy,
      secrets: flags.secrets,
    });
    return { running, cluster: `Slurm ${version}` };
  });
}
