// Scheduling to a fixed point: one grant, hold or decision at a time, until no stage has anything to do.
//
// The stages, each tried only when the ones before it have nothing to do in any pool (G4, G5):
//   1. grants: in turn, or else, where the head is stuck for good, behind it (backfill)
//   2. holds on what is free and what is coming free anyway (V1)
//   3. preemption for a head (V2–V5)
// In every stage each pool names one request; the pools are served by name, and the request takes the pool
// that it prefers among those that name it. Only pools in which something changed are looked at.

import { disciplineOf, type VictimChoice } from "../disciplines/discipline.ts";
import { lookAtShares, type ShareLook } from "../disciplines/fair_share/stages.ts";
import type { HoldEnd } from "../events.ts";
import { isShielded } from "../indexes/running.ts";
import { keepOrderUntil, unsettleMoved } from "../indexes/timers.ts";
import { byPreference } from "../lines.ts";
import { hasLabels } from "../placement/node-index.ts";
import { assignDevices, promisedPlaces } from "../placement/occupancy.ts";
import type { NodeState } from "../records.ts";
import { toResources } from "../resources.ts";
import { bySubmission, type Pool, poolsByName, type Request } from "../state.ts";
import { firstStop } from "../stopping.ts";
import { findBackfill } from "./backfill.ts";
import { settledUntil } from "./moving-order.ts";
import { QueueWalk, type Waiter, walkOverHolders } from "./queue-walk.ts";
import { emit, type Transaction } from "./transaction.ts";

/** What a look at a pool's queue found. */
interface Survey {
  readonly pool: Pool;
  /** The first that can be granted in its turn. */
  readonly inTurn: Waiter | undefined;
  readonly head: Head | undefined;
  /** What a fair-share pool finds instead of a head (9.7). */
  readonly look?: ShareLook;
}

/** The first that waits for units and is promised none (V1, G4). */
interface Head {
  readonly waiter: Waiter;
  /** What is lacking per key when all that is stopping and not promised to others comes free. */
  readonly shortage: readonly number[];
  readonly isCovered: boolean;
  /** Whether some of what it lacks now is coming free. */
  readonly isHelped: boolean;
  /** Who would have to stop; null if nobody may or it would not be enough (V3). */
  readonly choice: VictimChoice | null;
  /** Standing at the head. */
  readonly walk: QueueWalk;
}

interface Named {
  readonly waiter: Waiter;
  /** Goes before the preference of the request among the pools that name it. */
  readonly isBetter: boolean;
  readonly act: () => void;
}

export function schedule(transaction: Transaction): void {
  const { unsettled } = transaction.state;
  unsettleMoved(transaction.state, transaction.nowMs);
  if (unsettled.size === 0) return;
  const surveys = new Map<Pool, Survey>();
  // Who last took units in a pool: if a hold is then no longer covered, that one displaced it (V6).
  const takers = new Map<Pool, Request>();
  for (;;) {
    while (unsettled.size > 0) {
      for (const pool of poolsByName(unsettled)) {
        unsettled.delete(pool);
        if (endLostHold(transaction, pool, takers.get(pool))) continue; // Looked at again: it is unsettled now.
        surveys.set(pool, survey(transaction, pool));
      }
    }
    const all = poolsByName(surveys.keys()).map((pool) => surveys.get(pool) as Survey);
    const named =
      serve(all, (found) => nameForGrant(transaction, found)) ??
      enforceLimits(transaction, all) ??
      serve(all, (found) => nameCovered(transaction, found)) ??
      serve(all, (found) => nameForPreemption(transaction, found));
    if (named === undefined) break;
    if (named === "enforced") continue;
    takers.set(named.waiter.poolLine.pool, named.waiter.request);
    named.act();
  }
  for (const { pool, head, look } of surveys.values()) {
    const untilMs = look?.untilMs ?? settledUntil(pool, head, transaction.nowMs);
    keepOrderUntil(transaction.state, pool, untilMs);
  }
}

/** The first pool by name that names somebody decides who it is; that request takes the pool it prefers (G5). */
function serve(surveys: readonly Survey[], name: (survey: Survey) => Named | undefined): Named | undefined {
  let chosen: Named | undefined;
  for (const survey of surveys) {
    const named = name(survey);
    if (named === undefined) continue;
    if (
      chosen === undefined ||
      (named.waiter.request === chosen.waiter.request && isPreferred(named, chosen))
    ) {
      chosen = named;
    }
  }
  return chosen;
}

function isPreferred(a: Named, b: Named): boolean {
  return a.isBetter === b.isBetter ? byPreference(a.waiter.poolLine, b.waiter.poolLine) < 0 : a.isBetter;
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
  // Not in the order of the set, which depends on what was tried and taken back before.
  const holders = [...pool.holders].sort(bySubmission);
  for (const holder of holders) {
    if (holder.line.pools.get(pool.record.name)?.verdict !== null)
      return end(holder, "not_admitted", undefined);
  }
  if (pool.record.discipline === "fair_share") {
    // Nothing else ends a hold there but the loss of its node (9.7).
    const lost = holders.find((holder) => hasLostNode(pool, holder));
    return lost === undefined ? false : end(lost, "node_lost", undefined);
  }
  const walk = walkOverHolders(pool, transaction.nowMs);
  for (const waiter of walk) {
    if (waiter.hold !== "here") continue;
    if (walk.quotaBlock(waiter) !== null) return end(waiter.request, "blocked_by_limit", undefined);
    if (!walk.isCovered(waiter)) {
      return end(waiter.request, taker === undefined ? "not_covered" : "taken_over", taker);
    }
  }
  return false;
}

/** A node that has lost the labels it was chosen for is as good as lost. */
function hasLostNode({ nodes }: Pool, { progress, spec }: Request): boolean {
  const isUsable = (state: NodeState) => state === "ready" || state === "suspect";
  return (progress.hold?.placement ?? []).some(({ node: name }) => {
    const record = nodes.get(name)?.record;
    return record === undefined || !isUsable(record.state) || !hasLabels(record, spec.constraints);
  });
}

function survey(transaction: Transaction, pool: Pool): Survey {
  if (pool.record.discipline === "fair_share") {
    const look = lookAtShares(transaction, pool);
    return { pool, inTurn: look.grant, head: undefined, look };
  }
  const walk = new QueueWalk(pool, transaction.nowMs);
  for (let waiter = walk.next(); waiter !== undefined; waiter = walk.next()) {
    if (walk.quotaBlock(waiter) !== null) continue;
    if (walk.fits(waiter)) return { pool, inTurn: waiter, head: undefined };
    if (waiter.hold !== null) continue;
    const inTurn = holderBehind(transaction, pool, waiter);
    return { pool, inTurn, head: inTurn === undefined ? judgeHead(transaction, walk, waiter) : undefined };
  }
  return { pool, inTurn: undefined, head: undefined };
}

/** The walk stands at the head. */
function judgeHead({ state, nowMs }: Transaction, walk: QueueWalk, head: Waiter): Head {
  const { pool } = walk;
  const shortage = walk.shortage(head);
  const isCovered = shortage.every((lacking) => lacking <= 0);
  const canSearch = !isCovered && pool.runKinds.size > 0;
  const choice = canSearch
    ? disciplineOf(pool).chooseVictims({ state, nowMs, pool, walk, head, shortage })
    : null;
  const { ask } = head.poolLine;
  if (isCovered && ask !== null) head.nodes = walk.roomsFor(head.request).soon.place(ask) ?? [];
  return { waiter: head, shortage, isCovered, isHelped: walk.isHelped(head), choice, walk };
}

/** Behind the head only a holder is granted in its turn: what it takes has long been promised to it. */
function holderBehind({ nowMs }: Transaction, pool: Pool, head: Waiter): Waiter | undefined {
  if (pool.holders.size === 0) return undefined;
  const compare = disciplineOf(pool).compareIn(pool, nowMs);
  const walk = walkOverHolders(pool, nowMs);
  for (const waiter of walk) {
    if (waiter.hold !== "here" || compare(waiter, head) < 0) continue;
    if (walk.quotaBlock(waiter) === null && walk.fits(waiter)) return waiter;
  }
  return undefined;
}

function nameForGrant(transaction: Transaction, { pool, inTurn, head }: Survey): Named | undefined {
  if (inTurn !== undefined) {
    return { waiter: inTurn, isBetter: false, act: () => grant(transaction, inTurn, false) };
  }
  if (head === undefined || head.isCovered || head.choice !== null) return undefined;
  const found = findBackfill(pool, head, transaction.nowMs);
  if (found === undefined) return undefined;
  const { waiter, opportunistic } = found;
  return { waiter, isBetter: false, act: () => grant(transaction, waiter, opportunistic) };
}

function grant(transaction: Transaction, waiter: Waiter, opportunistic: boolean): void {
  const { request, poolLine, nodes = [] } = waiter;
  emit(transaction, {
    kind: "requestAllocated",
    requestId: request.spec.id,
    pool: poolLine.pool.record.name,
    opportunistic,
    placement: assignDevices(nodes, poolLine.ask),
    atMs: transaction.nowMs,
  });
}

/** A policy or group above its limit loses allocations where its pool says so (9.9). */
function enforceLimits(transaction: Transaction, surveys: readonly Survey[]): "enforced" | undefined {
  for (const { pool, look } of surveys) {
    if (look?.enforcement === undefined) continue;
    decideVictims(transaction, pool, null, [], look.enforcement);
    return "enforced";
  }
  return undefined;
}

function nameCovered(transaction: Transaction, { pool, head, look }: Survey): Named | undefined {
  const covered = head?.isCovered ? head : look?.service?.choice === null ? look.service : undefined;
  if (covered === undefined) return undefined;
  const { waiter } = covered;
  const act = () =>
    emit(transaction, {
      kind: "holdTaken",
      requestId: waiter.request.spec.id,
      pool: pool.record.name,
      placement: promisedPlaces(waiter.nodes ?? []),
      atMs: transaction.nowMs,
    });
  return { waiter, isBetter: false, act };
}

/** Preferably where some of what it lacks is coming free already (G5). */
function nameForPreemption(transaction: Transaction, { pool, head, look }: Survey): Named | undefined {
  const found = head ?? look?.service;
  if (found === undefined || found.choice === null) return undefined;
  const { waiter, shortage, choice } = found;
  const act = () => decideVictims(transaction, pool, waiter.request, shortage, choice);
  return { waiter, isBetter: head?.isHelped ?? false, act };
}

function decideVictims(
  transaction: Transaction,
  pool: Pool,
  waiter: Request | null,
  shortage: readonly number[],
  choice: VictimChoice,
): void {
  const { nowMs } = transaction;
  const forRequest = waiter?.spec.id ?? null;
  emit(transaction, {
    kind: "preemptionDecided",
    pool: pool.record.name,
    waiter: forRequest,
    shortage: positive(toResources(shortage, pool.keys)),
    victims: choice.victims.map(({ run, reason, cost }) => ({
      requestId: run.request.spec.id,
      reason,
      stop: firstStop(run.request, pool, { reason, forRequest, nowMs }),
      shielded: isShieldedAfter(run.request, pool, nowMs),
      ...(cost === undefined ? {} : { cost }),
    })),
    considered: choice.considered,
    ...(choice.value === undefined ? {} : { value: choice.value }),
    placement: promisedPlaces(choice.nodes ?? []),
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
