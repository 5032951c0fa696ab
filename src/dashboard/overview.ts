// The overview is loaded for the whole page: alerts are on every view, and every view knows the pools.

import { signal } from "@preact/signals";
import type { AnswerOf } from "../sdk/index.ts";
import { type Followed, useFollowed } from "./follow.ts";
import type { LiveEvent } from "./live.ts";
import { client } from "./session.ts";

export type Overview = AnswerOf<"getOverview">;
export type PoolOverview = Overview["pools"][number];

const NOTHING: Followed<Overview> = {
  data: undefined,
  error: undefined,
  isCurrent: true,
  reload: () => undefined,
};

export const overview = signal(NOTHING);

export function useOverview(): void {
  overview.value = useFollowed("overview", {
    load: (signal) => client.call("getOverview", {}, { signal }),
    patch: patchOverview,
    concerns: (event) => event.event !== "request.checkpointed" && event.event !== "settings.changed",
  });
}

/** Counts of who runs are known from events alone; units follow with the next load. */
export function patchOverview(data: Overview, events: readonly LiveEvent[]): Overview {
  const added = new Map<string, { running: number; waiting: number }>();
  for (const { event, pool, outcome } of events as (LiveEvent & { outcome?: string })[]) {
    if (pool == null) continue;
    const counts = added.get(pool) ?? { running: 0, waiting: 0 };
    if (event === "request.allocated") {
      counts.running++;
      counts.waiting--;
    } else if (outcome !== undefined) counts.running--;
    added.set(pool, counts);
  }
  const isChanged = [...added.values()].some(({ running, waiting }) => running !== 0 || waiting !== 0);
  if (!isChanged) return data;
  const pools = data.pools.map((pool) => {
    const { running = 0, waiting = 0 } = added.get(pool.name) ?? {};
    return {
      ...pool,
      running: Math.max(0, pool.running + running),
      waiting: Math.max(0, pool.waiting + waiting),
    };
  });
  return { ...data, pools };
}

/** The pool that a view is about: the one in the address, else the first. */
export function chosenPool(name: string | undefined): PoolOverview | undefined {
  const pools = overview.value.data?.pools;
  return pools?.find((pool) => pool.name === name) ?? (name === undefined ? pools?.[0] : undefined);
}
