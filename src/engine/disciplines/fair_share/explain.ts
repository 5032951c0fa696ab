// Why a request waits in a fair-share pool (14, 9.10): facts only; words are made at the edges.

import type { Blocker, PoolExplanation, Shortage } from "../../explain.ts";
import { explainNodes, type NodesExplanation } from "../../placement/verdicts.ts";
import type { PoolName } from "../../records.ts";
import { type Resources, toResources } from "../../resources.ts";
import { type Cover, earliestEnd, NodeCover, Sum } from "../../scheduling/cover.ts";
import { mustBorrow, Promises, quotaBlockOf } from "../../scheduling/quotas.ts";
import { blockedByQuota, describeHolders, stoppingFor } from "../../scheduling/reasons.ts";
import { type EngineState, freeOf, type Pool, type PoolLine, type Request } from "../../state.ts";
import { holdsOf, lineIn } from "./holds.ts";
import { inOrder, waitersOf, wayTo } from "./order.ts";
import { NodeSpace, spaceOf } from "./space.ts";
import { rightFrom } from "./starvation.ts";
import { type Branch, type Operation, type PoolTree, shareTreeOf } from "./tree.ts";
import { considerFor } from "./victims.ts";
import { type ElementView, isBeyondFairShare, viewOfInner, viewOfOperation, viewsAbove } from "./view.ts";

/** How many of those whose turn comes first are named. */
const AHEAD_NAMED_MAX = 10;

export interface ShareExplanation {
  readonly operation: ElementView;
  /** The policy and the groups above it, the nearest first. */
  readonly above: readonly ElementView[];
  /** Whose turn comes first (9.6), the first of them. */
  readonly ahead: readonly Precedence[];
  /** How many operations come first. */
  readonly aheadCount: number;
  /** What its own starvation, or that of what is above it, entitles it to (9.4). */
  readonly mayPreempt: "no" | "preemptible" | "aggressively";
  /** Until when a preemptive stage pauses where the pool has no nodes; null: it does not (9.7). */
  readonly backoffUntilMs: number | null;
  /** It asks for more than the fair share of its operation, so that it can never be served within it (9.10). */
  readonly exceedsFairShare: boolean;
}

/** Whoever comes first does so on the level where the ways to the two operations part. */
export interface Precedence {
  readonly theirs: ElementView;
  readonly mine: ElementView;
}

export function explainByShares(
  state: EngineState,
  poolLine: PoolLine,
  request: Request,
  nowMs: number,
): PoolExplanation {
  const { pool } = poolLine;
  const tree = shareTreeOf(state, pool);
  const order = [...inOrder(tree)];
  const queue = order.flatMap((operation) => waitersOf(pool, operation));
  const place = order.findIndex(({ lines }) => lines.has(poolLine));
  const operation = order[place] as Operation;
  const share = shareOf(pool, tree, order, place, poolLine, nowMs);
  const lacking = shortageOf(poolLine);
  const stage = share.mayPreempt === "aggressively" ? "aggressive" : "preemptive";
  const startMs = earliestEnd(pool, coverOf(poolLine));
  return {
    pool: pool.record.name,
    position: queue.findIndex((waiter) => waiter.request === request) + 1,
    queueLength: queue.length,
    fitsReserve: !mustBorrow(poolLine),
    blockedBy: blockerOf(request, poolLine, queue[0]?.request ?? request, lacking),
    ...describeHolders(
      pool,
      lacking.map(({ key }) => key),
    ),
    considered:
      request.progress.hold === null ? considerFor({ state, pool, tree, nowMs }, stage, operation) : [],
    preemptionNeeds: share.mayPreempt === "no" ? null : needsOf(poolLine, lacking),
    couldStartAtMs: startMs === Number.NEGATIVE_INFINITY ? null : Math.max(startMs, nowMs),
    value: null,
    nodes: nodesFor(poolLine),
    share,
  };
}

/** What it lacks when all has come free that is stopping for nobody. */
function coverOf({ pool, need, ask }: PoolLine): Cover {
  if (ask !== null) return new NodeCover(new NodeSpace(pool).soon, ask);
  const promises = promisesOf(pool);
  return new Sum(
    need.map((amount, i) => amount - freeOf(pool, i) - pool.stopping[i]! + promises.claimed[i]!),
  );
}

function nodesFor({ pool, ask }: PoolLine): NodesExplanation | null {
  if (ask === null) return null;
  const explained = explainNodes(pool, ask, new NodeSpace(pool).now);
  return explained.fitting < explained.asked ? explained : null;
}

function promisesOf(pool: Pool, but?: Request): Promises {
  const promises = new Promises(pool.keys.length);
  for (const holder of pool.promised) if (holder !== but) promises.add(lineIn(pool, holder));
  return promises;
}

function shareOf(
  pool: Pool,
  tree: PoolTree,
  order: readonly Operation[],
  place: number,
  poolLine: PoolLine,
  nowMs: number,
): ShareExplanation {
  const operation = order[place] as Operation;
  const right = Math.max(operation.right, rightFrom(pool, operation.parent));
  const startedAtMs = pool.preemptiveStartAtMs.get("") ?? Number.NEGATIVE_INFINITY;
  const backoffUntilMs = startedAtMs + pool.record.settings.preemptiveBackoffMs;
  return {
    operation: viewOfOperation(pool, tree, operation),
    above: viewsAbove(pool, tree, operation),
    ahead: precedencesOf(pool, tree, order.slice(0, place), operation),
    aheadCount: place,
    mayPreempt: right === 2 ? "aggressively" : right === 1 ? "preemptible" : "no",
    backoffUntilMs: backoffUntilMs > nowMs ? backoffUntilMs : null,
    exceedsFairShare: isBeyondFairShare(tree, operation, poolLine),
  };
}

function precedencesOf(
  pool: Pool,
  tree: PoolTree,
  earlier: readonly Operation[],
  mine: Operation,
): Precedence[] {
  const view = (element: Branch | Operation) =>
    "lines" in element ? viewOfOperation(pool, tree, element) : viewOfInner(pool, tree, element);
  const ownWay = wayTo(mine);
  const found = new Map<Branch | Operation, Precedence>();
  for (const other of earlier) {
    if (found.size === AHEAD_NAMED_MAX) break;
    const way = wayTo(other);
    const fork = way.findIndex((element, level) => element !== ownWay[level]);
    const theirs = way[fork] as Branch | Operation;
    if (!found.has(theirs)) found.set(theirs, { theirs: view(theirs), mine: view(ownWay[fork] ?? mine) });
  }
  return [...found.values()];
}

function blockerOf(
  request: Request,
  poolLine: PoolLine,
  first: Request,
  short: readonly Shortage[],
): Blocker {
  const { pool } = poolLine;
  const { hold } = request.progress;
  const hasRoom = () => poolLine.ask !== null && short.length === 0;
  const quota = quotaBlockOf(poolLine, promisesOf(pool, request), hasRoom);
  if (quota !== null) return blockedByQuota(poolLine, quota);
  if (hold?.pool === pool.record.name) return { rule: "holds", waitsFor: stoppingFor(pool, request) };
  if (hold !== null) return { rule: "holds_elsewhere", pool: hold.pool as PoolName };
  // Nobody is served behind a starving operation that a preemptive stage could serve (9.11).
  if (short.length === 0) return { rule: "behind_head", head: first.spec.id };
  return { rule: "units", short, head: first.spec.id };
}

/** What is short for it now, beside what all holds set aside. What cannot be placed is short of all that it asks for (N2). */
function shortageOf(poolLine: PoolLine): Shortage[] {
  const { pool, need } = poolLine;
  const space = spaceOf(pool, holdsOf(pool));
  if (space.placeNow(poolLine) !== null) return [];
  const promises = promisesOf(pool);
  return need.flatMap((asked, i) => {
    const [free, promised] = [Math.max(0, freeOf(pool, i)), promises.claimed[i]!];
    if (asked === 0 || (!pool.record.nodeBacked && asked <= free - promised)) return [];
    return [{ key: pool.keys[i] as string, asked, free, promised, comingFree: pool.stopping[i]! }];
  });
}

function needsOf({ pool, need }: PoolLine, short: readonly Shortage[]): Resources {
  const keys = new Set(short.map(({ key }) => key));
  return Object.fromEntries(Object.entries(toResources(need, pool.keys)).filter(([key]) => keys.has(key)));
}
