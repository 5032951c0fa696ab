// Ids of requests are UUIDs of version 7, which grow with time. Those of pools and policies, which people know by name,
// follow from the journal.

import { randomFillSync } from "node:crypto";
import { v7 as uuid, v5 as uuidOf } from "uuid";
import type { PolicyRecord, PoolRecord } from "../engine/index.ts";

const RANDOM_BYTES = 16;
const pool = new Uint8Array(RANDOM_BYTES * 256);
let used = pool.length;

/** Random bytes are fetched for many ids at once: asking the system each time costs more than the rest. */
export function newRequestId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const random = pool.slice(used, used + RANDOM_BYTES);
  used += RANDOM_BYTES;
  return uuid({ random });
}

const NAMESPACE = "0f5b7c1e-9a44-5d0e-8f0b-6a3c2e1d4b70";

/** The same after every restart and on every replica, and another one for a later pool of the same name. */
export function poolIdOf({ name, createdSeq = 0 }: PoolRecord): string {
  return uuidOf(JSON.stringify(["pool", name, createdSeq]), NAMESPACE);
}

export function policyIdOf({ pool, component, createdSeq = 0 }: PolicyRecord): string {
  return uuidOf(JSON.stringify(["policy", pool, component, createdSeq]), NAMESPACE);
}
