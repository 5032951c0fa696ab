// A job: one command with everything it starts, held together from its start to its end.
//
// Invariants
//   1. The guardian knows the enclosure before the command runs, so that our own death ends the job.
//   2. `gone` resolves only when nothing of the job runs any more; only then may its units be given back.

import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import {
  type CheckpointChannel,
  type CheckpointHandler,
  type CheckpointReport,
  type CheckpointRequest,
  openCheckpointChannel,
} from "./checkpoint.ts";
import { checkCommand } from "./command.ts";
import { findTool } from "./containment.ts";
import { type ContainmentLevel, type EnclosurePlan, openEnclosure } from "./enclosure.ts";
import { prepareEnding, STUCK_AFTER_MS, type TreeEnd } from "./ending.ts";
import { refusal } from "./errors.ts";
import { type Charge, type Guard, postGuard, type ReleaseHook } from "./guard.ts";
import { type Exit, type Launched, launch, type StdioChoice } from "./launch.ts";
import { watchMemory } from "./memory.ts";
import { MARK_VARIABLE, type ProcessIdentity } from "./processes.ts";
import { exitCodeOf, hasTerminal } from "./terminal.ts";
import { prepareWatchdog, type Watchdog } from "./watchdog.ts";

export interface JobOptions {
  command: readonly string[];
  /** The whole environment of the job; nothing of our own is added but the BERTH_ variables named below. */
  env: Record<string, string>;
  cwd?: string;
  /** Inherited by default. A number is an open file descriptor. */
  stdio?: readonly [StdioChoice, StdioChoice, StdioChoice];
  /** Given to the job as BERTH_CHECKPOINT_DIR. Kept after the job if it is named here. */
  checkpointDir?: string;
  /** Given to the job as BERTH_PREEMPT_FILE; appears when a checkpoint is requested. */
  preemptFile?: string;
  /** Given to the job as BERTH_SOCKET. */
  socketPath?: string;
  /** Sent to the command when a checkpoint is requested. None by default, because it would end the unaware. */
  checkpointSignal?: NodeJS.Signals;
  /** Run beside the command when a checkpoint is requested; its success counts as the report `done`. */
  checkpointCommand?: readonly string[];
  /** How long processes that outlive the command may take to end after SIGTERM. */
  graceMs: number;
  /** How long SIGKILL may take before the job counts as stuck. */
  stuckAfterMs?: number;
  /** What the guardian calls after it had to end the job because this process died. */
  releaseHook?: ReleaseHook;
  /** The strongest available by default. */
  containment?: ContainmentLevel;
  /** Called before the command starts, and again when more is known, for the program that ends the job if we and the guardian die. */
  onPlan?: (plan: EnclosurePlan) => void;
  /** As whom the command runs, without a way to more rights. Only root can say so; without it: as ourselves. */
  user?: JobUser;
}

export interface JobUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

export interface JobExit extends Exit {
  /** The kernel ended it for lack of memory. */
  readonly isOutOfMemory: boolean;
}

export interface Job {
  /** The command, or at level "namespace" the process that carries it. */
  readonly pid: number;
  readonly identity: ProcessIdentity;
  readonly containment: ContainmentLevel;
  readonly streams: Launched["streams"];
  /** The end of the command itself. What it left behind is being stopped then; see `gone`. */
  readonly exited: Promise<JobExit>;
  /** Nothing of the job is left. Never resolves while a process cannot be killed. */
  readonly gone: Promise<void>;
  /** SIGTERM to the whole tree, SIGKILL after the grace. "stuck" means: alive still, and its units in use. */
  terminate(graceMs?: number): Promise<TreeEnd>;
  /** SIGKILL to the whole tree. */
  kill(): Promise<TreeEnd>;
  /** Suspends the whole tree; false if something kept moving. */
  freeze(): Promise<boolean>;
  thaw(): void;
  /** The job may run for so much longer. If this is not said again in time, it is frozen, even if we stand still. */
  extend(leftMs: number): void;
  /** INT, TERM, HUP and QUIT go to the whole tree, as from a terminal; others to the command alone. */
  forward(signal: NodeJS.Signals): void;
  /** The first request notifies the job; later ones only move the deadline in the file. */
  requestCheckpoint(request: CheckpointRequest): Promise<void>;
  /** Takes one handler; reports wait for it. */
  onCheckpointReport(handler: CheckpointHandler): void;
  /** Replaces what the guardian does after our death, e.g. once the outcome is known. */
  setReleaseHook(hook: ReleaseHook): void;
  /** The caller has reported the end itself: the guardian is dismissed and temporary files are removed. */
  close(): void;
}

const treeSignals: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];

/** Resolves when the command runs; rejects with a `JobRefusal` if it cannot. */
export async function startJob(options: JobOptions): Promise<Job> {
  const cwd = resolve(options.cwd ?? ".");
  checkCommand(options.command, options.env, cwd);
  if (options.checkpointCommand !== undefined) checkCommand(options.checkpointCommand, options.env, cwd);

  const id = randomBytes(8).toString("hex");
  const temporaryDirectory = mkdtempSync(join(process.env.XDG_RUNTIME_DIR || tmpdir(), "berth-"));
  // Its own files are in there, and nobody else's: others may pass through, not look.
  if (options.user !== undefined) chmodSync(temporaryDirectory, 0o711);
  const paths = {
    checkpointDir: resolve(options.checkpointDir ?? join(temporaryDirectory, "checkpoint")),
    preemptFile: resolve(options.preemptFile ?? join(temporaryDirectory, "preempt")),
    socketPath: resolve(options.socketPath ?? join(temporaryDirectory, "socket")),
  };
  const guard = postGuard();
  const charge: Charge = { temporaryDirectory };
  if (options.releaseHook !== undefined) charge.hook = options.releaseHook;
  if (options.stuckAfterMs !== undefined) charge.stuckAfterMs = options.stuckAfterMs;
  let channel: CheckpointChannel | undefined;
  const close = () => {
    channel?.close();
    guard.dismiss();
    rmSync(temporaryDirectory, { recursive: true, force: true });
  };

  try {
    channel = await openCheckpointChannel(paths, options.user);
    const launched = await launch({
      id,
      level: options.containment,
      command: asUser(options.command, options.user),
      env: jobEnvironment(options.env, { id, ...paths }),
      cwd,
      stdio: options.stdio ?? ["inherit", "inherit", "inherit"],
      ownSession: !hasTerminal(),
      onPlan: (plan) => {
        charge.plan = plan;
        guard.entrust(charge);
        options.onPlan?.(plan);
      },
    });
    const watchdog = prepareWatchdog(temporaryDirectory, launched.plan);
    return superviseJob({ options, launched, channel, charge, guard, watchdog, close });
  } catch (error) {
    close();
    throw error;
  }
}

function superviseJob({
  options,
  launched,
  channel,
  charge,
  guard,
  watchdog,
  close,
}: {
  options: JobOptions;
  launched: Launched;
  channel: CheckpointChannel;
  charge: Charge;
  guard: Guard;
  watchdog: Watchdog;
  close: () => void;
}): Job {
  const enclosure = openEnclosure(launched.plan);
  const ending = prepareEnding(enclosure, options.stuckAfterMs ?? STUCK_AFTER_MS);
  let isNotified = false;
  const isOutOfMemory = watchMemory(launched.plan);
  // Asked before anything else: with what the command leaves behind, its control group goes, too.
  const exited = launched.exited.then((exit): JobExit => ({ ...exit, isOutOfMemory: isOutOfMemory(exit) }));
  // Whatever the command leaves behind gets the same notice and grace as any job that is stopped.
  void launched.exited.then(() => ending.stop(options.graceMs));

  return {
    pid: launched.identity.pid,
    identity: launched.identity,
    containment: launched.plan.level,
    streams: launched.streams,
    exited,
    gone: Promise.all([launched.exited, ending.gone]).then(() => undefined),
    terminate: (graceMs = options.graceMs) => ending.stop(graceMs),
    kill: () => ending.stop(0),
    freeze: () => enclosure.freeze(),
    thaw: () => enclosure.thaw(),
    extend: watchdog.extend,
    forward: (signal) => (treeSignals.includes(signal) ? enclosure.signal(signal) : launched.signal(signal)),
    requestCheckpoint: async (request) => {
      await channel.request(request);
      if (isNotified) return;
      isNotified = true;
      if (options.checkpointSignal !== undefined) launched.signal(options.checkpointSignal);
      if (options.checkpointCommand !== undefined)
        void launched
          .run(asUser(options.checkpointCommand, options.user))
          .then(reportOf, (error: Error): CheckpointReport => ({ kind: "failed", message: error.message }))
          .then(channel.deliver);
    },
    onCheckpointReport: channel.onReport,
    setReleaseHook: (hook) => {
      charge.hook = hook;
      guard.entrust(charge);
    },
    close,
  };
}

/** `setpriv` changes the user for good, with the groups that the user has, and then becomes the command. */
function asUser(command: readonly string[], user: JobUser | undefined): readonly string[] {
  if (user === undefined) return command;
  const setpriv = findTool("setpriv");
  if (setpriv === undefined) {
    throw refusal("start_failed", "There is no setpriv on this machine.", "Install util-linux.");
  }
  const { uid, gid } = user;
  const change = [`--reuid=${uid}`, `--regid=${gid}`, "--init-groups", "--no-new-privs", "--inh-caps=-all"];
  return [setpriv, ...change, "--", ...command];
}

/** What the end of the checkpoint command says about the checkpoint. */
function reportOf(exit: Exit): CheckpointReport {
  if (exit.code === 0) return { kind: "done" };
  return { kind: "failed", message: `The checkpoint command ended with ${exitCodeOf(exit)}.` };
}

/** The API token stays with the wrapper, whatever the caller passed on. */
function jobEnvironment(
  env: Record<string, string>,
  job: { id: string; preemptFile: string; checkpointDir: string; socketPath: string },
): Record<string, string> {
  const { BERTH_API_TOKEN: _, [MARK_VARIABLE]: outer, ...passedOn } = env;
  return {
    ...passedOn,
    [MARK_VARIABLE]: outer === undefined ? job.id : `${outer}:${job.id}`,
    BERTH_PREEMPT_FILE: job.preemptFile,
    BERTH_CHECKPOINT_DIR: job.checkpointDir,
    BERTH_SOCKET: job.socketPath,
  };
}
