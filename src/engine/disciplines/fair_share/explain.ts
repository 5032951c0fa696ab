// Why a request waits in a fair-share pool (14, 9.10): facts only; words are made at the edges.

import type { Blocker, PoolExplanation, Shortage } from "../../explain.ts";
import { explainNodes, type NodesExplanation } from "../../placement/verdicts.ts";
import type { PoolName } from "../../records.ts";
import { type Resources, toResources } from "../../resources.ts";
import { type Cover, earliestEnd, NodeCover, Sum } from "../../scheduling/cover.ts";
import { headroomOf, mustBorrow, quotaBlockOf } from "../../scheduling/quotas.ts";
import {
  blockedByQuota,
  blockersOf,
  candidateKinds,
  codeOf,
  commonProtection,
  holdersFor,
  startedEarlier,
  stoppingFor,
  youth,
} from "../../scheduling/reasons.ts";
import { type EngineState, freeOf, type Pool, type PoolLine, type Request, type Run } from "../../state.ts";
import type {
  ComparedElement,
  OrderDifference,
  OrderFact,
  PreemptionFact,
  Protection,
  Sparing,
  Verdict,
} from "../../why.ts";
import type { Taker, Victim } from "../discipline.ts";
import { allocationsIn, freshnessOf } from "./allocations.ts";
import { operationWith } from "./entries.ts";
import { promisesOf } from "./holds.ts";
import { inOrder, satisfactionOf, stepOf, waitersOf, wayTo } from "./order.ts";
import { NodeSpace, spaceOf } from "./space.ts";
import { ownRight, rightFrom } from "./starvation.ts";
import {
  type Branch,
  type Operation,
  type Peers,
  type PoolTree,
  type Standing,
  shareTreeOf,
} from "./tree.ts";
import { type Asking, isCoveredSoon, verdictOn, verdictsOnAll, whyNobody } from "./verdicts.ts";
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
  /** Its operation is a gang whose fair share is less than all that it asks for, so that it is owed nothing (9.2). */
  readonly isGangWithoutShare: boolean;
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
  const operation = operationWith(tree, request) as Operation;
  const place = order.indexOf(operation);
  const share = shareOf(pool, tree, order, place, poolLine, nowMs);
  const lacking = shortageOf(poolLine);
  const startMs = earliestEnd(pool, coverOf(poolLine));
  const blockedBy = blockerOf(request, poolLine, queue[0]?.request ?? request, lacking);
  const stage = share.mayPreempt === "aggressively" ? "aggressive" : "preemptive";
  const asking: Asking = { state, pool, tree, nowMs, stage, request, operation };
  const short = lacking.map(({ key }) => pool.keys.indexOf(key));
  const judged = request.progress.hold === null ? [...verdictsOnAll(asking, short)] : [];
  return {
    pool: pool.record.name,
    position: queue.findIndex((waiter) => waiter.request === request) + 1,
    queueLength: queue.length,
    fitsReserve: !mustBorrow(poolLine),
    code: codeOf(blockedBy),
    blockedBy,
    blockers: blockersOf(blockedBy, lacking.length > 0, queue[0]?.request !== request),
    reserveLeft: Object.fromEntries(short.map((i) => [pool.keys[i] as string, headroomOf(poolLine, i)])),
    ...holdersFor(
      poolLine,
      blockedBy,
      lacking.length > 0 ? lacking.map(({ key }) => key) : pool.keys.filter((_, i) => poolLine.need[i]! > 0),
    ),
    first:
      queue[0] === undefined || queue[0].request === request
        ? null
        : {
            requestId: queue[0].request.spec.id,
            difference: differenceOf(tree, queue[0], { request, poolLine }),
          },
    considered: candidateKinds(judged, null),
    preemption: preemptionOf(asking, poolLine, { blockedBy, judged, share }),
    preemptionNeeds: share.mayPreempt === "no" ? null : needsOf(poolLine, lacking),
    couldStartAtMs: startMs === Number.NEGATIVE_INFINITY ? null : Math.max(startMs, nowMs),
    value: null,
    nodes: nodesFor(poolLine),
    share,
  };
}

/** Why nobody is preempted for it (Y4, 9.4, 9.7, 9.8). */
function preemptionOf(
  asking: Asking,
  poolLine: PoolLine,
  facts: {
    readonly blockedBy: Blocker;
    readonly judged: readonly (readonly [Run, Verdict])[];
    readonly share: ShareExplanation;
  },
): PreemptionFact {
  const { blockedBy, judged, share } = facts;
  if (blockedBy.rule === "holds" || blockedBy.rule === "holds_elsewhere") return { why: "promised" };
  if ("allowed" in blockedBy) return { why: "own_quota" };
  if (blockedBy.rule === "behind_head" || isCoveredSoon(asking.pool, poolLine)) return { why: "not_short" };
  if (share.mayPreempt !== "no") return whyNobody(asking, poolLine, judged);
  const times = [share.operation, ...share.above].flatMap(({ starvesAtMs }) => starvesAtMs ?? []);
  return { why: "not_starving", starvesAtMs: times.length === 0 ? null : Math.min(...times) };
}

interface Waiting {
  readonly request: Request;
  readonly poolLine: PoolLine;
}

/** The first part of the order on which two differ (Y7, 9.6): on the level where the ways to them part. */
function differenceOf(tree: PoolTree, theirs: Waiting, mine: Waiting): OrderDifference {
  const operationOf = ({ request }: Waiting) => operationWith(tree, request) as Operation;
  const [way, own] = [wayTo(operationOf(theirs)), wayTo(operationOf(mine))];
  const fork = way.findIndex((element, level) => element !== own[level]);
  if (fork < 0) {
    const [a, b] = [theirs.request.progress, mine.request.progress];
    return { rule: "9.6", part: "submission", theirsAtMs: a.submittedAtMs, mineAtMs: b.submittedAtMs };
  }
  const [a, b] = [way[fork] as Branch | Operation, own[fork] as Branch | Operation];
  const part = stepOf(standingOf(a)) === stepOf(standingOf(b)) ? "age" : "satisfaction";
  return { rule: "9.6", part, theirs: comparedOf(a), mine: comparedOf(b) };
}

function standingOf(element: Branch | Operation): Standing {
  return "lines" in element ? (element.peers as Standing) : element;
}

function comparedOf(element: Branch | Operation): ComparedElement {
  const satisfaction = satisfactionOf(standingOf(element));
  return {
    kind: "lines" in element ? "operation" : element.kind === "group" ? "group" : "policy",
    name: element.name,
    parent: element.parent === null || element.parent.kind === "root" ? null : element.parent.name,
    satisfaction: satisfaction === Number.POSITIVE_INFINITY ? null : satisfaction,
  };
}

/** Which of two that wait comes first (Y7). */
export function compareByShares(
  state: EngineState,
  pool: Pool,
  pair: readonly [Request, Request],
): OrderFact {
  const tree = shareTreeOf(state, pool);
  const found: Waiting[] = [];
  for (const operation of inOrder(tree)) {
    for (const waiting of waitersOf(pool, operation)) if (pair.includes(waiting.request)) found.push(waiting);
  }
  const [first, second] = found as [Waiting, Waiting];
  return { requestId: first.request.spec.id, difference: differenceOf(tree, first, second) };
}

/** Of how many operations the first request is asked. */
const TAKERS_LOOKED_AT_MAX = 200;

/** The first of each operation that has the right to preempt and could take the run (Y5). */
export function takersByShares(state: EngineState, run: Run, nowMs: number): Taker[] {
  const { pool } = run.poolLine;
  const tree = shareTreeOf(state, pool);
  const owner = operationWith(tree, run.request);
  const allocation = owner && allocationsIn(pool, tree, owner).get(run);
  if (allocation === undefined) return [];
  const takers: Taker[] = [];
  let looked = 0;
  for (const operation of inOrder(tree)) {
    const right = Math.max(ownRight(pool, operation), rightFrom(pool, operation.parent));
    if (right === 0 || looked++ >= TAKERS_LOOKED_AT_MAX) continue;
    const first = waitersOf(pool, operation).find(({ request, poolLine }) => {
      if (request.progress.hold !== null || quotaBlockOf(poolLine, promisesOf(pool), () => false) !== null)
        return false;
      return shortageOf(poolLine).some(({ key }) => run.poolLine.need[pool.keys.indexOf(key)]! > 0);
    });
    if (first === undefined) continue;
    const stage = right === 2 ? "aggressive" : "preemptive";
    const { permit } = verdictOn(
      { state, pool, tree, nowMs, stage, request: first.request, operation },
      allocation,
    );
    if (permit !== null) takers.push({ request: first.request, permit });
  }
  return takers;
}

/** What protects a run: what it is, and its place within the fair share of its operation (9.5). */
export function protectionByShares(state: EngineState, run: Run, nowMs: number): Protection[] {
  const { pool } = run.poolLine;
  const tree = shareTreeOf(state, pool);
  const owner = operationWith(tree, run.request);
  const group = owner && allocationsIn(pool, tree, owner).get(run)?.group;
  const own: Protection[] =
    group === undefined || group === "preemptible" ? [] : [{ by: "fair_share", group }];
  return [...commonProtection(run, nowMs), ...own];
}

/**
 * What is beyond a fair share goes first, the newest of it before all (9.8). Of an aggressive stage nobody knows any more
 * which of the two its victims were.
 */
export function sparedByShares(run: Run, { run: victim, reason, toldAtMs }: Victim): Sparing | null {
  const young = youth(run, toldAtMs);
  if (young !== null) return { why: "barred", bar: young.bar };
  // A checkpoint since then may have made either of them newer.
  return reason === "fair_share" && freshnessOf(run) < victim.token
    ? startedEarlier(run, victim, "9.8")
    : null;
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

function shareOf(
  pool: Pool,
  tree: PoolTree,
  order: readonly Operation[],
  place: number,
  poolLine: PoolLine,
  nowMs: number,
): ShareExplanation {
  const operation = order[place] as Operation;
  const right = Math.max(ownRight(pool, operation), rightFrom(pool, operation.parent));
  const startedAtMs = pool.preemptiveStartAtMs.get("") ?? Number.NEGATIVE_INFINITY;
  const backoffUntilMs = startedAtMs + pool.record.settings.preemptiveBackoffMs;
  return {
    operation: viewOfOperation(pool, tree, operation),
    above: viewsAbove(pool, tree, operation),
    ahead: precedencesOf(pool, tree, order.slice(0, place), operation),
    aheadCount: place,
    mayPreempt: right === 2 ? "aggressively" : right === 1 ? "preemptible" : "no",
    backoffUntilMs: backoffUntilMs > nowMs ? backoffUntilMs : null,
    exceedsFairShare: operation.lines.some(
      (entry) => entry.poolLine === poolLine && isBeyondFairShare(tree, operation, entry),
    ),
    isGangWithoutShare: isGangWithoutShare(operation.peers as Peers),
  };
}

function isGangWithoutShare({ leaf, fairShare, demandShare }: Peers): boolean {
  return leaf.isGang && demandShare.some((share) => share > 0) && fairShare.every((share) => share === 0);
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
  const promises = promisesOf(pool);
  if (spaceOf(pool, promises).placeNow(poolLine) !== null) return [];
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
