// Alerts about what the engine has decided: each is raised once, until what it is about is over. They stand in the audit
// log and in the log of the server; pools and `berth doctor` show what they are about as long as it lasts.

import { type EngineState, type Event, type PoolName, poolsOf, scaledGroupsOf } from "../engine/index.ts";
import { type Batch, LEADER } from "./batch.ts";
import type { Ledger } from "./ledger.ts";
import type { Surroundings } from "./surroundings.ts";

export interface Alerts {
  /** Looks at what a batch has decided, before it is committed. */
  raise(batch: Batch): void;
  /** Memory was loaded from the store: what is so already has been said. */
  restart(): void;
}

export function createAlerts({ log }: Surroundings, ledger: Ledger): Alerts {
  /** Where members are guaranteed more than there is, by pool, as of the last batch (9.1). */
  let scaled = new Map<PoolName, readonly string[]>();

  function raiseShields({ events, audit }: Batch): void {
    for (const { event } of events) {
      if (event.kind !== "attemptEnded" || event.shielded !== true) continue;
      const { requestId } = event;
      log.warn({ requestId }, "a request was preempted as often as max_preemptions allows: it is shielded");
      audit.push({ actor: LEADER, action: "shield", target: requestId, outcome: "alert", body: null });
    }
  }

  function raiseScaled({ events, audit }: Batch): void {
    if (!events.some(({ event }) => isAboutGuarantees(event))) return;
    const before = scaled;
    scaled = scaledIn(ledger.memory.state);
    for (const [pool, groups] of scaled) {
      const news = groups.filter((group) => !before.get(pool)?.includes(group));
      if (news.length === 0) continue;
      log.error({ pool, groups: news }, "guarantees exceed what there is: all of them are scaled down");
      audit.push({
        actor: LEADER,
        action: "scale_guarantees",
        target: pool,
        outcome: "alert",
        body: { groups: news },
      });
    }
  }

  return {
    raise(batch) {
      raiseShields(batch);
      raiseScaled(batch);
    },
    restart() {
      scaled = scaledIn(ledger.memory.state);
    },
  };
}

function scaledIn(state: EngineState): Map<PoolName, readonly string[]> {
  const found = new Map<PoolName, readonly string[]>();
  for (const { name } of poolsOf(state)) {
    const groups = scaledGroupsOf(state, name);
    if (groups.length > 0) found.set(name, groups);
  }
  return found;
}

/** Guarantees depend on pools, groups, policies and nodes alone. */
function isAboutGuarantees({ kind }: Event): boolean {
  return /^(pool|group|policy|node)/.test(kind);
}
