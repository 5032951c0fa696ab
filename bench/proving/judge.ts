// What must be true after everything: no acknowledged change is lost, nothing took effect twice, and the
// journal, its hash chain, the snapshots and the records tell one story.

import { createState, type Event, evolve } from "../../src/engine/index.ts";
import { type RequestBody, stateHash } from "../../src/leader/index.ts";
import type { RequestRecord, Store } from "../../src/store/index.ts";
import type { Acknowledged } from "./clients.ts";

export interface Verdict {
  readonly requests: number;
  readonly events: number;
  readonly lost: readonly string[];
  readonly duplicated: readonly string[];
  readonly damage: readonly string[];
}

const ENDED_WELL = new Set(["released"]);

export async function judge(store: Store, acknowledged: readonly Acknowledged[]): Promise<Verdict> {
  const records = await allRequests(store);
  const byKey = new Map<string, RequestRecord[]>();
  for (const record of records) {
    const key = record.labels.key as string;
    byKey.set(key, [...(byKey.get(key) ?? []), record]);
  }
  const byId = new Map(records.map((record) => [record.id, record]));
  const { events, damage } = await replayed(store, byId);
  const verification = await store.verify();
  return {
    requests: records.length,
    events,
    lost: acknowledged.flatMap((each) => lossOf(each, byKey, byId)),
    duplicated: [
      ...[...byKey].filter(([, same]) => same.length > 1).map(([key]) => `${key} was submitted twice`),
      ...contradictions(acknowledged),
    ],
    damage: [...damage, ...verification.damage.map(({ where, what }) => `${where}: ${what}`)],
  };
}

function lossOf(
  { operation, told }: Acknowledged,
  byKey: ReadonlyMap<string, readonly RequestRecord[]>,
  byId: ReadonlyMap<string, RequestRecord>,
): readonly string[] {
  if (told.refusal !== null) return [];
  if (operation.kind === "submit") {
    const found = byKey.get(operation.key)?.[0];
    const isThere = found?.id === told.id && found.number === told.number;
    return isThere ? [] : [`${operation.key}: submission ${told.id}, #${told.number}`];
  }
  const status = byId.get(operation.id)?.status ?? "missing";
  const isThere =
    operation.kind === "release" ? ENDED_WELL.has(status) : status === "cancelled" || told.token !== null;
  return isThere ? [] : [`${operation.key}: ${operation.kind} of ${operation.id}, which is ${status}`];
}

/** Two answers to one key that differ. */
function contradictions(acknowledged: readonly Acknowledged[]): string[] {
  const first = new Map<string, string>();
  return acknowledged.flatMap(({ operation, told }) => {
    const text = JSON.stringify(told);
    const before = first.get(operation.key);
    first.set(operation.key, before ?? text);
    return before === undefined || before === text
      ? []
      : [`${operation.key} was answered ${before} and ${text}`];
  });
}

/** The whole journal, folded from its first event on, against everything that was derived from it. */
async function replayed(store: Store, byId: ReadonlyMap<string, RequestRecord>) {
  const state = createState();
  const damage: string[] = [];
  const ends = new Map<string, number>();
  const progress = new Map<string, string>();
  const snapshot = await store.latestSnapshot();
  const { seq: lastSeq } = await store.head();
  while (state.seq < lastSeq) {
    for (const { seq, event: stored } of await store.readEvents(state.seq + 1, 5_000)) {
      const event = stored as unknown as Event;
      evolve(state, event);
      if (event.kind === "attemptEnded") ends.set(event.requestId, (ends.get(event.requestId) ?? 0) + 1);
      if ("requestId" in event) {
        const request = state.requests.get(event.requestId);
        if (request !== undefined) progress.set(event.requestId, JSON.stringify(request.progress));
      }
      if (seq === snapshot?.seq && stateHash(state) !== snapshot.stateHash) {
        damage.push(`the snapshot at event ${seq} is not what the journal says`);
      }
    }
  }
  for (const [id, count] of ends) if (count > 1) damage.push(`${id} ended ${count} times`);
  for (const [id, text] of progress) {
    const body = byId.get(id)?.body as RequestBody | undefined;
    if (body !== undefined && JSON.stringify(body.progress) !== text) {
      damage.push(`the record of ${id} is not what the journal says`);
    }
  }
  return { events: lastSeq, damage };
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
