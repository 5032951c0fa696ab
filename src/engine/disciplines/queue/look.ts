// What one look at a queue finds: the first that can be granted in its turn, or the head and what can be done for it.

import { covers } from "../../placement/node-list.ts";
import { placesOf } from "../../placement/occupancy.ts";
import { NO_PROMISES, quotaBlockOf } from "../../scheduling/quotas.ts";
import { fitsFree, type Pool, type Request } from "../../state.ts";
import type { Transaction } from "../../transaction.ts";
import type { PoolLook, Preemption, VictimChoice, Waiter } from "../discipline.ts";
import { findBackfill, type StuckHead } from "./backfill.ts";
import type { Part } from "./line-index.ts";
import { settledUntil } from "./moving-order.ts";
import type { QueueRules, VictimSearch } from "./queue-discipline.ts";
import { orderOf, type QueueOrder } from "./queue-order.ts";
import { compareIn, holdersAround, QueueWalk, walkOverPromised } from "./queue-walk.ts";

export function lookAtQueue(rules: QueueRules, transaction: Transaction, pool: Pool): PoolLook {
  const order = orderOf(transaction.state, rules, pool);
  return glanceAtQueue(rules, order, pool) ?? walkQueue(rules, transaction, order, pool);
}

const NOTHING: PoolLook = { untilMs: Number.POSITIVE_INFINITY };

/**
 * What most looks find, without a walk: the first in the queue can start, or nobody can, whoever comes first; null: that
 * is not certain. Only where nobody is promised anything, since promises are judged on the way, and without nodes.
 */
export function glanceAtQueue(rules: QueueRules, order: QueueOrder, pool: Pool): PoolLook | null {
  if (pool.record.nodeBacked || pool.promised.size > 0 || pool.passers.size > 0) return null;
  const first = order.first();
  if (first !== undefined && fitsFree(pool, first.poolLine.need))
    return quotaBlockOf(first.poolLine, NO_PROMISES, hasNoRoom) === null ? inTurn(first) : null;
  return isStuck(rules, order, pool) ? NOTHING : null;
}

/** Whether nobody could start, be promised anything or have others stopped, in whatever order they came. */
function isStuck(rules: QueueRules, order: QueueOrder, pool: Pool): boolean {
  for (const amount of pool.stopping) if (amount > 0) return false;
  const parts = order.lines.parts();
  for (let i = 0; i < parts.length; i++) if (fitsFree(pool, (parts[i] as Part).least)) return false;
  return !rules.mayStopAnybody(pool, order);
}

function hasNoRoom(): boolean {
  return false;
}

/** A state at a time. */
type Moment = Pick<Transaction, "state" | "nowMs">;

/** The same from the front of the queue, one by one. */
export function walkQueue(rules: QueueRules, moment: Moment, order: QueueOrder, pool: Pool): PoolLook {
  const { nowMs } = moment;
  const walk = new QueueWalk(rules, pool, nowMs, order);
  for (let waiter = walk.next(); waiter !== undefined; waiter = walk.next()) {
    if (waiter.hold !== null) {
      if (walk.fits(waiter) && walk.quotaBlock(waiter) === null) return inTurn(waiter);
      continue;
    }
    if (walk.quotaBlock(waiter) !== null) continue;
    if (walk.fits(waiter)) return inTurn(waiter);
    return lookAtHead(rules, moment, order, walk, waiter);
  }
  return settled(rules, pool, undefined, nowMs, {});
}

function inTurn(waiter: Waiter): PoolLook {
  return { grant: { waiter, opportunistic: false }, untilMs: Number.POSITIVE_INFINITY };
}

/** Behind the head only one that is promised units is granted in its turn: what it takes has long been promised to it. */
function promisedBehind(rules: QueueRules, pool: Pool, head: Waiter, nowMs: number): Waiter | undefined {
  if (pool.promised.size === 0) return undefined;
  const startable = pool.record.nodeBacked ? startableOnNodes(pool) : pool.promised;
  if (startable.size === 0) return undefined;
  const compare = compareIn(rules, nowMs);
  const walk = walkOverPromised(rules, pool, nowMs, holdersAround(pool, startable));
  for (const waiter of walk) {
    if (waiter.hold !== "here" || !startable.has(waiter.request) || compare(waiter, head) < 0) continue;
    if (walk.quotaBlock(waiter) === null && walk.fitsPromise(waiter)) return waiter;
  }
  return undefined;
}

/** Those promised units on nodes who could start there if nobody came before them: that others cannot is certain. */
function startableOnNodes(pool: Pool): ReadonlySet<Request> {
  const { record, places } = pool;
  const startable = new Set<Request>();
  for (const { holders } of places.servable) {
    for (const holder of holders) {
      const need = holder.line.pools.get(record.name)?.ask?.need ?? [];
      if (placesOf(pool, holder.progress.hold).every(({ free }) => covers(free, need))) startable.add(holder);
    }
  }
  return startable;
}

/** The walk stands at the head: the first that waits for units and is promised none (V1, G4). */
function lookAtHead(
  rules: QueueRules,
  moment: Moment,
  order: QueueOrder,
  walk: QueueWalk,
  waiter: Waiter,
): PoolLook {
  const { state, nowMs } = moment;
  const { pool } = walk;
  const shortage = walk.shortage(waiter);
  const head: StuckHead = { waiter, shortage, walk };
  const lookWith = (found: Omit<PoolLook, "untilMs">) => settled(rules, pool, head, nowMs, found);
  if (shortage.every((lacking) => lacking <= 0)) {
    const { ask } = waiter.poolLine;
    if (ask !== null) waiter.nodes = walk.roomSoon(waiter.request).place(ask) ?? [];
    return lookWith({ promise: waiter });
  }
  const promised = promisedBehind(rules, pool, waiter, nowMs);
  if (promised !== undefined) return inTurn(promised);
  const search = { state, nowMs, pool, walk, head: waiter, shortage };
  const isHopeless = pool.runCount === 0 || order.hopeless.isHopeless(search);
  const choice = isHopeless ? null : victimsFor(rules, order, search);
  if (choice === null) return lookWith({ grant: findBackfill(rules, order, head, nowMs) }); // It comes last (G4).
  const preempt: Preemption = {
    ...{ waiter, shortage, choice },
    /** Asked for only where several pools name the head. */
    get isHelped() {
      return walk.isHelped(waiter);
    },
  };
  return lookWith({ preempt });
}

/** Until when it stands is asked of the last look only, when the pool has settled. */
function settled(
  rules: QueueRules,
  pool: Pool,
  head: StuckHead | undefined,
  nowMs: number,
  found: Omit<PoolLook, "untilMs">,
): PoolLook {
  return {
    ...found,
    get untilMs() {
      return settledUntil(rules, pool, head, nowMs);
    },
  };
}

function victimsFor(rules: QueueRules, { hopeless }: QueueOrder, search: VictimSearch): VictimChoice | null {
  const choice = rules.chooseVictims(rules.fieldOf(search));
  if (choice === null) hopeless.noteFailure(search);
  return choice;
}
