// Why a request waits in a queue with a head (14), told from the state alone.

import type { Blocker, PoolExplanation } from "../../explain.ts";
import { explainNodes, type NodesExplanation } from "../../placement/verdicts.ts";
import type { PoolName } from "../../records.ts";
import { blockedByQuota, describeHolders, positiveOf, stoppingFor } from "../../scheduling/reasons.ts";
import { type EngineState, type Pool, type PoolLine, queueLengthOf, type Request } from "../../state.ts";
import type { Waiter } from "../discipline.ts";
import { earliestStart } from "./backfill.ts";
import type { QueueRules } from "./queue-discipline.ts";
import { orderOf } from "./queue-order.ts";
import { allLines, compareIn, firstOfLines, QueueWalk } from "./queue-walk.ts";

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
  const { walk, self, head } = walkTo(rules, question);
  const shortage = walk.shortage(self);
  const { policies } = orderOf(state, rules, pool);
  const startMs = earliestStart({ waiter: self, shortage, walk });
  return {
    pool: pool.record.name,
    position: positionOf(rules, pool, self, nowMs),
    queueLength: queueLengthOf(pool),
    fitsReserve: !self.borrows,
    blockedBy: blockerOf(walk, self, head),
    ...describeHolders(
      pool,
      walk.shortOf(self).map(({ key }) => key),
    ),
    considered:
      self.hold === null ? rules.consider({ state, nowMs, pool, policies, walk, head: self, shortage }) : [],
    preemptionNeeds: head?.request === request ? positiveOf(shortage, pool) : null,
    couldStartAtMs: startMs === Number.NEGATIVE_INFINITY ? null : Math.max(startMs, nowMs),
    value: rules.worth?.(poolLine, request) ?? null,
    nodes: nodesFor(walk, self),
    share: null,
  };
}

/** Walks to the request, and notes the head on the way. */
function walkTo(
  rules: QueueRules,
  { poolLine: { pool, line }, request, nowMs }: Question,
): { walk: QueueWalk; self: Waiter; head: Waiter | undefined } {
  const membersOf = ({ line: each }: PoolLine) => {
    const first = each.members.first() as Request;
    return each !== line || first === request || request.progress.hold !== null ? [first] : [first, request];
  };
  const walk = new QueueWalk(rules, pool, nowMs, allLines(pool, membersOf));
  let head: Waiter | undefined;
  for (let waiter = walk.next(); waiter !== undefined; waiter = walk.next()) {
    const isHead = waiter.hold === null && walk.quotaBlock(waiter) === null && !walk.fits(waiter);
    if (head === undefined && isHead) head = waiter;
    if (waiter.request === request) return { walk, self: waiter, head };
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
