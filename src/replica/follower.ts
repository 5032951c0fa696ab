// A follower's memory: the journal, folded as it grows (C7). It never decides, and writes nothing.
//
// Invariant: memory stands at an event of the journal, and the stream has published everything up to there.

import {
  type Clock,
  committedOf,
  type EventStream,
  foldTo,
  type Recovered,
  recover,
  touchedBy,
} from "../leader/index.ts";
import { type Head, isStoreError, type JournalEvent, type Store } from "../store/index.ts";

export interface Follower {
  /** The state at `head`. Replaced when the journal no longer reaches back to where it stood. */
  readonly recovered: Recovered;
  readonly head: Head;
  /** How long ago memory was known to be at the end of the journal. */
  readonly behindMs: number;
  /** Folds what was committed since. One at a time. */
  catchUp(): Promise<void>;
}

export async function startFollower(
  { store, clock }: { readonly store: Store; readonly clock: Clock },
  stream: EventStream,
): Promise<Follower> {
  let head = await store.head();
  let recovered = await recover(store, head);
  let caughtUpMs = clock.monotonicMs();
  await publishOlder();

  /** Commits of a leadership that ended before they were published, or of the time before this process. */
  async function publishOlder(): Promise<void> {
    while (stream.seq < head.seq) {
      try {
        publish(await store.readEvents(stream.seq + 1, head.seq - stream.seq));
      } catch (error) {
        if (!isStoreError(error, "pruned")) throw error;
        stream.skipTo(head.seq);
      }
    }
  }

  function publish(journal: readonly JournalEvent[]): void {
    const events = journal.filter(({ seq }) => seq > stream.seq).map(committedOf);
    if (events.length === 0) return;
    stream.publish({ events, requestIds: new Set(events.flatMap(({ event }) => touchedBy(event))) });
  }

  return {
    get recovered() {
      return recovered;
    },
    get head() {
      return head;
    },
    get behindMs() {
      return clock.monotonicMs() - caughtUpMs;
    },
    async catchUp() {
      const askedMs = clock.monotonicMs();
      const found = await store.head();
      try {
        await foldTo(store, recovered.memory, found, publish);
      } catch (error) {
        if (!isStoreError(error, "pruned")) throw error;
        recovered = await recover(store, found);
        stream.skipTo(found.seq);
      }
      head = found;
      caughtUpMs = askedMs;
    },
  };
}
