// What a shim does with its job: what is wanted of it, what it says about its checkpoint, and what its end means (11.4).
//
// Invariant: after the time that a server has granted, the job does what `on_lost` says (E3), whether it is the agent
// that is gone, the network or the server. If this process stands still, the runner's watchdog suspends the job.

import { constants, uptime } from "node:os";
import { finished } from "node:stream/promises";
import type { NumberedReport, StoredEnd } from "../executors/index.ts";
import {
  type CheckpointAnswer,
  type CheckpointReport,
  type Circumstances,
  causeOfFailure,
  exitCodeOf,
  type Job,
  outcomeOf,
  takeReports,
} from "../runner/index.ts";
import type { NodeOrder } from "./claims.ts";
import type { FromShim, OnLost, ShimState, ToShim } from "./messages.ts";

export interface Supervision {
  /** Sends an agent that has just connected everything that it may have missed. */
  greet(): void;
  hear(message: ToShim): void;
  readonly ended: Promise<StoredEnd>;
}

/** How long a job that reports waits for the server's answer, before the shim answers that the report is kept. */
const ANSWER_MS_MAX = 5_000;
const LOST_GRACE_MS = 10_000;
const WATCHDOG_MARGIN_S = 2;
const RUN_ON_S = 365 * 24 * 3_600;
const STREAM_CLOSE_MS_MAX = 5_000;
const endingSignals: ReadonlySet<string> = new Set(["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGKILL"]);

export function superviseJob(
  job: Job,
  order: NodeOrder,
  { say, lostBytes }: { say: (message: FromShim) => void; lostBytes: () => number },
): Supervision {
  const delivered = new Set<number>();
  const circumstances: { -readonly [K in keyof Circumstances]: Circumstances[K] } = {
    told: undefined,
    hasSaved: false,
    hasFinished: false,
  };
  let progress: string | undefined;
  let isStuck = false;
  /** By a signal that a user has sent to it. */
  let isInterrupted = false;
  const tell = () => say({ kind: "state", state: state() });
  const reports = createReports(say);
  const lease = keepLease(job, order, { onChange: tell, stop });
  setImmediate(lease.watch); // Not at once: it may be over already, and onChange reads what is made below.

  function state(): ShimState {
    const { told } = circumstances;
    const phase = told === undefined ? "running" : told === "checkpoint" ? "checkpointing" : "stopping";
    return {
      phase: lease.isFrozen() ? "suspended" : phase,
      ...(progress !== undefined && { progress }),
      signals: [...delivered],
      isStuck,
    };
  }

  async function stop(graceMs: number): Promise<void> {
    const { kind } = await (graceMs > 0 ? job.terminate(graceMs) : job.kill());
    isStuck = kind === "stuck";
    if (isStuck) tell();
  }

  function instruct({ do: what, reason, leftMs }: Extract<ToShim, { kind: "instruct" }>): void {
    if (circumstances.told === undefined) circumstances.hasSaved = false; // It answers no notice that came later.
    // SIGTERM cannot be taken back.
    if (circumstances.told !== "stop") circumstances.told = what === "carry_on" ? undefined : what;
    if (what === "stop") void stop(leftMs);
    if (what === "checkpoint" && circumstances.told === "checkpoint") {
      const deadlineAtMs = Date.now() + leftMs;
      void job.requestCheckpoint({ deadlineAtMs, reason }).catch((error: Error) => {
        progress = `cannot be asked to checkpoint: ${error.message}`.slice(0, 256);
        tell();
      });
    }
    tell();
  }

  async function report(said: CheckpointReport): Promise<CheckpointAnswer> {
    if (said.kind === "failed") {
      progress = said.message.slice(0, 256);
      tell();
      return { accepted: true };
    }
    if (said.kind === "finished") {
      circumstances.hasFinished = true;
      return { accepted: true, message: "noted; its end is a success" };
    }
    if (said.kind === "done") circumstances.hasSaved = true;
    progress = `checkpoint: ${said.kind}`;
    tell();
    return reports.send(said);
  }
  job.onCheckpointReport(report);

  function deliver(id: number, signal: string): void {
    if (delivered.has(id)) return;
    delivered.add(id);
    if (endingSignals.has(signal)) isInterrupted = true;
    if (signal === "SIGKILL") void stop(0);
    else if (signal in constants.signals) job.forward(signal as NodeJS.Signals);
    tell();
  }

  async function end(): Promise<StoredEnd> {
    const exit = await job.exited;
    await job.gone;
    await outputRead(job);
    for (const said of takeReports((order.job as NonNullable<NodeOrder["job"]>).checkpointDir))
      void report(said);
    await new Promise((resolve) => setImmediate(resolve)); // For what the runner has just read itself.
    lease.close();
    const command = { exitCode: exitCodeOf(exit), signal: exit.signal };
    const lost = lostBytes() > 0 ? `${lostBytes()} bytes of its output could not be written.` : undefined;
    const outcome = lease.loss() === undefined ? outcomeOf(command, circumstances) : "lost";
    const { isOutOfMemory } = exit;
    const failure = outcome === "failed" ? causeOfFailure({ isInterrupted, isOutOfMemory }) : {};
    const message = lease.loss() ?? failure.message ?? lost;
    return {
      end: {
        outcome,
        ...(failure.cause !== undefined && { cause: failure.cause }),
        exit_code: command.exitCode,
        ...(exit.signal !== null && { signal: exit.signal }),
        ...(message !== undefined && { message }),
        ended_at: new Date().toISOString(),
      },
      reports: reports.open(),
    };
  }

  return {
    greet() {
      tell();
      reports.repeat();
    },
    hear(message) {
      switch (message.kind) {
        case "instruct":
          return instruct(message);
        case "lease":
          return lease.extend(message.until, message.onLost);
        case "signal":
          return deliver(message.id, message.signal);
        case "kill":
          circumstances.told = "stop";
          return void stop(0);
        case "answer":
          return reports.answer(message.id, message.answer);
        default:
          return message satisfies never;
      }
    },
    ended: end(),
  };
}

/** Reports on their way to the server, by way of an agent that may be away. */
function createReports(say: (message: FromShim) => void) {
  const open = new Map<number, NumberedReport & { settle(answer: CheckpointAnswer): void }>();
  let count = 0;
  return {
    send(report: NumberedReport["report"]): Promise<CheckpointAnswer> {
      const id = ++count;
      say({ kind: "report", id, report });
      return new Promise((settle) => {
        open.set(id, { id, report, settle });
        // It stays open: the server hears of it as soon as it can be reached.
        setTimeout(
          () => settle({ accepted: true, message: "kept; the server does not answer" }),
          ANSWER_MS_MAX,
        ).unref();
      });
    },
    answer(id: number, answer: CheckpointAnswer): void {
      open.get(id)?.settle(answer);
      open.delete(id);
    },
    repeat(): void {
      for (const { id, report } of open.values()) say({ kind: "report", id, report });
    },
    open: (): NumberedReport[] => [...open.values()].map(({ id, report }) => ({ id, report })),
  };
}

/** How long the job may run without an answer of a server, and what happens then. */
function keepLease(
  job: Job,
  order: NodeOrder,
  { onChange, stop }: { onChange: () => void; stop: (graceMs: number) => Promise<void> },
) {
  let { leaseUntil: until, onLost } = order;
  let timer: NodeJS.Timeout | undefined;
  let isFrozen = false;
  let loss: string | undefined;
  let freezing: Promise<unknown> = Promise.resolve();

  function watch(): void {
    clearTimeout(timer);
    const left = until - uptime();
    // A little later than we would do it ourselves: this is for when we cannot.
    if (loss === undefined) job.extend((onLost === "run-on" ? RUN_ON_S : left + WATCHDOG_MARGIN_S) * 1000);
    if (left > 0) timer = setTimeout(watch, Math.min(left * 1000, 60_000));
    else act(onLost);
  }

  function act(how: OnLost): void {
    if (how === "suspend" && !isFrozen) {
      isFrozen = true;
      freezing = freezing.then(() => job.freeze());
      onChange();
    }
    if (how === "kill" && loss === undefined) {
      loss = "No server answered in time, and on_lost is kill.";
      job.extend(LOST_GRACE_MS * 2); // What is frozen cannot end in order.
      void stop(LOST_GRACE_MS);
    }
  }

  return {
    watch,
    extend(nextUntil: number, nextOnLost: OnLost): void {
      until = Math.max(until, nextUntil);
      onLost = nextOnLost;
      if (isFrozen && until > uptime()) {
        isFrozen = false;
        freezing = freezing.then(() => job.thaw());
        onChange();
      }
      watch();
    },
    isFrozen: () => isFrozen,
    loss: () => loss,
    close: () => clearTimeout(timer),
  };
}

/** Nothing of the job runs any more, so its pipes end, and all that was in them has then been written down. */
async function outputRead({ streams }: Job): Promise<void> {
  const read = [streams.stdout, streams.stderr]
    .filter((stream) => stream !== null)
    .map((stream) => finished(stream).catch(() => undefined));
  const bound = new Promise((resolve) => setTimeout(resolve, STREAM_CLOSE_MS_MAX).unref());
  await Promise.race([Promise.all(read), bound]);
}
