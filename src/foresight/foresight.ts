// Asks the foresight thread, and starts another one when it has died (X4, X7).
//
// Invariants
//   1. A question is answered from a state that has everything that was committed when it was asked.
//   2. Without a thread the server loses plans and suggestions, and nothing else.

import type { Worker } from "node:worker_threads";
import type { Leader, Log } from "../leader/index.ts";
import type { Store } from "../store/index.ts";
import { type Connection, connect } from "./connection.ts";
import type { AnswerTo, Question } from "./questions.ts";
import { startWorker } from "./worker.ts";

export interface Foresight {
  /** Rejects with a `ForesightError` where the thread cannot answer. */
  ask<Asked extends Question>(question: Asked, caller?: string): Promise<AnswerTo<Asked>>;
  /** Begins before the first question, so that it need not wait. */
  warmUp(): void;
  status(): { readonly seq: number | null; readonly bytes: number };
  close(): Promise<void>;
}

export class ForesightError extends Error {
  readonly code: "foresight_unavailable" | "foresight_busy";
  constructor(code: ForesightError["code"], message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "ForesightError";
    this.code = code;
  }
}

/** A replica that has not caught up by then is too old (X4). */
const BEHIND_MS_MAX = 5_000;
/** The replica has to be made first; the larger the state, the longer that takes. */
const START_MS_MAX = 30_000;
/** On a machine that is busy otherwise, the thread comes last: a caller hears of that rather than of nothing. */
const ANSWER_MS_MAX = 10_000;
const QUESTIONS_WAITING_MAX = 64;
const PLANS_WAITING_MAX = 8;
const RESTART_AFTER_MS = 200;

export function startForesight(parts: {
  readonly leader: Pick<Leader, "events" | "giveWay" | "seq" | "nowMs">;
  readonly store: Pick<Store, "latestSnapshot">;
  readonly log: Log;
  readonly start?: () => Worker;
}): Foresight {
  const { leader, store, log, start = startWorker } = parts;
  let connection: Connection | undefined;
  let endedAtMs = Number.NEGATIVE_INFINITY;
  let isClosed = false;
  const plans = createTurns(PLANS_WAITING_MAX);

  function connected(): Connection {
    if (isClosed) throw unavailable("The server is closing.");
    if (connection === undefined && performance.now() - endedAtMs < RESTART_AFTER_MS)
      throw unavailable("The foresight thread has just ended.");
    connection ??= begin();
    return connection;
  }

  function begin(): Connection {
    try {
      return connect(start(), { leader, store, onEnd });
    } catch (error) {
      log.error({ err: error }, "the foresight thread could not be started");
      throw unavailable("The foresight thread could not be started.");
    }
  }

  async function answered<Asked extends Question>(question: Asked): Promise<AnswerTo<Asked>> {
    const thread = connected();
    if (thread.questionsWaiting >= QUESTIONS_WAITING_MAX) throw busy("questions", QUESTIONS_WAITING_MAX);
    const patienceMs = thread.seq < 0 ? START_MS_MAX : BEHIND_MS_MAX;
    if (!(await thread.reaches(leader.seq(), patienceMs)))
      throw unavailable("The foresight thread has not caught up with what happened.");
    try {
      const answer = await inTime(thread.ask(question, leader.nowMs()));
      if (answer === undefined) throw unavailable("The foresight thread has not answered in time.");
      await leader.giveWay(); // To present it takes time of the thread that serves everybody.
      return answer as AnswerTo<Asked>;
    } catch (error) {
      if (error instanceof ForesightError) throw error;
      log.error({ err: error, question }, "the foresight thread could not answer");
      throw new ForesightError("foresight_unavailable", "The foresight thread could not answer.", {
        cause: error,
      });
    }
  }

  function onEnd(why: unknown): void {
    connection = undefined;
    endedAtMs = performance.now();
    if (!isClosed) log.error({ err: why }, "the foresight thread has ended");
  }

  return {
    ask: (question, caller = "") =>
      question.kind === "plan" ? plans.inTurn(caller, () => answered(question)) : answered(question),
    warmUp() {
      try {
        connected();
      } catch (error) {
        if (!(error instanceof ForesightError)) throw error; // The first question tries again.
      }
    },
    status: () => ({ seq: connection?.seq ?? null, bytes: connection?.bytes ?? 0 }),
    async close() {
      isClosed = true;
      await connection?.close();
    },
  };
}

/** Undefined: the answer has not come in time. The question goes on counting among those that wait. */
async function inTime<T>(answer: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ANSWER_MS_MAX);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

function unavailable(message: string): ForesightError {
  return new ForesightError("foresight_unavailable", message);
}

function busy(what: string, max: number): ForesightError {
  return new ForesightError("foresight_busy", `${max} ${what} wait already.`);
}

/** One at a time for each caller, and not too many who wait (X7). */
function createTurns(waitingMax: number) {
  const last = new Map<string, Promise<unknown>>();
  let waiting = 0;

  async function over(before: Promise<unknown>): Promise<void> {
    waiting++;
    await before.catch(() => undefined);
    waiting--;
  }

  return {
    async inTurn<T>(caller: string, run: () => Promise<T>): Promise<T> {
      const before = last.get(caller);
      if (before !== undefined && waiting >= waitingMax) throw busy("plans", waitingMax);
      const turn = before === undefined ? run() : over(before).then(run);
      last.set(caller, turn);
      try {
        return await turn;
      } finally {
        if (last.get(caller) === turn) last.delete(caller);
      }
    },
  };
}
