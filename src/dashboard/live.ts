// The event stream (B4, B11): one for the whole page. Views follow it, and are painted at most four times a second.
//
// Invariants
//   1. Whoever follows hears every event after the one that its data was loaded at, or is asked to load anew.
//   2. Nothing is asked of the server while the page is hidden for long, or the stream is paused.

import { batch, computed, signal } from "@preact/signals";
import type { AnswerOf } from "../sdk/index.ts";
import { client, session, toBerthError } from "./session.ts";

type LiveEvent = typeof client.events.stream extends (...args: never[]) => AsyncGenerator<infer Event, void>
  ? Event
  : never;

export type { LiveEvent };

export type Connection =
  | { readonly kind: "connecting"; readonly sinceMs: number }
  | { readonly kind: "live" }
  | { readonly kind: "interrupted"; readonly sinceMs: number }
  | { readonly kind: "paused"; readonly sinceMs: number }
  | { readonly kind: "offline"; readonly sinceMs: number };

export interface Follower {
  onEvents(events: readonly LiveEvent[]): void;
  /** What it has may be too old to be patched. */
  onReset(): void;
}

const PAINT_MS = 250;
const HIDDEN_MS_MAX = 30_000;
const RENEW_MS = 5 * 60_000;
const RETRY_MS_MIN = 1_000;
const RETRY_MS_MAX = 30_000;

export const connection = signal<Connection>({ kind: "connecting", sinceMs: Date.now() });
/** Offline, the last state stays on the screen and nothing can be done (B11). */
export const isOffline = computed(() => connection.value.kind === "offline");
/** Moves once a second, for ages. */
export const nowMs = signal(Date.now());

const followers = new Set<Follower>();
let waiting: LiveEvent[] = [];
let isPainting = false;
let lastSeq = 0;
let attempt = new AbortController();
let wake: () => void = () => undefined;

export function follow(follower: Follower): () => void {
  followers.add(follower);
  return () => followers.delete(follower);
}

export function togglePause(): void {
  if (connection.value.kind === "paused") {
    connection.value = { kind: "interrupted", sinceMs: Date.now() };
    tryNow();
  } else {
    connection.value = { kind: "paused", sinceMs: Date.now() };
    attempt.abort();
  }
}

/** Does not wait for the next try. */
export function tryNow(): void {
  attempt.abort();
  wake();
}

/** Somebody is there: the session does not end while the page is in use, however quiet the pools are (B9). */
export function keepSession(): void {
  let renewedAtMs = Date.now();
  const renew = () => {
    if (session.value.kind !== "signedIn" || Date.now() - renewedAtMs < RENEW_MS) return;
    renewedAtMs = Date.now();
    client.call("renewSession").catch(() => undefined); // The next call says what is wrong.
  };
  for (const kind of ["keydown", "pointerdown", "wheel"]) addEventListener(kind, renew, { passive: true });
}

export function startClock(): void {
  setInterval(() => {
    nowMs.value = Date.now();
  }, 1_000);
}

/** Follows the stream until the session ends. */
export async function runStream({ seq }: AnswerOf<"getSession">): Promise<void> {
  lastSeq = seq;
  const watching = new AbortController();
  watchThePage(watching.signal);
  let failures = 0;
  while (session.value.kind === "signedIn") {
    if (connection.value.kind !== "paused" && !document.hidden) {
      const wasOpened = await listen();
      failures = wasOpened ? 1 : failures + 1;
      noteFailure(failures);
    }
    const delayMs = Math.min(RETRY_MS_MIN * 2 ** Math.max(0, failures - 1), RETRY_MS_MAX);
    await pause(connection.value.kind === "paused" || document.hidden ? Number.POSITIVE_INFINITY : delayMs);
  }
  watching.abort();
}

/** One connection; whether it came about. */
async function listen(): Promise<boolean> {
  let isOpen = false;
  attempt = new AbortController();
  const { signal: ended } = attempt;
  const onInterruption = () => attempt.abort(); // The page has a rhythm of its own for trying again.
  try {
    for await (const event of client.events.stream({}, { signal: ended, after: lastSeq, onInterruption })) {
      if (event.event === "stream.opened") {
        isOpen = true;
        noteSuccess();
      } else if (event.event === "stream.reset") reset();
      else collect(event);
      lastSeq = Math.max(lastSeq, event.seq);
    }
  } catch (error) {
    // Those who may not see events look again and again instead.
    if (toBerthError(error).status === 403) setTimeout(reset, RETRY_MS_MAX);
  }
  return isOpen;
}

function noteSuccess(): void {
  // What was missed is sent now; but who was away for long, or met another server, does better to look at everything.
  if (connection.value.kind !== "connecting") reset();
  connection.value = { kind: "live" };
}

function noteFailure(failures: number): void {
  const { value } = connection;
  if (value.kind === "paused" || document.hidden) return;
  const sinceMs = value.kind === "live" ? Date.now() : value.sinceMs;
  connection.value = { kind: failures > 1 || !navigator.onLine ? "offline" : "interrupted", sinceMs };
}

function collect(event: LiveEvent): void {
  if (connection.value.kind === "paused") return;
  waiting.push(event);
  if (!isPainting) setTimeout(paint, PAINT_MS);
  isPainting = true;
}

function paint(): void {
  isPainting = false;
  const events = waiting;
  waiting = [];
  batch(() => {
    for (const follower of followers) follower.onEvents(events);
  });
}

export function reset(): void {
  waiting = [];
  for (const follower of followers) follower.onReset();
}

function watchThePage(signal: AbortSignal): void {
  let hiddenSinceMs: number | undefined;
  let sleeper: ReturnType<typeof setTimeout> | undefined;
  const onVisibility = () => {
    clearTimeout(sleeper);
    if (document.hidden) {
      hiddenSinceMs = Date.now();
      sleeper = setTimeout(() => attempt.abort(), HIDDEN_MS_MAX);
    } else if (hiddenSinceMs !== undefined && Date.now() - hiddenSinceMs >= HIDDEN_MS_MAX) {
      connection.value = { kind: "interrupted", sinceMs: hiddenSinceMs };
      tryNow();
    }
  };
  document.addEventListener("visibilitychange", onVisibility, { signal });
  addEventListener("online", tryNow, { signal });
  addEventListener("offline", () => attempt.abort(), { signal });
}

function pause(delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = Number.isFinite(delayMs) ? setTimeout(resolve, delayMs) : undefined;
    wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}
