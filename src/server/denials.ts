// Calls of known tokens that were denied. Each is written down before it is answered, so that no token is turned away
// without a trace. Beyond a number per token and minute they are counted: otherwise a token that may do nothing but read
// could fill the audit log, which is kept for a year.

import type { Leader } from "../leader/index.ts";
import type { RouteName } from "../protocol/index.ts";
import type { Identity } from "./identity.ts";
import { DENIALS_WRITTEN_MAX, TALLY_MS } from "./limits.ts";
import type { ProblemError } from "./problems.ts";
import { createTally } from "./tally.ts";

export interface Denied {
  readonly route: RouteName | undefined;
  readonly identity: Identity;
  readonly address: string;
  readonly target: string;
  /** Of a bulk call: how many of its items were denied. */
  readonly items?: number;
}

export interface Denials {
  /** Resolves when the denial is in the audit log, or counted. */
  write(error: ProblemError, denied: Denied): Promise<void>;
  /** Writes down what has been counted so far, and counts no more. */
  close(): Promise<void>;
}

/** Of one token with its sessions, in the minute that goes on. */
interface Count {
  written: number;
  /** Not written down one by one. */
  further: number;
  readonly last: { name: string; tokenId: string; address: string };
}

export function createDenials(leader: Pick<Leader, "audit">): Denials {
  const counts = new Map<string, Count>();
  const tally = createTally(async () => {
    const full = [...counts.values()].filter(({ further }) => further > 0);
    counts.clear();
    await Promise.all(
      full.map(({ further, last: { name, tokenId, address } }) =>
        leader.audit({
          ...{ actor: name, action: "further denied calls", target: "", outcome: "denied" },
          body: {
            ...{ token: tokenId, from: address, calls: further },
            within_seconds: TALLY_MS / 1000,
          },
        }),
      ),
    );
  });

  return {
    async write({ problem: { code, detail } }, { route, identity, address, target, items }) {
      const { name, tokenId, countsAs } = identity;
      const count = counts.get(countsAs) ?? { written: 0, further: 0, last: { name, tokenId, address } };
      counts.set(countsAs, count);
      tally.begin();
      if (count.written >= DENIALS_WRITTEN_MAX) {
        count.further += 1;
        Object.assign(count.last, { tokenId, address });
        return;
      }
      count.written += 1;
      await leader.audit({
        actor: name,
        action: route ?? "unknown route",
        target: target.slice(0, 512),
        outcome: "denied",
        body: { token: tokenId, from: address, code, detail, ...(items !== undefined && { items }) },
      });
    },
    close: tally.close,
  };
}
