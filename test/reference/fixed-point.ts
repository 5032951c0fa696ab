// Scheduling to a fixed point: one grant, hold or decision at a time, everything recomputed in between.

import { queueOf } from "./order.ts";
import { placementOf, type Room, roomIn } from "./room.ts";
import { start, tellToStop } from "./stopping.ts";
import { chooseVictims, type Place, type Victim } from "./victims.ts";
import {
  admittingPools,
  amountOf,
  compare,
  demandOf,
  isBlockedByQuota,
  isStopping,
  type Pool,
  type Request,
  runsIn,
  settingsOf,
  type World,
} from "./world.ts";

/**
 * Each stage does one thing and starts again from the beginning, so that nothing of a later stage
 * happens while an earlier one has something to do: whatever can be granted, holds on what is coming
 * free, preemption (G5).
 */
export function schedule(world: World): void {
  const stages = [grantWhatIsFree, holdWhatIsComing, preempt];
  do endHolds(world);
  while (stages.some((stage) => stage(world)));
}

/** Looked at anew in every stage: a request, and what its place in this queue means for it. */
export interface Standing extends Place {
  pool: Pool;
  /** Holders whose claims come before its own (V5). */
  claims: Request[];
  /** Where it would go now, if there is room for it. */
  placement: string[] | undefined;
  /** Its hold is for certain nodes, and it has all its units there (V5). */
  isFirm: boolean;
  hasHeld: boolean;
  placementAfter: (ended: Request[]) => string[] | undefined;
  isCovered: boolean;
  isBlocked: boolean;
}

export function standings(world: World, pool: Pool): Standing[] {
  const queue = queueOf(world, pool);
  return queue.map((request, index) => {
    const preceding = queue.slice(0, index).filter((other) => other.hold === pool.name);
    // Holds of those before it come before its claim, and until it holds itself the one it was preempted for (V5).
    const claims = queue.filter(
      (other) =>
        other !== request &&
        other.hold === pool.name &&
        (preceding.includes(other) || (request.preemptedFor === other.id && request.hold !== pool.name)),
    );
    const stopping = runsIn(world, pool).filter(isStopping);
    const roomAfter = (ended: Request[]) => roomIn(world, pool, [...stopping, ...ended], claims);
    const placementAfter = (ended: Request[]) => placementOf(pool, roomAfter(ended), request);
    const isCoveredBy = (ended: Request[]) => placementAfter(ended) !== undefined;
    const onHold = (rooms: Room[]) =>
      placementOf(
        pool,
        rooms.filter(({ node }) => request.heldNodes!.includes(node)),
        request,
      );
    const isFirm = pool.nodes !== undefined && request.hold === pool.name;
    const isCovered = isFirm ? onHold(roomAfter([])) !== undefined : isCoveredBy([]);
    const others = queue.filter((other) => other !== request && other.hold === pool.name);
    const free = roomIn(world, pool, [], pool.nodes === undefined ? claims : others);
    const heldPlacement = isFirm ? onHold(roomIn(world, pool, [], claims)) : undefined;
    const placement = heldPlacement ?? placementOf(pool, free, request);
    const rooms = roomAfter([]);
    const short = isCovered ? [] : shortKeys(pool, request, rooms);
    return {
      pool,
      request,
      holders: preceding,
      claims,
      placement,
      short,
      shortage: Object.fromEntries(
        short.map((key) => [key, amountOf(pool, request, key) - (rooms[0]?.left[key] ?? 0)]),
      ),
      rooms,
      isFirm,
      hasHeld: heldPlacement !== undefined,
      isCovered,
      isCoveredBy,
      placementAfter,
      isBlocked: isBlockedByQuota(world, pool, request, preceding, placement === undefined),
    };
  });
}

/** On nodes, what cannot be placed is short of all that it asks for (N2). */
function shortKeys(pool: Pool, request: Request, room: Room[]): string[] {
  return demandOf(pool, request)
    .filter(([key, amount]) => pool.nodes !== undefined || amount > room[0]!.left[key]!)
    .map(([key]) => key);
}

export function fits(standing: Standing): boolean {
  return standing.placement !== undefined;
}

/** Ends holds that nothing covers any more, or that a limit or reserve blocks, in the order of the queue (V5). */
function endHolds(world: World, displacer?: Request): void {
  for (const request of world.requests) {
    if (request.hold === undefined) continue;
    const stands = admittingPools(world, request).some((pool) => pool.name === request.hold);
    if (request.status !== "queued" || !stands) letGo(request);
  }
  for (const pool of openPools(world)) {
    for (;;) {
      const lost = standings(world, pool).find(
        (standing) => standing.request.hold === pool.name && (standing.isBlocked || !standing.isCovered),
      );
      if (lost === undefined) break;
      letGo(lost.request);
      if (displacer !== undefined && !lost.isBlocked) {
        world.displaced.push({ pool: pool.name, by: displacer.id, of: lost.request.id });
      }
    }
  }
}

function letGo(request: Request): void {
  delete request.hold;
  delete request.heldNodes;
}

function openPools(world: World): Pool[] {
  return world.pools.filter((pool) => !pool.closing).sort((a, b) => compare(a.name, b.name));
}

/** The first request that waits for units and is promised none: nobody passes it but by backfill (G4, V1). */
export function headOf(all: Standing[]): Standing | undefined {
  return all.find(
    (standing) => !standing.isBlocked && !fits(standing) && standing.request.hold === undefined,
  );
}

/**
 * Every pool names one request. The pools are served by name, and the request takes the pool that it
 * prefers among those that name it (G5).
 */
function serve(
  world: World,
  name: (pool: Pool) => Standing | undefined,
  isBetter: (standing: Standing) => boolean = () => false,
): Standing | undefined {
  const named = openPools(world)
    .map(name)
    .filter((standing) => standing !== undefined);
  const first = named[0];
  if (first === undefined) return undefined;
  const pools = admittingPools(world, first.request);
  const preference = (one: Standing) => pools.indexOf(one.pool) - (isBetter(one) ? pools.length : 0);
  return named
    .filter((standing) => standing.request === first.request)
    .sort((a, b) => preference(a) - preference(b))[0];
}

/** In its turn; or else, where the head can neither be promised units nor preempt, behind it (G4). */
function grantWhatIsFree(world: World): boolean {
  const standing = serve(world, (pool) => {
    const all = standings(world, pool);
    const head = headOf(all);
    const inTurn = all.find((one) => fits(one) && !one.isBlocked && isInTurn(one, head, all));
    if (inTurn !== undefined || head === undefined) return inTurn;
    const isStuck = !head.isCovered && chooseVictims(world, pool, head) === undefined;
    return isStuck
      ? all.find((one) => fits(one) && !one.isBlocked && !one.isFirm && mayPass(world, one, head, all))
      : undefined;
  });
  if (standing === undefined) return false;
  const all = standings(world, standing.pool);
  const head = headOf(all);
  const isOpportunistic =
    head !== undefined && !isInTurn(standing, head, all) && delays(world, standing, head, all);
  start(world, standing.request, standing.pool.name, isOpportunistic);
  if (standing.pool.nodes !== undefined) standing.request.run!.placed = standing.placement!;
  endHolds(world, standing.request);
  return true;
}

/** Before the head, or promised its units wherever it stands, unless the head can be promised its own first (V5). */
function isInTurn(standing: Standing, head: Standing | undefined, all: Standing[]): boolean {
  const { request, pool, isFirm, hasHeld } = standing;
  const ids = all.map((one) => one.request.id);
  if (head === undefined) return true;
  if (request.hold === pool.name && !head.isCovered && (!isFirm || hasHeld)) return true;
  return ids.indexOf(request.id) < ids.indexOf(head.request.id);
}

function mayPass(world: World, one: Standing, head: Standing, all: Standing[]): boolean {
  const { backfill } = settingsOf(one.pool);
  if (backfill === "none") return false;
  return (backfill === "opportunistic" && one.request.preemptible) || !delays(world, one, head, all);
}

function delays(world: World, one: Standing, head: Standing, all: Standing[]): boolean {
  return !leavesEnough(world, one, head, all) && !endsInTime(world, one, head);
}

function holdWhatIsComing(world: World): boolean {
  const standing = serve(world, (pool) => {
    const head = headOf(standings(world, pool));
    return head?.isCovered ? head : undefined;
  });
  if (standing === undefined) return false;
  hold(standing, []);
  endHolds(world, standing.request);
  return true;
}

function preempt(world: World): boolean {
  const decisions = new Map<Pool, Victim[]>();
  const standing = serve(
    world,
    (pool) => {
      const head = headOf(standings(world, pool));
      const victims = head === undefined ? undefined : chooseVictims(world, pool, head);
      if (victims !== undefined) decisions.set(pool, victims);
      return victims === undefined ? undefined : head;
    },
    (one) => isPartlyComing(world, one),
  );
  if (standing === undefined) return false;
  const { pool, request } = standing;
  for (const victim of decisions.get(pool)!) {
    world.displaced.push({ pool: pool.name, by: request.id, of: victim.request.id });
    victim.request.preemptedFor = request.id;
    tellToStop(world, pool, victim.request, victim.reason);
  }
  hold(
    standing,
    decisions.get(pool)!.map((victim) => victim.request),
  );
  endHolds(world, request);
  return true;
}

/** On nodes for those that the decision chooses (V5). */
function hold({ request, pool, placementAfter }: Standing, victims: Request[]): void {
  request.hold = pool.name;
  if (pool.nodes !== undefined) request.heldNodes = placementAfter(victims)!;
}

/** Whether some of what it lacks here is coming free already (G5). */
function isPartlyComing(world: World, { pool, request, holders }: Standing): boolean {
  const left = (ended: Request[], key: string) =>
    roomIn(world, pool, ended, holders).reduce((total, room) => total + Math.max(0, room.left[key] ?? 0), 0);
  const stopping = runsIn(world, pool).filter(isStopping);
  return demandOf(pool, request).some(
    ([key, amount]) => amount > left([], key) && left(stopping, key) > left([], key),
  );
}

/** Enough is left for the head on every key that both ask for, of free units that no hold sets aside (G4). */
function leavesEnough(world: World, one: Standing, head: Standing, all: Standing[]): boolean {
  const { pool, request } = one;
  const holders = all
    .map((standing) => standing.request)
    .filter((other) => other !== request && other.hold === pool.name);
  const room = roomIn(world, pool, [], [...holders, { ...request, heldNodes: one.placement! }]);
  const shared = Object.entries(head.request.resources).filter(([key]) => key in request.resources);
  const wanted = { ...head.request, resources: Object.fromEntries(shared) };
  return placementOf(pool, room, wanted) !== undefined;
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
  const fitsAt = (moment: number) =>
    head.isCoveredBy(ending.filter((end) => end.at <= moment).map((end) => end.request));
  const moments = ending.map((end) => end.at).filter(fitsAt);
  return moments.length === 0 ? Number.NEGATIVE_INFINITY : Math.min(...moments);
}
