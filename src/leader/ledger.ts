// Memory, and the head of the store that it stands at.
//
// Invariants
//   1. Memory is ahead of the disk from the first decision of a batch until its commit resolves, and at no other
//      time. While it is, nobody outside learns what is in it (`reads.ts`).
//   2. Commits resolve in the order in which they were made. After one that failed memory stays ahead until it is replaced
//      by what the store has.

import type { Commit, Head } from "../store/index.ts";
import type { Memory } from "./memory.ts";
import type { Surroundings } from "./surroundings.ts";

export interface Ledger {
  readonly memory: Memory;
  /** What is on the disk. */
  readonly head: Head;
  readonly isAhead: boolean;
  readonly commits: number;
  /** Memory has these changes already; they are on the disk when this resolves. */
  commit(changes: Omit<Commit, "epoch" | "expectedSeq">): Promise<void>;
  /** Changes that memory need not know of. */
  record(changes: Omit<Commit, "epoch" | "expectedSeq">): Promise<void>;
  /** Memory as it was loaded from the store at this head. */
  replace(memory: Memory, head: Head): void;
}

export function createLedger(
  { store }: Pick<Surroundings, "store">,
  start: { readonly memory: Memory; readonly head: Head },
): Ledger {
  let { memory, head } = start;
  let underWay = 0;
  /** Of the head, when the commits that are under way are made. */
  let expectedSeq = head.seq;
  let commits = 0;

  async function record(changes: Omit<Commit, "epoch" | "expectedSeq">): Promise<void> {
    const made = store.commit({ epoch: head.epoch, expectedSeq, ...changes });
    expectedSeq += changes.events?.length ?? 0;
    head = await made;
    commits++;
  }

  return {
    get memory() {
      return memory;
    },
    get head() {
      return head;
    },
    get isAhead() {
      return underWay > 0;
    },
    get commits() {
      return commits;
    },
    async commit(changes) {
      underWay++;
      await record(changes);
      underWay--;
    },
    record,
    replace(loaded, at) {
      memory = loaded;
      head = at;
      expectedSeq = at.seq;
      underWay = 0;
    },
  };
}
