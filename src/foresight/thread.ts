// The program of the foresight thread: a replica of the state, fed with what was committed (X4). It writes nothing, and
// the server does without it when it dies.

import { parentPort } from "node:worker_threads";
import { resume } from "../engine/index.ts";
import { createMemory, loadSnapshot, type Memory, replay } from "../leader/index.ts";
import { answer } from "./answer.ts";
import type { FromThread, ToThread } from "./messages.ts";
import { lowerPriority } from "./priority.ts";
import { searchQueue } from "./queue-search.ts";

if (parentPort === null) throw new Error("this program runs in a thread of the server");
lowerPriority();
const port = parentPort;
let memory: Memory = createMemory();
/** Of the snapshot that comes. */
const pieces: Uint8Array[] = [];
/** One message after the other: loading a snapshot waits for nothing else, but is not done at once. */
let turn: Promise<void> = Promise.resolve();
/** The replica has moved since the server was told where it stands. */
let hasMoved = false;

port.on("message", (message: ToThread) => {
  turn = turn.then(() => take(message));
});

async function take(message: ToThread): Promise<void> {
  switch (message.kind) {
    case "piece":
      pieces.push(message.piece);
      return;
    case "snapshot": {
      const whole = pieces.splice(0);
      memory =
        whole.length === 0 ? createMemory() : await loadSnapshot({ seq: message.seq, pieces: each(whole) });
      return moved();
    }
    case "events":
      for (const { event, atMs } of message.events) replay(memory, event, atMs);
      resume(memory.state, Math.max(memory.state.clockMs, message.events.at(-1)?.atMs ?? 0));
      return moved();
    case "ask":
      tellPosition(); // Whoever asks next must not wait for this answer to know it.
      return send(answered(message));
  }
}

function answered({ id, question, nowMs }: Extract<ToThread, { kind: "ask" }>): FromThread {
  const { state, numbers } = memory;
  const atMs = Math.max(nowMs, state.clockMs);
  try {
    const found =
      question.kind === "queue"
        ? searchQueue({ state, numberOf: (request) => numbers.get(request) }, question.search, atMs)
        : answer(state, question, atMs);
    return { kind: "answer", id, answer: found };
  } catch (error) {
    return { kind: "failed", id, message: error instanceof Error ? error.message : String(error) };
  }
}

async function* each(whole: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* whole;
}

/** Told once for all that has come by now: every message takes time of the server's main thread. */
function moved(): void {
  if (!hasMoved) setImmediate(tellPosition);
  hasMoved = true;
}

function tellPosition(): void {
  if (!hasMoved) return;
  hasMoved = false;
  send({ kind: "at", seq: memory.state.seq, bytes: process.memoryUsage().heapUsed });
}

function send(message: FromThread): void {
  port.postMessage(message);
}
