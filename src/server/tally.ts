// What is counted for a minute and then written down as few entries. Nothing keeps the process alive for it.

import { TALLY_MS } from "./limits.ts";

/** `write` takes what has been counted: a minute after `begin` was first called, and when the tally is closed. */
export function createTally(write: () => Promise<unknown>) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const close = async () => {
    clearTimeout(timer);
    timer = undefined;
    // A failure of the store is the leader's to report; what was counted is lost with it.
    await write().catch(() => undefined);
  };
  const begin = () => {
    timer ??= setTimeout(() => void close(), TALLY_MS).unref();
  };
  return { begin, close };
}
