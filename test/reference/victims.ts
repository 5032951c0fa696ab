// Who would have to stop for a waiter, and by which rule (7, 8, 10).

import { type Fraction, fractionOf, isEqual, isLess, over, plus, times, ZERO } from "./fractions.ts";
import { checkpointSeconds, rankOfClass } from "./order.ts";
import {
  amountOf,
  borrowed,
  classOf,
  compare,
  demandOf,
  headroom,
  isBound,
  isSensitive,
  isStopping,
  type Pool,
  policyOf,
  priorityOf,
  type Request,
  runsIn,
  settingsOf,
  type World,
} from "./world.ts";

/** A waiter at its place in the queue. */
export interface Place {
  request: Request;
  /** Whose holds come before it. */
  holders: Request[];
  /** The keys on which free units and units coming free that it may count on are not enough (V1). */
  short: string[];
  /** Whether these would be enough, if some runs ended as well. */
  isCoveredBy: (ended: Request[]) => boolean;
}

export interface Victim {
  request: Request;
  reason: string;
}

interface Candidate extends Victim {
  /** Whether it is taken back rather than taken, so that neither value nor number bounds it (10.5). */
  isUnbounded: boolean;
}

export function chooseVictims(world: World, pool: Pool, place: Place): Victim[] | undefined {
  const { short } = place;
  const candidates = runsIn(world, pool)
    .filter((run) => mayBeVictim(world, pool, run, place.request, short))
    .map((run) => permit(world, pool, run, place, short))
    .filter((candidate) => candidate !== undefined);
  return pool.discipline === "class"
    ? chooseByClass(world, pool, place, candidates)
    : chooseByPriority(world, pool, place, candidates);
}

/** What holds in every discipline (V2, V6). */
function mayBeVictim(world: World, pool: Pool, run: Request, waiter: Request, short: string[]): boolean {
  return (
    run.preemptible &&
    !isStopping(run) &&
    !isSensitive(world, pool, run) &&
    world.now - run.run!.startedAt >= settingsOf(pool).min_runtime_seconds &&
    short.some((key) => amountOf(pool, run, key) > 0) &&
    !isProtected(world, pool, run) &&
    !hasDisplaced(world, run.id, waiter.id)
  );
}

/** Preempted often enough (V6): for good where a decision once reached the number of its pool. */
function isProtected(world: World, pool: Pool, run: Request): boolean {
  const recent = run.preemptedAt.filter((time) => time > world.now - 86_400);
  return run.isProtected || recent.length >= settingsOf(pool).max_preemptions;
}

/** Whether one, or something it displaced, has displaced the other since the last new event (V6). */
export function hasDisplaced(world: World, by: string, of: string, seen: string[] = []): boolean {
  return world.displaced.some(
    (entry) =>
      entry.by === by &&
      (entry.of === of || (!seen.includes(entry.of) && hasDisplaced(world, entry.of, of, [...seen, by]))),
  );
}

function permit(
  world: World,
  pool: Pool,
  run: Request,
  place: Place,
  short: string[],
): Candidate | undefined {
  const rule =
    pool.discipline === "class"
      ? permitByClass(world, pool, run, place, short)
      : permitByPriority(world, pool, run, place, short);
  if (rule !== undefined) return { request: run, ...rule };
  const isTop = pool.discipline === "class" && classOf(world, pool, run) === 10; // (10.1)
  return run.run!.opportunistic && !isTop
    ? { request: run, reason: "backfill", isUnbounded: true }
    : undefined;
}

function permitByPriority(world: World, pool: Pool, run: Request, place: Place, short: string[]) {
  const held = short.filter((key) => amountOf(pool, run, key) > 0);
  const any = settingsOf(pool).priority_preempts === "any";
  const difference = priorityOf(world, pool, place.request) - priorityOf(world, pool, run);
  const borrowsAll = held.every((key) => borrowed(world, pool, run, key) > 0);
  if (difference > 0 && (any || borrowsAll)) return { reason: "priority", isUnbounded: true }; // (8.1)
  if (any && difference < 0) return undefined;
  return mayReclaim(world, pool, run, place, short) ? { reason: "reclaim", isUnbounded: true } : undefined;
}

function mayReclaim(world: World, pool: Pool, run: Request, place: Place, short: string[]): boolean {
  const { request, holders } = place;
  const fits = short.every(
    (key) => amountOf(pool, request, key) <= headroom(world, pool, request, key, holders),
  );
  const isOwn = run.component === request.component;
  const mayTakeOwn = short.some((key) => isBound(world, pool, request, key));
  return (
    fits && (!isOwn || mayTakeOwn) && short.some((key) => borrowed(world, pool, run, key) > 0) // (8.2)
  );
}

/** Lowest priority first, then the latest; a prefix, from which the last that are not needed are spared (8.3). */
function chooseByPriority(world: World, pool: Pool, place: Place, candidates: Candidate[]) {
  const ordered = candidates.toSorted(
    (a, b) =>
      priorityOf(world, pool, a.request) - priorityOf(world, pool, b.request) ||
      b.request.run!.position - a.request.run!.position ||
      compare(a.request.id, b.request.id),
  );
  return prefixThatCovers(place, ordered);
}

function prefixThatCovers(place: Place, ordered: Candidate[]): Victim[] | undefined {
  const length = ordered.findIndex((_, index) => covers(place, ordered.slice(0, index + 1)));
  if (length < 0) return undefined;
  let chosen = ordered.slice(0, length + 1);
  for (const candidate of chosen.toReversed()) {
    const without = chosen.filter((other) => other !== candidate);
    if (covers(place, without)) chosen = without;
  }
  return chosen;
}

function covers(place: Place, victims: Victim[]): boolean {
  return place.isCoveredBy(victims.map((victim) => victim.request));
}

function permitByClass(world: World, pool: Pool, run: Request, place: Place, short: string[]) {
  const { request } = place;
  const settings = settingsOf(pool);
  const runClass = classOf(world, pool, run);
  if (runClass === 10) return undefined;
  const left = run.walltime === undefined ? undefined : run.run!.startedAt + run.walltime - world.now;
  const near = settings.near_completion_seconds;
  if (left !== undefined && left <= near && run.walltime! > 2 * near) return undefined;
  const isService = policyOf(world, pool, run.component)?.kind === "service";
  if (isService && !short.some((key) => borrowed(world, pool, run, key) > 0)) return undefined;

  const reclaims = mayReclaim(world, pool, run, place, short);
  if (isSensitive(world, pool, request)) return { reason: "sensitive", isUnbounded: true };
  const isHard = run.checkpoint === "none" && runClass >= 7;
  const isLower = rankOfClass(pool, runClass) < rankOfClass(pool, classOf(world, pool, request));
  const held = short.filter((key) => amountOf(pool, run, key) > 0);
  const mayTake =
    run.component === request.component ||
    !mustBorrow(world, pool, place) ||
    held.every((key) => borrowed(world, pool, run, key) > 0);
  if (isLower && mayTake && !isHard)
    return { reason: "class", isUnbounded: reclaims || run.run!.opportunistic };
  return reclaims ? { reason: "reclaim", isUnbounded: true } : undefined;
}

/** Unlike in the order of the queue, a key that nobody reserves counts here (G1). */
function mustBorrow(world: World, pool: Pool, { request, holders }: Place): boolean {
  return demandOf(pool, request).some(
    ([key, amount]) => amount > headroom(world, pool, request, key, holders),
  );
}

/** The best of all minimal sets (10.5). */
function chooseByClass(
  world: World,
  pool: Pool,
  place: Place,
  candidates: Candidate[],
): Victim[] | undefined {
  const waiter = place.request;
  const units = classOf(world, pool, waiter) * waiter.nodes * Math.max(1, waiter.resources.gpu ?? 0);
  const value = times(fractionOf(units), minutes(waiter.walltime ?? 3600));
  const sets = subsets(candidates, settingsOf(pool).max_victims).filter((set) => {
    if (!covers(place, set)) return false;
    if (
      set.some((one) =>
        covers(
          place,
          set.filter((other) => other !== one),
        ),
      )
    )
      return false;
    return set.every((candidate) => candidate.isUnbounded) || isLess(totalCost(world, pool, set), value);
  });
  const best = sets.sort((a, b) => compareSets(world, pool, a, b))[0];
  if (best !== undefined) return best;
  const ordered = candidates
    .filter((candidate) => candidate.isUnbounded)
    .sort((a, b) => compareSets(world, pool, [a], [b]));
  return prefixThatCovers(place, ordered);
}

function compareSets(world: World, pool: Pool, a: Victim[], b: Victim[]): number {
  const highest = (set: Victim[]) => Math.max(...set.map((one) => classOf(world, pool, one.request)));
  const starts = (set: Victim[]) => set.map((one) => one.request.run!.position).sort((x, y) => y - x);
  return (
    highest(a) - highest(b) ||
    compareCosts(totalCost(world, pool, a), totalCost(world, pool, b)) ||
    a.length - b.length ||
    starts(a).reduce((result, start, index) => result || starts(b)[index]! - start, 0)
  );
}

function subsets<T>(items: T[], size: number): T[][] {
  if (items.length === 0 || size === 0) return [[]];
  const [first, ...rest] = items;
  return [...subsets(rest, size), ...subsets(rest, size - 1).map((set) => [first!, ...set])];
}

function totalCost(world: World, pool: Pool, set: Victim[]): Fraction {
  return set.reduce((total, victim) => plus(total, costOf(world, pool, victim.request)), ZERO);
}

/** In minutes, exactly (10.4). */
function costOf(world: World, pool: Pool, request: Request): Fraction {
  const run = request.run!;
  const checkpoint = minutes(checkpointSeconds(pool, request));
  const since = world.now - Math.max(run.startedAt, run.checkpointAt ?? run.startedAt);
  const size = request.nodes * Math.max(1, request.resources.gpu ?? 0);
  const lost = request.checkpoint === "none" ? minutes(since * size) : ZERO;
  return plus(plus(checkpoint, lost), remainingValue(world, request));
}

function remainingValue(world: World, request: Request): Fraction {
  if (request.walltime === undefined) return ZERO;
  const used = world.now - request.run!.startedAt;
  if (used * 10 >= request.walltime * 9) return fractionOf(1000);
  if (used * 10 < request.walltime) return fractionOf(1);
  return over(fractionOf(used * 100), fractionOf(request.walltime));
}

function minutes(seconds: number): Fraction {
  return over(fractionOf(seconds), fractionOf(60));
}

function compareCosts(a: Fraction, b: Fraction): number {
  return isEqual(a, b) ? 0 : isLess(a, b) ? -1 : 1;
}
