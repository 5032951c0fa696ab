// One foresight thread, from its start to its end: the feed that keeps its replica warm, and the questions on their way.
//
// Invariants
//   1. The thread gets a snapshot, then every event after it, in order and once.
//   2. At most EVENTS_AHEAD_MAX events are on their way to a thread that is busy.
//   3. When the thread ends, for whatever reason, every question on its way fails.

import type { Worker } from "node:worker_threads";
import type { Leader } from "../leader/index.ts";
import type { Store } from "../store/index.ts";
import type { FromThread, ToThread } from "./messages.ts";
import type { Answer, Question } from "./questions.ts";

export interface Connection {
  /** Where the replica stands; -1 until it has been made. */
  readonly seq: number;
  /** Memory that the replica takes. */
  readonly bytes: number;
  readonly questionsWaiting: number;
  /** Whether the replica reaches an event in that time. */
  reaches(seq: number, withinMs: number): Promise<boolean>;
  ask(question: Question, nowMs: number): Promise<Answer>;
  close(): Promise<void>;
}

const EVENTS_AHEAD_MAX = 20_000;

export function connect(
  worker: Worker,
  {
    leader,
    store,
    onEnd,
  }: {
    readonly leader: Pick<Leader, "events">;
    readonly store: Pick<Store, "latestSnapshot">;
    readonly onEnd: (why: unknown) => void;
  },
): Connection {
  const feeding = new AbortController();
  const questions = new Map<number, { resolve(answer: Answer): void; reject(error: Error): void }>();
  const watchers = new Set<() => void>();
  let position = { seq: -1, bytes: 0 };
  let sentSeq = 0;
  let lastId = 0;
  let hasEnded = false;

  const send = (message: ToThread) => worker.postMessage(message);
  const wakeAll = () => {
    for (const wake of [...watchers]) wake();
  };

  worker.on("message", (message: FromThread) => {
    if (message.kind === "at") {
      position = message;
      return wakeAll();
    }
    const question = questions.get(message.id);
    questions.delete(message.id);
    if (message.kind === "answer") question?.resolve(message.answer);
    else question?.reject(new Error(message.message));
  });
  worker.once("error", end);
  worker.once("exit", () => end(new Error("the thread has ended")));
  worker.unref(); // A server that ends does not wait for it.
  feed().catch(end);

  function end(why: unknown): void {
    if (hasEnded) return;
    hasEnded = true;
    feeding.abort();
    wakeAll();
    for (const { reject } of questions.values()) reject(new Error("the thread has ended", { cause: why }));
    questions.clear();
    void worker.terminate();
    onEnd(why);
  }

  async function feed(): Promise<void> {
    let isReset = true;
    while (isReset && !hasEnded) {
      await sendSnapshot();
      isReset = await feedEvents();
    }
  }

  /** Whether the journal no longer reaches back to here, so that a newer snapshot is needed; else nothing follows any more. */
  async function feedEvents(): Promise<boolean> {
    for await (const message of leader.events(sentSeq + 1, feeding.signal)) {
      if (message.kind === "reset") return true;
      send(message);
      sentSeq = message.events.at(-1)?.seq ?? sentSeq;
      await until(() => sentSeq - position.seq < EVENTS_AHEAD_MAX);
    }
    return false;
  }

  async function sendSnapshot(): Promise<void> {
    const snapshot = await store.latestSnapshot();
    for await (const piece of snapshot?.pieces ?? []) send({ kind: "piece", piece });
    sentSeq = snapshot?.seq ?? 0;
    send({ kind: "snapshot", seq: sentSeq });
  }

  /** Looks again whenever the replica has moved. */
  function until(isSo: () => boolean, withinMs = Number.POSITIVE_INFINITY): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (found: boolean) => {
        watchers.delete(look);
        clearTimeout(timer);
        resolve(found);
      };
      const look = () => {
        if (hasEnded) settle(false);
        else if (isSo()) settle(true);
      };
      const timer = Number.isFinite(withinMs) ? setTimeout(() => settle(false), withinMs) : undefined;
      watchers.add(look);
      look();
    });
  }

  return {
    get seq() {
      return position.seq;
    },
    get bytes() {
      return position.bytes;
    },
    get questionsWaiting() {
      return questions.size;
    },
    reaches: (seq, withinMs) => until(() => position.seq >= seq, withinMs),
    ask(question, nowMs) {
      return new Promise((resolve, reject) => {
        if (hasEnded) return reject(new Error("the thread has ended"));
        const id = ++lastId;
        questions.set(id, { resolve, reject });
        send({ kind: "ask", id, question, nowMs });
      });
    },
    async close() {
      end(undefined);
      await worker.terminate();
    },
  };
}
