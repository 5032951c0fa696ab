// Every wait of a proof has a limit and says what it waited for: a server that keeps its clients waiting for ever is
// a finding, and a proof that does not end proves nothing.

import { setTimeout as delay } from "node:timers/promises";

/** What a proof has found in a server that did not even let it finish. */
export class Finding extends Error {}

/** The result of `work`; a `Finding` when it takes longer than this. */
export async function within<Result>(ms: number, what: string, work: Promise<Result>): Promise<Result> {
  const timer = new AbortController();
  const late = delay(ms, undefined, { signal: timer.signal }).then(() => {
    throw new Finding(`${what} took longer than ${ms / 1000} s.`);
  });
  late.catch(() => undefined); // When the work is done first.
  work.catch(() => undefined); // When it fails after the limit.
  try {
    return await Promise.race([work, late]);
  } finally {
    timer.abort();
  }
}

/** Looks until it is true; a `Finding` when that takes longer than this. */
export async function until(ms: number, what: string, isTrue: () => boolean, everyMs = 5): Promise<void> {
  for (const beganMs = performance.now(); !isTrue(); await delay(everyMs)) {
    if (performance.now() - beganMs > ms) throw new Finding(`${what} took longer than ${ms / 1000} s.`);
  }
}
