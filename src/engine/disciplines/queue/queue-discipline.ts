// Disciplines that serve a queue from its head (6): a survey finds the first that can be granted in its turn, or the head
// that cannot; the head is promised what comes free, preempts, or is passed by backfill. What differs between them
// is the order, who may be preempted for whom, and the preference among victims.

import { hasLostNode } from "../../placement/occupancy.ts";
import type { EngineState, Pool, PoolLine, Request, Run } from "../../state.ts";
import type { Bar, OrderRule, PreemptionFact, Protection, SparingBar, Verdict } from "../../why.ts";
import type { Discipline, LostHold, VictimChoice, Waiter } from "../discipline.ts";
import { compareInQueue, explainInQueue, takersInQueue } from "./explain.ts";
import { glanceAtQueue, lookAtQueue, walkQueue } from "./look.ts";
import { orderOf, QueueOrder } from "./queue-order.ts";
import { allLines, firstOfLines, holdersAround, QueueWalk, walkOverPromised } from "./queue-walk.ts";
import type { Field, Permission } from "./victims.ts";

export interface QueueRules
  extends Pick<Discipline, "standingOf" | "tellApart" | "priceKeyOf" | "byVictimOrder" | "sparedBy"> {
  /** What decides the order before time and submission do: lower numbers first, from left to right (G1, 10.6). */
  rankOf(poolLine: PoolLine, borrows: boolean): readonly number[];
  /** Those with the same standing and rank follow each other by submission for ever; left out where time moves nothing. */
  standing?(poolLine: PoolLine): string;
  /** What decides between the same ranks at a moment, the highest first; left out where time moves nothing. */
  scoreOf?(waiter: Waiter, nowMs: number): number;
  /** Whether a key counts when the reserve of a component is judged (G1, 10.1). */
  isReserveKey(pool: Pool, keyIndex: number): boolean;
  /**
   * Whose promised units leave less of their component's reserve to the other wherever both stand: negative, those of
   * `a`. Equal, or left out: those of the one who comes first (V1, 10.1).
   */
  compareReserve?(a: PoolLine, b: PoolLine): number;
  /** Until when time alone cannot put one waiter before another that is ahead of it; left out where time moves nothing. */
  orderHoldsUntil?(ahead: Waiter, behind: Waiter, nowMs: number): number;
  /** Whether somebody who waits might have others stopped if it were the head of a pool without promises and nodes: a no is certain. */
  mayStopAnybody(pool: Pool, order: QueueOrder): boolean;
  /** Which of those that run may be taken for the head of a pool. */
  fieldOf(search: VictimSearch): Field;
  /** Who of them has to stop, or null if nobody may or it would not be enough (V3). */
  chooseVictims(field: Field): VictimChoice | null;
  /**
   * What decides whom a head could ever stop for what it lacks, beside what runs and who borrows: heads of the pool with
   * the same text that lack the same keys may stop the same runs.
   */
  rightsOf(search: VictimSearch): string;
  /** What it is worth to start a request, in hundredths of a minute; left out where nothing is weighed (10.5). */
  worth?(poolLine: PoolLine, request: Request): number;
  /** What stopping a run would cost, in the same; left out where nothing is weighed (10.4). */
  costOf?(run: Run, nowMs: number): number;
  /** The parts of the order that `rankOf` has numbers for, in the same order, with what people know of them (Y7). */
  orderParts(waiter: Waiter): readonly OrderPart[];
  /** By which rule the earlier submission comes first. */
  readonly submissionRule: OrderRule;
  /** What keeps everybody off a run. */
  keptOff(run: Run, nowMs: number): (Verdict & { readonly bar: SparingBar }) | null;
  /** Why no rule permits to take a run (Y4); a text as verdict says so of its whole kind. */
  barsFor(search: VictimSearch): (run: Run, verdict: Permission | string) => Bar;
  /** What protects a run (Y5). */
  protectionOf(run: Run, nowMs: number): Protection[];
  /** The choice that is forbidden by bounds only; null: there is none. Left out where choices have no bounds (10.5). */
  explainBounds?(field: Field): PreemptionFact | null;
}

export interface OrderPart {
  readonly part: "sensitive" | "reserve" | "priority" | "class" | "band";
  readonly value: number;
  readonly rule: OrderRule;
}

export interface VictimSearch {
  readonly state: EngineState;
  readonly nowMs: number;
  readonly pool: Pool;
  readonly walk: QueueWalk;
  readonly head: Waiter;
  /** What is lacking per key; not positive where nothing is. */
  readonly shortage: readonly number[];
}

/** Within 24 hours (V6). */
const PREEMPTIONS_MAX = 5;

export function queueDiscipline(rules: QueueRules): Discipline {
  return {
    look: (transaction, pool) => lookAtQueue(rules, transaction, pool),
    suspectHolders,
    lostHold: (pool, suspects, nowMs) => lostHold(rules, pool, suspects, nowMs),
    queue: (_, pool, nowMs) => queueOf(rules, pool, nowMs),
    explain: (state, poolLine, request, nowMs) => explainInQueue(rules, { state, poolLine, request, nowMs }),
    compare: (_, pool, pair, nowMs) => compareInQueue(rules, pool, pair, nowMs),
    takers: (state, run, nowMs) => takersInQueue(rules, state, run, nowMs),
    protectionOf: (_, run, nowMs) => rules.protectionOf(run, nowMs),
    byVictimOrder: rules.byVictimOrder,
    sparedBy: rules.sparedBy,
    violations: (state, pool, nowMs) => violations(rules, state, pool, nowMs),
    standingOf: rules.standingOf,
    tellApart: rules.tellApart,
    ...(rules.priceKeyOf && { priceKeyOf: rules.priceKeyOf }),
    hasShares: false,
    preemptionsMax: PREEMPTIONS_MAX,
  };
}

/** Whatever changes what a pool admits throws its order away. */
function suspectHolders({ order, promised }: Pool): ReadonlySet<Request> {
  order?.refresh();
  return order?.suspectHolders() ?? promised;
}

/** The first promise, in the order of the queue, that a quota blocks or that nothing covers any more (V5). */
function lostHold(
  rules: QueueRules,
  pool: Pool,
  suspects: ReadonlySet<Request>,
  nowMs: number,
): LostHold | undefined {
  const walk = walkOverPromised(rules, pool, nowMs, holdersAround(pool, suspects));
  for (const waiter of walk) {
    if (!suspects.has(waiter.request)) continue;
    if (walk.quotaBlock(waiter) !== null) return { request: waiter.request, why: "blocked_by_limit" };
    if (hasLostNode(pool, waiter.request)) return { request: waiter.request, why: "node_lost" };
    if (!walk.isCovered(waiter)) return { request: waiter.request, why: "not_covered" };
  }
  pool.order?.noteHoldsChecked();
  return undefined;
}

function* queueOf(rules: QueueRules, pool: Pool, nowMs: number): Generator<Request> {
  for (const { request } of new QueueWalk(
    rules,
    pool,
    nowMs,
    allLines(pool, ({ line }) => line.members),
  ))
    yield request;
}

function violations(rules: QueueRules, state: EngineState, pool: Pool, nowMs: number): string[] {
  const found: string[] = [];
  const kept = orderOf(state, rules, pool);
  const suspects = kept.suspectHolders();
  const walk = new QueueWalk(rules, pool, nowMs, firstOfLines(pool));
  for (const waiter of walk) {
    if (waiter.hold !== "here") continue;
    const { id } = waiter.request.spec;
    const [isBlocked, isCovered] = [walk.quotaBlock(waiter) !== null, walk.isCovered(waiter)];
    if (isBlocked) found.push(`the hold of ${id} stands against its own quota (V5)`);
    if (!isCovered) found.push(`the hold of ${id} is not backed by units (V5)`);
    if ((isBlocked || !isCovered) && !suspects.has(waiter.request))
      found.push(`that the hold of ${id} is lost would not be seen`);
  }
  const orderIn = (order: QueueOrder) =>
    [...new QueueWalk(rules, pool, nowMs, order)].map(
      ({ request, hold }) => `${request.spec.id} ${hold ?? ""}`,
    );
  const [actual, expected] = [orderIn(kept).join(), orderIn(new QueueOrder(rules, pool)).join()];
  if (actual !== expected) found.push(`the order is kept as ${actual} and should be ${expected}`);
  const glance = glanceAtQueue(rules, kept, pool);
  if (glance !== null) {
    const whole = walkQueue(rules, { state, nowMs }, kept, pool);
    const [seen, there] = [glance, whole].map((look) => nameOf(look.grant ?? look.promise ?? look.preempt));
    if (seen !== there) found.push(`at a glance it would be the turn of ${seen}, and it is that of ${there}`);
  }
  return [...found, ...kept.lines.violations()];
}

function nameOf(found: Waiter | { readonly waiter: Waiter } | undefined): string {
  if (found === undefined) return "nobody";
  return ("waiter" in found ? found.waiter : found).request.spec.id;
}
