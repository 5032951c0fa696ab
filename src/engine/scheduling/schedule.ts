// Scheduling to a fixed point: one grant, hold or decision at a time, until no stage has anything to do.
//
// The stages, each tried only when the ones before it have nothing to do in any pool (G4, G5):
//   1. grants in turn
//   2. holds on what is free and what is coming free anyway (V1)
//   3. preemption for a head (V2–V5)
//   4. backfill behind a head (G4)
// In every stage each pool names one request; the pools are served by name, and the request takes the pool
// that it prefers among those that name it. Only pools in which something changed are looked at.

import { disciplineOf, type VictimChoice } from "../disciplines/discipline.ts";
import type { HoldEnd } from "../events.ts";
import { isShielded, poolsByName } from "../indexes.ts";
import { byPreference } from "../lines.ts";
import { toResources } from "../resources.ts";
import type { Pool, Request } from "../state.ts";
import { firstStop } from "../stopping.ts";
import { findBackfill } from "./backfill.ts";
import { QueueWalk, type Waiter } from "./queue-walk.ts";
import { emit, type Transaction } from "./transaction.ts";

/** What a look at a pool's queue found. */
interface Survey {
  readonly pool: Pool;
  /** The first that can be granted in its turn. */
  readonly inTurn: Waiter | undefined;
  /** The first that waits for units and is promised none (V1, G4). */
  readonly head: Waiter | undefined;
  /** Standing at the head, so that it can be judged there. */
  readonly walk: QueueWalk;
}

interface Named {
  readonly waiter: Waiter;
  readonly act: () => void;
}

export function schedule(transaction: Transaction): void {
  const { unsettled } = transaction.state;
  const surveys = new Map<Pool, Survey>();
  // Who last took units in a pool: if a hold is then no longer covered, that one displaced it (V6).
  const takers = new Map<Pool, Request>();
  const take = (pool: Pool, request: Request) => takers.set(pool, request);
  for (;;) {
    while (unsettled.size > 0) {
      for (const pool of poolsByName(unsettled)) {
        unsettled.delete(pool);
        if (endLostHold(transaction, pool, takers.get(pool))) continue; // Looked at again: it is unsettled now.
        surveys.set(pool, survey(transaction, pool));
      }
    }
    const all =
      surveys.size === 1
        ? [...surveys.values()]
        : poolsByName(surveys.keys()).map((pool) => surveys.get(pool) as Survey);
    const named =
      serve(all, (found) => nameInTurn(transaction, found)) ??
      serve(all, (found) => nameCovered(transaction, found)) ??
      serve(all, (found) => nameForPreemption(transaction, found)) ??
      serve(all, (found) => nameBehindHead(transaction, found));
    if (named === undefined) return;
    take(named.waiter.poolLine.pool, named.waiter.request);
    named.act();
  }
}

/** The first pool by name that names somebody decides who it is; that request takes the pool it prefers (G5). */
function serve(surveys: readonly Survey[], name: (survey: Survey) => Named | undefined): Named | undefined {
  let chosen: Named | undefined;
  for (const survey of surveys) {
    const named = name(survey);
    if (named === undefined) continue;
    const isPreferred =
      chosen === undefined ||
      (named.waiter.request === chosen.waiter.request &&
        byPreference(named.waiter.poolLine, chosen.waiter.poolLine) < 0);
    if (isPreferred) chosen = named;
  }
  return chosen;
}

/** Ends the first hold, in the order of the queue, that a quota blocks or that nothing covers any more (V5). */
function endLostHold(transaction: Transaction, pool: Pool, taker: Request | undefined): boolean {
  if (pool.holders.size === 0) return false;
  const end = (request: Request, why: HoldEnd, by: Request | undefined) => {
    const { nowMs } = transaction;
    emit(transaction, {
      kind: "holdEnded",
      requestId: request.spec.id,
      why,
      by: by?.spec.id ?? null,
      atMs: nowMs,
    });
    return true;
  };
  for (const holder of pool.holders) {
    if (holder.line.pools.get(pool.record.name)?.verdict !== null)
      return end(holder, "not_admitted", undefined);
  }
  const walk = new QueueWalk(pool, transaction.nowMs);
  for (const waiter of walk) {
    if (waiter.hold !== "here") continue;
    if (walk.quotaBlock(waiter) !== null) return end(waiter.request, "blocked_by_limit", undefined);
    if (!walk.isCovered(waiter)) {
      return end(waiter.request, taker === undefined ? "not_covered" : "taken_over", taker);
    }
  }
  return false;
}

function survey(transaction: Transaction, pool: Pool): Survey {
  const walk = new QueueWalk(pool, transaction.nowMs);
  let head: Waiter | undefined;
  for (let waiter = walk.next(); waiter !== undefined; waiter = walk.next()) {
    if (walk.quotaBlock(waiter) !== null) continue;
    if (walk.fits(waiter)) return { pool, inTurn: waiter, head, walk };
    if (waiter.hold !== null) continue;
    head = waiter;
    break;
  }
  return { pool, inTurn: head && holderBehind(transaction, pool, head), head, walk };
}

/** Behind the head only a holder is granted in its turn: what it takes has long been promised to it. */
function holderBehind({ nowMs }: Transaction, pool: Pool, head: Waiter): Waiter | undefined {
  if (pool.holders.size === 0) return undefined;
  const walk = new QueueWalk(pool, nowMs);
  let isBehind = false;
  for (const waiter of walk) {
    isBehind ||= waiter.request === head.request;
    if (isBehind && waiter.hold === "here" && walk.quotaBlock(waiter) === null && walk.fits(waiter))
      return waiter;
  }
  return undefined;
}

function nameInTurn(transaction: Transaction, { inTurn }: Survey): Named | undefined {
  return inTurn && { waiter: inTurn, act: () => grant(transaction, inTurn, false) };
}

function grant(transaction: Transaction, { request, poolLine }: Waiter, opportunistic: boolean): void {
  emit(transaction, {
    kind: "requestAllocated",
    requestId: request.spec.id,
    pool: poolLine.pool.record.name,
    opportunistic,
    placement: [],
    atMs: transaction.nowMs,
  });
}

function nameCovered(transaction: Transaction, { pool, head, walk }: Survey): Named | undefined {
  if (head === undefined || !walk.isCovered(head)) return undefined;
  const act = () =>
    emit(transaction, {
      kind: "holdTaken",
      requestId: head.request.spec.id,
      pool: pool.record.name,
      placement: [],
      atMs: transaction.nowMs,
    });
  return { waiter: head, act };
}

function nameForPreemption(transaction: Transaction, { pool, head, walk }: Survey): Named | undefined {
  if (head === undefined || pool.runKinds.size === 0) return undefined;
  const { state, nowMs } = transaction;
  const shortage = walk.shortage(head);
  const choice = disciplineOf(pool).chooseVictims({ state, nowMs, pool, walk, head, shortage });
  return choice === null
    ? undefined
    : { waiter: head, act: () => preempt(transaction, head, shortage, choice) };
}

function preempt(
  transaction: Transaction,
  { request, poolLine }: Waiter,
  shortage: readonly number[],
  choice: VictimChoice,
): void {
  const { pool } = poolLine;
  const { nowMs } = transaction;
  emit(transaction, {
    kind: "preemptionDecided",
    pool: pool.record.name,
    waiter: request.spec.id,
    shortage: positive(toResources(shortage, pool.keys)),
    victims: choice.victims.map(({ run, reason, cost }) => ({
      requestId: run.request.spec.id,
      reason,
      stop: firstStop(run.request, pool, { reason, forRequest: request.spec.id, nowMs }),
      shielded: isShieldedAfter(run.request, pool, nowMs),
      ...(cost === undefined ? {} : { cost }),
    })),
    considered: choice.considered,
    placement: [],
    atMs: nowMs,
  });
}

/** Whether this was the last preemption that `max_preemptions` allows (V6). */
function isShieldedAfter(request: Request, pool: Pool, nowMs: number): boolean {
  const preemptedAtMs = [...request.progress.preemptedAtMs, nowMs];
  return isShielded({ ...request, progress: { ...request.progress, preemptedAtMs } }, pool, nowMs);
}

function positive(resources: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(resources).filter(([, amount]) => amount > 0));
}

function nameBehindHead(transaction: Transaction, { pool, head, walk }: Survey): Named | undefined {
  if (head === undefined) return undefined;
  const found = findBackfill(pool, head, walk.shortage(head), transaction.nowMs);
  return found && { waiter: found.waiter, act: () => grant(transaction, found.waiter, found.opportunistic) };
}
