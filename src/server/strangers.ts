// Calls by nobody we know: counted per address and minute, not written down one by one. Otherwise a stranger could fill
// the audit log, which is kept for a year.

import type { Leader } from "../leader/index.ts";
import { addressGroup } from "./addresses.ts";
import { STRANGERS_LISTED_MAX, TALLY_MS } from "./limits.ts";
import { createTally } from "./tally.ts";

export interface Strangers {
  /** One more call from there was turned away. */
  count(address: string, route?: string): void;
  /** Writes down what has been counted so far, and counts no more. */
  close(): Promise<void>;
}

/** Addresses that are counted one by one in a minute; the others are counted together. */
const ADDRESSES_MAX = 1_000;

export function createStrangers(leader: Pick<Leader, "audit">): Strangers {
  /** By what was tried, and from where. */
  const calls = new Map<string, number>();
  let elsewhere = 0;
  const tally = createTally(async () => {
    const busiest = [...calls].sort(([, a], [, b]) => b - a);
    const listed = busiest.slice(0, STRANGERS_LISTED_MAX);
    const unlisted = busiest.slice(STRANGERS_LISTED_MAX);
    const rest = unlisted.reduce((sum, [, count]) => sum + count, elsewhere);
    calls.clear();
    elsewhere = 0;
    const entries = rest === 0 ? listed : [...listed, ["other addresses", rest] as const];
    await Promise.all(
      entries.map(([key, count]) => {
        const [from = "", action = "unauthenticated calls"] = key.split("\n");
        return leader.audit({
          ...{ actor: "nobody", action, target: from, outcome: "denied" },
          body: { from, calls: count, within_seconds: TALLY_MS / 1000 },
        });
      }),
    );
  });

  return {
    count(address, route) {
      const from = addressGroup(address);
      const key = route === "createSession" ? `${from}\nfailed sign-ins` : from;
      if (calls.has(key) || calls.size < ADDRESSES_MAX) calls.set(key, (calls.get(key) ?? 0) + 1);
      else elsewhere += 1;
      tally.begin();
    },
    close: tally.close,
  };
}
