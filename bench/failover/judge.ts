// The verdict on a proof with several servers, from what clients were told and from the journal as plain SQL reads it.
// Shares no code with the product.

import pg from "pg";
import { createCount } from "../proving/count.ts";
import type { History, Holding } from "./history.ts";
import { TIGHT_CAPACITY } from "./load.ts";
import type { Message, Reader } from "./streams.ts";

/** What went wrong, by kind: each list should be empty. */
export interface Verdict {
  readonly problems: Readonly<Record<string, readonly string[]>>;
  readonly requests: number;
  readonly events: number;
  readonly epochs: number;
}

export interface JournalEntry {
  readonly seq: number;
  readonly event: Readonly<Record<string, unknown>> & { readonly kind: string };
}

interface RequestEntry {
  readonly id: string;
  readonly number: number;
  readonly status: string;
  readonly key: string;
}

export interface Books {
  readonly journal: readonly JournalEntry[];
  readonly requests: readonly RequestEntry[];
  readonly epoch: number;
  readonly breaks: readonly string[];
}

/** Reads the tables as they are. */
export async function readBooks(databaseUrl: string): Promise<Books> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const rows = await client.query(
      "select first_seq::int, last_seq::int, epoch::int, events from berth.journal order by last_seq",
    );
    const breaks: string[] = [];
    const journal: JournalEntry[] = [];
    let before = { last_seq: 0, epoch: 0 };
    for (const row of rows.rows) {
      if (row.first_seq !== before.last_seq + 1)
        breaks.push(`event ${row.first_seq} follows event ${before.last_seq}`);
      if (row.epoch < before.epoch) breaks.push(`epoch ${row.epoch} follows epoch ${before.epoch}`);
      before = row;
      for (const [index, event] of JSON.parse(row.events).entries())
        journal.push({ seq: row.first_seq + index, event: unwrapped(event) });
    }
    const requests = await client.query(
      "select id, number::int, status, labels ->> 'key' as key from berth.requests order by number",
    );
    const head = await client.query("select epoch::int from berth.head");
    return { journal, requests: requests.rows, epoch: head.rows[0].epoch, breaks };
  } finally {
    await client.end();
  }
}

/** The form that the proof of upgrades has made up for a later version holds an event of today's. */
function unwrapped(event: JournalEntry["event"] & { readonly inner?: JournalEntry["event"] }) {
  return event.kind === "wrapped" ? (event.inner as JournalEntry["event"]) : event;
}

export function judge(books: Books, history: History, readers: readonly Reader[]): Verdict {
  const count = createCount();
  for (const { event } of books.journal) count.add(event);
  const told = toldBy(books.journal);
  return {
    requests: books.requests.length,
    events: books.journal.length,
    epochs: books.epoch,
    problems: {
      "stale answers": history.stale,
      lost: lost(books, history),
      doubled: doubled(books, history),
      "answered differently": history.contradicted,
      "refused without cause": history.refused,
      "holders ended": history.endedHolders,
      "units above capacity": [...count.excess, ...overlaps(history.holdings)],
      "tokens reissued": reissues(history.holdings),
      "breaks in the journal": books.breaks,
      "gaps and repetitions in streams": readers.flatMap((reader) => misread(reader, told)),
    },
  };
}

function lost({ requests }: Books, { submissions, releases }: History): string[] {
  const byKey = new Map(requests.map((request) => [request.key, request]));
  const byId = new Map(requests.map((request) => [request.id, request]));
  const lostSubmissions = submissions.flatMap(({ key, told }) => {
    if (told === undefined) return [];
    const found = byKey.get(key);
    return found?.id === told.id && found.number === told.number ? [] : [`submission ${key} (${told.id})`];
  });
  const lostReleases = releases.flatMap(({ requestId }) => {
    const status = byId.get(requestId)?.status ?? "missing";
    return status === "released" ? [] : [`release of ${requestId}, which is ${status}`];
  });
  return [...lostSubmissions, ...lostReleases];
}

function doubled({ requests, journal }: Books, { submissions }: History): string[] {
  const keys = new Map<string, number>();
  for (const { key } of requests) keys.set(key, (keys.get(key) ?? 0) + 1);
  const ends = new Map<string, number>();
  for (const { event } of journal) {
    const id = String(event.requestId);
    if (event.kind === "attemptEnded") ends.set(id, (ends.get(id) ?? 0) + 1);
  }
  return [
    ...submissions.flatMap(({ key, isRepeatable }) => {
      const times = keys.get(key) ?? 0;
      return times > 1 ? [`${key}${isRepeatable ? "" : ", without a key,"} took effect ${times} times`] : [];
    }),
    ...[...ends].filter(([, times]) => times > 1).map(([id, times]) => `${id} ended ${times} times`),
  ];
}

/** More held at one moment than there is, by what the holders were told. */
function overlaps(holdings: readonly Holding[]): string[] {
  const changes = holdings
    .filter(({ pool }) => pool === "tight")
    .flatMap(({ fromMs, untilMs, requestId }) => [
      { atMs: fromMs, by: 1, requestId },
      { atMs: Math.max(fromMs, untilMs), by: -1, requestId },
    ])
    // An end at the same moment comes first: nobody can tell which was earlier.
    .toSorted((a, b) => a.atMs - b.atMs || a.by - b.by);
  let held = 0;
  return changes.flatMap(({ by, requestId }) => {
    held += by;
    return by > 0 && held > TIGHT_CAPACITY
      ? [`${held} held ${TIGHT_CAPACITY} slots when ${requestId} was granted`]
      : [];
  });
}

/** The number of a grant belongs to one request, and is above all that were known when that was asked for (L1). */
export function reissues(holdings: readonly Holding[]): string[] {
  const owners = new Map<number, string>();
  const byGrant = holdings.toSorted((a, b) => a.fromMs - b.fromMs);
  let known = 0;
  let highest = 0;
  return holdings
    .toSorted((a, b) => a.askedMs - b.askedMs)
    .flatMap(({ token, requestId, askedMs }) => {
      for (; (byGrant[known]?.fromMs ?? askedMs) < askedMs; known++)
        highest = Math.max(highest, byGrant[known]!.token);
      const owner = owners.get(token);
      owners.set(token, requestId);
      if (owner !== undefined && owner !== requestId)
        return [`grant ${token} was given to ${owner} and to ${requestId}`];
      return token <= highest ? [`grant ${token} of ${requestId} came after ${highest}`] : [];
    });
}

const NAMES: Readonly<Record<string, string>> = {
  requestSubmitted: "request.queued",
  requestAllocated: "request.allocated",
  requestRejected: "request.rejected",
  requestCancelled: "request.cancelled",
};

/** What a reader should see of the journal; the rest is housekeeping. */
export function toldBy(journal: readonly JournalEntry[]): Message[] {
  return journal.flatMap(({ seq, event }) => {
    const name = event.kind === "attemptEnded" ? `request.${String(event.status)}` : NAMES[event.kind];
    return name === undefined ? [] : [{ seq, event: name }];
  });
}

function misread({ name, messages, resets }: Reader, told: readonly Message[]): string[] {
  const wrong = resets.map(({ seq }) => `${name} had to start afresh at event ${seq}`);
  return [...wrong, ...differences(name, messages, told)];
}

/** What a reader has seen, held against what it should have seen. */
export function differences(name: string, messages: readonly Message[], told: readonly Message[]): string[] {
  const wanted = new Map(told.map(({ seq, event }) => [`${event} at ${seq}`, 0]));
  const names = new Set(told.map(({ event }) => event));
  const wrong: string[] = [];
  let before = 0;
  for (const { seq, event } of messages) {
    if (seq < before) wrong.push(`${name}: event ${seq} came after ${before}`);
    before = seq;
    if (!names.has(event)) continue;
    const times = wanted.get(`${event} at ${seq}`);
    if (times === undefined) wrong.push(`${name}: ${event} at ${seq} is not in the journal`);
    else wanted.set(`${event} at ${seq}`, times + 1);
  }
  for (const [what, times] of wanted) {
    if (times > 1) wrong.push(`${name}: ${what} came ${times} times`);
    if (times === 0) wrong.push(`${name}: ${what} is missing (it has seen events up to ${before})`);
  }
  return wrong;
}
