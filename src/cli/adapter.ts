// berth adapter: the jobs of a pool run on a cluster that a site already has (21, 22).

import type { Command } from "commander";
import { CLIENT_PACKAGE, CLIENT_VERSION, POLICY_FILE } from "../executors/index.ts";
import type { AdapterFlags } from "./adapter/common.ts";
import type { KubernetesFlags } from "./adapter/kubernetes.ts";
import type { SlurmFlags } from "./adapter/slurm.ts";
import type { CliContext } from "./context.ts";

const HELP = `
An adapter speaks for one pool, with a token of its own: berth token create NAME --role executor --pool POOL.
It can be stopped and started again at any time: jobs go on meanwhile, and are found again by their names.

Examples:
  BERTH_API_TOKEN=… berth adapter slurm --pool lab --nodes --partition berth
  BERTH_API_TOKEN=… berth adapter kubernetes --pool lab --nodes --namespace berth-jobs
`;

const SLURM_HELP = `
Runs where sbatch works, Slurm 22.05 or newer; SLURM_BIN names another directory of its programs. A job runs as the user of
the adapter; as root it runs jobs only as the users that ${POLICY_FILE} permits.

The work directory holds the output and the checkpoints of jobs, and must be on a file system that all nodes share.

Examples:
  berth adapter slurm --pool lab                        the pool has a capacity of its own; Slurm chooses the nodes
  berth adapter slurm --pool lab --nodes --partition gpu  the nodes of the partition are the nodes of the pool
`;

const KUBERNETES_HELP = `
Needs ${CLIENT_PACKAGE} ${CLIENT_VERSION}, which is not part of Berth's own installation: npm install -g ${CLIENT_PACKAGE}@${CLIENT_VERSION}
Finds the cluster as kubectl does, or by the account of the pod that it runs in. Works with Kubernetes 1.20 and newer;
deploy/kubernetes/adapter.yaml has the rights that it needs.

A job runs in the image that was submitted with it (--image), else in that of the template, else in that of the adapter.

Examples:
  berth adapter kubernetes --pool lab --image python:3.12   the pool has a capacity of its own; Kubernetes chooses the nodes
  berth adapter kubernetes --pool lab --nodes --selector gpu=a100   those nodes of the cluster are the nodes of the pool
  berth adapter kubernetes --pool lab --nodes --checkpoints scratch   jobs save to the volume of the claim scratch
`;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);
  const slurm = command.command("slurm").description("let Slurm run the jobs of a pool");
  withAdapterOptions(slurm, "Slurm")
    .option("--partition <name>", "where jobs go, and whose nodes count")
    .option("--account <name>", "the account in Slurm that jobs are charged to")
    .option("--work-dir <directory>", "output and checkpoints, shared by all nodes; default: ~/berth-jobs")
    .option("--policy <file>", `who may run as whom, for root; default: ${POLICY_FILE}`)
    .option("--secrets <directory>", "a file per secret, or a folder per component", "/etc/berth/secrets")
    .addHelpText("after", SLURM_HELP)
    .action(async (flags: SlurmFlags) => (await import("./adapter/slurm.ts")).slurm(flags, context));
  const kubernetes = command.command("kubernetes").description("let Kubernetes run the jobs of a pool");
  withAdapterOptions(kubernetes, "Kubernetes")
    .option("--selector <labels>", "with --nodes: only nodes with these labels, as kubectl -l takes them")
    .option("--kubeconfig <file>", "how to reach the cluster; default: as kubectl does")
    .option("--context <name>", "a context of the kubeconfig")
    .option("--namespace <name>", "where jobs run; default: that of the context")
    .option("--image <image>", "of jobs that name none")
    .option(
      "--template <file>",
      "what every pod has in addition, such as tolerations: metadata and spec of a pod",
    )
    .option("--checkpoints <claim>", "a persistent volume claim that jobs save to")
    .option("--gpu-resource <name>", "what the cluster calls a GPU", "nvidia.com/gpu")
    .addHelpText("after", KUBERNETES_HELP)
    .action(async (flags: KubernetesFlags) =>
      (await import("./adapter/kubernetes.ts")).kubernetes(flags, context),
    );
}

/** Those that all adapters have. */
function withAdapterOptions(command: Command, cluster: string): Command {
  return command
    .requiredOption("--pool <pool>", "whose jobs")
    .option("--url <urls>", "the servers, separated by commas; default: BERTH_URL, then the context")
    .option(
      "--nodes",
      `the nodes of ${cluster} are the nodes of the pool, with what they have and their states`,
    )
    .option(
      "--state-dir <directory>",
      "what the adapter keeps; default: /var/lib/berth-adapter/POOL for root",
    )
    .option(
      "--start-within <duration>",
      `given back if ${cluster} has not started it by then`,
      "10m" satisfies AdapterFlags["startWithin"],
    );
}
