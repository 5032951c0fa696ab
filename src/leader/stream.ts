// The stream of committed events. A reader is nothing but a position: what is recent comes from memory, what
// is older from the store, so that a slow reader costs no memory and never misses anything.
// Readers that keep up get the same pieces, so that what is worked out for one of them serves all.

import { isStoreError, type Store } from "../store/index.ts";
import type { CommittedBatch, CommittedEvent, Log, StreamMessage } from "./interface.ts";
import { committedOf } from "./recovery.ts";

export interface EventStream {
  /** Of the last event that was published. */
  readonly seq: number;
  /** History up to here is gone: readers that are behind start afresh. */
  skipTo(seq: number): void;
  /** Another history goes on from here, in which the same positions mean other events: all readers start afresh (C14). */
  restartAt(seq: number): void;
  publish(batch: CommittedBatch): void;
  onCommit(listener: (batch: CommittedBatch) => void): () => void;
  events(fromSeq: number, signal?: AbortSignal): AsyncIterable<StreamMessage>;
  close(): void;
}

const RECENT_EVENTS_MAX = 10_000;
const EVENTS_PER_MESSAGE = 500;

/** Never empty. */
type Piece = readonly CommittedEvent[];

export function createEventStream(store: Store, log: Log, startSeq: number): EventStream {
  let seq = startSeq;
  let isClosed = false;
  let restarts = 0;
  /** The latest events, dense, ending with `seq`. */
  let recent: Piece[] = [];
  let recentEvents = 0;
  const listeners = new Set<(batch: CommittedBatch) => void>();
  const sleepers = new Set<() => void>();

  function wakeAll(): void {
    const awakened = [...sleepers];
    sleepers.clear();
    for (const wake of awakened) wake();
  }

  function until(isTrue: () => boolean, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      if (isTrue() || isClosed || signal?.aborted) return resolve();
      const wake = () => {
        sleepers.delete(wake);
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      sleepers.add(wake);
      signal?.addEventListener("abort", wake, { once: true });
    });
  }

  /** What was committed stays committed, whatever a listener makes of it. */
  function tell(listener: (batch: CommittedBatch) => void, batch: CommittedBatch): void {
    try {
      listener(batch);
    } catch (error) {
      log.error({ err: error }, "a listener failed");
    }
  }

  async function read(fromSeq: number): Promise<StreamMessage> {
    const piece = recent.findLast(([first]) => (first as CommittedEvent).seq <= fromSeq);
    if (piece !== undefined) {
      const start = fromSeq - (piece[0] as CommittedEvent).seq;
      return { kind: "events", events: start === 0 ? piece : piece.slice(start) };
    }
    try {
      const limit = Math.min(EVENTS_PER_MESSAGE, seq - fromSeq + 1);
      return { kind: "events", events: (await store.readEvents(fromSeq, limit)).map(committedOf) };
    } catch (error) {
      if (isStoreError(error, "pruned")) return { kind: "reset", seq };
      throw error;
    }
  }

  function remember(events: readonly CommittedEvent[]): void {
    for (let start = 0; start < events.length; start += EVENTS_PER_MESSAGE) {
      recent.push(events.slice(start, start + EVENTS_PER_MESSAGE));
    }
    recentEvents += events.length;
    if (recentEvents <= 2 * RECENT_EVENTS_MAX) return;
    // In large steps, because every step copies what stays.
    let from = 0;
    while (recentEvents > RECENT_EVENTS_MAX) recentEvents -= (recent[from++] as Piece).length;
    recent = recent.slice(from);
  }

  function skipTo(to: number): void {
    seq = to;
    recent = [];
    recentEvents = 0;
    wakeAll();
  }

  return {
    get seq() {
      return seq;
    },
    skipTo,
    restartAt(to) {
      restarts++;
      skipTo(to);
    },
    publish(batch) {
      seq = batch.events.at(-1)?.seq ?? seq;
      remember(batch.events);
      for (const listener of listeners) tell(listener, batch);
      wakeAll();
    },
    onCommit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async *events(fromSeq, signal) {
      let nextSeq = fromSeq;
      let knownRestarts = restarts;
      const isElsewhere = () => restarts !== knownRestarts;
      // A position that we have never reached belongs to a history that we do not have.
      if (nextSeq > seq + 1) {
        nextSeq = seq + 1;
        yield { kind: "reset", seq };
      }
      for (;;) {
        await until(() => seq >= nextSeq || isElsewhere(), signal);
        if (isClosed || signal?.aborted) return;
        const message: StreamMessage = isElsewhere() ? { kind: "reset", seq } : await read(nextSeq);
        if (message.kind === "events" && isElsewhere()) continue; // Nobody knows of which history it is.
        knownRestarts = restarts;
        nextSeq = message.kind === "reset" ? message.seq + 1 : (message.events.at(-1)?.seq ?? 0) + 1;
        yield message;
      }
    },
    close() {
      isClosed = true;
      wakeAll();
    },
  };
}
