// Executors start granted jobs: one interface, one comparison of wanted with actual, one durable note per attempt.
// Other folders import from this file only.

export { endedPart, ending, printable, startFailed, TAIL_BYTES } from "./ends.ts";
export { environmentOf } from "./environment.ts";
export { type Executor, type ExecutorEvents, leftMs, type SyncAnswer, type Terms } from "./executor.ts";
export {
  type Entry,
  type NumberedReport,
  type Order,
  readEnd,
  readJson,
  type StoredEnd,
  writeDurably,
  writeEnd,
  writeWhole,
} from "./journal.ts";
export { type KubernetesAdapterOptions, startKubernetesAdapter } from "./kubernetes/adapter.ts";
export {
  CLIENT_PACKAGE,
  CLIENT_VERSION,
  ClientMissing,
  type Kubernetes,
  KubernetesFailure,
  openKubernetes,
  type Right,
} from "./kubernetes/client.ts";
export type { PodTemplate } from "./kubernetes/manifest.ts";
export { reportedNodes as reportedKubernetesNodes } from "./kubernetes/nodes.ts";
export { hasLog, logBytes, openLogReader, openLogWriter, readTail } from "./log-files.ts";
export type { LogPart, LogRead, LogReader, LogStream } from "./log-reader.ts";
export { type ExecutorLoop, type SyncBody, startLoop } from "./loop.ts";
export { identityFor, POLICY_FILE, RunAsRefusal, readPolicy } from "./run-as.ts";
export { secretsOf } from "./secrets.ts";
export { type SlurmAdapterOptions, startSlurmAdapter } from "./slurm/adapter.ts";
export { createSlurm, programsIn, type RunProgram, type Slurm, SlurmFailure } from "./slurm/commands.ts";
export { reportedNodes } from "./slurm/nodes.ts";
