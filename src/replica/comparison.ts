// Holds the state of a follower against the snapshots of the leader (C7): both are folds of one journal, so a snapshot
// and the events after it must lead to the state that this server has folded itself. A difference means that one of
// the two is wrong, and nobody knows which: this server ends, and says so.
//
// Only while all servers have one version: an older one may write down less of the same state.

import { fold, isHashOf, loadSnapshot, stateHash } from "../leader/index.ts";
import { isStoreError, type JournalEvent, type Store, StoreError } from "../store/index.ts";
import type { Follower } from "./follower.ts";

export interface Comparison {
  /** Compares with the newest snapshot, unless that was done. */
  look(): Promise<void>;
}

const EVENTS_PER_READ = 5_000;
/** A larger state is not compared: reading it a second time would take the memory and the time of those who ask. */
const REQUESTS_MAX = 100_000;

export function createComparison(
  store: Store,
  parts: {
    /** Undefined while this server does not follow. */
    readonly follower: () => Follower | undefined;
    readonly isOneVersion: () => boolean;
    readonly onDifference: (error: StoreError) => void;
  },
): Comparison {
  const { follower, isOneVersion, onDifference } = parts;
  let comparedSeq = -1;

  async function compare(own: Follower): Promise<void> {
    const snapshot = await store.latestSnapshot();
    if (snapshot === undefined || snapshot.seq === comparedSeq || snapshot.seq > own.position.seq) return;
    const memory = await loadSnapshot(snapshot);
    if (!isHashOf(snapshot.stateHash, memory.state)) return differ(snapshot.seq, "its own hash");
    // Both stand still only at the same event: this server goes on meanwhile.
    while (memory.state.seq < own.recovered.memory.state.seq) {
      const events = await store.readEvents(memory.state.seq + 1, EVENTS_PER_READ);
      const rest = events.filter(({ seq }) => seq <= own.recovered.memory.state.seq);
      if (rest.length > 0) fold(memory, rest, (rest.at(-1) as JournalEvent).atMs);
    }
    const now = own.recovered.memory.state;
    if (follower() !== own || now.seq !== memory.state.seq) return; // Read anew meanwhile: the next look compares.
    comparedSeq = snapshot.seq;
    if (stateHash(memory.state) !== stateHash(now)) differ(snapshot.seq, "what this server has folded");
  }

  function differ(seq: number, from: string): void {
    onDifference(new StoreError("corrupt", `The leader's snapshot at event ${seq} differs from ${from}.`));
  }

  return {
    async look() {
      const own = follower();
      if (own === undefined || !isOneVersion()) return;
      if (own.recovered.memory.state.requests.size > REQUESTS_MAX) return;
      try {
        await compare(own);
      } catch (error) {
        if (!isStoreError(error)) throw error; // Away, pruned or lost: the follower deals with that.
      }
    },
  };
}
