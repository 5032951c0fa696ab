// A follower's memory: the journal, folded as it grows (C7). It never decides, and writes nothing.
//
// Invariants
//   1. Memory stands at `position`, which is the end of a commit, and the stream has published everything up to there.
//   2. One fold at a time: two of them would apply the same events twice.
//   3. Every commit is checked against the hash chain from the position on: a journal that does not contain what was
//      folded before is noticed (`history_lost`), and so is one that was changed.
//   4. Nothing is published before it is known to which history it belongs.

import {
  type Clock,
  committedOf,
  type EventStream,
  fold,
  type Recovered,
  recover,
  touchedBy,
} from "../leader/index.ts";
import {
  type Head,
  isStoreError,
  type JournalEvent,
  type JournalPosition,
  type Store,
} from "../store/index.ts";

export interface Follower {
  /** The state at `head`. Replaced when the journal no longer reaches back to where it stood. */
  readonly recovered: Recovered;
  readonly head: Head;
  /** Everything up to here was folded. */
  readonly position: JournalPosition;
  /** How long ago memory was known to be at the end of the journal. */
  readonly behindMs: number;
  /** Folds what was committed before this call, and perhaps more. */
  catchUp(): Promise<void>;
}

const COMMITS_PER_READ = 500;

export async function startFollower(
  { store, clock }: { readonly store: Store; readonly clock: Clock },
  stream: EventStream,
  /** Looks to which history a head belongs. */
  checkHistory: (head: Head) => Promise<void>,
): Promise<Follower> {
  let caughtUpMs = clock.monotonicMs();
  let { head, recovered } = await load(store);
  let position: JournalPosition = head;
  /** The fold under way, and the one that waits for it: it has not looked at the store yet. */
  let underWay: Promise<void> | undefined;
  let waiting: Promise<void> | undefined;
  await checkHistory(head);
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

  async function foldAll(): Promise<void> {
    const askedMs = clock.monotonicMs();
    try {
      do await foldPart();
      while (position.seq < head.seq);
    } catch (error) {
      if (!isStoreError(error, "pruned")) throw error;
      ({ head, recovered } = await load(store));
      position = head;
      stream.skipTo(head.seq);
    }
    caughtUpMs = askedMs;
  }

  async function foldPart(): Promise<void> {
    const part = await store.readAfter(position, COMMITS_PER_READ);
    await checkHistory(part.head);
    fold(recovered.memory, part.events, part.reached.atMs);
    head = part.head;
    position = part.reached;
    publish(part.events);
  }

  function begin(): Promise<void> {
    const folding = foldAll().finally(() => {
      underWay = undefined;
    });
    underWay = folding;
    return folding;
  }

  return {
    get recovered() {
      return recovered;
    },
    get head() {
      return head;
    },
    get position() {
      return position;
    },
    get behindMs() {
      return clock.monotonicMs() - caughtUpMs;
    },
    catchUp() {
      if (underWay === undefined) return begin();
      waiting ??= underWay
        .catch(() => undefined)
        .then(() => {
          waiting = undefined;
          return begin();
        });
      return waiting;
    },
  };
}

/** The state at the head. A leader may save a snapshot beyond the head that was just read: then it is read again. */
async function load(store: Store): Promise<{ readonly head: Head; readonly recovered: Recovered }> {
  for (;;) {
    const head = await store.head();
    const recovered = await recover(store, head);
    if (recovered.memory.state.seq === head.seq) return { head, recovered };
  }
}
