// What must be known from the store before a batch is decided.

import type { IdempotencyRecord, RequestRecord, Store } from "../store/index.ts";
import { isEnded, keyOf } from "./batch.ts";
import type { Call } from "./interface.ts";
import type { Memory } from "./memory.ts";

export interface Lookups {
  /** First answers, by scope and key. */
  readonly answers: ReadonlyMap<string, IdempotencyRecord>;
  /** Records of ended requests that are no longer in memory. */
  readonly records: ReadonlyMap<string, RequestRecord>;
}

export async function lookUp(
  store: Store,
  memory: Memory,
  calls: readonly Call[],
  /** Of the batches that are being written: the store may not have them yet. */
  underWay: readonly ReadonlyMap<string, IdempotencyRecord>[],
): Promise<Lookups> {
  const keys = calls.flatMap(({ context }) => context.idempotency ?? []);
  const found = keys.length === 0 ? [] : await store.findAnswers(keys);
  const answers = new Map(found.flatMap((record) => (record ? [[keyOf(record), record]] : [])));
  for (const fresh of underWay) {
    for (const key of keys) {
      const record = fresh.get(keyOf(key));
      if (record !== undefined) answers.set(keyOf(key), record);
    }
  }

  const records = new Map<string, RequestRecord>();
  for (const { command } of calls) {
    if (command.kind !== "deleteRequest" || memory.numbers.has(command.requestId)) continue;
    const record = await store.getRequest(command.requestId);
    if (record !== undefined && isEnded(record)) records.set(record.id, record);
  }
  return { answers, records };
}
