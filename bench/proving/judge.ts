// What must be true after everything: no acknowledged change is lost, nothing took effect twice, and the
// journal, its hash chain, the snapshots and the records tell one story. What was granted, and with which numbers, is
// counted here without the engine.

import { createState, type Event, evolve } from "../../src/engine/index.ts";
import { isHashOf, type RequestBody } from "../../src/leader/index.ts";
import type { RequestRecord, Store } from "../../src/store/index.ts";
import type { Acknowledged } from "./clients.ts";
import { createCount } from "./count.ts";

export interface Verdict {
  readonly requests: number;
  readonly events: number;
  readonly lost: readonly string[];
  readonly duplicated: readonly string[];
  /** Calls that were answered differently when they were made again (Q4). */
  readonly contradicted: readonly string[];
  readonly damage: readonly string[];
  /** Grants of more than there is, and of what was granted already. */
  readonly excess: readonly string[];
  /** Fencing tokens that were given out twice, or that are below earlier ones (L1). */
  readonly reissued: readonly string[];
  /** Calls with the token of an earlier grant that had an effect (L1). */
  readonly unfenced: readonly string[];
  readonly preemptions: number;
  readonly renewals: number;
}

export async function judge(store: Store, acknowledged: readonly Acknowledged[]): Promise<Verdict> {
  const records = await allRequests(store);
  const byKey = new Map<string, RequestRecord[]>();
  for (const record of records) {
    const key = record.labels.key as string;
    byKey.set(key, [...(byKey.get(key) ?? []), record]);
  }
  const byId = new Map(records.map((record) => [record.id, record]));
  const { events, ends, grants, damage, excess, preemptions } = await replayed(store, byId);
  const verification = await store.verify();
  return {
    requests: records.length,
    events,
    lost: acknowledged.flatMap((each) => lossOf(each, byKey, byId)),
    duplicated: [
      ...[...byKey].filter(([, same]) => same.length > 1).map(([key]) => `${key} was submitted twice`),
      ...[...ends]
        .filter(([id, count]) => count > (grants.get(id) ?? 0))
        .map(([id, count]) => `${id} ended ${count} times, but was granted ${grants.get(id) ?? 0} times`),
    ],
    contradicted: contradictions(acknowledged),
    damage: [...damage, ...verification.damage.map(({ where, what }) => `${where}: ${what}`)],
    excess,
    reissued: reissues(acknowledged),
    unfenced: unfenced(acknowledged),
    preemptions,
    renewals: acknowledged.filter(({ operation }) => operation.kind === "renew").length,
  };
}

/** Numbers of grants belong to one request each, and grow from every answer to whatever was asked after it. */
export function reissues(acknowledged: readonly Acknowledged[]): string[] {
  const holders = new Map<number, string>();
  const seen = new Set<string>();
  const highest = [0];
  return acknowledged.flatMap(({ operation, told, after }, index) => {
    const number = told.token === null ? 0 : Number(told.token.split(".")[0]);
    highest.push(Math.max(highest[index] as number, number));
    if (number === 0) return [];
    const holder = holders.get(number) ?? told.id;
    holders.set(number, holder);
    const isNew = operation.kind === "submit" && !seen.has(operation.key);
    seen.add(operation.key);
    if (holder !== told.id) return [`grant ${number} was given to ${holder} and to ${told.id}`];
    const before = highest[after] as number;
    return isNew && number <= before ? [`grant ${number} of ${told.id} came after ${before}`] : [];
  });
}

function lossOf(
  { operation, told }: Acknowledged,
  byKey: ReadonlyMap<string, readonly RequestRecord[]>,
  byId: ReadonlyMap<string, RequestRecord>,
): readonly string[] {
  if (operation.kind === "stale") return [];
  // They ask for nothing else that could be refused: a grant that nobody knows any more is lost as well.
  if (told.refusal !== null) return [`${operation.key}: ${operation.kind} was refused: ${told.refusal}`];
  if (operation.kind === "renew" || operation.kind === "look") return [];
  if (operation.kind === "submit") {
    const found = byKey.get(operation.key)?.[0];
    const isThere = found?.id === told.id && found.number === told.number;
    return isThere ? [] : [`${operation.key}: submission ${told.id}, #${told.number}`];
  }
  const status = byId.get(operation.id)?.status ?? "missing";
  // What was granted before it was cancelled is released by its holder.
  const isReleased = status === "released" && (operation.kind !== "cancel" || told.token !== null);
  const isThere = isReleased || status === "cancelled";
  return isThere ? [] : [`${operation.key}: ${operation.kind} of ${operation.id}, which is ${status}`];
}

function unfenced(acknowledged: readonly Acknowledged[]): string[] {
  return acknowledged.flatMap(({ operation, told }) => {
    if (operation.kind !== "stale" || told.refusal === "stale_token") return [];
    return [`${operation.key}: an old token was answered with "${told.refusal ?? told.status}"`];
  });
}

function contradictions(acknowledged: readonly Acknowledged[]): string[] {
  const first = new Map<string, Acknowledged["told"]>();
  return acknowledged.flatMap(({ operation: { kind, key }, told }) => {
    if (kind === "renew" || kind === "look") return []; // They say how things are now.
    const before = first.get(key);
    first.set(key, before ?? told);
    if (before === undefined || before.text === told.text) return [];
    const [was, is] = [before, told].map(({ refusal, status }) => refusal ?? status);
    return [`${key} was answered "${was}" first, then "${is}"`];
  });
}

/** The whole journal, folded from its first event on, against everything that was derived from it. */
async function replayed(store: Store, byId: ReadonlyMap<string, RequestRecord>) {
  const state = createState();
  const count = createCount();
  const damage: string[] = [];
  const ends = new Map<string, number>();
  const grants = new Map<string, number>();
  const progress = new Map<string, string>();
  const snapshot = await store.latestSnapshot();
  const { seq: lastSeq } = await store.head();
  let isAccepted = true;
  for (let last = 0; last < lastSeq; ) {
    const read = await store.readEvents(last + 1, 5_000);
    if (read.length === 0) {
      damage.push(`the journal ends at event ${last}, but its head says ${lastSeq}`);
      break;
    }
    for (const { seq, event: stored } of read) {
      last = seq;
      count.add(stored); // First, and whatever the engine thinks of it.
      if (!isAccepted) continue;
      const event = stored as unknown as Event;
      try {
        evolve(state, event);
      } catch (error) {
        damage.push(`the engine does not accept event ${seq}: ${(error as Error).message}`);
        isAccepted = false;
        continue;
      }
      const counted = { attemptEnded: ends, requestAllocated: grants }[event.kind as string];
      if (counted !== undefined && "requestId" in event) {
        counted.set(event.requestId, (counted.get(event.requestId) ?? 0) + 1);
      }
      if ("requestId" in event) {
        const request = state.requests.get(event.requestId);
        if (request !== undefined) progress.set(event.requestId, inOrder(request.progress));
      }
      if (seq === snapshot?.seq && !isHashOf(snapshot.stateHash, state)) {
        damage.push(`the snapshot at event ${seq} is not what the journal says`);
      }
    }
  }
  for (const [id, text] of progress) {
    const body = byId.get(id)?.body as RequestBody | undefined;
    if (body !== undefined && inOrder(body.progress) !== text) {
      damage.push(`the record of ${id} is not what the journal says`);
    }
  }
  return { events: lastSeq, ends, grants, damage, excess: count.excess, preemptions: count.preemptions };
}

/** The same text for the same fields, in whatever order they were read. */
function inOrder(record: object): string {
  return JSON.stringify(record, (_, value: unknown) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

async function allRequests(store: Store): Promise<RequestRecord[]> {
  const records: RequestRecord[] = [];
  let cursor: string | undefined;
  do {
    const page = await store.listRequests({ limit: 1_000, ...(cursor !== undefined && { cursor }) });
    records.push(...page.items);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return records;
}
