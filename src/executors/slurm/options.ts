// What a grant means for `sbatch`. Pure.

import type { WireWantedPart } from "../../protocol/index.ts";

/** The identity of an attempt in Slurm (S2). */
export function jobName({ request_id, attempt }: Pick<WireWantedPart, "request_id" | "attempt">): string {
  return `berth-${request_id}-${attempt}`;
}

/** By which an adapter knows the jobs of its pool. */
export function jobComment(pool: string): string {
  return `berth ${pool.replaceAll(/[^\w.-]/g, "_")}`;
}

export interface Placement {
  readonly pool: string;
  readonly partition: string | undefined;
  readonly account: string | undefined;
  readonly output: string;
  readonly directory: string;
  /** The user id of the job, if it is not the adapter's (S7). */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
}

/** Everybody can read these: no value of the job's environment and no token is among them. */
export function submitOptions(part: WireWantedPart, placement: Placement): string[] {
  const { resources, nodes } = part;
  const { mcpu = 0, memory_mb = 0, gpu = 0 } = resources;
  const count = Math.max(1, nodes.length);
  return [
    `--job-name=${jobName(part)}`,
    `--comment=${jobComment(placement.pool)}`,
    "--export=NONE",
    "--no-requeue",
    "--open-mode=append",
    `--output=${placement.output}`,
    `--chdir=${placement.directory}`,
    ...[`--nodes=${count}`, `--ntasks=${count}`, "--ntasks-per-node=1"],
    ...(nodes.length > 0 ? [`--nodelist=${nodes.join(",")}`] : []),
    `--cpus-per-task=${Math.max(1, Math.ceil(mcpu / 1000))}`,
    ...(memory_mb > 0 ? [`--mem=${memory_mb}M`] : []),
    ...(gpu > 0 ? [`--gres=gpu:${gpu}`] : []),
    ...(placement.partition === undefined ? [] : [`--partition=${placement.partition}`]),
    ...(placement.account === undefined ? [] : [`--account=${placement.account}`]),
    ...(placement.user === undefined ? [] : [`--uid=${placement.user.uid}`, `--gid=${placement.user.gid}`]),
  ];
}
