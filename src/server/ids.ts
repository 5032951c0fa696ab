// Ids of requests: UUIDs of version 7, which grow with time.

import { randomFillSync } from "node:crypto";
import { v7 as uuid } from "uuid";

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
