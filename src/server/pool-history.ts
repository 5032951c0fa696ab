// What was used, owed and waited for in a pool over time: the samples of the store, spread over as many points as asked for.

import { waitingByComponentOf } from "../engine/index.ts";
import type { Sample } from "../history/index.ts";
import type { View } from "../leader/index.ts";
import type { WirePoolHistory } from "../protocol/index.ts";
import type { Store } from "../store/index.ts";
import { toPoolName, toTimestamp } from "../translation/index.ts";

export interface HistoryQuestion {
  readonly pool: string;
  readonly fromMs: number;
  readonly toMs: number;
  readonly points: number;
}

/** A stretch of time of which averages are known. */
interface Stretch {
  readonly fromMs: number;
  readonly toMs: number;
  readonly sample: Sample;
}

/** A sample may reach back as far as nothing happened; further than this nobody looks. */
const REACH_MS = 14 * 24 * 3_600_000;

export async function stretchesIn(store: Store, { pool, fromMs, toMs }: HistoryQuestion): Promise<Stretch[]> {
  const stretches: Stretch[] = [];
  for await (const rows of store.listHistory({ kind: "sample", pool, fromMs, toMs: toMs + REACH_MS })) {
    for (const { atMs, body } of rows) {
      const sample = body as Sample;
      const begins = atMs - sample.ms;
      if (begins >= toMs) return stretches;
      stretches.push({ fromMs: begins, toMs: atMs, sample });
    }
  }
  return stretches;
}

/** Since the last sample: as it is now. */
export function stretchNow(view: View, pool: string): Stretch | undefined {
  const name = toPoolName(pool);
  const known = view.state.pools.get(name);
  if (known === undefined) return undefined;
  const waiting = waitingByComponentOf(view.state, name);
  const components: Record<string, { u?: Record<string, number>; w?: number }> = {};
  for (const [component, policy] of known.policies) {
    const used = known.keys.flatMap((key, i) =>
      (policy.usage[i] as number) > 0 ? [[key, policy.usage[i]]] : [],
    );
    const w = waiting.get(component) ?? 0;
    if (used.length > 0 || w > 0)
      components[component] = { u: Object.fromEntries(used) as Record<string, number>, ...(w > 0 && { w }) };
  }
  const capacity = Object.fromEntries(known.keys.map((key, i) => [key, known.capacity[i] as number]));
  const total = [...waiting.values()].reduce((sum, count) => sum + count, 0);
  const ms = view.nowMs - view.history.sampledAtMs;
  return {
    fromMs: view.history.sampledAtMs,
    toMs: view.nowMs,
    sample: { ms, capacity, waiting: total, components },
  };
}

/** `isNamed` says whose names the caller may know; the others are one. */
export function presentHistory(
  stretches: readonly Stretch[],
  { fromMs, toMs, points }: HistoryQuestion,
  isNamed: (component: string) => boolean,
): Pick<WirePoolHistory, "keys" | "from" | "at" | "waiting" | "capacity" | "components"> {
  const stepMs = (toMs - fromMs) / points;
  const series = createSeries(points);
  for (const { fromMs: begins, toMs: ends, sample } of stretches) {
    for (let i = Math.max(0, Math.floor((begins - fromMs) / stepMs)); i < points; i++) {
      const startMs = fromMs + i * stepMs;
      if (startMs >= ends) break;
      const part = (Math.min(ends, startMs + stepMs) - Math.max(begins, startMs)) / stepMs;
      if (part > 0) series.add(i, part, sample, isNamed);
    }
  }
  const at = Array.from({ length: points }, (_, i) => toTimestamp(Math.round(fromMs + (i + 1) * stepMs)));
  return { from: toTimestamp(fromMs), at, ...series.present() };
}

type Points = number[];
type ByKey = Record<string, Points>;

function createSeries(points: number) {
  const zeros = (): Points => new Array<number>(points).fill(0);
  const waiting = zeros();
  const capacity: ByKey = Object.create(null) as ByKey;
  const components = new Map<string, { used: ByKey; borrowed: ByKey; owed: ByKey; waiting: Points }>();
  const bump = (all: ByKey, key: string, i: number, amount: number) => {
    all[key] ??= zeros();
    (all[key] as Points)[i] = ((all[key] as Points)[i] as number) + amount;
  };
  return {
    add(i: number, part: number, sample: Sample, isNamed: (component: string) => boolean): void {
      waiting[i] = (waiting[i] as number) + sample.waiting * part;
      for (const [key, amount] of Object.entries(sample.capacity)) bump(capacity, key, i, amount * part);
      for (const [component, { u = {}, b = {}, o = {}, w = 0 }] of Object.entries(sample.components)) {
        const name = isNamed(component) ? component : "others";
        const blank = () => Object.create(null) as ByKey;
        const known = components.get(name) ?? {
          used: blank(),
          borrowed: blank(),
          owed: blank(),
          waiting: zeros(),
        };
        components.set(name, known);
        for (const [key, amount] of Object.entries(u)) bump(known.used, key, i, amount * part);
        for (const [key, amount] of Object.entries(b)) bump(known.borrowed, key, i, amount * part);
        for (const [key, amount] of Object.entries(o)) bump(known.owed, key, i, amount * part);
        known.waiting[i] = (known.waiting[i] as number) + w * part;
      }
    },
    present() {
      return {
        keys: Object.keys(capacity).sort(),
        waiting: rounded(waiting),
        capacity: eachRounded(capacity),
        components: [...components]
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([component, { used, borrowed, owed, waiting: own }]) => ({
            ...{ component, used: eachRounded(used), borrowed: eachRounded(borrowed) },
            ...(Object.keys(owed).length > 0 && { owed: eachRounded(owed) }),
            waiting: rounded(own),
          })),
      };
    },
  };
}

function eachRounded(all: ByKey): ByKey {
  return Object.fromEntries(Object.entries(all).map(([key, points]) => [key, rounded(points)]));
}

function rounded(points: Points): Points {
  return points.map((value) => Math.round(value * 1000) / 1000);
}
