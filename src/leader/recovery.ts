// From the store to memory and back: the newest snapshot and the rest of the journal give the state; the
// state gives the next snapshot. Every stored form carries a version, so that an old one can still be read.

import { createHash } from "node:crypto";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { constants, createGzip, gunzipSync } from "node:zlib";
import { type EngineState, type Event, restoreState, resume, snapshotOf } from "../engine/index.ts";
import {
  type Head,
  type JournalEvent,
  type Snapshot,
  type Store,
  type StoredEvent,
  StoreError,
} from "../store/index.ts";
import type { CommittedEvent, EndedAttempt } from "./interface.ts";
import { createMemory, type Memory, numberRequest, replay } from "./memory.ts";

/** The form in which events are written. */
const EVENT_VERSION = 1;
/** The form in which snapshots are written. */
const SNAPSHOT_VERSION = 1;

const EVENTS_PER_READ = 5_000;

type VersionedEvent = Event & { readonly v: number };

interface SnapshotBody {
  readonly v: number;
  readonly engine: ReturnType<typeof snapshotOf>;
  readonly submitted: number;
  /** In the order of the engine's requests. */
  readonly numbers: readonly number[];
  readonly attempts: readonly (readonly [string, readonly EndedAttempt[]])[];
}

export interface Recovered {
  readonly memory: Memory;
  /** The state up to here came from a snapshot. */
  readonly snapshotSeq: number;
  readonly replayedEvents: number;
}

/** The state at the head. The journal is checked against its hash chain as it is read. */
export async function recover(store: Store, head: Head): Promise<Recovered> {
  const snapshot = await store.latestSnapshot();
  const memory = snapshot === undefined ? createMemory() : decodeSnapshot(snapshot);
  const { state } = memory;
  const snapshotSeq = state.seq;
  while (state.seq < head.seq) {
    const events = await store.readEvents(state.seq + 1, EVENTS_PER_READ);
    if (events.length === 0) throw endsEarly(state.seq, head);
    for (const { event } of events) replay(memory, fromStored(event));
  }
  resume(state, head.atMs);
  return { memory, snapshotSeq, replayedEvents: state.seq - snapshotSeq };
}

export function toStored(event: Event): StoredEvent {
  return { v: EVENT_VERSION, ...event } as VersionedEvent;
}

export function fromStored(stored: StoredEvent): Event {
  const { v, ...event } = stored as VersionedEvent;
  if (v !== EVENT_VERSION) {
    throw new StoreError(
      "newer_version",
      `The journal has events of form ${v}; this version reads ${EVENT_VERSION}.`,
    );
  }
  return event as Event;
}

export function committedOf({ seq, atMs, event }: JournalEvent): CommittedEvent {
  return { seq, atMs, event: fromStored(event) };
}

/** Equal states have equal hashes: live, replayed, from a snapshot, on every store. */
export function stateHash(state: EngineState): string {
  const hash = createHash("sha256");
  for (const piece of textOf(snapshotOf(state))) hash.update(piece);
  return hash.digest("hex");
}

/**
 * The state as it is at the moment of the call. Its text is written and compressed in pieces, between which others
 * have their turn: the whole of a large state would hold everybody up, and fill the memory.
 */
export async function encodeSnapshot(memory: Memory, atMs: number): Promise<Snapshot> {
  const { seq } = memory.state;
  const engine = snapshotOf(memory.state);
  const rest: Omit<SnapshotBody, "engine"> = {
    v: SNAPSHOT_VERSION,
    submitted: memory.submitted,
    numbers: engine.requests.map(({ spec }) => memory.numbers.get(spec.id) as number),
    attempts: [...memory.attempts],
  };
  const hash = createHash("sha256");
  async function* pieces() {
    yield `${JSON.stringify(rest).slice(0, -1)},"engine":`;
    for (const piece of textOf(engine)) {
      hash.update(piece);
      yield piece;
    }
    yield "}";
  }
  const body = await pipeline(pieces, createGzip({ level: constants.Z_BEST_SPEED }), buffer);
  return { seq, atMs, stateHash: hash.digest("hex"), body };
}

const REQUESTS_PER_PIECE = 200;

/** JSON of the engine's snapshot, in pieces. */
function* textOf(engine: SnapshotBody["engine"]): Generator<string> {
  const { requests } = engine;
  const [before, after] = JSON.stringify({ ...engine, requests: [] }).split('"requests":[]');
  yield `${before}"requests":[`;
  for (let from = 0; from < requests.length; from += REQUESTS_PER_PIECE) {
    const text = JSON.stringify(requests.slice(from, from + REQUESTS_PER_PIECE)).slice(1, -1);
    yield from === 0 ? text : `,${text}`;
  }
  yield `]${after}`;
}

export function decodeSnapshot({ body, seq }: Snapshot): Memory {
  const stored = JSON.parse(gunzipSync(body).toString()) as SnapshotBody;
  if (stored.v !== SNAPSHOT_VERSION) {
    throw new StoreError(
      "newer_version",
      `The snapshot at event ${seq} has form ${stored.v}; this version reads ${SNAPSHOT_VERSION}.`,
    );
  }
  const memory = createMemory(restoreState(stored.engine));
  memory.submitted = stored.submitted;
  for (const [index, { spec }] of stored.engine.requests.entries()) {
    numberRequest(memory, spec.id, stored.numbers[index] as number);
  }
  for (const [id, attempts] of stored.attempts) memory.attempts.set(id as never, attempts);
  return memory;
}

function endsEarly(seq: number, head: Head): StoreError {
  return new StoreError("corrupt", `The journal ends at event ${seq}, but its head says ${head.seq}.`);
}
