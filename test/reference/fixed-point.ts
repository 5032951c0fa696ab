// Scheduling to a fixed point: one grant, hold or decision at a time, everything recomputed in between.

import { queueOf } from "./order.ts";
import { start, tellToStop } from "./stopping.ts";
import { chooseVictims, type Place, type Victim } from "./victims.ts";
import {
  admittingPools,
  amountOf,
  compare,
  demandOf,
  freeUnits,
  isBlockedByQuota,
  isStopping,
  type Pool,
  type Request,
  runsIn,
  settingsOf,
  stoppingUnits,
  sum,
  type World,
} from "./world.ts";

/**
 * Each stage does one thing and starts again from the beginning, so that nothing of a later stage
 * happens while an earlier one has something to do: grants in order, holds on what is coming free,
 * preemption, backfill (G4, G5).
 */
export function schedule(world: World): void {
  const stages = [grantInTurn, holdWhatIsComing, preempt, backfill];
  do endHolds(world);
  while (stages.some((stage) => stage(world)));
}

/** Looked at anew in every stage: a request, and what its place in this queue means for it. */
interface Standing extends Place {
  pool: Pool;
  fits: boolean;
  isCovered: boolean;
  isBlocked: boolean;
}

function standings(world: World, pool: Pool): Standing[] {
  const queue = queueOf(world, pool);
  return queue.map((request, index) => {
    const preceding = queue.slice(0, index).filter((other) => other.hold === pool.name);
    // Holds of those before it, and of the one it was preempted for, come before its claim (V5).
    const claims = queue.filter(
      (other) =>
        other !== request &&
        other.hold === pool.name &&
        (preceding.includes(other) || request.preemptedFor === other.id),
    );
    const demand = demandOf(pool, request);
    const reach = new Map(
      demand.map(([key]) => [
        key,
        freeUnits(world, pool, key) + stoppingUnits(world, pool, key) - sum(pool, claims, key),
      ]),
    );
    return {
      pool,
      request,
      holders: preceding,
      reach,
      fits: demand.every(([key, amount]) => amount <= freeUnits(world, pool, key) - sum(pool, claims, key)),
      isCovered: demand.every(([key, amount]) => amount <= reach.get(key)!),
      isBlocked: isBlockedByQuota(world, pool, request, preceding),
    };
  });
}

/** Ends holds that nothing covers any more, or that a limit or reserve blocks, in the order of the queue (V5). */
function endHolds(world: World, displacer?: Request): void {
  for (const request of world.requests) {
    if (request.hold === undefined) continue;
    const stands = admittingPools(world, request).some((pool) => pool.name === request.hold);
    if (request.status !== "queued" || !stands) delete request.hold;
  }
  for (const pool of openPools(world)) {
    for (;;) {
      const lost = standings(world, pool).find(
        (standing) => standing.request.hold === pool.name && (standing.isBlocked || !standing.isCovered),
      );
      if (lost === undefined) break;
      delete lost.request.hold;
      if (displacer !== undefined && !lost.isBlocked) {
        world.displaced.push({ by: displacer.id, of: lost.request.id });
      }
    }
  }
}

function openPools(world: World): Pool[] {
  return world.pools.filter((pool) => !pool.closing).sort((a, b) => compare(a.name, b.name));
}

/** The first request that waits for units and is promised none: nobody passes it but by backfill (G4, V1). */
function headOf(all: Standing[]): Standing | undefined {
  return all.find((standing) => !standing.isBlocked && !standing.fits && standing.request.hold === undefined);
}

/** What the stages ask of a pool: the one request that it names (G5). */
function serve(world: World, name: (pool: Pool) => Standing | undefined): Standing | undefined {
  const named = openPools(world)
    .map(name)
    .filter((standing) => standing !== undefined);
  const first = named[0];
  if (first === undefined) return undefined;
  const preferred = admittingPools(world, first.request);
  return named
    .filter((standing) => standing.request === first.request)
    .sort((a, b) => preferred.indexOf(a.pool) - preferred.indexOf(b.pool))[0];
}

function grantInTurn(world: World): boolean {
  const standing = serve(world, (pool) => {
    const all = standings(world, pool);
    const head = headOf(all);
    const before = head === undefined ? all.length : all.indexOf(head);
    return all.find(
      (one, index) => !one.isBlocked && one.fits && (index < before || one.request.hold === pool.name),
    );
  });
  if (standing === undefined) return false;
  grant(world, standing, false);
  return true;
}

function grant(world: World, { pool, request }: Standing, opportunistic: boolean): void {
  start(world, request, pool.name, opportunistic);
  endHolds(world, request);
}

function holdWhatIsComing(world: World): boolean {
  const standing = serve(world, (pool) => {
    const head = headOf(standings(world, pool));
    return head?.isCovered ? head : undefined;
  });
  if (standing === undefined) return false;
  standing.request.hold = standing.pool.name;
  endHolds(world, standing.request);
  return true;
}

function preempt(world: World): boolean {
  const decisions = new Map<Pool, Victim[]>();
  const standing = serve(world, (pool) => {
    const head = headOf(standings(world, pool));
    const victims = head === undefined ? undefined : chooseVictims(world, pool, head);
    if (victims !== undefined) decisions.set(pool, victims);
    return victims === undefined ? undefined : head;
  });
  if (standing === undefined) return false;
  const { pool, request } = standing;
  for (const victim of decisions.get(pool)!) {
    world.displaced.push({ by: request.id, of: victim.request.id });
    victim.request.preemptedFor = request.id;
    victim.request.preemptedAt.push(world.now);
    const recent = victim.request.preemptedAt.filter((time) => time > world.now - 86_400);
    if (recent.length >= settingsOf(pool).max_preemptions) victim.request.isProtected = true;
    tellToStop(world, pool, victim.request, victim.reason);
  }
  request.hold = pool.name;
  endHolds(world, request);
  return true;
}

function backfill(world: World): boolean {
  const delays = (one: Standing) => {
    const all = standings(world, one.pool);
    const head = headOf(all)!;
    return !leavesEnough(world, one, head, all) && !endsInTime(world, one, head);
  };
  const standing = serve(world, (pool) => {
    const { backfill: mode } = settingsOf(pool);
    const all = standings(world, pool);
    if (headOf(all) === undefined || mode === "none") return undefined;
    return all.find((one) => {
      if (one.isBlocked || !one.fits) return false;
      return (mode === "opportunistic" && one.request.preemptible) || !delays(one);
    });
  });
  if (standing === undefined) return false;
  grant(world, standing, delays(standing));
  return true;
}

/** Enough is left for the head on every key that both ask for, of free units that no hold sets aside (G4). */
function leavesEnough(world: World, one: Standing, head: Standing, all: Standing[]): boolean {
  const { pool } = one;
  const holders = all
    .map((standing) => standing.request)
    .filter((request) => request !== one.request && request.hold === pool.name);
  return demandOf(pool, one.request).every(([key, amount]) => {
    const wanted = amountOf(pool, head.request, key);
    return wanted === 0 || freeUnits(world, pool, key) - sum(pool, holders, key) - amount >= wanted;
  });
}

function endsInTime(world: World, one: Standing, head: Standing): boolean {
  if (one.request.walltime === undefined) return false;
  return world.now + one.request.walltime <= earliestStart(world, head);
}

/** When the head fits, if every run ends at its walltime (G4). Where it never does, nothing ends in time. */
function earliestStart(world: World, head: Standing): number {
  const { pool } = head;
  const ending = runsIn(world, pool)
    .filter((request) => !isStopping(request) && request.walltime !== undefined)
    .map((request) => ({ request, at: request.run!.startedAt + request.walltime! }));
  const fitsAt = (moment: number) => {
    const ended = ending.filter((end) => end.at <= moment).map((end) => end.request);
    return demandOf(pool, head.request).every(
      ([key, amount]) => amount <= head.reach.get(key)! + sum(pool, ended, key),
    );
  };
  const moments = ending.map((end) => end.at).filter(fitsAt);
  return moments.length === 0 ? Number.NEGATIVE_INFINITY : Math.min(...moments);
}
