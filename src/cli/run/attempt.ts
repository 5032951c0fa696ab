// One attempt: the command runs under a grant, and ends when it ends, when it must, or with us.
//
// Invariants
//   1. The end is reported only after nothing of the job runs any more; until then its units stay in use.
//   2. If we die, the guardian ends the job and reports in our place.
//   3. An old token is final: the job is killed, and nothing is reported about it.

import { rmSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as turnOfTheLoop } from "node:timers/promises";
import type { WireRelease, WireRenewal, WireRequest } from "../../protocol/index.ts";
import {
  type CheckpointAnswer,
  type CheckpointReport,
  type Exit,
  exitCodeOf,
  forwardSignals,
  type Job,
  type ReleaseHook,
  startJob,
} from "../../runner/index.ts";
import {
  BerthError,
  type Client,
  type GrantedRequest,
  hasEnded,
  type Instruction,
  isBerthError,
  keepLease,
  type Lease,
  reasonToStop,
} from "../../sdk/index.ts";
import type { RunPlan } from "./plan.ts";
import { printable, secondsText, type Talk, titleOf } from "./talk.ts";
import type { CommandEnd } from "./verdict.ts";

export interface AttemptInput {
  readonly client: Client;
  readonly plan: RunPlan;
  readonly granted: GrantedRequest;
  /** When the call was sent that brought the grant. */
  readonly grantedAtMs: number | undefined;
  readonly checkpointDir: string;
  readonly talk: Talk;
  /** Aborted by a signal, its reason, that came too early for the command. */
  readonly interrupted: AbortSignal;
  /** Aborted when somebody wants to leave although the end is not reported yet. */
  readonly giveUp: AbortSignal;
  /** Says whose signals are whose: the command's while it runs, ours afterwards. */
  readonly enter: (phase: "running" | "reporting") => void;
}

export type AttemptEnd =
  /** The server knows; `request` says whether there is another attempt. */
  | {
      readonly kind: "reported";
      readonly request: WireRequest;
      readonly command: CommandEnd;
      readonly stopped: boolean;
      /** By a signal that was meant for the command. */
      readonly interrupted: boolean;
    }
  /** No server answered: the guardian goes on trying, and we need not wait for it. */
  | { readonly kind: "entrusted"; readonly command: CommandEnd; readonly reason: BerthError | undefined }
  | { readonly kind: "lost"; readonly command: CommandEnd; readonly error: BerthError };

/** "Try again later" by which a program says that it has stopped as it was told to, without being finished. */
const EXIT_STOPPED = 75;
/** What a command leaves behind may take this long to end. */
const LEFTOVER_GRACE_MS = 5_000;
const LOST_GRACE_MS = 10_000;
/** How long the end is reported by ourselves, if nothing depends on the answer. */
const REPORT_FOR_MS = 15_000;
/** Who has lost touch has waited long enough. */
const LOST_REPORT_FOR_MS = 1_000;
const GUARDIAN_REPORTS_FOR_MS = 3_600_000;
const GUARDIAN_RENEWAL_MS = 20_000;
const endingSignals: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];

export async function runAttempt(input: AttemptInput): Promise<AttemptEnd> {
  const { client, plan, granted, checkpointDir, talk } = input;
  const job = await startJob({
    command: plan.command,
    env: environmentFor(granted),
    checkpointDir,
    graceMs: LEFTOVER_GRACE_MS,
    releaseHook: hookFor(client, granted, {
      outcome: "failed",
      message: "berth run ended before its command.",
    }),
    ...(plan.checkpointSignal !== undefined && { checkpointSignal: plan.checkpointSignal }),
    ...(plan.checkpointCommand !== undefined && { checkpointCommand: plan.checkpointCommand }),
  });
  const holder = superviseJob(job, input);
  await pendingSignals();
  input.enter("running");
  const stopForwarding = forwardSignals(job, (signal) => holder.onSignal(signal));
  if (input.interrupted.aborted) {
    const signal = input.interrupted.reason as NodeJS.Signals;
    holder.onSignal(signal);
    job.forward(signal);
  }
  try {
    const exit = await job.exited;
    await job.gone;
    await holder.lastReports();
    stopForwarding();
    input.enter("reporting");
    return await reportEnd(input, { job, exit, holder });
  } finally {
    stopForwarding();
    holder.close();
    talk.clear();
  }
}

/**
 * A key that was pressed before the command was there is told to us only afterwards, and would pass for one that the
 * command has had from the keyboard, too. Two turns of the loop deliver it: the one under way may have polled already.
 */
async function pendingSignals(): Promise<void> {
  await turnOfTheLoop();
  await turnOfTheLoop();
}

interface Holder {
  /** The instruction under which the job was told to stop. */
  stopReason(): Instruction | undefined;
  hasSaved(): boolean;
  isInterrupted(): boolean;
  loss(): BerthError | undefined;
  onSignal(signal: NodeJS.Signals): void;
  /** Whatever the job has said shortly before its end. */
  lastReports(): Promise<void>;
  close(): void;
}

/** Carries out what the server wants, and tells it what the job says. */
function superviseJob(
  job: Job,
  { client, plan, granted, grantedAtMs, checkpointDir, talk }: AttemptInput,
): Holder {
  const { id, token } = granted;
  const title = titleOf(granted);
  let instruction: Instruction | undefined;
  /** Of the stopping sequence, by the server's clock; a report that moves it is heard of before the next renewal. */
  let deadlineMs: number | undefined;
  let hasSaved = false;
  let isInterrupted = false;
  let loss: BerthError | undefined;
  let isFrozen = false;
  let isOver = false;
  let freezing: Promise<unknown> = Promise.resolve();
  const reports = new Set<Promise<unknown>>();

  const stop = async (graceMs: number) => {
    const end = await (graceMs > 0 ? job.terminate(graceMs) : job.kill());
    if (end.kind === "gone") return;
    const pids = end.pids.join(", ");
    void client.requests.renew(id, stuckRenewal(token, pids)).catch(() => undefined); // Whoever can help is told.
    talk.say(`stuck    ${title} · processes ${pids} cannot be killed; its units stay in use`);
  };

  const lease: Lease = keepLease(
    client.transport,
    granted,
    {
      onInstruction(next) {
        instruction = next.do === "carry_on" ? undefined : next;
        deadlineMs = next.deadlineMs;
        if (next.do === "checkpoint") {
          lease.describe({ phase: "checkpointing" });
          talk.say(`stopping ${title} · ${next.reason} · checkpoint within ${secondsText(next.leftMs)}`);
          const deadlineAtMs = Date.now() + next.leftMs;
          void job.requestCheckpoint({ deadlineAtMs, reason: next.reason }).catch((error: Error) => {
            talk.say(`berth: the job could not be told to checkpoint: ${error.message}`);
          });
        }
        if (next.do === "stop") {
          lease.describe({ phase: "stopping" });
          const within = next.leftMs > 0 ? `within ${secondsText(next.leftMs)}` : "now";
          talk.say(`stopping ${title} · ${next.reason} · must end ${within}`);
          void stop(next.leftMs);
        }
      },
      onSilence() {
        const what = { suspend: "is suspended", "run-on": "runs on", kill: "is stopped" }[plan.onLost];
        talk.say(`lost     ${title} · no server has answered for a whole lease · the job ${what}`);
        if (plan.onLost === "suspend") {
          isFrozen = true;
          freezing = freezing.then(() => job.freeze());
        }
        if (plan.onLost === "kill") {
          loss = new BerthError("holder_lost", "No server has answered for a whole lease.");
          void stop(LOST_GRACE_MS);
        }
      },
      onContact() {
        talk.say(`found    ${title} · the server has answered, and the grant is still ours`);
        isFrozen = false;
        freezing = freezing.then(() => job.thaw());
      },
      onLoss(error) {
        if (isOver) return; // By our own report, which somebody has just told us about.
        loss = error;
        talk.say(`lost     ${title} · ${error.message}`);
        void stop(0);
      },
    },
    grantedAtMs,
  );

  const report = async (said: CheckpointReport): Promise<CheckpointAnswer> => {
    if (said.kind === "failed") {
      talk.say(`berth: ${printable(said.message)}`);
      return { accepted: true };
    }
    if (said.kind === "done") hasSaved = true;
    const { kind, ...rest } = said;
    const before = deadlineMs;
    try {
      const answer = await client.requests.checkpoint(id, { token, report: kind, ...rest });
      if (answer.stop !== null) deadlineMs = Date.parse(answer.stop.deadline);
      lease.renew();
      return { accepted: true, message: describeAnswer(said, answer, before) };
    } catch (error) {
      return { accepted: false, message: (error as Error).message };
    }
  };
  const track = (said: CheckpointReport) => {
    const answering = report(said);
    reports.add(answering);
    return answering.finally(() => reports.delete(answering));
  };
  job.onCheckpointReport(track);

  return {
    stopReason: () => instruction,
    hasSaved: () => hasSaved,
    isInterrupted: () => isInterrupted,
    loss: () => loss,
    onSignal(signal) {
      if (!endingSignals.includes(signal)) return;
      isInterrupted = true;
      // A suspended job hears nothing, and nobody knows when it will again.
      if (isFrozen) void freezing.then(() => stop(LOST_GRACE_MS));
    },
    async lastReports() {
      if (takeDoneFile(checkpointDir)) await track({ kind: "done" });
      await new Promise((resolve) => setImmediate(resolve)); // For what the channel has just read itself.
      await Promise.all(reports);
      isOver = true;
    },
    close: () => lease.close(),
  };
}

function describeAnswer(said: CheckpointReport, { stop }: WireRequest, beforeMs: number | undefined): string {
  if (stop === null) return said.kind === "done" ? "saved" : "noted; nobody has asked for a checkpoint";
  if (said.kind !== "defer") return stop.phase === "checkpoint" ? "noted" : "noted; the job is being stopped";
  const movedMs = beforeMs === undefined ? 0 : Date.parse(stop.deadline) - beforeMs;
  return `${Math.max(0, movedMs) / 1000} s more`;
}

/** A program may say `done` and end before anybody has looked. */
function takeDoneFile(checkpointDir: string): boolean {
  try {
    rmSync(join(checkpointDir, "done"));
    return true;
  } catch {
    return false;
  }
}

async function reportEnd(
  { client, granted, giveUp, talk }: AttemptInput,
  { job, exit, holder }: { job: Job; exit: Exit; holder: Holder },
): Promise<AttemptEnd> {
  const command: CommandEnd = { exitCode: exitCodeOf(exit), signal: exit.signal };
  const loss = holder.loss();
  if (isBerthError(loss, "stale_token", "not_found")) {
    job.close();
    return { kind: "lost", command, error: asLoss(loss) };
  }
  const { id, token } = granted;
  const stopReason = holder.stopReason();
  const outcome = outcomeOf(command, { stopReason, hasSaved: holder.hasSaved() });
  const body: WireRelease = { token, outcome, exit_code: command.exitCode };
  job.setReleaseHook(hookFor(client, granted, { outcome, exit_code: command.exitCode }));

  // Whoever has pressed Ctrl-C does not want the command to come back.
  const isFinal = outcome === "succeeded" || holder.isInterrupted() || loss !== undefined;
  const comesBack = !isFinal && mayComeBack(granted, outcome);
  const patienceMs = loss === undefined ? REPORT_FOR_MS : LOST_REPORT_FOR_MS;
  const retryForMs = comesBack ? Number.POSITIVE_INFINITY : patienceMs;
  const call = { retryForMs, signal: giveUp };
  try {
    if (holder.isInterrupted() && mayComeBack(granted, outcome)) await client.requests.cancel(id, call);
    const request = await client.requests.release(id, body, call);
    job.close();
    if (loss !== undefined) return { kind: "lost", command, error: loss };
    return {
      kind: "reported",
      request,
      command,
      stopped: outcome === "stopped",
      interrupted: holder.isInterrupted(),
    };
  } catch (error) {
    if (isBerthError(error, "stale_token", "not_found")) {
      job.close();
      return { kind: "lost", command, error: asLoss(error) };
    }
    if (giveUp.aborted) {
      const request = await reportOnce(client, granted.id, body);
      if (request !== undefined) {
        job.close();
        return { kind: "reported", request, command, stopped: outcome === "stopped", interrupted: false };
      }
    }
    const why = error instanceof Error ? error.message : String(error);
    talk.say(`berth: the end of ${titleOf(granted)} could not be reported yet: ${why}`);
    const reason = loss ?? (outcome === "stopped" && stopReason ? reasonToStop(stopReason) : undefined);
    return { kind: "entrusted", command, reason };
  }
}

/** Somebody wants to leave: one more try, and no further attempt. Undefined if nobody answers. */
async function reportOnce(client: Client, id: string, body: WireRelease): Promise<WireRequest | undefined> {
  try {
    const request = await client.requests.release(id, body, { retryForMs: 0, timeoutMs: LOST_REPORT_FOR_MS });
    return hasEnded(request) ? request : await client.requests.withdraw(id);
  } catch {
    return undefined;
  }
}

/** A request that is not there any more is as lost as its token. */
function asLoss(error: BerthError): BerthError {
  return error.code === "not_found" ? new BerthError("holder_lost", error.message) : error;
}

/** A result counts, whatever was asked for (11.4). What ends otherwise after it was told to has been stopped. */
function outcomeOf(
  { exitCode, signal }: CommandEnd,
  { stopReason, hasSaved }: { stopReason: Instruction | undefined; hasSaved: boolean },
): WireRelease["outcome"] {
  if (exitCode === 0 && signal === null) return "succeeded";
  if (stopReason === undefined) return "failed";
  const wasStopped = stopReason.do === "stop" || hasSaved || exitCode === EXIT_STOPPED;
  return wasStopped ? "stopped" : "failed";
}

function mayComeBack({ requeue }: WireRequest, outcome: WireRelease["outcome"]): boolean {
  if (outcome === "succeeded") return false;
  return requeue === "on_failure" || (requeue === "on_preemption" && outcome === "stopped");
}

function stuckRenewal(token: string, who: string): WireRenewal {
  return { token, phase: "stuck", progress: `cannot be killed: ${who}` };
}

/** What the guardian says to the server if we cannot. */
function hookFor(client: Client, granted: GrantedRequest, report: Omit<WireRelease, "token">): ReleaseHook {
  const { id, token } = granted;
  const cancellation = client.transport.describe("cancelRequest", { params: { id } });
  const release = client.transport.describe("releaseRequest", { params: { id }, body: { token, ...report } });
  const describeRenewal = (body: WireRenewal) =>
    client.transport.describe("renewRequest", { params: { id }, body });
  // Without us nobody would start the next attempt, so there must not be one (L2).
  const calls = mayComeBack(granted, report.outcome) ? [cancellation, release] : [release];
  return {
    calls,
    retryForMs: GUARDIAN_REPORTS_FOR_MS,
    stuck: {
      alert: describeRenewal(stuckRenewal(token, "its wrapper has died, too")),
      renewal: describeRenewal({ token, phase: "stopping" }),
      everyMs: GUARDIAN_RENEWAL_MS,
    },
  };
}

/** Ours, without the API token, and what the job may want to know about its grant. */
function environmentFor(granted: GrantedRequest): Record<string, string> {
  const { BERTH_API_TOKEN: _, ...own } = process.env;
  const env: Record<string, string> = {
    ...(own as Record<string, string>),
    BERTH_REQUEST: granted.id,
    BERTH_POOL: granted.pool ?? "",
    BERTH_ATTEMPT: String(granted.attempt),
    BERTH_RESUME: granted.resume ? "1" : "0",
    BERTH_GRANT: granted.token,
  };
  const devices = granted.placement.flatMap((place) => place.devices);
  if (devices.length > 0) env.CUDA_VISIBLE_DEVICES = devices.join(",");
  return env;
}
