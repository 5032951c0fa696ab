// The secret that signs grant tokens. Made once per store and kept in it, so that a grant outlives the server.

import { randomBytes } from "node:crypto";
import type { Head, Store } from "../store/index.ts";

/** The store has a place for answers that last; no caller has the empty scope. */
const PLACE = { scope: "", key: "grant-secret" };

/** Answers go when they are old. This one never is. */
const NEVER_OLD_MS = Number.MAX_SAFE_INTEGER;

export async function grantSecretOf(store: Store, head: Head, nowMs: number): Promise<string> {
  const [kept] = await store.findAnswers([PLACE]);
  if (kept !== undefined) return kept.answer as string;
  const secret = randomBytes(32).toString("hex");
  const record = { ...PLACE, atMs: NEVER_OLD_MS, bodyHash: "", answer: secret };
  await store.commit({ epoch: head.epoch, expectedSeq: head.seq, atMs: nowMs, idempotency: [record] });
  return secret;
}
