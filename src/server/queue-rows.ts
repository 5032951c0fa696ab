// The queue in slim rows (B4, B5). A page near the front costs what it shows and what comes before it. What needs a walk of
// the whole queue (filters, other orders, pages far down) is found by the foresight thread.

import {
  type EngineState,
  type PoolName,
  queueLengthOf,
  requestOf,
  type WhyCodes,
  waitingByComponentOf,
  whyCodesOf,
} from "../engine/index.ts";
import {
  ForesightError,
  type FoundInQueue,
  type QueuePlace,
  type QueueSearch,
  searchQueue,
} from "../foresight/index.ts";
import type { View } from "../leader/index.ts";
import type { WhyCode, WireQueue, WireQueueRow } from "../protocol/index.ts";
import { toTimestamp } from "../translation/index.ts";
import type { Services } from "./call.ts";
import { type Identity, reachesComponent, reachesPool } from "./identity.ts";
import { problemError } from "./problems.ts";

export interface QueueQuestion extends Omit<QueueSearch, "visible"> {
  /** One pool was asked for: rows need not name it. */
  readonly isOnePool: boolean;
}

export interface QueueRows {
  answer(
    services: Pick<Services, "leader" | "foresight">,
    identity: Identity,
    question: QueueQuestion,
  ): Promise<WireQueue>;
}

/** How far down a page may begin that is answered at once: so many steps take about a millisecond. */
const NEAR_MAX = 2_000;

interface Reasons {
  /** Memory may be replaced by what the store has. */
  readonly state: EngineState;
  readonly seq: number;
  readonly codes: WhyCodes;
}

export function createQueueRows(): QueueRows {
  const reasons = new Map<PoolName, Reasons>();

  function codesOf({ state, seq, nowMs }: View, pool: PoolName): WhyCodes {
    const known = reasons.get(pool);
    if (known?.seq === seq && known.state === state) return known.codes;
    const codes = whyCodesOf(state, pool, nowMs);
    reasons.set(pool, { state, seq, codes });
    return codes;
  }

  function rowOf(view: View, { id, pool, place }: QueuePlace, isOnePool: boolean): WireQueueRow {
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

  function present(
    view: View,
    identity: Identity,
    { pools, isOnePool, start, limit }: QueueQuestion,
    { page, matching }: FoundInQueue,
  ): WireQueue {
    const here = pools.filter((pool) => view.state.pools.has(pool));
    // The thread may be a moment ahead or behind.
    const rows = page.filter((one) => isWaitingIn(view, one));
    return {
      seq: view.seq,
      time: toTimestamp(view.nowMs),
      rows: rows.map((one) => rowOf(view, one, isOnePool)),
      next_cursor: start + limit < matching ? String(start + limit) : null,
      total: waitingIn(view.state, here),
      matching,
      hidden: hiddenIn(view, identity, here),
      counts: sumOf(here.map((pool) => codesOf(view, pool).counts())),
    };
  }

  return {
    async answer({ leader, foresight }, identity, question) {
      const first = await leader.read((view) => {
        const search = { ...question, visible: visibleTo(view, identity, question.pools) };
        if (!isNear(view, search)) return { search };
        return { answer: present(view, identity, question, searchQueue(view, search, view.nowMs)) };
      });
      if (first.answer !== undefined) return first.answer;
      const { search } = first;
      const found = await foresight.ask({ kind: "queue", search }).catch((error) => {
        if (!(error instanceof ForesightError) || error.code === "foresight_busy") throw error;
        return leader.read((view) => searchQueue(view, search, view.nowMs)); // No thread: it is answered all the same (X4).
      });
      return leader.read((view) => present(view, identity, question, found));
    },
  };
}

function waitingIn({ pools }: EngineState, names: readonly PoolName[]): number {
  return names.reduce((sum, name) => {
    const pool = pools.get(name);
    return pool === undefined ? sum : sum + queueLengthOf(pool);
  }, 0);
}

/** Whether it can be answered at once: the queues are short, or it is about the front of one. */
function isNear(
  { state }: View,
  { pools, component, why, q, sort, start, limit, visible }: QueueSearch,
): boolean {
  const waiting = waitingIn(state, pools);
  const hasFilter = [component, why, q].some((filter) => filter !== undefined) || visible !== null;
  const isFront = !hasFilter && sort === "place" && pools.length === 1 && start + limit <= NEAR_MAX;
  return isFront || waiting <= NEAR_MAX;
}

/** In pools that hide the work of others: that of the caller's components, and what waits in open pools, too (14). */
function visibleTo({ state }: View, identity: Identity, pools: readonly PoolName[]): QueueSearch["visible"] {
  const hides = (pool: PoolName) => state.pools.get(pool)?.record.settings.visibility === "own";
  if (identity.components === null || !pools.some(hides)) return null;
  const open = [...state.pools.keys()].filter((pool) => reachesPool(identity, pool) && !hides(pool));
  return { components: [...identity.components], pools: open };
}

export function startOf(cursor: string | undefined): number {
  const start = Number(cursor ?? 0);
  if (Number.isSafeInteger(start) && start >= 0) return start;
  throw problemError("invalid_request", "The cursor is not one of this list.");
}

function isWaitingIn({ state }: View, { id, pool }: QueuePlace): boolean {
  const request = state.requests.get(id);
  if (request?.progress.status !== "queued" || request.progress.delayed) return false;
  return request.line.pools.get(pool)?.verdict === null;
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
