// From the store to memory: the newest snapshot and the rest of the journal give the state.

import { resume } from "../engine/index.ts";
import { type Head, isStoreError, type JournalEvent, type Store, StoreError } from "../store/index.ts";
import { fromStored } from "./event-forms.ts";
import type { CommittedEvent } from "./interface.ts";
import { createMemory, type Memory, replay } from "./memory.ts";
import { loadSnapshot } from "./snapshots.ts";

const EVENTS_PER_READ = 5_000;

export interface Recovered {
  readonly memory: Memory;
  /** The state up to here came from a snapshot. */
  readonly snapshotSeq: number;
  readonly replayedEvents: number;
}

/** The state at the head. The journal is checked against its hash chain as it is read. */
export async function recover(store: Store, head: Head): Promise<Recovered> {
  const memory = await fromLatestSnapshot(store);
  const snapshotSeq = memory.state.seq;
  await foldTo(store, memory, head);
  return { memory, snapshotSeq, replayedEvents: memory.state.seq - snapshotSeq };
}

async function foldTo(store: Store, memory: Memory, head: Head): Promise<void> {
  const { state } = memory;
  while (state.seq < head.seq) {
    const events = await store.readEvents(state.seq + 1, Math.min(EVENTS_PER_READ, head.seq - state.seq));
    if (events.length === 0) throw endsEarly(state.seq, head);
    fold(memory, events, (events.at(-1) as JournalEvent).atMs);
  }
  resume(state, head.atMs);
}

/** Events that follow on those which memory has, and the time that it is by then. */
export function fold(memory: Memory, events: readonly JournalEvent[], atMs: number): void {
  for (const { event, atMs: eventAtMs } of events) replay(memory, fromStored(event), eventAtMs);
  resume(memory.state, atMs);
}

/** From the newest snapshot that can be read; without any, from nothing. */
async function fromLatestSnapshot(store: Store, beforeSeq?: number): Promise<Memory> {
  const snapshot = await store.latestSnapshot(beforeSeq);
  if (snapshot === undefined) return createMemory();
  try {
    return await loadSnapshot(snapshot);
  } catch (error) {
    if (isStoreError(error) && error.code !== "corrupt") throw error;
    return fromLatestSnapshot(store, snapshot.seq);
  }
}

export function committedOf({ seq, atMs, event }: JournalEvent): CommittedEvent {
  return { seq, atMs, event: fromStored(event) };
}

function endsEarly(seq: number, head: Head): StoreError {
  return new StoreError("corrupt", `The journal ends at event ${seq}, but its head says ${head.seq}.`);
}
