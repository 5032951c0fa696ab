// How often a caller may call: so often in each second, and some more at once; and a brake on guessing.

import { addressGroup } from "./addresses.ts";
import { type Rate, type Rates, TOKENS_PER_COMPONENT } from "./limits.ts";
import { problemError } from "./problems.ts";

export interface RateLimits {
  /** Throws `rate_limited` when it is too much. */
  checkToken(tokenId: string, cost: number): void;
  /** New requests of one component, by all callers together. */
  checkComponent(component: string): void;
  checkStranger(address: string): void;
  /** Of all addresses together. */
  checkStrangers(): void;
  /** Before a token is looked at. */
  checkGuesses(address: string): void;
  countGuess(address: string): void;
}

const GUESSES_MS = 60_000;

export function createRateLimits(rates: Rates, nowMs: () => number = () => performance.now()): RateLimits {
  const { perToken, perStranger, allStrangers, failedLoginsPerMinute } = rates;
  const ofComponents = { perSecond: TOKENS_PER_COMPONENT * perToken.perSecond, burst: 0 };
  const checkToken = createLimit(perToken, nowMs);
  const checkComponent = createLimit(ofComponents, nowMs);
  const checkStranger = createLimit(perStranger, nowMs);
  const checkStrangers = createLimit(allStrangers, nowMs);
  const guesses = createWindows(GUESSES_MS, nowMs);
  return {
    checkToken,
    checkComponent: (component) => checkComponent(component, 1),
    checkStranger: (address) => checkStranger(addressGroup(address), 1),
    checkStrangers: () => checkStrangers("all", 1),
    checkGuesses(address) {
      const window = guesses.find(addressGroup(address));
      if (window !== undefined && window.count > failedLoginsPerMinute) throw tooMany(window.endMs - nowMs());
    },
    countGuess(address) {
      const key = addressGroup(address);
      const { count } = guesses.count(key, 1);
      if (count === failedLoginsPerMinute + 1) guesses.begin(key, count); // For a whole minute from now.
    },
  };
}

/** A steady rate, and on top of it what may come at once. */
function createLimit({ perSecond, burst }: Rate, nowMs: () => number): (key: string, cost: number) => void {
  if (!Number.isFinite(perSecond)) return () => undefined;
  const steady = createWindows(1_000, nowMs);
  const extra = createWindows(1_000 * Math.max(1, Math.ceil(burst / perSecond)), nowMs);
  return (key, cost) => {
    const window = steady.count(key, cost);
    if (window.count <= perSecond) return;
    if (burst <= perSecond) throw tooMany(window.endMs - nowMs());
    const further = extra.count(key, cost);
    if (further.count > burst - perSecond) throw tooMany(Math.min(window.endMs, further.endMs) - nowMs());
  };
}

interface Window {
  count: number;
  readonly endMs: number;
}

/** Counts per key, from its first call on for so long; then anew. */
function createWindows(lengthMs: number, nowMs: () => number) {
  /** The first to end comes first, as all are as long. */
  const windows = new Map<string, Window>();

  function begin(key: string, count: number): Window {
    const now = nowMs();
    for (const [old, { endMs }] of windows) {
      if (endMs > now) break;
      windows.delete(old);
    }
    const window = { count, endMs: now + lengthMs };
    windows.delete(key);
    windows.set(key, window);
    return window;
  }

  function find(key: string): Window | undefined {
    const window = windows.get(key);
    return window !== undefined && window.endMs > nowMs() ? window : undefined;
  }

  return {
    begin,
    find,
    count(key: string, cost: number): Window {
      const window = find(key);
      if (window === undefined) return begin(key, cost);
      window.count += cost;
      return window;
    },
  };
}

function tooMany(msBeforeNext: number) {
  const seconds = Math.max(1, Math.ceil(msBeforeNext / 1000));
  return problemError("rate_limited", "Too many calls in a short time.", {
    hint: `Try again in ${seconds} s; bulk calls do more at once.`,
    headers: { "retry-after": String(seconds) },
  });
}
