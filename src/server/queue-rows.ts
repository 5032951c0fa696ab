// The queue in slim rows (B4, B5). A page costs what it shows and what comes before it; filters and other orders need the
// whole queue, and share one walk of it with everybody who asks within a second.

import {
  type EngineState,
  type PoolName,
  queueLengthOf,
  queueOf,
  queuePageOf,
  type RequestId,
  requestOf,
  type WhyCodes,
  waitingByComponentOf,
  whyCodesOf,
} from "../engine/index.ts";
import type { View } from "../leader/index.ts";
import type { WhyCode, WireQueue, WireQueueRow } from "../protocol/index.ts";
import { toTimestamp } from "../translation/index.ts";
import { type Identity, reachesComponent } from "./identity.ts";
import { problemError } from "./problems.ts";
import { ownedOf, type Sight, sightOf } from "./sight.ts";

export interface QueueQuestion {
  readonly pools: readonly PoolName[];
  /** One pool was asked for: rows need not name it. */
  readonly isOnePool: boolean;
  readonly component?: string | undefined;
  readonly why?: WhyCode | undefined;
  readonly q?: string | undefined;
  readonly sort: "place" | "waited" | "number" | "component";
  readonly start: number;
  readonly limit: number;
}

export interface QueueRows {
  answer(view: View, identity: Identity, question: QueueQuestion): WireQueue;
}

/** How long a walk of a whole queue is good enough for filters and other orders. */
const WALK_MS = 1_000;

interface Walk {
  readonly state: EngineState;
  readonly seq: number;
  readonly atMs: number;
  readonly ids: readonly RequestId[];
}

interface Reasons {
  /** Memory may be replaced by what the store has. */
  readonly state: EngineState;
  readonly seq: number;
  readonly codes: WhyCodes;
}

interface Place {
  readonly id: RequestId;
  readonly pool: PoolName;
  readonly place: number;
}

export function createQueueRows(): QueueRows {
  const walks = new Map<PoolName, Walk>();
  const reasons = new Map<PoolName, Reasons>();

  function codesOf({ state, seq, nowMs }: View, pool: PoolName): WhyCodes {
    const known = reasons.get(pool);
    if (known?.seq === seq && known.state === state) return known.codes;
    const codes = whyCodesOf(state, pool, nowMs);
    reasons.set(pool, { state, seq, codes });
    return codes;
  }

  function walkOf({ state, seq, nowMs }: View, pool: PoolName): readonly RequestId[] {
    const known = walks.get(pool);
    const isFresh = known?.seq === seq || nowMs - (known?.atMs ?? 0) < WALK_MS;
    if (known?.state === state && isFresh) return known.ids;
    const ids = queueOf(state, pool, nowMs);
    walks.set(pool, { state, seq, atMs: nowMs, ids });
    return ids;
  }

  /** Everything that waits, pool by pool; what has left a queue since it was walked is passed over. */
  function* all(view: View, pools: readonly PoolName[]): Iterable<Place> {
    for (const pool of pools) {
      for (const [index, id] of walkOf(view, pool).entries()) {
        if (isWaitingIn(view, id, pool)) yield { id, pool, place: index + 1 };
      }
    }
  }

  function selected(view: View, sight: Sight, question: QueueQuestion): Place[] {
    const { pools, component, why, q, sort } = question;
    const found: Place[] = [];
    for (const one of all(view, pools)) {
      const { spec } = requestOf(view.state, one.id)!;
      if (component !== undefined && spec.component !== component) continue;
      if (q !== undefined && !matches(q, spec.name, view.numberOf(one.id))) continue;
      if (why !== undefined && codesOf(view, one.pool).of(one.id) !== why) continue;
      if (sees(view, sight, one.id)) found.push(one);
    }
    return sort === "place" ? found : found.sort(orders(view)[sort]);
  }

  function rowOf(view: View, { id, pool, place }: Place, isOnePool: boolean): WireQueueRow {
    const { spec, progress } = requestOf(view.state, id)!;
    const { step_run: _, ...wants } = spec.resources;
    return {
      number: view.numberOf(id) ?? 0,
      name: spec.name,
      component: spec.component,
      wants,
      ...(spec.nodes > 1 && { nodes: spec.nodes }),
      since: secondsOnly(progress.queuedAtMs),
      place,
      why: codesOf(view, pool).of(id),
      ...(!isOnePool && { pool }),
    };
  }

  return {
    answer(view, identity, question) {
      const { pools, component, why, q, sort, start, limit, isOnePool } = question;
      const sight = sightOf(identity, view);
      const hidden = hiddenIn(view, identity, pools);
      const total = pools.reduce((sum, pool) => sum + queueLengthOf(view.state.pools.get(pool)!), 0);
      const isPlain = component === undefined && why === undefined && q === undefined && sort === "place";
      // Where some are hidden, what is before a page cannot be skipped by counting.
      const chosen = isPlain && hidden === 0 && isOnePool ? undefined : selected(view, sight, question);
      const page = chosen?.slice(start, start + limit) ?? pageOf(view, pools[0] as PoolName, start, limit);
      const matching = chosen?.length ?? total;
      return {
        seq: view.seq,
        time: toTimestamp(view.nowMs),
        rows: page.map((one) => rowOf(view, one, isOnePool)),
        next_cursor: start + limit < matching ? String(start + limit) : null,
        total,
        matching,
        hidden,
        counts: sumOf(pools.map((pool) => codesOf(view, pool).counts())),
      };
    },
  };
}

export function startOf(cursor: string | undefined): number {
  const start = Number(cursor ?? 0);
  if (Number.isSafeInteger(start) && start >= 0) return start;
  throw problemError("invalid_request", "The cursor is not one of this list.");
}

function pageOf({ state, nowMs }: View, pool: PoolName, start: number, limit: number): Place[] {
  return queuePageOf(state, pool, nowMs, { start, limit }).map((id, index) => ({
    ...{ id, pool, place: start + index + 1 },
  }));
}

function isWaitingIn({ state }: View, id: RequestId, pool: PoolName): boolean {
  const request = state.requests.get(id);
  if (request?.progress.status !== "queued" || request.progress.delayed) return false;
  return request.line.pools.get(pool)?.verdict === null;
}

function sees(view: View, sight: Sight, id: RequestId): boolean {
  const owned = ownedOf(view, id);
  return owned !== undefined && sight.sees(owned);
}

/** The beginning of the number, or a part of the name. */
function matches(q: string, name: string, number: number | undefined): boolean {
  const wanted = q.replace(/^#/, "");
  return String(number).startsWith(wanted) || name.toLowerCase().includes(wanted.toLowerCase());
}

function orders(view: View): Record<"waited" | "number" | "component", (a: Place, b: Place) => number> {
  const requestAt = ({ id }: Place) => requestOf(view.state, id)!;
  const byNumber = (a: Place, b: Place) => (view.numberOf(a.id) ?? 0) - (view.numberOf(b.id) ?? 0);
  return {
    number: byNumber,
    waited: (a, b) => requestAt(a).progress.queuedAtMs - requestAt(b).progress.queuedAtMs || byNumber(a, b),
    component: (a, b) =>
      compareText(requestAt(a).spec.component, requestAt(b).spec.component) || byNumber(a, b),
  };
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** How many wait whose names the caller may not know. */
function hiddenIn({ state }: View, identity: Identity, pools: readonly PoolName[]): number {
  if (identity.components === null) return 0;
  let count = 0;
  for (const pool of pools) {
    if (state.pools.get(pool)?.record.settings.visibility !== "own") continue;
    for (const [component, waiting] of waitingByComponentOf(state, pool)) {
      if (!reachesComponent(identity, component)) count += waiting;
    }
  }
  return count;
}

function sumOf(all: readonly Partial<Record<WhyCode, number>>[]): Partial<Record<WhyCode, number>> {
  const sum: Partial<Record<WhyCode, number>> = {};
  for (const counts of all) {
    for (const [code, count] of Object.entries(counts) as [WhyCode, number][])
      sum[code] = (sum[code] ?? 0) + count;
  }
  return sum;
}

/** Rows are many, and nobody waits by milliseconds. */
function secondsOnly(atMs: number): string {
  return `${toTimestamp(atMs).slice(0, 19)}Z`;
}
