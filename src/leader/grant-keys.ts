// The keys that sign grant tokens, kept in the store, so that a grant outlives the server.
//
// Every incarnation of the store has its own key, for the grants from its first event on. After a restore, grants
// that were in the backup are signed as before; those that were lost with the rest of the journal are not, though
// their events have the same positions. The numbers that holders see start above all that were ever seen, so
// that whatever compares them keeps the lost ones out (L1).

import { randomBytes } from "node:crypto";
import type { Head, Store } from "../store/index.ts";
import type { GrantKey } from "./interface.ts";

interface StoredKey extends GrantKey {
  readonly incarnation: string;
}

/** The store has a place for answers that last; no caller has the empty scope. */
const PLACE = { scope: "", key: "grant-secret" };

/** Answers go when they are old. This one never is. */
const NEVER_OLD_MS = Number.MAX_SAFE_INTEGER;

/** A store makes fewer events per second than this: a later incarnation starts above an earlier one. */
const NUMBERS_PER_SECOND = 2 ** 20;

/** The keys of the store, oldest first; makes one where this incarnation has none. */
export async function grantKeysOf(
  store: Store,
  head: Head,
  { nowMs, isAfterLoss = false }: { readonly nowMs: number; readonly isAfterLoss?: boolean },
): Promise<readonly GrantKey[]> {
  const { incarnation } = store.meta;
  const keys = await keptKeys(store);
  if (isCurrent(keys, store)) return keys;

  const secret = randomBytes(32).toString("hex");
  const offset = keys.length === 0 ? 0 : Math.floor(nowMs / 1000) * NUMBERS_PER_SECOND;
  const made = { incarnation, fromSeq: head.seq + 1, secret, offset, ...(isAfterLoss && { isAfterLoss }) };
  const answer: readonly StoredKey[] = [...keys, made];
  const record = { ...PLACE, atMs: NEVER_OLD_MS, bodyHash: "", answer };
  await store.commit({ epoch: head.epoch, expectedSeq: head.seq, atMs: nowMs, idempotency: [record] });
  return answer;
}

/** The same for a server that follows; undefined until the leader of this incarnation has made its key. */
export async function grantKeysKept(store: Store): Promise<readonly GrantKey[] | undefined> {
  const keys = await keptKeys(store);
  return isCurrent(keys, store) ? keys : undefined;
}

async function keptKeys(store: Store): Promise<readonly StoredKey[]> {
  const [kept] = await store.findAnswers([PLACE]);
  return kept === undefined ? [] : storedKeys(kept.answer);
}

function isCurrent(keys: readonly StoredKey[], store: Store): boolean {
  return keys.at(-1)?.incarnation === store.meta.incarnation;
}

/** Once there was one secret for all, and nothing said of which incarnation. */
function storedKeys(answer: unknown): readonly StoredKey[] {
  if (typeof answer === "string") return [{ incarnation: "", fromSeq: 1, secret: answer, offset: 0 }];
  return answer as readonly StoredKey[];
}
