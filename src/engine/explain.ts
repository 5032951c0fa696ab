// Explanations (14): why a request waits, told from the state alone. Facts only; words are made at the edges.

import { disciplineOf } from "./disciplines/discipline.ts";
import { explainShare, type ShareExplanation } from "./disciplines/fair_share/explain.ts";
import type { ConsideredKind } from "./events.ts";
import { byPreference } from "./lines.ts";
import { explainNodes, type NodesExplanation } from "./placement/verdicts.ts";
import type {
  ComponentName,
  GroupName,
  PoolName,
  RejectionReason,
  RequestId,
  RequestStatus,
  Stop,
} from "./records.ts";
import { type Resources, toResources } from "./resources.ts";
import { earliestStart } from "./scheduling/backfill.ts";
import { QueueWalk, type Waiter } from "./scheduling/queue-walk.ts";
import {
  type EngineState,
  type Pool,
  type PoolLine,
  queueLengthOf,
  type Request,
  type Run,
} from "./state.ts";

/** How many holders of what is short are named. */
const HOLDERS_NAMED_MAX = 20;

export interface Explanation {
  readonly requestId: RequestId;
  readonly status: RequestStatus;
  /** Why no pool admits it (A3). */
  readonly rejection: readonly RejectionReason[] | null;
  /** Why it is being stopped, and for whom. */
  readonly stop: Stop | null;
  /** Out of the queue until then (Q3). */
  readonly delayedUntilMs: number | null;
  /** What it meets in each pool that admits it, in the order in which it prefers them (G5). */
  readonly pools: readonly PoolExplanation[];
  /** Pools that do not admit it, and why. */
  readonly notAdmitted: readonly RejectionReason[];
}

export interface PoolExplanation {
  readonly pool: PoolName;
  /** Place in the queue, from 1. */
  readonly position: number;
  readonly queueLength: number;
  /** Fits what is left of its component's reserve, so that it comes before those who must borrow (G1). */
  readonly fitsReserve: boolean;
  readonly blockedBy: Blocker;
  /** Runs that hold what is short, the latest first. */
  readonly holders: readonly Holder[];
  readonly holderCount: number;
  /** Which kinds of running work a preemption looked at, and by which rule each may or may not be taken (V2). */
  readonly considered: readonly ConsideredKind[];
  /** What preemption would have to free; null where it is not the head, which alone may preempt (V1). */
  readonly preemptionNeeds: Resources | null;
  /** When it could start if every run ends at its walltime; null: walltimes do not tell (G4). */
  readonly couldStartAtMs: number | null;
  /** What it would be worth to start it, in hundredths of a minute; null where nothing is weighed (10.5). */
  readonly value: number | null;
  /** Why too few nodes serve it; null in a pool without nodes, or where enough of them do. */
  readonly nodes: NodesExplanation | null;
  /** How its operation stands in a fair-share pool; null in the others. */
  readonly share: ShareExplanation | null;
}

export type Blocker =
  /** Its own quota: skipped, and nobody waits behind it for that (G3). */
  | {
      readonly rule: "limit" | "group_limit" | "reserved";
      readonly key: string;
      readonly asked: number;
      readonly used: number;
      readonly allowed: number;
      readonly group: GroupName | null;
    }
  /** Units are promised to it and come free when its victims have stopped (V5). */
  | { readonly rule: "holds"; readonly waitsFor: readonly RequestId[] }
  /** It holds units in another pool (G5). */
  | { readonly rule: "holds_elsewhere"; readonly pool: PoolName }
  /** Units are short (G2). It is the head if nobody before it waits for units too (G4). */
  | { readonly rule: "units"; readonly short: readonly Shortage[]; readonly head: RequestId }
  /** There would be units for it, but somebody before it waits for them (G4). */
  | { readonly rule: "behind_head"; readonly head: RequestId };

export interface Shortage {
  readonly key: string;
  readonly asked: number;
  readonly free: number;
  /** Promised to requests before it. */
  readonly promised: number;
  readonly comingFree: number;
}

export interface Holder {
  readonly requestId: RequestId;
  readonly component: ComponentName;
  readonly units: Resources;
  readonly preemptible: boolean;
  readonly isStopping: boolean;
  readonly startedAtMs: number;
  readonly endsAtMs: number | null;
}

export function explain(state: EngineState, id: RequestId, nowMs: number): Explanation | undefined {
  const request = state.requests.get(id);
  if (request === undefined) return undefined;
  const { progress, line } = request;
  const isWaiting = progress.status === "queued" && !progress.delayed;
  const standings = isWaiting ? [...line.pools.values()].sort(byPreference) : [];
  return {
    requestId: id,
    status: progress.status,
    rejection: progress.rejection,
    stop: progress.allocation?.stop ?? null,
    delayedUntilMs: progress.delayed ? progress.queuedAtMs : null,
    pools: standings
      .filter(({ verdict }) => verdict === null)
      .map((poolLine) => explainInPool(state, request, poolLine, nowMs)),
    notAdmitted: standings.flatMap(({ verdict }) => verdict ?? []),
  };
}

function explainInPool(
  state: EngineState,
  request: Request,
  { pool, line }: PoolLine,
  nowMs: number,
): PoolExplanation {
  const walk = new QueueWalk(pool, nowMs, ({ line: each }) => {
    const first = each.members.first() as Request;
    return each !== line || first === request || request.progress.hold !== null ? [first] : [first, request];
  });
  let head: Waiter | undefined;
  let self: Waiter | undefined;
  for (let waiter = walk.next(); waiter !== undefined; waiter = walk.next()) {
    const isHead = waiter.hold === null && walk.quotaBlock(waiter) === null && !walk.fits(waiter);
    if (head === undefined && isHead) head = waiter;
    self = waiter;
    if (waiter.request === request) break;
  }
  if (self === undefined) throw new Error(`${request.spec.id} is not in the queue of ${pool.record.name}`);
  const shortage = walk.shortage(self);
  const search = { state, nowMs, pool, walk, head: self, shortage };
  const holders = holdersOf(pool, self, walk);
  const startMs = earliestStart({ waiter: self, shortage, walk });
  const explained: PoolExplanation = {
    pool: pool.record.name,
    position: positionOf(pool, self, nowMs),
    queueLength: queueLengthOf(pool),
    fitsReserve: !self.borrows,
    blockedBy: blockerOf(walk, self, head),
    holders: holders.slice(0, HOLDERS_NAMED_MAX).map((run) => describeHolder(run)),
    holderCount: holders.length,
    considered: self.hold === null ? disciplineOf(pool).consider(search) : [],
    preemptionNeeds: head?.request === request ? positiveOf(shortage, pool) : null,
    couldStartAtMs: startMs === Number.NEGATIVE_INFINITY ? null : Math.max(startMs, nowMs),
    value: disciplineOf(pool).worth?.(self.poolLine, request) ?? null,
    nodes: nodesFor(walk, self),
    share: null,
  };
  if (pool.record.discipline !== "fair_share") return explained;
  return { ...explained, ...explainShare(state, request, self.poolLine, nowMs, stoppingFor(pool, request)) };
}

/** The walk stands at the request. */
function blockerOf(walk: QueueWalk, self: Waiter, head: Waiter | undefined): Blocker {
  const { pool } = walk;
  const { request, poolLine } = self;
  const quota = walk.quotaBlock(self);
  if (quota !== null) {
    const { rule, group, keyIndex, used, allowed } = quota;
    const key = pool.keys[keyIndex] as string;
    return {
      rule,
      key,
      asked: poolLine.need[keyIndex] as number,
      used,
      allowed,
      group: group?.record.name ?? null,
    };
  }
  if (self.hold === "here") return { rule: "holds", waitsFor: stoppingFor(pool, request) };
  if (self.hold === "elsewhere")
    return { rule: "holds_elsewhere", pool: request.progress.hold?.pool as PoolName };
  const short = walk.shortOf(self);
  if (short.length === 0) return { rule: "behind_head", head: (head ?? self).request.spec.id };
  return { rule: "units", short, head: (head ?? self).request.spec.id };
}

function nodesFor(walk: QueueWalk, { request, poolLine }: Waiter): NodesExplanation | null {
  if (poolLine.ask === null) return null;
  const explained = explainNodes(walk.pool, poolLine.ask, walk.roomsFor(request).now);
  return explained.fitting < explained.asked ? explained : null;
}

/** Victims that stop for this request, or where others will serve it, whatever is stopping in the pool. */
function stoppingFor(pool: Pool, request: Request): RequestId[] {
  const stopping = runsOf(pool).filter((run) => run.isStopping);
  const own = stopping.filter((run) => run.request.progress.preemptedFor === request.spec.id);
  return (own.length > 0 ? own : stopping).map((run) => run.request.spec.id);
}

function holdersOf(pool: Pool, self: Waiter, walk: QueueWalk): Run[] {
  const short = new Set(walk.shortOf(self).map(({ key }) => pool.keys.indexOf(key)));
  return runsOf(pool)
    .filter((run) => run.poolLine.need.some((amount, i) => amount > 0 && short.has(i)))
    .sort((a, b) => b.token - a.token);
}

function runsOf(pool: Pool): Run[] {
  return [...pool.policies.values()].flatMap((policy) => [...policy.runs]);
}

function describeHolder({ request, poolLine, isStopping, startedAtMs, endMs }: Run): Holder {
  return {
    requestId: request.spec.id,
    component: request.spec.component,
    units: positiveOf(poolLine.need, poolLine.pool),
    preemptible: request.spec.preemptible,
    isStopping,
    startedAtMs,
    endsAtMs: endMs === Number.POSITIVE_INFINITY ? null : endMs,
  };
}

function positiveOf(amounts: readonly number[], pool: Pool): Resources {
  return Object.fromEntries(
    Object.entries(toResources(amounts, pool.keys)).filter(([, amount]) => amount > 0),
  );
}

/** Members of a line follow each other, so a line's share of those before somebody is found by halving. */
function positionOf(pool: Pool, self: Waiter, nowMs: number): number {
  const compare = disciplineOf(pool).compareIn(pool, nowMs);
  let before = 0;
  for (const waiter of new QueueWalk(pool, nowMs)) {
    if (waiter.hold !== null) {
      before += waiter.request !== self.request && compare(waiter, self) < 0 ? 1 : 0;
      continue;
    }
    const { poolLine } = waiter;
    before += poolLine.line.members.countWhile(
      (request) => request !== self.request && compare({ ...waiter, request, score: Number.NaN }, self) < 0,
    );
  }
  return before + 1;
}
