// One attempt: the command runs under a grant, and ends when it ends, when it must, or with us.
//
// Invariants
//   1. The end is reported only after nothing of the job runs any more; until then its units stay in use.
//   2. If we die, the guardian ends the job and reports in our place.
//   3. An old token is final: the job is killed, and nothing is reported about it.

import { setImmediate as turnOfTheLoop } from "node:timers/promises";
import type { WireRelease, WireRenewal, WireRequest } from "../../protocol/index.ts";
import {
  type CheckpointAnswer,
  type CheckpointReport,
  type Circumstances,
  type CommandEnd,
  causeOfFailure,
  exitCodeOf,
  forwardSignals,
  type Job,
  type JobExit,
  outcomeOf,
  type ReleaseHook,
  startJob,
  takeReports,
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

export interface AttemptInput {
  readonly client: Client;
  readonly plan: RunPlan;
  readonly granted: GrantedRequest;
  /** When the call was sent that brought the grant. */
  readonly grantedAtMs: number | undefined;
  readonly checkpointDir: string;
  /** The GPUs that the command may see. */
  readonly devices: Readonly<Record<string, string>>;
  readonly talk: Talk;
  /** Aborted by a signal, its reason, that came too early for the command. */
  readonly interrupted: AbortSignal;
  /** Aborted when the user wants to leave although the end is not reported yet. */
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

/** What a command leaves behind may take this long to end. */
const LEFTOVER_GRACE_MS = 5_000;
const LOST_GRACE_MS = 10_000;
/** How long the end is reported by ourselves, if nothing depends on the answer. */
const REPORT_FOR_MS = 15_000;
/** Who has lost touch has waited long enough. */
const LOST_REPORT_FOR_MS = 1_000;
const GUARDIAN_REPORTS_FOR_MS = 3_600_000;
const GUARDIAN_RENEWAL_MS = 20_000;
const MESSAGE_CHARS_MAX = 1_000;
const WATCHDOG_MARGIN_MS = 1_000;
const endingSignals: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];

export async function runAttempt(input: AttemptInput): Promise<AttemptEnd> {
  const { talk } = input;
  const job = await startOrWithdraw(input);
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
    const endedAtMs = holder.serverTimeMs();
    await holder.lastReports();
    stopForwarding();
    input.enter("reporting");
    return await reportEnd(input, { job, exit, holder, endedAtMs });
  } finally {
    stopForwarding();
    holder.close();
    talk.clear();
  }
}

/** What cannot be started will not be startable later: the request ends here, and its units come free. */
async function startOrWithdraw({
  client,
  plan,
  granted,
  checkpointDir,
  devices,
}: AttemptInput): Promise<Job> {
  try {
    return await startJob({
      command: plan.command,
      env: environmentFor(granted, devices),
      checkpointDir,
      graceMs: LEFTOVER_GRACE_MS,
      releaseHook: hookFor(client, granted, {
        outcome: "failed",
        cause: "wrapper_killed",
        message: "berth run ended before its command.",
      }),
      ...(plan.checkpointSignal !== undefined && { checkpointSignal: plan.checkpointSignal }),
      ...(plan.checkpointCommand !== undefined && { checkpointCommand: plan.checkpointCommand }),
    });
  } catch (error) {
    const message = String(error instanceof Error ? error.message : error).slice(0, MESSAGE_CHARS_MAX);
    const details = { cause: "start_failed" as const, message };
    await client.requests.withdraw(granted.id, details).catch(() => undefined);
    throw error;
  }
}

/**
 * A key that was pressed before the command had started reaches us only afterwards, and would pass for one that the
 * command has had from the keyboard, too. Two turns of the loop deliver it: the one under way may have polled already.
 */
async function pendingSignals(): Promise<void> {
  await turnOfTheLoop();
  await turnOfTheLoop();
}

interface Holder {
  /** The instruction under which the job was told to stop. */
  stopReason(): Instruction | undefined;
  circumstances(): Circumstances;
  serverTimeMs(): number;
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
  let hasFinished = false;
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
    void client.requests.renew(id, stuckRenewal(token, pids)).catch(() => undefined); // Raises an alert.
    talk.say(`stuck    ${title} · processes ${pids} cannot be killed; its units stay in use`);
  };

  const stopLost = () => {
    job.extend(LOST_GRACE_MS); // What is frozen cannot end in order.
    return stop(LOST_GRACE_MS);
  };

  const lease: Lease = keepLease(
    client.transport,
    granted,
    {
      onInstruction(next) {
        if (instruction === undefined) hasSaved = false; // What was saved before the notice answers no notice.
        instruction = next.do === "carry_on" ? undefined : next;
        deadlineMs = next.deadlineMs;
        if (next.do === "checkpoint") {
          lease.describe({ phase: "checkpointing" });
          talk.say(`stopping ${title} · ${next.reason} · checkpoint within ${secondsText(next.leftMs)}`);
          const deadlineAtMs = Date.now() + next.leftMs;
          void job.requestCheckpoint({ deadlineAtMs, reason: next.reason }).catch((error: Error) => {
            talk.say(`berth: the job could not be asked to checkpoint: ${error.message}`);
          });
        }
        if (next.do === "stop") {
          lease.describe({ phase: "stopping" });
          const within = next.leftMs > 0 ? `within ${secondsText(next.leftMs)}` : "now";
          talk.say(`stopping ${title} · ${next.reason} · must end ${within}`);
          void stop(next.leftMs);
        }
      },
      onLease(leftMs) {
        // A little later than we would do it ourselves: this is for when we cannot.
        if (plan.onLost !== "run-on") job.extend(leftMs + Math.min(WATCHDOG_MARGIN_MS, leftMs / 10));
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
          void stopLost();
        }
      },
      onContact() {
        talk.say(`found    ${title} · the server has answered, and the grant is still ours`);
        isFrozen = false;
        freezing = freezing.then(() => job.thaw());
      },
      onLoss(error) {
        if (isOver) return; // By our own report, of which the stream has just brought the event.
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
    if (said.kind === "finished") {
      hasFinished = true;
      return { accepted: true, message: "noted; its end is a success" };
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
    circumstances: () => ({ told: toldOf(instruction), hasSaved, hasFinished }),
    serverTimeMs: () => lease.serverTimeMs(),
    isInterrupted: () => isInterrupted,
    loss: () => loss,
    onSignal(signal) {
      if (!endingSignals.includes(signal)) return;
      isInterrupted = true;
      // A suspended job hears nothing, and nobody knows when it will again.
      if (isFrozen) void freezing.then(stopLost);
    },
    async lastReports() {
      for (const said of takeReports(checkpointDir)) await track(said);
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

function toldOf(instruction: Instruction | undefined): Circumstances["told"] {
  return instruction === undefined || instruction.do === "carry_on" ? undefined : instruction.do;
}

async function reportEnd(
  { client, granted, giveUp, talk }: AttemptInput,
  { job, exit, holder, endedAtMs }: { job: Job; exit: JobExit; holder: Holder; endedAtMs: number },
): Promise<AttemptEnd> {
  const command: CommandEnd = { exitCode: exitCodeOf(exit), signal: exit.signal };
  const loss = holder.loss();
  if (isBerthError(loss, "stale_token", "not_found")) {
    job.close();
    return { kind: "lost", command, error: asLoss(loss) };
  }
  const { id, token } = granted;
  const stopReason = holder.stopReason();
  const outcome = outcomeOf(command, holder.circumstances());
  const { isOutOfMemory } = exit;
  const report: Omit<WireRelease, "token"> = {
    outcome,
    exit_code: command.exitCode,
    ...(exit.signal !== null && { signal: exit.signal }),
    ...(outcome === "failed" && causeOfFailure({ isInterrupted: holder.isInterrupted(), isOutOfMemory })),
    ended_at: new Date(endedAtMs).toISOString(),
  };
  const body: WireRelease = { token, ...report };
  job.setReleaseHook(hookFor(client, granted, report));

  // After Ctrl-C the command is not wanted back.
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

/** The user wants to leave: one more try, and no further attempt. Undefined without an answer. */
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
  const described = client.transport.describe("releaseRequest", {
    params: { id },
    body: { token, ...report },
  });
  // Who reports for us knows when the job ended; by the server's clock, which stood at the start when ours did.
  const clockOffsetMs = Date.parse(granted.started_at ?? "") - Date.now();
  const release =
    report.ended_at === undefined && Number.isFinite(clockOffsetMs)
      ? { ...described, clockOffsetMs }
      : described;
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
function environmentFor(granted: GrantedRequest, devices: AttemptInput["devices"]): Record<string, string> {
  const { BERTH_API_TOKEN: _, ...own } = process.env;
  return {
    ...(own as Record<string, string>),
    BERTH_REQUEST: granted.id,
    BERTH_POOL: granted.pool ?? "",
    BERTH_ATTEMPT: String(granted.attempt),
    BERTH_RESUME: granted.resume ? "1" : "0",
    BERTH_GRANT: granted.token,
    ...devices,
  };
}
