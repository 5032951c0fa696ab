// Slurm as an executor (21). Every look compares what Slurm shows with what is wanted, and carries out what follows (`steps.ts`).
//
// Invariant: what a look could not see changes nothing. A controller that does not answer leaves everything as it was.

import { chownSync, mkdirSync, rmSync } from "node:fs";
import { uptime } from "node:os";
import { join } from "node:path";
import type { WireWantedPart } from "../../protocol/index.ts";
import { instructAttempt, inTurn } from "../attempt.ts";
import { startFailed } from "../ends.ts";
import { variablesOf } from "../environment.ts";
import type { Executor, ExecutorEvents } from "../executor.ts";
import { identityFor, RunAsRefusal } from "../run-as.ts";
import { secretsOf } from "../secrets.ts";
import { Attempt, type SlurmOrder } from "./attempt.ts";
import { type QueuedJob, type Slurm, SlurmFailure } from "./commands.ts";
import { jobComment, jobName, submitOptions } from "./options.ts";
import { openFileReader } from "./output.ts";
import { scriptOf } from "./script.ts";
import { type AccountOf, accountsOfName, stageOf } from "./states.ts";
import { type Move, nextMoves } from "./steps.ts";

export interface SlurmSettings {
  readonly slurm: Slurm;
  readonly pool: string;
  readonly partition: string | undefined;
  readonly account: string | undefined;
  /** Where jobs keep their output and checkpoints: on a file system that all nodes share. */
  readonly workDirectory: string;
  readonly policyFile: string | undefined;
  readonly secrets: string;
  readonly startMsMax: number | undefined;
  readonly tell: (text: string) => void;
}

interface Look {
  readonly queue: readonly QueuedJob[];
  readonly accounts: readonly AccountOf[] | undefined;
}

const AT_ONCE = 8;
const MOVES_MAX = 6;
/** While something changes, the next look comes so soon. */
const SOON_MS = 300;

export function createSlurmExecutor(settings: SlurmSettings, events: ExecutorEvents): Executor<SlurmOrder> {
  const { slurm, tell } = settings;
  const attempts = new Map<string, Attempt>();
  const comment = jobComment(settings.pool);
  let trouble: string | undefined;
  let strangers: readonly QueuedJob[] = [];
  let soon: NodeJS.Timeout | undefined;

  async function look(): Promise<QueuedJob[] | undefined> {
    try {
      const queue = await slurm.queue(settings.partition);
      if (trouble !== undefined) tell("Slurm answers again.");
      trouble = undefined;
      return queue;
    } catch (error) {
      note(error);
      for (const attempt of attempts.values()) attempt.missingSinceMs = undefined;
      return undefined;
    }
  }

  function note(error: unknown): void {
    if (!(error instanceof SlurmFailure)) throw error;
    if (error.message !== trouble) tell(error.message);
    trouble = error.message;
  }

  /** Moves follow each other until Slurm must be looked at again. */
  async function advance(attempt: Attempt, queue: readonly QueuedJob[]): Promise<void> {
    let accounts: readonly AccountOf[] | undefined;
    for (let count = 0; count < MOVES_MAX && !attempt.isOver; count++) {
      const moves = movesOf(attempt, { queue, accounts });
      if (moves.length === 0) return;
      for (const move of moves) {
        if (move.kind === "account") accounts = await accountsOf(attempt);
        else await carryOut(attempt, move);
      }
      if (moves.some(({ kind }) => kind !== "note" && kind !== "account")) return;
    }
  }

  function movesOf(attempt: Attempt, { queue, accounts }: Look): Move[] {
    const queued = queue.filter(({ name }) => name === attempt.name);
    const isShown = queued.some(({ id }) => id === attempt.note.jobId);
    if (isShown) attempt.missingSinceMs = undefined;
    else if (accounts !== undefined) attempt.missingSinceMs ??= performance.now();
    const { missingSinceMs } = attempt;
    const missingForMs = missingSinceMs === undefined ? 0 : performance.now() - missingSinceMs;
    const seen = { queued, accounted: accounts, trace: attempt.trace(), missingForMs };
    return nextMoves(attempt.note, seen, attempt.wish, Date.now(), settings.startMsMax);
  }

  async function accountsOf({ note: { jobId }, name }: Attempt): Promise<AccountOf[]> {
    const wanted = jobId === undefined ? { ids: [], names: [name] } : { ids: [jobId], names: [] };
    return accountsOfName(name, await slurm.accounts(wanted), Date.now());
  }

  async function carryOut(attempt: Attempt, move: Exclude<Move, { kind: "account" }>): Promise<void> {
    switch (move.kind) {
      case "note":
        return attempt.keepNote(move.note);
      case "end":
        attempt.collectReports();
        return attempt.keepEnd(move.end);
      case "submit":
        return submit(attempt);
      case "ask": {
        const isStop = move.for === "stop";
        if (!isStop) attempt.writeNotice();
        await slurm.signal(move.id, isStop ? "TERM" : "USR1", isStop ? "full" : "batch");
        return attempt.keepNote({ ...attempt.note, asked: move.for });
      }
      case "release":
        return slurm.release(move.id);
      case "hold":
        return slurm.hold(move.id);
      case "cancel":
        return slurm.cancel(move.id);
      default:
        return move satisfies never;
    }
  }

  async function submit(attempt: Attempt): Promise<void> {
    const { job } = attempt.entry.order;
    if (job === undefined) return attempt.keepEnd(startFailed("What to run was not kept.").end);
    const jobId = await slurm.submit(job.options, job.script);
    attempt.keepNote({ ...attempt.note, jobId });
    // Written down, so it is released at once rather than after another look.
    attempt.keepNote({ ...attempt.note, releasedAtMs: Date.now() });
    await slurm.release(jobId);
  }

  async function deliverSignals(attempt: Attempt, isRunning: boolean): Promise<void> {
    const { jobId } = attempt.note;
    if (!isRunning || jobId === undefined) return;
    for (const { id, signal } of attempt.signals) {
      if (attempt.hasDelivered(id)) continue;
      await slurm.signal(jobId, signal.replace(/^SIG/, ""), "full");
      attempt.keepSignal(id);
    }
  }

  async function follow(attempt: Attempt, queue: readonly QueuedJob[]): Promise<void> {
    try {
      if (!attempt.isOver) {
        const own = queue.find(({ id, name }) => id === attempt.note.jobId && name === attempt.name);
        attempt.show(own);
        attempt.collectReports();
        await deliverSignals(attempt, own !== undefined && stageOf(own.state) === "running");
        await advance(attempt, queue);
      }
    } catch (error) {
      note(error);
      attempt.complain((error as Error).message);
    }
    await attempt.passReports(events.passOn);
  }

  /** Something is on its way: a look in two seconds would be late. */
  function lookSoon(): void {
    const isMoving = [...attempts.values()].some(({ isInMotion }) => isInMotion);
    if (!isMoving || soon !== undefined) return;
    soon = setTimeout(() => {
      soon = undefined;
      events.onChange();
    }, SOON_MS);
  }

  return {
    order: (part) => orderOf(part, settings),
    start: (entry) => void attempts.set(entry.order.token, new Attempt(entry)),
    async list() {
      const queue = await look();
      if (queue !== undefined) {
        await inTurn([...attempts.values()], AT_ONCE, (attempt) => follow(attempt, queue));
        strangers = queue.filter((job) => job.comment === comment && stageOf(job.state) !== "over");
        events.onLogGrown();
      }
      lookSoon();
      return [...attempts.values()].map((attempt) => attempt.listing());
    },
    instruct: (part, terms) => instructAttempt(attempts, part, terms, uptime()),
    stop: (token) => attempts.get(token)?.disown(),
    forget({ order: { token, requestId } }) {
      const isFinished = attempts.get(token)?.listing().end?.outcome === "succeeded";
      attempts.delete(token);
      const checkpoint = join(settings.workDirectory, requestId, "checkpoint");
      if (isFinished) rmSync(checkpoint, { recursive: true, force: true });
    },
    /** All that is wanted has an attempt by now: other jobs with our mark are orphans. */
    async settle() {
      const names = new Set([...attempts.values()].map(({ name }) => name));
      const orphans = strangers.filter(({ name }) => !names.has(name));
      strangers = [];
      for (const { id } of orphans) await slurm.cancel(id).catch(note);
    },
    openLog: ({ order }, from) => openFileReader(order.output, from),
    close: () => clearTimeout(soon),
  };
}

/** What is written down, or why it cannot run. */
function orderOf(part: WireWantedPart, settings: SlurmSettings): ReturnType<Executor<SlurmOrder>["order"]> {
  const { run, request_id: requestId, token, component, attempt } = part;
  const own = join(settings.workDirectory, requestId);
  const output = join(own, `${attempt}.out`);
  const checkpointDir = join(own, "checkpoint");
  const preemptFile = join(own, `${attempt}.preempt`);
  const exitFile = join(own, `${attempt}.exit`);
  const paths = { output, checkpointDir, preemptFile, exitFile };
  const order: SlurmOrder = { requestId, token, name: jobName(part), ...paths };
  try {
    const wish = { component, user: run?.user, directory: run?.directory };
    const { directory, user } = identityFor(wish, settings.policyFile);
    const secrets = secretsOf(run?.secrets ?? [], component, settings.secrets);
    mkdirSync(own, { recursive: true, mode: 0o700 });
    if (user !== undefined) chownSync(own, user.uid, user.gid);
    const script = scriptOf({
      command: run?.command ?? [],
      directory,
      environment: variablesOf(part, secrets),
      checkpointDir,
      preemptFile,
      exitFile,
      checkpointSignal: run?.checkpoint_signal,
      checkpointCommand: run?.checkpoint_command,
      nodeCount: part.nodes.length,
    });
    const { pool, partition, account } = settings;
    const options = submitOptions(part, { pool, partition, account, output, directory: "/", user });
    return { order: { ...order, job: { options, script } } };
  } catch (error) {
    if (error instanceof RunAsRefusal) return { order, end: startFailed(error.message) };
    throw error;
  }
}
