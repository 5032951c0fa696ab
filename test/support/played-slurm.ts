// Installs the Slurm that is played (`played-slurm.sh`) into a directory, with the answers of a recorded one.

import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

interface Recorded {
  readonly program: string;
  readonly args: readonly string[];
  readonly output?: string;
}

const PROGRAMS = ["sbatch", "squeue", "sacct", "scontrol", "scancel", "sdiag", "slurmd", "slurmstepd"];
const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** By what was asked. */
export function recordedAnswers(version: string): Readonly<Record<string, readonly Recorded[]>> {
  return JSON.parse(readFileSync(path(`../recorded/slurm-${version}.json`), "utf8"));
}

/** Returns the directory of its programs, for `SLURM_BIN`. It has one node with two GPUs. */
export function installPlayedSlurm(directory: string, version: string): string {
  const recorded = recordedAnswers(version);
  const answer = (label: string) => recorded[label]?.[0]?.output ?? "";
  for (const name of ["bin", "answers", "jobs", "numbers"]) mkdirSync(join(directory, name));
  const script = join(directory, "played-slurm.sh");
  copyFileSync(path("played-slurm.sh"), script);
  chmodSync(script, 0o755);
  for (const program of PROGRAMS) symlinkSync(script, join(directory, "bin", program));
  const answers = {
    version: answer("version"),
    nodes: `${answer("nodes idle").split("\n")[0]}\n`,
    partition: answer("partition"),
    config: answer("setting"),
    time: answer("time"),
  };
  for (const [name, text] of Object.entries(answers)) writeFileSync(join(directory, "answers", name), text);
  return join(directory, "bin");
}

/** Kills what is left of jobs: a test that fails must not leave one behind that heeds nothing. */
export function endPlayedSlurm(directory: string): void {
  for (const id of readdirSync(join(directory, "jobs"))) {
    const job = join(directory, "jobs", id);
    const state = readFileSync(join(job, "state"), "utf8").trim();
    if (state !== "RUNNING" && state !== "COMPLETING") continue;
    try {
      process.kill(-Number(readFileSync(join(job, "session"), "utf8")), "SIGKILL");
    } catch {
      // It has ended meanwhile.
    }
  }
}
