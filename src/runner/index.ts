// Starts and stops the processes of a job, and always ends all of them. Knows nothing of servers or grants.
// Other folders import from this file only.

export {
  type CheckpointAnswer,
  type CheckpointHandler,
  type CheckpointReport,
  type CheckpointRequest,
  sendCheckpointReport,
  takeReports,
} from "./checkpoint.ts";
export { checkCommand, checkWords } from "./command.ts";
export { type Containment, detectContainment } from "./containment.ts";
export { deviceVariables } from "./devices.ts";
export type { ContainmentLevel, EnclosurePlan } from "./enclosure.ts";
export { endTree, type TreeEnd } from "./ending.ts";
export { hideVariable } from "./environ.ts";
export { isJobRefusal, type JobRefusal } from "./errors.ts";
export type { HookCall, ReleaseHook } from "./guard.ts";
export { type Job, type JobExit, type JobOptions, type JobUser, startJob } from "./job.ts";
export type { Exit, StdioChoice } from "./launch.ts";
export { onLines } from "./lines.ts";
export { type Circumstances, type CommandEnd, causeOfFailure, type Outcome, outcomeOf } from "./outcome.ts";
export { bootId, identify, isOfJob, isRunning, type ProcessIdentity } from "./processes.ts";
export { checkGuardian, programArguments, programEnvironment } from "./programs.ts";
export { exitCodeOf, forwardSignals, hasTerminal } from "./terminal.ts";
