// What goes on beside the loop: snapshots and pruning, one at a time, begun between two turns. Neither is needed
// for safety: the journal is whole without them, so that a chore that fails is only reported.

import { SHORT_OF_ROOM } from "./inbox.ts";
import type { Ledger } from "./ledger.ts";
import type { Recovered } from "./recovery.ts";
import { createSnapshots, type Snapshots } from "./snapshots.ts";
import type { Surroundings } from "./surroundings.ts";

export interface Chores {
  /** A snapshot is due, and can be begun when memory is what the disk has. */
  readonly needsRest: boolean;
  /** Called when memory is what the disk has. */
  look(): void;
  /** Saves a snapshot now, unless the newest one is as new as the journal. */
  snapshot(): Promise<void>;
  rest(): Promise<void>;
  /** Gives up what is under way: another server may do the same from now on. */
  stop(): void;
  /** The state up to here is in a snapshot. */
  readonly snapshotSeq: number;
}

/** How long a chore may hold the loop up at a time. */
const WORK_MS_MAX = 10;

export function createChores(
  { store, clock, nowMs, log, settings }: Surroundings,
  parts: {
    readonly ledger: Ledger;
    readonly recovered: Recovered;
    readonly eventForm: () => number;
  },
): Chores {
  const { ledger, recovered, eventForm } = parts;
  let { snapshotSeq } = recovered;
  // Otherwise the next start would have to replay the same again.
  let isDue = recovered.replayedEvents >= settings.snapshotEveryEvents;
  /** The last try, whatever came of it. */
  let triedSeq = snapshotSeq;
  let triedAtMs = nowMs();
  let prunedAtMs = nowMs();
  let snapshots: Snapshots | undefined;
  let hadRoom = true;
  let underWay: Promise<void> | null = null;
  let isStopped = false;

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
    const events = state.seq - triedSeq;
    // The larger the state, the rarer the snapshots: their cost stays a small part of the whole.
    const isLong = events >= Math.max(settings.snapshotEveryEvents, state.requests.size);
    const isOld = events > 0 && nowMs() - triedAtMs >= settings.snapshotEveryMs;
    return isDue || isLong || isOld;
  }

  function begin(what: string, work: () => Promise<void>): void {
    underWay = work()
      .catch((error: unknown) => {
        if (isStopped) log.info({}, `the ${what} was given up`);
        else log.error({ err: error }, `the ${what} failed`);
      })
      .finally(() => {
        underWay = null;
      });
  }

  async function snapshot(): Promise<void> {
    const { memory, head } = ledger;
    const { seq } = memory.state;
    if (seq === snapshotSeq) return;
    isDue = false;
    triedSeq = seq;
    triedAtMs = nowMs();
    const breathe = createBreath();
    if (snapshots?.memory !== memory) snapshots = createSnapshots(memory); // The first one, or memory was loaded anew.
    await snapshots.save(store, { atMs: head.atMs, eventForm: eventForm(), breathe });
    snapshotSeq = seq;
    log.info({ seq, requests: memory.state.requests.size }, "snapshot saved");
  }

  /** Lets everything else have its turn, but not so often that a busy loop would keep a snapshot from its end. */
  function createBreath(): () => Promise<void> {
    let sinceMs = clock.monotonicMs();
    return async () => {
      if (isStopped) throw new Error("this server leads no longer");
      if (clock.monotonicMs() - sinceMs < WORK_MS_MAX) return;
      await new Promise<void>((resolve) => clock.soon(resolve));
      sinceMs = clock.monotonicMs();
    };
  }

  async function prune(): Promise<void> {
    prunedAtMs = nowMs();
    log.info(await store.prune(settings.retention, prunedAtMs), "old records removed");
  }

  return {
    stop() {
      isStopped = true;
      snapshots?.stop();
    },
    get needsRest() {
      return underWay === null && !isStopped && isSnapshotDue();
    },
    look() {
      watchRoom();
      if (underWay !== null || isStopped) return;
      if (isSnapshotDue()) begin("snapshot", snapshot);
      else if (nowMs() - prunedAtMs >= settings.pruneEveryMs) begin("pruning", prune);
    },
    snapshot,
    async rest() {
      while (underWay !== null) await underWay;
    },
    get snapshotSeq() {
      return snapshotSeq;
    },
  };
}
