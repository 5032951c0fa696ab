// Knows what was acknowledged, and notices when the database does not have it any more: it was restored, or promoted
// before it had everything (C14).
//
// Invariants
//   1. A server that knows of a loss takes over, so that it is declared once: by an entry in the audit log, an epoch above every one
//      that is known, and a new incarnation, in which positions and grant tokens of the lost history mean nothing.
//   2. A database on another timeline is treated as one that has lost something, though perhaps nobody knows what.

import type { Head, JournalPosition } from "../store/index.ts";
import { isStoreError } from "../store/index.ts";
import type { ReplicaSurroundings } from "./surroundings.ts";

export interface Loss {
  /** The events from the one to the other are gone; if `toSeq` is less, none is known to be. */
  readonly fromSeq: number;
  readonly toSeq: number;
  /** The highest that was known. */
  readonly epoch: number;
  readonly why: string;
  /** By the monotonic clock. */
  readonly noticedMs: number;
}

export interface HistoryKeeper {
  /** Noticed, and not declared yet. */
  readonly loss: Loss | undefined;
  /** The last one that this server has declared. */
  readonly declared: Loss | undefined;
  readonly losses: number;
  /** Everything up to here was acknowledged. */
  remember(position: JournalPosition): void;
  /** A client or another server knows more than the journal has. */
  report(known: Pick<Head, "seq" | "epoch">, why: string): Promise<void>;
  /** Looks whether the store still has what was remembered, and in which history it is. */
  check(): Promise<void>;
  /** This server has taken over at this head: if something was lost, another history begins. `knownSeq`: what others know. */
  begin(head: Head, knownSeq: Promise<number>): Promise<Loss | undefined>;
}

export function createHistoryKeeper(
  { store, clock, log, stream }: ReplicaSurroundings,
  { onHistory }: { readonly onHistory: () => void },
): HistoryKeeper {
  let known: JournalPosition | undefined;
  let loss: Loss | undefined;
  let declared: Loss | undefined;
  let losses = 0;
  let incarnation = store.meta.incarnation;

  function notice(from: Pick<Head, "seq" | "epoch">, head: Head, why: string): void {
    const fromSeq = Math.min(head.seq, from.seq - 1) + 1;
    loss = { fromSeq, toSeq: from.seq, epoch: from.epoch, why, noticedMs: clock.monotonicMs() };
    log.error({ ...loss }, "history_lost: the database does not have what it had acknowledged");
    stream.restartAt(head.seq);
  }

  async function report(from: Pick<Head, "seq" | "epoch">, why: string): Promise<void> {
    const head = await store.head();
    if (from.seq > (loss?.toSeq ?? head.seq)) notice(from, head, why);
  }

  return {
    get loss() {
      return loss;
    },
    get declared() {
      return declared;
    },
    get losses() {
      return losses;
    },
    remember(position) {
      known = position;
    },
    report,
    async check() {
      const { incarnation: found } = await store.refreshMeta();
      if (found !== incarnation) {
        incarnation = found;
        loss = undefined; // Another server has declared it, with what this one knew.
        known = undefined;
        stream.restartAt((await store.head()).seq);
        onHistory();
      }
      const remembered = known;
      if (remembered === undefined) return;
      try {
        await store.readAfter(remembered, 1);
      } catch (error) {
        if (isStoreError(error, "history_lost")) notice(remembered, await store.head(), error.message);
        else if (!isStoreError(error, "pruned")) throw error;
      }
      known = undefined;
    },
    async begin(head, knownSeq) {
      const [origin, toSeq] = await Promise.all([store.origin(), knownSeq]);
      const isElsewhere =
        origin.now !== undefined && origin.noted !== undefined && origin.now !== origin.noted;
      if (isElsewhere && loss === undefined) {
        const why = "The database was promoted, or is another one.";
        const none = { fromSeq: head.seq + 1, toSeq: head.seq, epoch: head.epoch };
        loss = { ...none, why, noticedMs: clock.monotonicMs() };
      }
      const lost = loss && { ...loss, toSeq: Math.max(loss.toSeq, toSeq) };
      if (lost !== undefined) {
        await store.beginHistory();
        incarnation = store.meta.incarnation;
        declared = lost;
        losses++;
        loss = undefined;
      }
      if (origin.now !== undefined && origin.now !== origin.noted) await store.noteOrigin(origin.now);
      return lost;
    },
  };
}
