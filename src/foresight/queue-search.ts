// Finds requests in long queues: what needs a walk of all that wait is not for the thread that serves everybody.

import {
  type EngineState,
  type PoolName,
  queueLengthOf,
  queueOf,
  queuePageOf,
  queuesOf,
  type RequestId,
  requestOf,
  type WhyCode,
  whyCodesOf,
} from "../engine/index.ts";

export interface QueueSearch {
  readonly pools: readonly PoolName[];
  readonly component?: string | undefined;
  readonly why?: WhyCode | undefined;
  /** The beginning of a number, or a part of a name. */
  readonly q?: string | undefined;
  readonly sort: "place" | "waited" | "number" | "component";
  readonly start: number;
  readonly limit: number;
  /** Of these components, or waiting in one of these pools, too; null: all of them (14). */
  readonly visible: { readonly components: readonly string[]; readonly pools: readonly PoolName[] } | null;
}

export interface QueuePlace {
  readonly id: RequestId;
  readonly pool: PoolName;
  readonly place: number;
}

export interface FoundInQueue {
  readonly page: readonly QueuePlace[];
  readonly matching: number;
}

/** What a search looks at. */
export interface Searched {
  readonly state: EngineState;
  numberOf(id: RequestId): number | undefined;
}

export function searchQueue(world: Searched, search: QueueSearch, nowMs: number): FoundInQueue {
  const { component, why, q, sort, start, limit, visible } = search;
  const pools = search.pools.filter((pool) => world.state.pools.has(pool)); // One may have been deleted since.
  const isPlain = [component, why, q].every((filter) => filter === undefined) && sort === "place";
  const [only] = pools;
  if (isPlain && visible === null && pools.length === 1 && only !== undefined)
    return plainPage(world, only, { start, limit }, nowMs);
  const found = selected(world, { ...search, pools }, nowMs);
  if (sort !== "place") found.sort(orders(world)[sort]);
  return { page: found.slice(start, start + limit), matching: found.length };
}

function plainPage(
  { state }: Searched,
  pool: PoolName,
  { start, limit }: { readonly start: number; readonly limit: number },
  nowMs: number,
): FoundInQueue {
  const ids = queuePageOf(state, pool, nowMs, { start, limit });
  return {
    page: ids.map((id, index) => ({ id, pool, place: start + index + 1 })),
    matching: queueLengthOf(state.pools.get(pool)!),
  };
}

function selected(world: Searched, search: QueueSearch, nowMs: number): QueuePlace[] {
  const { state } = world;
  const { pools, component, why, q } = search;
  const isVisible = visibility(state, search);
  const found: QueuePlace[] = [];
  for (const pool of pools) {
    const codes = why === undefined ? undefined : whyCodesOf(state, pool, nowMs);
    for (const [index, id] of queueOf(state, pool, nowMs).entries()) {
      const { spec } = requestOf(state, id)!;
      if (component !== undefined && spec.component !== component) continue;
      if (q !== undefined && !matches(q, spec.name, world.numberOf(id))) continue;
      if (codes !== undefined && codes.of(id) !== why) continue;
      if (isVisible(id, spec.component)) found.push({ id, pool, place: index + 1 });
    }
  }
  return found;
}

function visibility(
  state: EngineState,
  { visible }: QueueSearch,
): (id: RequestId, component: string) => boolean {
  if (visible === null) return () => true;
  const components = new Set(visible.components);
  const pools = new Set(visible.pools);
  return (id, component) => components.has(component) || queuesOf(state, id).some((pool) => pools.has(pool));
}

function matches(q: string, name: string, number: number | undefined): boolean {
  const wanted = q.replace(/^#/, "");
  return String(number).startsWith(wanted) || name.toLowerCase().includes(wanted.toLowerCase());
}

function orders({ state, numberOf }: Searched) {
  type Order = (a: QueuePlace, b: QueuePlace) => number;
  const requestAt = ({ id }: QueuePlace) => requestOf(state, id)!;
  const byNumber: Order = (a, b) => (numberOf(a.id) ?? 0) - (numberOf(b.id) ?? 0);
  const byWait: Order = (a, b) => requestAt(a).progress.queuedAtMs - requestAt(b).progress.queuedAtMs;
  const byComponent: Order = (a, b) => compareText(requestAt(a).spec.component, requestAt(b).spec.component);
  return {
    number: byNumber,
    waited: (a, b) => byWait(a, b) || byNumber(a, b),
    component: (a, b) => byComponent(a, b) || byNumber(a, b),
  } satisfies Record<"waited" | "number" | "component", Order>;
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
