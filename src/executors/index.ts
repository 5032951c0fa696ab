// Who starts a granted job: one interface, one comparison of what is wanted with what is, one durable note per attempt.
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
export { hasLog, logBytes, openLogReader, openLogWriter, readTail } from "./log-files.ts";
export type { LogPart, LogRead, LogReader, LogStream } from "./log-reader.ts";
export { type ExecutorLoop, type SyncBody, startLoop } from "./loop.ts";
export { identityFor, POLICY_FILE, RunAsRefusal, readPolicy } from "./run-as.ts";
export { secretsOf } from "./secrets.ts";
export { type SlurmAdapterOptions, startSlurmAdapter } from "./slurm/adapter.ts";
export { createSlurm, programsIn, type RunProgram, type Slurm, SlurmFailure } from "./slurm/commands.ts";
export { reportedNodes } from "./slurm/nodes.ts";
