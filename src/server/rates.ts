// How often a caller may call: token buckets per token and per address, and a brake on guessing.

import { BurstyRateLimiter, RateLimiterMemory, RateLimiterRes } from "rate-limiter-flexible";
import { addressGroup } from "./addresses.ts";
import { type Rate, type Rates, TOKENS_PER_COMPONENT } from "./limits.ts";
import { problemError } from "./problems.ts";

export interface RateLimits {
  /** Throws `rate_limited` when it is too much. */
  checkToken(tokenId: string, cost: number): Promise<void>;
  /** New requests of one component, by all callers together. */
  checkComponent(component: string): Promise<void>;
  checkStranger(address: string): Promise<void>;
  /** Of all addresses together. */
  checkStrangers(): Promise<void>;
  /** Before a token is looked at. */
  checkGuesses(address: string): Promise<void>;
  countGuess(address: string): Promise<void>;
}

export function createRateLimits(rates: Rates): RateLimits {
  const { perToken, perStranger, allStrangers, failedLoginsPerMinute } = rates;
  const tokens = bucket("token", perToken);
  const components = bucket("component", { perSecond: TOKENS_PER_COMPONENT * perToken.perSecond, burst: 0 });
  const strangers = bucket("stranger", perStranger);
  const everyStranger = bucket("strangers", allStrangers);
  const guesses = new RateLimiterMemory({
    keyPrefix: "guess",
    points: failedLoginsPerMinute,
    duration: 60,
    blockDuration: 60,
  });
  return {
    checkToken: (tokenId, cost) => consume(tokens, tokenId, cost),
    checkComponent: (component) => consume(components, component),
    checkStranger: (address) => consume(strangers, addressGroup(address)),
    checkStrangers: () => consume(everyStranger, "all"),
    async checkGuesses(address) {
      const seen = await guesses.get(addressGroup(address));
      if (seen !== null && seen.consumedPoints > failedLoginsPerMinute) throw tooMany(seen.msBeforeNext);
    },
    async countGuess(address) {
      await guesses.consume(addressGroup(address)).catch(() => undefined);
    },
  };
}

type Limiter = Pick<RateLimiterMemory, "consume"> | undefined;

/** A steady rate, and on top of it what may come at once. */
function bucket(keyPrefix: string, { perSecond, burst }: Rate): Limiter {
  if (!Number.isFinite(perSecond)) return undefined;
  const steady = new RateLimiterMemory({ keyPrefix, points: perSecond, duration: 1 });
  if (burst <= perSecond) return steady;
  const refillSeconds = Math.max(1, Math.ceil(burst / perSecond));
  const extra = new RateLimiterMemory({
    keyPrefix: `${keyPrefix}-burst`,
    points: burst - perSecond,
    duration: refillSeconds,
  });
  return new BurstyRateLimiter(steady, extra) as unknown as Limiter;
}

async function consume(limiter: Limiter, key: string, cost = 1): Promise<void> {
  if (limiter === undefined) return;
  try {
    await limiter.consume(key, cost);
  } catch (error) {
    throw error instanceof RateLimiterRes ? tooMany(error.msBeforeNext) : error;
  }
}

function tooMany(msBeforeNext: number) {
  const seconds = Math.max(1, Math.ceil(msBeforeNext / 1000));
  return problemError("rate_limited", "Too many calls in a short time.", {
    hint: `Try again in ${seconds} s; bulk calls do more at once.`,
    headers: { "retry-after": String(seconds) },
  });
}
