// What goes on beside the loop: snapshots and pruning, one at a time, begun between two turns. Neither is needed
// for safety: the journal is whole without them, so that a chore that fails is only reported.

import { SHORT_OF_ROOM } from "./inbox.ts";
import type { Ledger } from "./ledger.ts";
import { encodeSnapshot } from "./recovery.ts";
import type { Surroundings } from "./surroundings.ts";

export interface Chores {
  /** Called between two turns, when memory is what the disk has. */
  look(): void;
  /** Saves a snapshot now, unless the newest one is as new as the journal. */
  saveSnapshot(): Promise<void>;
  rest(): Promise<void>;
  /** The state up to here is in a snapshot. */
  readonly snapshotSeq: number;
}

export function createChores(
  { store, nowMs, log, settings }: Surroundings,
  { ledger, snapshotSeq: firstSnapshotSeq }: { readonly ledger: Ledger; readonly snapshotSeq: number },
): Chores {
  let snapshotSeq = firstSnapshotSeq;
  let snapshotAtMs = nowMs();
  let prunedAtMs = nowMs();
  let hadRoom = true;
  let underWay: Promise<void> | null = null;

  function watchRoom(): void {
    const hasRoom = store.hasRoom();
    if (hasRoom === hadRoom) return;
    hadRoom = hasRoom;
    const { seq } = ledger.head;
    if (hasRoom) log.info({ seq }, "the disk has room again: new requests are taken");
    else log.error({ seq }, SHORT_OF_ROOM);
  }

  function isSnapshotDue(): boolean {
    const { state } = ledger.memory;
    const events = state.seq - snapshotSeq;
    // The larger the state, the rarer the snapshots: their cost stays a small part of the whole.
    const isBig = events >= Math.max(settings.snapshotEveryEvents, state.requests.size);
    const isOld = events > 0 && nowMs() - snapshotAtMs >= settings.snapshotEveryMs;
    return isBig || isOld;
  }

  function begin(what: string, work: () => Promise<void>): void {
    underWay = work()
      .catch((error: unknown) => log.error({ err: error }, `the ${what} failed`))
      .finally(() => {
        underWay = null;
      });
  }

  async function saveSnapshot(): Promise<void> {
    if (ledger.memory.state.seq === snapshotSeq) return;
    snapshotAtMs = nowMs();
    snapshotSeq = ledger.memory.state.seq;
    const snapshot = await encodeSnapshot(ledger.memory, ledger.head.atMs);
    await store.saveSnapshot(snapshot);
    log.info({ seq: snapshot.seq, bytes: snapshot.body.length }, "snapshot saved");
  }

  async function prune(): Promise<void> {
    prunedAtMs = nowMs();
    log.info(await store.prune(settings.retention, prunedAtMs), "old records removed");
  }

  return {
    look() {
      watchRoom();
      if (underWay !== null) return;
      if (isSnapshotDue()) begin("snapshot", saveSnapshot);
      else if (nowMs() - prunedAtMs >= settings.pruneEveryMs) begin("pruning", prune);
    },
    saveSnapshot,
    async rest() {
      while (underWay !== null) await underWay;
    },
    get snapshotSeq() {
      return snapshotSeq;
    },
  };
}
