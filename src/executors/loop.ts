// Sends what an executor runs, receives what it should run, and makes the one into the other: the same loop for the agent of a
// node and for the adapter of a whole pool.
//
// Invariants
//   1. An attempt is written down before it is started, and a known one is never started again (J5).
//   2. An end is listed in every sync until the answer to a sync that listed it no longer wants it.
//   3. At most one sync is under way; an answer of an older epoch than one has seen changes nothing (E2).
//   4. What was wanted last is compared and repeated even while no server answers (S6).
//   5. Whatever fails here, such as a write to a full disk, is reported and tried again; it holds up nothing else.

import { randomUUID } from "node:crypto";
import { uptime } from "node:os";
import type {
  WireLogPiece,
  WireLogPieceAnswer,
  WirePartCheckpoint,
  WireRunningPart,
  WireWantedPart,
} from "../protocol/index.ts";
import type { CheckpointAnswer } from "../runner/index.ts";
import { type CallOptions, isBerthError } from "../sdk/index.ts";
import type { Executor, ExecutorEvents, SyncAnswer, Terms } from "./executor.ts";
import { type Highest, keepHighest } from "./highest.ts";
import { type Entry, keyOf, type Order, openJournal } from "./journal.ts";
import { createNews } from "./news.ts";
import { type KnownPart, reconcile, type Step } from "./reconcile.ts";
import { createRelays } from "./relay.ts";
import { createTroubles, failureOf, toError } from "./troubles.ts";

/** What all syncs have in common. */
export interface SyncBody {
  readonly session: string;
  readonly highest?: Highest;
  readonly seen?: string;
  readonly wait_seconds?: number;
  readonly jobs: WireRunningPart[];
}

/** The way to the server, for one node or one pool. */
export interface Channel {
  sync(body: SyncBody, options: CallOptions): Promise<SyncAnswer>;
  checkpoint(report: WirePartCheckpoint, options: CallOptions): Promise<unknown>;
  sendLog(reader: string, piece: WireLogPiece, options: CallOptions): Promise<WireLogPieceAnswer>;
}

export interface LoopOptions<O extends Order> {
  readonly channel: Channel;
  readonly stateDirectory: string;
  readonly executor: (events: ExecutorEvents) => Executor<O>;
  /** Wanted and actual are compared at least so often: how long the server may hold a sync. */
  readonly compareEverySeconds: number;
  /** For people: what goes wrong, and what is right again. */
  readonly tell: (text: string) => void;
}

export interface ExecutorLoop {
  /** Leaves the jobs alone. */
  close(): Promise<void>;
}

/** What was wanted last, and which ends that answer has taken note of. */
interface Latest {
  readonly terms: Terms;
  readonly listed: ReadonlyMap<string, "running" | "ended">;
}

const SYNC_MS_MAX = 15_000;
const RETRY_MS_MIN = 200;
const RETRY_MS_MAX = 5_000;
const PRUNE_EVERY_MS = 3_600_000;

export function startLoop<O extends Order>(options: LoopOptions<O>): ExecutorLoop {
  const { channel, stateDirectory } = options;
  const troubles = createTroubles(options.tell);
  const journal = openJournal<O>(stateDirectory);
  const session = randomUUID();
  const highest = keepHighest(stateDirectory);
  let latest: Latest | undefined;
  let seen: string | undefined;
  /** Ordered and not forgotten: the executor lists exactly these. */
  const entries = new Map<string, Entry<O>>();
  const ended = new Set<string>();
  const ending = new AbortController();
  const news = createNews();
  const executor = options.executor({
    onChange: () => news.note(),
    onLogGrown: () => relays.noteGrown(),
    passOn: (order, report) => passOn(channel, order, report),
  });
  const relays = createRelays({
    open(token, from) {
      const entry = journal.find(token)?.entry;
      return entry && executor.openLog(entry, from);
    },
    isComplete: (token) => !entries.has(token) || ended.has(token),
    send: (reader, piece, signal) => channel.sendLog(reader, piece, { signal }),
  });

  function begin(entry: Entry<O>): void {
    entries.set(entry.order.token, entry);
    executor.start(entry);
  }

  function start(part: WireWantedPart, terms: Terms): void {
    const { order, end } = executor.order(part, terms);
    begin(journal.write(order, end));
    news.note();
  }

  function take(step: Step, terms: Terms): void {
    switch (step.kind) {
      case "start":
        return start(step.part, terms);
      case "instruct":
        return executor.instruct(step.part, terms);
      case "report": {
        const found = entries.has(step.token) ? undefined : journal.find(step.token);
        if (found !== undefined) begin(found.entry);
        return;
      }
      case "kill":
        return executor.stop(step.token);
      case "acknowledge":
        return acknowledge(entries.get(step.token) as Entry<O>);
      default:
        return step satisfies never;
    }
  }

  function acknowledge(entry: Entry<O>): void {
    const { token } = entry.order;
    if (journal.find(token)?.isArchived === false) journal.archive(entry);
    executor.forget(entry);
    entries.delete(token);
    ended.delete(token);
  }

  async function list(): Promise<WireRunningPart[]> {
    const jobs = [...(await executor.list())];
    const known = ended.size;
    for (const { token, phase } of jobs) if (phase === "ended") ended.add(token);
    if (ended.size > known) relays.noteGrown(); // Their logs are complete: readers get the end of them at once.
    return jobs;
  }

  /** What is now, against what was wanted last. */
  function compare({ terms, listed }: Latest, jobs: readonly WireRunningPart[], failure?: Error): void {
    const current = jobs.map(({ token, phase }): KnownPart => {
      const state = phase === "ended" ? "ended" : "running";
      return { token, state, listed: listed.get(token) ?? "no" };
    });
    const archived = terms.answer.jobs
      .filter(({ token }) => !entries.has(token) && journal.find(token) !== undefined)
      .map(({ token }): KnownPart => ({ token, state: "archived", listed: "no" }));
    const steps = reconcile([...current, ...archived], terms.answer, highest.known()?.epoch ?? 0);
    const failures = steps.flatMap((step) => failureOf(() => take(step, terms)) ?? []);
    troubles.set("here", failures[0] ?? failure);
  }

  async function compareAgain(): Promise<void> {
    try {
      if (latest !== undefined) compare(latest, await list());
    } catch (error) {
      troubles.set("here", toError(error));
    }
  }

  function accept(answer: SyncAnswer, jobs: readonly WireRunningPart[], sentAt: number): void {
    if (answer.epoch < (highest.known()?.epoch ?? 0)) return;
    // A disk that is full must not keep the answer from being obeyed: what is not durable yet counts all the same.
    const forgetful = failureOf(() => highest.note(answer));
    const states = jobs.map(({ token, phase }) => [token, phase === "ended" ? "ended" : "running"] as const);
    latest = { terms: { answer, sentAt, answeredAt: uptime() }, listed: new Map(states) };
    compare(latest, jobs, forgetful);
    relays.serve(answer.logs);
    seen = answer.version;
  }

  async function syncOnce(): Promise<void> {
    const changed = news.next();
    const jobs = await list();
    const sentAt = uptime();
    const known = highest.known();
    const body = {
      ...{ session, jobs },
      ...(known !== undefined && { highest: known }),
      ...(seen !== undefined && { seen, wait_seconds: options.compareEverySeconds }),
    };
    const answer = await channel.sync(body, {
      signal: AbortSignal.any([changed, ending.signal]),
      timeoutMs: SYNC_MS_MAX,
      retryForMs: 0,
    });
    const isHeld = seen === answer.version;
    accept(answer, jobs, sentAt);
    if (latest?.terms.answer === answer) await executor.settle?.();
    // A server that does not hold the call is not asked without end.
    const everySeconds = Math.min(answer.sync_after_seconds, options.compareEverySeconds);
    const restMs = (everySeconds - (uptime() - sentAt)) * 1000;
    if (isHeld && restMs > 0) await news.within(restMs, ending.signal);
  }

  async function run(): Promise<void> {
    let retryMs = RETRY_MS_MIN;
    while (!ending.signal.aborted) {
      try {
        await syncOnce();
        troubles.set("server", undefined);
        retryMs = RETRY_MS_MIN;
      } catch (error) {
        if (ending.signal.aborted) return;
        if ((error as Error).name === "AbortError") continue; // Something has changed: it is sent at once.
        troubles.set(isBerthError(error) ? "server" : "here", toError(error));
        seen = undefined;
        await compareAgain();
        await news.within(retryMs * (0.5 + Math.random() / 2), ending.signal);
        retryMs = Math.min(retryMs * 2, RETRY_MS_MAX, options.compareEverySeconds * 1000);
      }
    }
  }

  for (const entry of journal.open()) begin(entry);
  const prune = () => void failureOf(() => journal.prune(Date.now())); // What is left is pruned the next time.
  const pruning = setInterval(prune, PRUNE_EVERY_MS).unref();
  const running = run();
  return {
    async close() {
      ending.abort();
      clearInterval(pruning);
      relays.close();
      executor.close();
      await running;
    },
  };
}

/** The same report has the same key, however often it is sent. */
async function passOn(
  channel: Channel,
  { requestId: request_id, token }: Order,
  { id, report }: Parameters<ExecutorEvents["passOn"]>[1],
): Promise<CheckpointAnswer> {
  const { kind, ...rest } = report;
  const idempotencyKey = `${keyOf(token)}-${id}`;
  try {
    await channel.checkpoint({ request_id, token, report: kind, ...rest }, { idempotencyKey });
    return { accepted: true, message: "noted" };
  } catch (error) {
    // Refused for good: its grant is over, or it makes no sense now.
    if (isBerthError(error) && error.status >= 400 && error.status < 500)
      return { accepted: false, message: error.message };
    throw error;
  }
}
