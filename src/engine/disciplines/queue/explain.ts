// Why a request waits in a queue with a head (14), told from the state alone.

import type { Blocker, PoolExplanation } from "../../explain.ts";
import { explainNodes, type NodesExplanation } from "../../placement/verdicts.ts";
import type { PoolName, PreemptionReason } from "../../records.ts";
import { coverFor, NodeCover } from "../../scheduling/cover.ts";
import {
  barred,
  blockedByQuota,
  blockersOf,
  candidateKinds,
  codeOf,
  guardOr,
  holdersFor,
  permitted,
  positiveOf,
  runsHolding,
  stoppingFor,
} from "../../scheduling/reasons.ts";
import { isShielded, shortKeys } from "../../scheduling/victims.ts";
import {
  type EngineState,
  type Pool,
  type PoolLine,
  queueLengthOf,
  type Request,
  type Run,
} from "../../state.ts";
import type { OrderDifference, OrderFact, Permit, PreemptionFact, Verdict } from "../../why.ts";
import type { Taker, Waiter } from "../discipline.ts";
import { earliestStart } from "./backfill.ts";
import type { QueueRules, VictimSearch } from "./queue-discipline.ts";
import { allLines, compareIn, firstOfLines, QueueWalk } from "./queue-walk.ts";
import { reasonsFor, withoutShields } from "./victims.ts";

/** Who asks, where and when. */
interface Question {
  readonly state: EngineState;
  readonly poolLine: PoolLine;
  readonly request: Request;
  readonly nowMs: number;
}

export function explainInQueue(rules: QueueRules, question: Question): PoolExplanation {
  const { state, poolLine, request, nowMs } = question;
  const { pool } = poolLine;
  const { walk, self, head, headShort } = walkTo(rules, question);
  const shortage = walk.shortage(self);
  const startMs = earliestStart({ waiter: self, shortage, walk });
  const search: VictimSearch = { state, nowMs, pool, walk, head: self, shortage };
  const judged = self.hold === null ? judge(rules, search) : [];
  const blockedBy = blockerOf(walk, self, head);
  const isBehind = head !== undefined && head.request !== request;
  const short = walk.shortOf(self).map(({ key }) => key);
  return {
    pool: pool.record.name,
    position: positionOf(rules, pool, self, nowMs),
    queueLength: queueLengthOf(pool),
    fitsReserve: !self.borrows,
    code: codeOf(blockedBy),
    blockedBy,
    blockers: blockersOf(blockedBy, short.length > 0, isBehind),
    reserveLeft: Object.fromEntries(
      shortKeys(shortage).map((i) => [pool.keys[i] as string, walk.headroom(poolLine, i)]),
    ),
    ...holdersFor(poolLine, blockedBy, short.length > 0 ? short : headShort),
    first: isBehind
      ? { requestId: head.request.spec.id, difference: differenceOf(rules, head, self, nowMs) }
      : null,
    considered: candidateKinds(
      judged,
      rules.costOf === undefined ? null : (run) => rules.costOf!(run, nowMs),
    ),
    preemption: preemptionOf(rules, search, { blockedBy, judged, head }),
    preemptionNeeds: head?.request === request ? positiveOf(shortage, pool) : null,
    couldStartAtMs: startMs === Number.NEGATIVE_INFINITY ? null : Math.max(startMs, nowMs),
    value: rules.worth?.(poolLine, request) ?? null,
    nodes: nodesFor(walk, self),
    share: null,
  };
}

function judge(rules: QueueRules, search: VictimSearch): (readonly [Run, Verdict])[] {
  const verdictOn = verdictsFor(rules, search);
  const runs = runsHolding(search.pool, shortKeys(search.shortage));
  return Array.from(runs, (run) => [run, verdictOn(run)] as const);
}

const PERMITS: Readonly<Partial<Record<PreemptionReason, Permit>>> = {
  priority: "priority",
  reclaim: "reclaim",
  backfill: "gap",
  class: "class",
  sensitive: "sensitive_claim",
};

/** Whether a run that holds something short may be taken (V2, V6), or the one rule that forbids it. */
function verdictsFor(rules: QueueRules, search: VictimSearch): (run: Run) => Verdict {
  const { nowMs } = search;
  const { judge, prices, bounds } = rules.fieldOf(withoutShields(search));
  const barOf = rules.barsFor(search);
  return (run) => {
    const kept = rules.keptOff(run, nowMs);
    if (kept !== null) return kept;
    if (prices.isNearCompletion(run, nowMs)) return barred("near_completion", run.endMs);
    const verdict = judge(run.kind);
    const reasons = typeof verdict === "string" ? [] : reasonsFor(run, verdict);
    const shielded = isShielded(run.kind, nowMs);
    const reason = reasons.find((each) => !shielded || each === "sensitive" || each === "reclaim");
    if (reason === undefined)
      return reasons.length > 0 ? barred("shielded", run.kind.shieldEndsAtMs) : barred(barOf(run, verdict));
    if (reason === "class" && prices.costMsOf(run, nowMs) >= bounds.costMsMax)
      return barred("costs_too_much");
    return guardOr(search, run, permitted(PERMITS[reason] as Permit));
  };
}

/** Why nobody is preempted for it (Y4, V1–V3, 10.5). */
function preemptionOf(
  rules: QueueRules,
  search: VictimSearch,
  {
    blockedBy,
    judged,
    head,
  }: { blockedBy: Blocker; judged: readonly (readonly [Run, Verdict])[]; head: Waiter | undefined },
): PreemptionFact {
  const { head: self, shortage } = search;
  if (blockedBy.rule === "holds" || blockedBy.rule === "holds_elsewhere") return { why: "promised" };
  if ("allowed" in blockedBy) return { why: "own_quota" };
  if (head !== undefined && head.request !== self.request)
    return { why: "not_first", head: head.request.spec.id };
  if (shortKeys(shortage).length === 0) return { why: "not_short" };
  const taken = judged.flatMap(([run, { permit }]) => (permit === null ? [] : [run]));
  const cover = coverFor(search);
  for (const run of taken) cover.take(run);
  if (!cover.isEnough) {
    if (cover instanceof NodeCover && taken.length > 0) {
      const asked = self.poolLine.ask?.count ?? 1;
      return { why: "too_few_nodes", fitting: asked - cover.missing, asked };
    }
    return { why: "too_little", keys: lackingKeys(search, taken) };
  }
  return rules.explainBounds?.(rules.fieldOf(search)) ?? { why: "unsettled" };
}

function lackingKeys({ pool, shortage }: VictimSearch, taken: readonly Run[]) {
  return shortKeys(shortage).map((i) => ({
    key: pool.keys[i] as string,
    lacking: shortage[i] as number,
    permitted: taken.reduce((sum, { poolLine }) => sum + (poolLine.need[i] as number), 0),
  }));
}

/** The first part of the order on which two differ (Y7). */
function differenceOf(rules: QueueRules, theirs: Waiter, mine: Waiter, nowMs: number): OrderDifference {
  const [parts, own] = [rules.orderParts(theirs), rules.orderParts(mine)];
  for (const [index, { part, value, rule }] of parts.entries()) {
    const other = (own[index] as (typeof own)[number]).value;
    if (value !== other) return { rule, part, theirs: value, mine: other };
  }
  if (rules.scoreOf !== undefined) {
    const [score, other] = [rules.scoreOf(theirs, nowMs), rules.scoreOf(mine, nowMs)];
    if (score !== other) return { rule: "10.6", part: "score", theirs: score, mine: other };
  }
  const [a, b] = [theirs.request.progress, mine.request.progress];
  const rule = rules.submissionRule;
  return { rule, part: "submission", theirsAtMs: a.submittedAtMs, mineAtMs: b.submittedAtMs };
}

/** Which of two comes first: whoever a walk meets first. */
export function compareInQueue(
  rules: QueueRules,
  pool: Pool,
  pair: readonly [Request, Request],
  nowMs: number,
): OrderFact {
  const isOne = (request: Request) => request === pair[0] || request === pair[1];
  const members = ({ line }: PoolLine) => {
    const first = line.members.first() as Request;
    const wanted = pair.filter((one) => one.line === line && one !== first && one.progress.hold === null);
    return [first, ...wanted.sort((a, b) => a.progress.seq - b.progress.seq)];
  };
  let first: Waiter | undefined;
  for (const waiter of new QueueWalk(rules, pool, nowMs, allLines(pool, members))) {
    if (!isOne(waiter.request)) continue;
    if (first === undefined) first = waiter;
    else return { requestId: first.request.spec.id, difference: differenceOf(rules, first, waiter, nowMs) };
  }
  throw new Error(`${pair[0].spec.id} and ${pair[1].spec.id} do not both wait in ${pool.record.name}`);
}

/** Of how many lines the first is asked. */
const TAKERS_LOOKED_AT_MAX = 200;

export function takersInQueue(rules: QueueRules, state: EngineState, run: Run, nowMs: number): Taker[] {
  const { pool, need } = run.poolLine;
  const walk = new QueueWalk(rules, pool, nowMs, firstOfLines(pool));
  const takers: Taker[] = [];
  let looked = 0;
  for (const waiter of walk) {
    if (looked++ === TAKERS_LOOKED_AT_MAX) break;
    if (waiter.hold !== null || walk.quotaBlock(waiter) !== null) continue;
    const shortage = walk.shortage(waiter);
    if (!shortKeys(shortage).some((i) => (need[i] as number) > 0)) continue;
    const { permit } = verdictsFor(rules, { state, nowMs, pool, walk, head: waiter, shortage })(run);
    if (permit !== null) takers.push({ request: waiter.request, permit });
  }
  return takers;
}

/** Walks to the request, and notes the head on the way. */
function walkTo(
  rules: QueueRules,
  { poolLine: { pool, line }, request, nowMs }: Question,
): { walk: QueueWalk; self: Waiter; head: Waiter | undefined; headShort: readonly string[] } {
  const membersOf = ({ line: each }: PoolLine) => {
    const first = each.members.first() as Request;
    return each !== line || first === request || request.progress.hold !== null ? [first] : [first, request];
  };
  const walk = new QueueWalk(rules, pool, nowMs, allLines(pool, membersOf));
  let head: Waiter | undefined;
  let headShort: readonly string[] = [];
  for (let waiter = walk.next(); waiter !== undefined; waiter = walk.next()) {
    const isHead = waiter.hold === null && walk.quotaBlock(waiter) === null && !walk.fits(waiter);
    if (head === undefined && isHead) {
      head = waiter;
      headShort = walk.shortOf(waiter).map(({ key }) => key);
    }
    if (waiter.request === request) return { walk, self: waiter, head, headShort };
  }
  throw new Error(`${request.spec.id} is not in the queue of ${pool.record.name}`);
}

/** The walk stands at the request. */
function blockerOf(walk: QueueWalk, self: Waiter, head: Waiter | undefined): Blocker {
  const { request, poolLine, hold } = self;
  const quota = walk.quotaBlock(self);
  if (quota !== null) return blockedByQuota(poolLine, quota);
  if (hold === "here") return { rule: "holds", waitsFor: stoppingFor(walk.pool, request) };
  if (hold === "elsewhere") return { rule: "holds_elsewhere", pool: request.progress.hold?.pool as PoolName };
  const short = walk.shortOf(self);
  if (short.length === 0) return { rule: "behind_head", head: (head ?? self).request.spec.id };
  return { rule: "units", short, head: (head ?? self).request.spec.id };
}

function nodesFor(walk: QueueWalk, waiter: Waiter): NodesExplanation | null {
  const { poolLine } = waiter;
  if (poolLine.ask === null) return null;
  const explained = explainNodes(walk.pool, poolLine.ask, walk.roomNow(waiter));
  return explained.fitting < explained.asked ? explained : null;
}

/** Members of a line follow each other, so a line's share of those before somebody is found by halving. */
function positionOf(rules: QueueRules, pool: Pool, self: Waiter, nowMs: number): number {
  const compare = compareIn(rules, nowMs);
  let before = 0;
  for (const waiter of new QueueWalk(rules, pool, nowMs, firstOfLines(pool))) {
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
