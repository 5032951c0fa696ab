// Scheduling to a fixed point: one grant, enforced limit, promise or preemption at a time, until no pool has anything to do.
//
// Each stage is tried only when the ones before it have nothing to do in any pool (G4, G5):
//   1. grants: in turn, or else, where the head is stuck for good, behind it (backfill)
//   2. limits that are enforced (9.9)
//   3. promises of what is free and what is coming free anyway (V1)
//   4. preemption (V2–V5)
// In every stage each pool names one request; the pools are served by name, and the request takes the pool
// that it prefers among those that name it. Only pools in which something changed are looked at.
//
// A fixed point that takes longer than the decision may take is cut between two steps, or within a look whose discipline
// knows how to go on with it, and the next tick goes on.
// What happens, and in which order, is the same: a pool that is looked at again is found as it was. Meanwhile other
// commands are carried out, and the pools that they change wait for the same tick.

import { neverUp } from "../breaks.ts";
import type { Grant, PoolLook, Preemption, VictimChoice, Waiter } from "../disciplines/discipline.ts";
import { disciplineOf } from "../disciplines/disciplines.ts";
import { byKind, type HoldEnd } from "../events.ts";
import { keepOrderUntil, unsettleMoved } from "../indexes/timers.ts";
import { byPreference } from "../lines.ts";
import { assignDevices, promisedPlaces } from "../placement/occupancy.ts";
import { toResources } from "../resources.ts";
import { bySubmission, type Pool, poolsByName, type Request } from "../state.ts";
import { firstStop } from "../stopping.ts";
import type { Transaction } from "../transaction.ts";

/** What the last look at a pool has found. */
interface Found {
  readonly pool: Pool;
  look: PoolLook;
}

/** By the names of the pools: the order in which they are served (G5). */
type Looks = readonly Found[];

export function schedule(transaction: Transaction): void {
  const { state, nowMs } = transaction;
  if (transaction.isCut || (state.isPaused && !transaction.mayGoOn)) return;
  unsettleMoved(state, nowMs);
  if (state.unsettled.size === 0 && !state.isPaused) return;
  const looks: Found[] = [];
  let taker: Waiter | undefined;
  let steps = 0;
  while (taker !== undefined || state.unsettled.size > 0) {
    const { lost, isUnfinished } = lookAround(transaction, looks, taker, steps > 0);
    steps += lost;
    const isCut = isUnfinished || (steps > 0 && transaction.isTimeUp()); // At least one step, or it would never end.
    if (isCut && (state.unsettled.size > 0 || looks.some(isSomethingToDo))) return pause(transaction, looks);
    taker = act(transaction, looks);
    steps++;
  }
  for (const { pool, look } of looks) keepOrderUntil(state, pool, look.untilMs);
  if (state.isPaused) transaction.emit({ kind: "schedulingSettled", atMs: nowMs });
}

interface LooksAround {
  readonly lost: number;
  readonly isUnfinished: boolean;
}

const ALL_KEPT: LooksAround = { lost: 0, isUnfinished: false };

/**
 * Looks at every pool in which something changed, until no promise is lost any more; answers how many were, and whether
 * a pool had to be left for the next tick. Whoever took units is known here only, so that it is not cut short before the pool of
 * the taker has lost the promises that this cost.
 */
function lookAround(
  transaction: Transaction,
  looks: Found[],
  taker: Waiter | undefined,
  hasStepped: boolean,
): LooksAround {
  const { unsettled } = transaction.state;
  let lost = 0;
  let mayCut = taker === undefined;
  const { isTimeUp } = transaction;
  let isCut = false;
  while (unsettled.size > 0 && !isCut) {
    for (const pool of poolsByName(unsettled)) {
      isCut = mayCut && (hasStepped || lost > 0) && isTimeUp();
      if (isCut) break;
      unsettled.delete(pool);
      if (endLostHold(transaction, pool, taker)) {
        lost++; // Looked at again: it is unsettled now.
        continue;
      }
      mayCut ||= taker?.poolLine.pool === pool;
      isCut = mayCut && (hasStepped || lost > 0) && isTimeUp();
      const look = isCut ? null : disciplineOf(pool).look(transaction, pool, mayCut ? isTimeUp : neverUp);
      isCut = look === null;
      if (look === null) {
        unsettled.add(pool);
        break;
      }
      keepLook(looks, pool, look);
    }
  }
  return lost === 0 && !isCut ? ALL_KEPT : { lost, isUnfinished: isCut };
}

/** Mostly one pool is looked at, or the same few again and again. */
function keepLook(looks: Found[], pool: Pool, look: PoolLook): void {
  const { name } = pool.record;
  let [low, high] = [0, looks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((looks[middle] as Found).pool.record.name < name) low = middle + 1;
    else high = middle;
  }
  const known = looks[low];
  if (known?.pool === pool) known.look = look;
  else if (known === undefined) looks.push({ pool, look });
  else looks.splice(low, 0, { pool, look });
}

function pause(transaction: Transaction, looks: Looks): void {
  const { state } = transaction;
  const left = new Set(state.unsettled);
  for (const found of looks) {
    const { pool, look } = found;
    if (isSomethingToDo(found)) left.add(pool);
    else if (!left.has(pool)) keepOrderUntil(state, pool, look.untilMs);
  }
  pauseScheduling(transaction, left);
}

/** The next ticks go on with these pools. */
export function pauseScheduling(transaction: Transaction, left: Iterable<Pool>): void {
  transaction.isCut = true;
  const pools = poolsByName(left).map(({ record }) => record.name);
  transaction.emit({ kind: "schedulingPaused", pools, atMs: transaction.nowMs });
}

function isSomethingToDo({ look: { grant, enforce, promise, preempt } }: Found): boolean {
  return (grant ?? enforce ?? promise ?? preempt) !== undefined;
}

/** One thing that happens; answers who took units by it, or undefined if nobody did. */
function act(transaction: Transaction, looks: Looks): Waiter | undefined {
  if (!looks.some(isSomethingToDo)) return undefined;
  const grant = serve(looks, grantOf);
  if (grant !== undefined) return allocate(transaction, grant);
  for (const { pool, look } of looks) {
    if (look.enforce === undefined) continue;
    decideVictims(transaction, pool, look.enforce);
    return undefined;
  }
  const promise = serve(looks, promiseOf);
  if (promise !== undefined) return promiseUnits(transaction, promise.waiter);
  const preemption = serve(looks, preemptionOf);
  return preemption === undefined ? undefined : preempt(transaction, preemption);
}

function grantOf({ grant }: PoolLook): Grant | undefined {
  return grant;
}

function promiseOf({ promise }: PoolLook): { waiter: Waiter } | undefined {
  return promise === undefined ? undefined : { waiter: promise };
}

function preemptionOf({ preempt }: PoolLook): Preemption | undefined {
  return preempt;
}

/** The first pool by name that names a request decides which one it is; that request takes the pool it prefers (G5). */
function serve<Named extends { readonly waiter: Waiter; readonly isHelped?: boolean }>(
  looks: Looks,
  name: (look: PoolLook) => Named | undefined,
): Named | undefined {
  let chosen: Named | undefined;
  for (const { look } of looks) {
    const found = name(look);
    if (found === undefined) continue;
    if (
      chosen === undefined ||
      (found.waiter.request === chosen.waiter.request && isPreferred(found, chosen))
    ) {
      chosen = found;
    }
  }
  return chosen;
}

/** Preferably where some of what it lacks is coming free already. */
function isPreferred<Named extends { readonly waiter: Waiter; readonly isHelped?: boolean }>(
  a: Named,
  b: Named,
): boolean {
  return a.isHelped === b.isHelped
    ? byPreference(a.waiter.poolLine, b.waiter.poolLine) < 0
    : a.isHelped === true;
}

/** Ends the first promise that the pool no longer admits, or that its discipline finds lost (V5). */
function endLostHold(transaction: Transaction, pool: Pool, taker: Waiter | undefined): boolean {
  if (pool.promised.size === 0) return false;
  const { suspectHolders, lostHold } = disciplineOf(pool);
  const suspects = suspectHolders(pool);
  if (suspects.size === 0) return false;
  const lost = notAdmitted(pool, suspects) ?? lostHold(pool, suspects, transaction.nowMs);
  if (lost === undefined) return false;
  // If it is no longer covered since another request took units here, that one displaced it (V6).
  const by = lost.why === "not_covered" && taker?.poolLine.pool === pool ? taker.request : null;
  transaction.emit({
    kind: "holdEnded",
    requestId: lost.request.spec.id,
    why: by === null ? lost.why : "taken_over",
    by: by?.spec.id ?? null,
    atMs: transaction.nowMs,
  });
  return true;
}

/** In an order that does not depend on what was tried and taken back before. */
function notAdmitted(
  pool: Pool,
  suspects: ReadonlySet<Request>,
): { request: Request; why: HoldEnd & "not_admitted" } | undefined {
  let first: Request | undefined;
  for (const request of suspects) {
    if (request.line.pools.get(pool.record.name)?.verdict === null) continue;
    if (first === undefined || bySubmission(request, first) < 0) first = request;
  }
  return first === undefined ? undefined : { request: first, why: "not_admitted" };
}

function allocate(transaction: Transaction, { waiter, opportunistic }: Grant): Waiter {
  const { request, poolLine, nodes = [] } = waiter;
  const { nowMs: atMs } = transaction;
  const pool = poolLine.pool.record.name;
  const placement = assignDevices(nodes, poolLine.ask);
  transaction.emit(
    { kind: "requestAllocated", requestId: request.spec.id, pool, opportunistic, placement, atMs },
    request,
  );
  return waiter;
}

function promiseUnits(transaction: Transaction, waiter: Waiter): Waiter {
  transaction.emit({
    kind: "holdTaken",
    requestId: waiter.request.spec.id,
    pool: waiter.poolLine.pool.record.name,
    placement: promisedPlaces(waiter.nodes ?? []),
    atMs: transaction.nowMs,
  });
  return waiter;
}

function preempt(transaction: Transaction, preemption: Preemption): Waiter {
  const { waiter, choice } = preemption;
  decideVictims(transaction, waiter.poolLine.pool, choice, preemption);
  return waiter;
}

function decideVictims(
  transaction: Transaction,
  pool: Pool,
  choice: VictimChoice,
  { waiter, shortage }: Partial<Preemption> = {},
): void {
  const { nowMs } = transaction;
  const forRequest = waiter?.request.spec.id ?? null;
  transaction.emit({
    kind: "preemptionDecided",
    pool: pool.record.name,
    waiter: forRequest,
    shortage: positive(toResources(shortage ?? [], pool.keys)),
    victims: choice.victims.map(({ run, reason, cost }) => ({
      requestId: run.request.spec.id,
      reason,
      stop: firstStop(run.request, pool, { reason, forRequest, nowMs }),
      ...(cost === undefined ? {} : { cost }),
    })),
    considered: choice.considered.toSorted(byKind),
    ...(choice.value === undefined ? {} : { value: choice.value }),
    placement: promisedPlaces(choice.nodes ?? []),
    atMs: nowMs,
  });
}

function positive(resources: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(resources).filter(([, amount]) => amount > 0));
}
