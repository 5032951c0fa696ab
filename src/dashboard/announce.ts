// News for those who listen instead of look: one polite live region, at most one message every five seconds (B13).

import { signal } from "@preact/signals";

export const announcement = signal("");

const PAUSE_MS = 5_000;
let next: string | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

/** What comes faster replaces what still waits to be read out. */
export function announce(text: string): void {
  if (timer !== undefined) {
    next = text;
    return;
  }
  announcement.value = text;
  timer = setTimeout(() => {
    timer = undefined;
    const waiting = next;
    next = undefined;
    if (waiting !== undefined) announce(waiting);
  }, PAUSE_MS);
}
