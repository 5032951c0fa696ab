// Who held units of a pool, and when (B5): from what runs and what has ended lately in memory, and from the records of the
// store. Bars that would be narrower than a pixel are merged, so that an answer has a bound.

import {
  borrowedOf,
  nodesOf,
  type PoolName,
  type RequestId,
  type RequestSpec,
  type Resources,
  requestOf,
} from "../engine/index.ts";
import type { EndedAttempt, RequestBody, View } from "../leader/index.ts";
import { LANES_MAX, TIMELINE_BARS_MAX, type WireTimeline, type WireTimelineBar } from "../protocol/index.ts";
import type { RequestRecord, Store } from "../store/index.ts";
import { type Owned, ownedOf, ownedOfRecord, type Sight } from "./sight.ts";

export interface TimelineQuestion {
  readonly pool: PoolName;
  readonly fromMs: number;
  readonly toMs: number;
  readonly lanesBy: WireTimeline["lanes_by"];
  readonly component: string | undefined;
  readonly pixels: number;
}

/** Records that are read for one answer. */
const RECORDS_MAX = 20_000;
const RECORDS_PER_READ = 1_000;

/** Requests that have ended in this time, of which memory need not know any more; the newest, if there are too many. */
export async function endedIn(
  store: Store,
  { pool, fromMs, toMs, component }: TimelineQuestion,
): Promise<{ readonly records: readonly RequestRecord[]; readonly cut: boolean }> {
  const records: RequestRecord[] = [];
  let cursor: string | null = null;
  do {
    const page = await store.listRequests({
      ...{ pool, ended: true, endedSinceMs: fromMs, submittedBeforeMs: toMs, limit: RECORDS_PER_READ },
      ...(component !== undefined && { component }),
      ...(cursor !== null && { cursor }),
    });
    records.push(...page.items);
    cursor = page.nextCursor;
  } while (cursor !== null && records.length < RECORDS_MAX);
  return { records, cut: cursor !== null };
}

/** One attempt, before it is known which lanes it is drawn in. */
interface Held {
  readonly id: RequestId;
  readonly number: number;
  readonly spec: RequestSpec;
  readonly owned: Owned;
  readonly startMs: number;
  readonly endMs: number;
  readonly attempt: number;
  readonly nodes: readonly string[];
  readonly outcome: WireTimelineBar["outcome"];
  readonly preemptedFor: RequestId | null;
  readonly reason: WireTimelineBar["reason"];
  readonly toldMs: number | null;
  readonly savedMs: number | null;
  readonly borrowed?: Resources;
}

export function presentTimeline(
  view: View,
  sight: Sight,
  question: TimelineQuestion,
  ended: { readonly records: readonly RequestRecord[]; readonly cut: boolean },
): Pick<WireTimeline, "lanes" | "bars" | "cut"> {
  const numbers = new Map<string, number>(ended.records.map(({ id, number }) => [id, number]));
  const numberOf = (id: RequestId | null) =>
    sight.idOrNull(id) === null
      ? null
      : (view.numberOf(id as RequestId) ?? numbers.get(id as RequestId) ?? null);
  const lanes = createLanes(view, question);
  const bars: WireTimelineBar[] = [];
  let cut = ended.cut;
  for (const held of attemptsIn(view, question, ended.records)) {
    const degree = sight.degreeOf(held.owned);
    if (degree === "none") continue;
    for (const { lane, units } of lanes.of(held, degree === "counted")) {
      if (lane === undefined) cut = true;
      else bars.push(barOf(held, lane, units, degree === "counted", question, numberOf(held.preemptedFor)));
    }
  }
  return { lanes: lanes.all, bars: merged(bars, question), cut };
}

function* attemptsIn(
  view: View,
  question: TimelineQuestion,
  records: readonly RequestRecord[],
): Iterable<Held> {
  const { pool, fromMs, toMs, component } = question;
  const isIn = ({ startMs, endMs, spec }: Held) =>
    startMs < toMs && endMs > fromMs && (component === undefined || spec.component === component);
  for (const policy of view.state.pools.get(pool)?.policies.values() ?? []) {
    for (const run of policy.runs) {
      const held = runningOf(view, run.request.spec.id);
      if (isIn(held)) yield held;
    }
  }
  for (const id of view.attempted()) {
    const request = requestOf(view.state, id);
    const owned = ownedOf(view, id);
    if (request === undefined || owned === undefined) continue;
    const known = { id, number: view.numberOf(id) ?? 0, spec: request.spec, owned };
    yield* endedOf(known, view.attemptsOf(id), pool, isIn);
  }
  for (const record of records) {
    if (view.numberOf(record.id as RequestId) !== undefined) continue;
    const { spec, attempts } = record.body as RequestBody;
    const known = { id: spec.id, number: record.number, spec, owned: ownedOfRecord(record) };
    yield* endedOf(known, attempts, pool, isIn);
  }
}

function runningOf(view: View, id: RequestId): Held {
  const { spec, progress } = requestOf(view.state, id)!;
  const allocation = progress.allocation!;
  return {
    ...{ id, number: view.numberOf(id) ?? 0, spec, owned: ownedOf(view, id)! },
    ...{ startMs: allocation.startedAtMs, endMs: view.nowMs, attempt: progress.attempt },
    nodes: allocation.placement.map(({ node }) => node),
    ...{ outcome: null, preemptedFor: allocation.stop?.forRequest ?? null },
    reason: allocation.stop?.reason ?? null,
    toldMs: allocation.stop?.toldAtMs ?? null,
    savedMs: progress.lastCheckpointAtMs,
    borrowed: borrowedOf(view.state, id),
  };
}

function* endedOf(
  known: Pick<Held, "id" | "number" | "spec" | "owned">,
  attempts: readonly EndedAttempt[],
  pool: PoolName,
  isIn: (held: Held) => boolean,
): Iterable<Held> {
  for (const attempt of attempts) {
    if (attempt.pool !== pool) continue;
    const held: Held = {
      ...known,
      ...{ startMs: attempt.startedAtMs, endMs: attempt.endedAtMs, attempt: attempt.attempt },
      nodes: attempt.nodes ?? [],
      ...{
        outcome: attempt.outcome,
        preemptedFor: attempt.preemptedFor,
        reason: attempt.reason,
        toldMs: attempt.toldAtMs ?? null,
        savedMs: attempt.savedAtMs ?? null,
      },
    };
    if (isIn(held)) yield held;
  }
}

/** Lanes get their places as they are needed; those of nodes are all there, by name. */
function createLanes({ state }: View, { pool, lanesBy }: TimelineQuestion) {
  const all: WireTimeline["lanes"] = [];
  const indexes = new Map<string, number>();
  const indexOf = (key: string, lane: WireTimeline["lanes"][number]): number | undefined => {
    const known = indexes.get(key);
    if (known !== undefined) return known;
    if (all.length >= LANES_MAX) return undefined;
    indexes.set(key, all.length);
    return all.push(lane) - 1;
  };
  if (lanesBy === "node") for (const { name } of nodesOf(state, pool)) indexOf(name, { name });

  function of({ id, number, spec, nodes }: Held, isHidden: boolean) {
    const { step_run: _, ...each } = spec.resources;
    if (lanesBy === "node" && nodes.length > 0)
      return nodes.map((name) => ({ lane: indexOf(name, { name }), units: each }));
    const units = Object.fromEntries(Object.entries(each).map(([key, amount]) => [key, amount * spec.nodes]));
    if (isHidden) return [{ lane: indexOf("", { name: "others" }), units }];
    if (lanesBy === "request") return [{ lane: indexOf(id, { name: spec.name, number }), units }];
    return [{ lane: indexOf(spec.component, { name: spec.component }), units }];
  }
  return { all, of };
}

function barOf(
  held: Held,
  lane: number,
  units: Resources,
  isHidden: boolean,
  { fromMs, toMs }: TimelineQuestion,
  preemptedFor: number | null,
): WireTimelineBar {
  const { spec, startMs, endMs, attempt, outcome, reason, toldMs, savedMs, borrowed } = held;
  const isSaved = savedMs !== null && savedMs >= startMs;
  return {
    lane,
    start: Math.max(0, startMs - fromMs),
    end: Math.min(endMs, toMs) - fromMs,
    count: 1,
    number: isHidden ? null : held.number,
    name: isHidden ? "" : spec.name,
    component: isHidden ? null : spec.component,
    units: { ...units },
    attempt,
    ...(borrowed && { borrowed: { ...borrowed } }),
    outcome,
    preempted_for: preemptedFor,
    reason,
    told: toldMs === null ? null : Math.max(0, toldMs - fromMs),
    ...(isSaved && { saved: Math.max(0, savedMs - fromMs) }),
  };
}

/** Neighbours in a lane that are narrower than a pixel become one bar; with larger pixels, until there are few enough. */
function merged(bars: WireTimelineBar[], { fromMs, toMs, pixels }: TimelineQuestion): WireTimelineBar[] {
  bars.sort(
    (a, b) => a.lane - b.lane || a.start - b.start || a.end - b.end || (a.number ?? 0) - (b.number ?? 0),
  );
  for (let pixelMs = (toMs - fromMs) / pixels; ; pixelMs *= 2) {
    const found = mergedAt(bars, pixelMs);
    if (found.length <= TIMELINE_BARS_MAX) return found;
  }
}

function mergedAt(bars: readonly WireTimelineBar[], pixelMs: number): WireTimelineBar[] {
  const found: WireTimelineBar[] = [];
  for (const bar of bars) {
    const last = found.at(-1);
    const isNarrow = bar.end - bar.start < pixelMs;
    const joins =
      last?.lane === bar.lane && isNarrow && bar.end - last.start < pixelMs && last.outcome !== null;
    if (!joins || bar.outcome === null) {
      found.push(bar);
      continue;
    }
    found[found.length - 1] = {
      ...last,
      end: Math.max(last.end, bar.end),
      count: last.count + 1,
      number: null,
    };
  }
  return found;
}
