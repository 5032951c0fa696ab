// berth run [resources] [options] -- COMMAND…

import { randomUUID } from "node:crypto";
import { rmdirSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import type { WireRequest } from "../protocol/index.ts";
import { checkCommand, checkGuardian, hideVariable, isJobRefusal } from "../runner/index.ts";
import {
  BerthError,
  type Client,
  createClient,
  errorOfEnding,
  type GrantedRequest,
  hasEnded,
  isBerthError,
} from "../sdk/index.ts";
import { resolveConnection } from "./connection.ts";
import { type CliContext, CliError } from "./context.ts";
import { fetchLightly } from "./http.ts";
import { afterOf, runOf, withJobOptions } from "./jobs/options.ts";
import { jobSubmissionOf, submitJob } from "./jobs/submitting.ts";
import { collect, withConnection, withIdempotencyKey } from "./options.ts";
import { type AttemptEnd, runAttempt } from "./run/attempt.ts";
import { checkIsHere, variablesOfDevices } from "./run/here.ts";
import type { RunNotices } from "./run/notices.ts";
import { planRun, type RunOptions, type RunPlan } from "./run/plan.ts";
import { hasExecutor, runRemotely } from "./run/remote.ts";
import {
  createTalk,
  printable,
  resourcesOf,
  secondsText,
  silentTalk,
  type Talk,
  titleOf,
} from "./run/talk.ts";
import { type Verdict, verdictOfCommand, verdictOfError, writeReport } from "./run/verdict.ts";
import { componentOf } from "./session.ts";
import { withSubmissionOptions } from "./submission.ts";

const HELP = `
The command waits until its resources are granted, and ends with its own exit code. Berth's own are
69 rejected, 71 cancelled, 73 walltime over, 74 grant lost, 75 preempted and not queued again,
124 not granted in time, 125 Berth failed, 126 and 127 not executable and not found.

When the grant is needed by others, the file named by BERTH_PREEMPT_FILE appears. A command that can save
says so with --checkpoint auto, and answers with \`berth checkpoint done\`. After a preemption it waits again
and is started again, with BERTH_ATTEMPT one higher, and BERTH_RESUME=1 if a checkpoint is complete.

Examples:
  berth run --gpu 1 -- python train.py
  berth run --gpu 2 --memory 16GiB --name train --checkpoint auto -- python train.py
  berth run --cpu 4 --wait-timeout 10m --report verdict.json -- make test
  berth run --pool cluster --gpu 1 -- nvidia-smi             # on a node, its output here
  berth run --detach --gpu 1 -- python train.py              # the same as berth submit
`;

export function define(command: Command, context: CliContext): void {
  // Options after the command are the command's own, also without \`--\`.
  command.parent?.enablePositionalOptions();
  command
    .usage("[resources] [options] [--] COMMAND...")
    .argument("[command...]", "the command and its arguments")
    .passThroughOptions();
  withSubmissionOptions(command)
    .option("--checkpoint-signal <signal>", "ask for a checkpoint with this signal, too")
    .option("--checkpoint-cmd <shell>", "save its state with this command")
    .option("--checkpoint-dir <directory>", "BERTH_CHECKPOINT_DIR, kept afterwards")
    .option("--on-lost <how>", "after a lease without any server: suspend, run-on or kill", "suspend")
    .option("--report <file>", "write how it ended, as JSON")
    .option("-d, --detach", "start it where there is room, and return at once; `berth logs` shows its output")
    .option("--notify <name>", "a target of `berth notify`, or desktop; may be repeated", collect)
    .option("-q, --quiet", "say nothing unless it goes wrong");
  withJobOptions(withIdempotencyKey(withConnection(command))).addHelpText("after", HELP);
  command.action((words: string[], options: RunOptions) => runCommand(words, options, context));
}

async function runCommand(words: readonly string[], options: RunOptions, context: CliContext): Promise<void> {
  const connection = resolveConnection(options);
  hideVariable("BERTH_API_TOKEN"); // The command runs as the same user, and could read it in /proc.
  const plan = await planRun(words, options, connection.component ?? "");
  const talk = options.quiet === true ? silentTalk : createTalk(screenOf(context));
  const { componentGuess, isOwnServer } = connection;
  const session: Session = {
    plan,
    talk,
    ...{ componentGuess, isOwnServer },
    request: undefined,
    waitedMs: 0,
    isUnreachable: false,
    notices: undefined,
  };
  const client = createClient({
    urls: connection.urls,
    ...(connection.token !== undefined && { token: connection.token }),
    fetch: fetchLightly,
    onRetry: (error) => tellTrouble(session, error),
  });
  session.notices = await noticesOf(client, options, context);
  const interruptions = listenForSignals();
  if (await runElsewhere(client, session, { options, interruptions, context })) return;
  const verdict = await runToVerdict(client, session, interruptions);
  const last = session.request;
  if (last !== undefined)
    await session.notices?.tell(last.status === "rejected" ? "rejected" : "ended", last);
  talk.clear();
  if (verdict.command === undefined || verdict.code !== "command_failed") tellVerdict(context, verdict);
  if (plan.reportFile !== undefined) saveReport(context, plan.reportFile, verdict, session.waitedMs);
  context.exitCode = verdict.exitCode;
}

async function noticesOf(
  client: Client,
  { notify = [], detach, array }: RunOptions,
  context: CliContext,
): Promise<RunNotices | undefined> {
  if (notify.length === 0) return undefined;
  const { noticesFor } = await import("./run/notices.ts");
  const notices = await noticesFor(client, notify, context.tell);
  if (!notices.isHere || (detach !== true && array === undefined)) return notices;
  throw new CliError(
    "usage",
    "Notices on this machine need a command that stays.",
    "Leave --detach out, or name a target of the server: berth notify add slack --url ADDRESS",
  );
}

/** In pools whose jobs Berth starts itself, the command does not run on this machine (J8). */
async function runElsewhere(
  client: Client,
  { plan, talk, componentGuess, isOwnServer, notices }: Session,
  {
    options,
    interruptions,
    context,
  }: { options: RunOptions; interruptions: Interruptions; context: CliContext },
): Promise<boolean> {
  const known = plan.submission.component;
  const component = known || (await componentOf({ client, component: undefined, componentGuess }));
  const isJob = options.detach === true || options.array !== undefined;
  const { signal } = interruptions;
  if (!isJob && !(await hasExecutor(client, { component, pools: options.pool, signal }))) return false;
  interruptions.enter("over"); // From here on signals are the job's.
  const labels = { ...plan.submission.labels, ...notices?.labels };
  const {
    origin,
    attended: _,
    ...submission
  } = {
    ...{ ...plan.submission, component, ...(await afterOf(client, options.after)) },
    ...(Object.keys(labels).length > 0 && { labels }),
  };
  const run = runOf(plan.command, options, { isOwnServer });
  const body = { ...jobSubmissionOf(submission, options), ...(origin && { origin }), run };
  if (isJob) await submitJob(client, body, options, context);
  else await runRemotely(client, body, { talk, context, notices });
  return true;
}

/** What is known so far, whatever happens next. */
interface Session {
  readonly plan: RunPlan;
  readonly talk: Talk;
  readonly componentGuess: string | undefined;
  readonly isOwnServer: boolean;
  request: WireRequest | undefined;
  waitedMs: number;
  isUnreachable: boolean;
  notices: RunNotices | undefined;
}

async function runToVerdict(
  client: Client,
  session: Session,
  interruptions: Interruptions,
): Promise<Verdict> {
  try {
    return await attemptUntilOver(client, session, interruptions);
  } catch (error) {
    if (isJobRefusal(error)) {
      const { exitCode, code, message, hint } = error;
      return { exitCode, code, message, hint, request: session.request, command: undefined };
    }
    if (!isBerthError(error) && !(error instanceof CliError)) throw error;
    return verdictOfError(error, session.request);
  } finally {
    interruptions.enter("over");
  }
}

/** Waits, runs, and does both again for as long as the server queues the request again. */
async function attemptUntilOver(
  client: Client,
  session: Session,
  interruptions: Interruptions,
): Promise<Verdict> {
  const { plan, talk } = session;
  // Nobody shall wait in line for a command that cannot be started.
  checkCommand(plan.command, process.env as Record<string, string>, process.cwd());
  checkGuardian();
  const submitted = await submit(client, session, interruptions.signal);
  let grantedAtMs: number | undefined = submitted.sentAtMs;
  session.request = submitted.request;
  for (;;) {
    const sinceMs = performance.now();
    if (session.request.status === "queued") grantedAtMs = undefined; // Known when the grant is heard of.
    const granted = await waitOrWithdraw(client, session, session.request, interruptions.signal);
    session.waitedMs += performance.now() - sinceMs;
    session.request = granted;
    await checkIsHere(client, granted);
    talk.say(
      `granted  ${titleOf(granted)} · ${resourcesOf(granted)} · waited ${secondsText(performance.now() - sinceMs)}` +
        (granted.attempt > 1 ? ` · attempt ${granted.attempt}${granted.resume ? ", resumes" : ""}` : ""),
    );
    void session.notices?.tell("started", granted);
    const end = await attempt(client, session, { granted, grantedAtMs, interruptions });
    if (end.kind !== "reported") return verdictOfUnreported(end, session.request);
    session.request = end.request;
    grantedAtMs = undefined;
    if (hasEnded(end.request)) return verdictOfReported(end);
    if (end.stopped) void session.notices?.tell("preempted", end.request);
    talk.say(`${end.stopped ? "preempted" : "failed   "} ${titleOf(end.request)} · waits again`);
  }
}

async function attempt(
  client: Client,
  { plan, talk }: Session,
  {
    granted,
    grantedAtMs,
    interruptions,
  }: { granted: GrantedRequest; grantedAtMs: number | undefined; interruptions: Interruptions },
): Promise<AttemptEnd> {
  const checkpointDir = plan.checkpointDir ?? ownCheckpointDir(granted);
  let end: AttemptEnd | undefined;
  try {
    const { signal, giveUp, enter } = interruptions;
    const devices = await variablesOfDevices(client, granted);
    const input = { client, plan, granted, grantedAtMs, checkpointDir, devices, talk, giveUp, enter };
    end = await runAttempt({ ...input, interrupted: signal });
    return end;
  } finally {
    interruptions.enter("waiting");
    const isFinished = end?.kind === "reported" && end.request.status === "released";
    if (plan.checkpointDir === undefined) tidyCheckpointDir(checkpointDir, isFinished);
  }
}

async function submit(
  client: Client,
  session: Session,
  signal: AbortSignal,
): Promise<{ request: WireRequest; sentAtMs: number }> {
  const { plan } = session;
  const component =
    plan.submission.component ||
    (await componentOf({ client, component: undefined, componentGuess: session.componentGuess }));
  const labels = { ...plan.submission.labels, ...session.notices?.labels };
  const body = { ...plan.submission, component, ...(Object.keys(labels).length > 0 && { labels }) };
  const idempotencyKey = plan.idempotencyKey ?? randomUUID();
  try {
    const { body: request, sentAtMs } = await client.transport.send(
      "submitRequest",
      { body },
      { idempotencyKey, signal },
    );
    return { request, sentAtMs };
  } catch (error) {
    if (!signal.aborted) throw error;
    // It may have arrived: the same key tells which request it is, and that one is taken back.
    await client.requests
      .submit(body, { idempotencyKey, retryForMs: 0 })
      .then(({ id }) => client.requests.withdraw(id))
      .catch(() => undefined);
    throw new BerthError("cancelled", "The request was cancelled before it was submitted.");
  }
}

async function waitOrWithdraw(
  client: Client,
  session: Session,
  request: WireRequest,
  signal: AbortSignal,
): Promise<GrantedRequest> {
  const { talk } = session;
  const timeoutSeconds = request.wait_timeout_seconds;
  try {
    const granted = await client.waitForGrant(request, {
      signal,
      // The server counts, too, and first; this is for when it cannot be reached.
      timeoutMs: timeoutSeconds === null ? undefined : timeoutSeconds * 1000 + WAIT_TIMEOUT_MARGIN_MS,
      onProgress: ({ line }) => {
        session.isUnreachable = false;
        talk.status(`waiting  ${titleOf(request)}${line === "" ? "" : ` · ${printable(line)}`}`);
      },
    });
    signal.throwIfAborted(); // Granted in the same moment: it is given back.
    return granted;
  } catch (error) {
    if (signal.aborted) {
      session.request = await client.requests.withdraw(request.id).catch(() => request);
      throw new BerthError("cancelled", `Request #${request.number} was cancelled.`);
    }
    if (isBerthError(error, "wait_timeout"))
      await client.requests.withdraw(request.id).catch(() => undefined);
    else session.request = await client.requests.get(request.id, {}, { retryForMs: 0 }).catch(() => request);
    throw error;
  }
}

const WAIT_TIMEOUT_MARGIN_MS = 2_000;

/** After Ctrl-C the exit code is the one that the command made of it. */
async function verdictOfReported({ request, command, interrupted }: Reported): Promise<Verdict> {
  const error = interrupted ? undefined : errorOfEnding(request);
  return error === undefined ? verdictOfCommand(request, command) : verdictOfError(error, request, command);
}

type Reported = Extract<AttemptEnd, { kind: "reported" }>;

async function verdictOfUnreported(
  end: Exclude<AttemptEnd, { kind: "reported" }>,
  request: WireRequest,
): Promise<Verdict> {
  const error = end.kind === "lost" ? end.error : end.reason;
  return error === undefined
    ? verdictOfCommand(request, end.command)
    : verdictOfError(error, request, end.command);
}

// --- Signals

interface Interruptions {
  /** Aborted by the first Ctrl-C that is not the command's, or another signal, which is the reason. */
  readonly signal: AbortSignal;
  /** Aborted when the user wants to leave although the end is not reported yet. */
  readonly giveUp: AbortSignal;
  enter(phase: Phase): void;
}

type Phase = "waiting" | "running" | "reporting" | "over";

const heededSignals: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];

/** Handlers stand before anything runs: without one, Ctrl-C would end us and the job at once. */
function listenForSignals(): Interruptions {
  const interruption = new AbortController();
  const giveUp = new AbortController();
  let phase: Phase = "waiting";
  const onSignal = (signal: NodeJS.Signals) => {
    if (phase === "reporting") giveUp.abort();
    // The report may be through already: then it is the next wait that is not wanted.
    if (phase === "waiting" || phase === "reporting") interruption.abort(signal);
    // While it runs, signals are the command's, and forwarded by its supervisor. When all is over, one that comes
    // late must not turn the verdict into a death by signal.
  };
  for (const signal of heededSignals) process.on(signal, onSignal);
  return {
    signal: interruption.signal,
    giveUp: giveUp.signal,
    enter: (next) => {
      phase = next;
    },
  };
}

// --- Where checkpoints are kept between attempts

/** On disk rather than in memory: checkpoints are large. */
function ownCheckpointDir({ id }: WireRequest): string {
  const state = process.env.XDG_STATE_HOME || join(homedir(), ".local", "state");
  return join(state, "berth", "checkpoints", id);
}

/** What was saved is no longer needed after a good end; before that only an empty directory is. */
function tidyCheckpointDir(directory: string, isFinished: boolean): void {
  try {
    if (isFinished) rmSync(directory, { recursive: true, force: true });
    else rmdirSync(directory);
  } catch {
    // There is something in it, and it may be wanted again.
  }
}

// --- Telling

function screenOf(context: CliContext) {
  const isTerminal = process.stderr.isTTY === true;
  return { write: context.tell, isTerminal, columns: () => process.stderr.columns ?? 80 };
}

function tellTrouble(session: Session, { message }: BerthError): void {
  if (session.isUnreachable) return;
  session.isUnreachable = true;
  const title = session.request === undefined ? "" : `${titleOf(session.request)} · `;
  session.talk.status(`waiting  ${title}${message} Trying again.`);
}

function tellVerdict(context: CliContext, { code, message, hint }: Verdict): void {
  if (code === "ok") return;
  context.tell(`berth: ${printable(message)} [${code}]\n${hint === "" ? "" : `${printable(hint)}\n`}`);
}

/** The command's own end matters more than a report that cannot be written. */
function saveReport(context: CliContext, file: string, verdict: Verdict, waitedMs: number): void {
  try {
    writeReport(file, verdict, waitedMs);
  } catch (error) {
    context.tell(`berth: ${(error as Error).message}\n`);
  }
}
