// Who would have to stop for a waiter, and by which rule (7, 8, 10).

import {
  type Fraction,
  fractionOf,
  isEqual,
  isLess,
  least,
  ONE,
  over,
  plus,
  times,
  ZERO,
} from "./fractions.ts";
import { checkpointSeconds, isInShare, rankOfClass } from "./order.ts";
import type { Room } from "./room.ts";
import type { Amounts } from "./scenario.ts";
import {
  amountOf,
  borrowed,
  classOf,
  compare,
  hasDisplaced,
  headroom,
  isBound,
  isSensitive,
  isShielded,
  isStopping,
  type Pool,
  policyOf,
  priorityOf,
  type Request,
  runsIn,
  settingsOf,
  someoneReserves,
  UNMETERED,
  type World,
} from "./world.ts";

/** A waiter at its place in the queue. */
export interface Place {
  request: Request;
  /** Whose holds come before it. */
  holders: Request[];
  /** The keys on which free units and units coming free that it may count on are not enough (V1). */
  short: string[];
  /** By how much, where it is more than nothing. */
  shortage: Amounts;
  /** What is left, and coming free, that it may count on. */
  rooms: Room[];
  /** Whether these would be enough, if some runs ended as well. */
  isCoveredBy: (ended: Request[]) => boolean;
}

export interface Victim {
  request: Request;
  reason: string;
}

export interface Candidate extends Victim {
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
    !hasDisplaced(world, run.id, waiter.id)
  );
}

function permit(
  world: World,
  pool: Pool,
  run: Request,
  place: Place,
  short: string[],
): Candidate | undefined {
  if (pool.discipline === "class") return permitByClass(world, pool, run, place, short);
  const rule = permitByPriority(world, pool, run, place, short);
  if (rule !== undefined) return { request: run, ...rule };
  return run.run!.opportunistic && !isShielded(world, pool, run)
    ? { request: run, reason: "backfill", isUnbounded: true }
    : undefined;
}

function permitByPriority(world: World, pool: Pool, run: Request, place: Place, short: string[]) {
  const held = short.filter((key) => amountOf(pool, run, key) > 0);
  const any = settingsOf(pool).priority_preempts === "any";
  const difference = priorityOf(world, pool, place.request) - priorityOf(world, pool, run);
  const borrowsAll = held.every((key) => borrowed(world, pool, run, key) > 0);
  if (difference > 0 && (any || borrowsAll) && !isShielded(world, pool, run))
    return { reason: "priority", isUnbounded: true }; // (8.1)
  if (any && difference < 0) return undefined;
  return mayReclaim(world, pool, run, place, short) ? { reason: "reclaim", isUnbounded: true } : undefined;
}

/** What no policy reserves of mcpu, memory_mb and step_run counts for neither (8.2). */
function mayReclaim(world: World, pool: Pool, run: Request, place: Place, short: string[]): boolean {
  const { request, holders } = place;
  const counting = short.filter((key) => !UNMETERED.has(key) || someoneReserves(world, pool, key));
  const fits = counting.every(
    (key) => amountOf(pool, request, key) <= headroom(world, pool, request, key, holders),
  );
  const isOwn = run.component === request.component;
  return (
    fits && (!isOwn || !request.preemptible) && counting.some((key) => borrowed(world, pool, run, key) > 0)
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

function prefixThatCovers(place: Place, ordered: Victim[]): Victim[] | undefined {
  return prefix((victims) => covers(place, victims), ordered);
}

/** As many as it takes, without those that are not needed, the last being spared first. */
function prefix(isEnough: (victims: Victim[]) => boolean, ordered: Victim[]): Victim[] | undefined {
  const last = ordered.findIndex((_, index) => isEnough(ordered.slice(0, index + 1)));
  if (last < 0) return undefined;
  let chosen = ordered.slice(0, last + 1);
  for (const candidate of chosen.toReversed()) {
    const without = chosen.filter((other) => other !== candidate);
    if (isEnough(without)) chosen = without;
  }
  return chosen;
}

function covers(place: Place, victims: Victim[]): boolean {
  return place.isCoveredBy(victims.map((victim) => victim.request));
}

/** Everybody on whom a rule has an eye, in the order of the reasons (10.1–10.3). */
function permitByClass(
  world: World,
  pool: Pool,
  run: Request,
  place: Place,
  short: string[],
): Candidate | undefined {
  const { request, holders } = place;
  const rank = (one: Request) => rankOfClass(pool, classOf(world, pool, one));
  const isOwn = run.component === request.component;
  const reserved = Object.keys(pool.capacity).filter((key) => someoneReserves(world, pool, key));
  const borrows = (keys: string[]) => keys.some((key) => borrowed(world, pool, run, key) > 0);
  const inShare = isInShare(world, pool, request, holders);
  const ownLower = runsIn(world, pool).filter(
    (other) => other.component === request.component && rank(other) < rank(request),
  );
  const inShareAgainstIt = isOwn ? isInShare(world, pool, request, holders, ownLower) : inShare;

  if (classOf(world, pool, run) === 10) return undefined;
  const { near_completion_seconds: near } = settingsOf(pool);
  const left = run.walltime === undefined ? undefined : run.run!.startedAt + run.walltime - world.now;
  if (left !== undefined && left <= near && run.walltime! > 2 * near) return undefined;
  const isService = policyOf(world, pool, run.component)?.kind === "service";
  if (isService && !borrows(reserved)) return undefined;

  if (isSensitive(world, pool, request)) return { request: run, reason: "sensitive", isUnbounded: true };
  const isHard = run.checkpoint === "none" && classOf(world, pool, run) >= 7;
  const shielded = isShielded(world, pool, run);
  const byClass =
    rank(run) < rank(request) && (inShareAgainstIt || borrows(reserved)) && !isHard && !shielded;
  const isBoundHere = reserved.some((key) => isBound(world, pool, request, key));
  const byReclaim =
    inShare && (!isOwn || isBoundHere) && borrows(short.filter((key) => reserved.includes(key)));
  const byBackfill = run.run!.opportunistic && !shielded;
  if (!byClass && !byReclaim && !byBackfill) return undefined;
  const reason = byClass ? "class" : byReclaim ? "reclaim" : "backfill";
  return { request: run, reason, isUnbounded: byReclaim || byBackfill };
}

/** Greedy, in one order and then in another; on nodes each for itself (10.5). */
function chooseByClass(
  world: World,
  pool: Pool,
  place: Place,
  candidates: Candidate[],
): Victim[] | undefined {
  const waiter = place.request;
  const units = classOf(world, pool, waiter) * waiter.nodes * Math.max(1, waiter.resources.gpu ?? 0);
  const value = times(fractionOf(units), minutes(waiter.walltime ?? 3600));
  const unbounded = candidates.filter((candidate) => candidate.isUnbounded);
  const affordable = candidates.filter(({ request }) => isLess(costOf(world, pool, request), value));
  const isWithin = (set: Victim[]) =>
    set.length <= settingsOf(pool).max_victims && isLess(totalCost(world, pool, set), value);
  return (
    choose(world, pool, place, unbounded, "class", () => true) ??
    choose(world, pool, place, affordable, "class", isWithin) ??
    choose(world, pool, place, affordable, "size", isWithin)
  );
}

type Preference = "class" | "size";

export function choose(
  world: World,
  pool: Pool,
  place: Place,
  candidates: Candidate[],
  preference: Preference,
  isWithin: (set: Victim[]) => boolean,
): Victim[] | undefined {
  const chosen =
    pool.nodes === undefined
      ? prefixThatCovers(place, sortBy(world, pool, candidates, preference, place.shortage))
      : chooseOnNodes(world, pool, place, candidates, preference, isWithin);
  return chosen !== undefined && isWithin(chosen) ? chosen : undefined;
}

function chooseOnNodes(
  world: World,
  pool: Pool,
  place: Place,
  candidates: Candidate[],
  preference: Preference,
  isWithin: (set: Victim[]) => boolean,
): Victim[] | undefined {
  const choices = place.rooms.flatMap((room) => {
    const fits = (victims: Victim[]) => {
      const here = victims.filter(({ request }) => request.run!.placed!.includes(room.node));
      return Object.entries(place.request.resources).every(
        ([key, amount]) =>
          !(key in room.left) ||
          here.reduce((left, { request }) => left + (request.resources[key] ?? 0), room.left[key]!) >= amount,
      );
    };
    const here = candidates.filter(({ request }) => request.run!.placed!.includes(room.node));
    const shortage = Object.fromEntries(
      Object.entries(place.request.resources)
        .filter(([key]) => key in room.left)
        .map(([key, amount]) => [key, amount - room.left[key]!]),
    );
    if (fits([])) return [];
    const victims = prefix(fits, sortBy(world, pool, here, preference, shortage));
    return victims !== undefined && isWithin(victims) ? [{ node: room.node, victims }] : [];
  });
  const rank = (victims: Victim[]) =>
    Math.max(...victims.map(({ request }) => classOf(world, pool, request)));
  const latest = (victims: Victim[]) => Math.max(...victims.map(({ request }) => request.run!.position));
  choices.sort(
    ({ node: a, victims: x }, { node: b, victims: y }) =>
      (preference === "size" ? x.length - y.length : 0) ||
      rank(x) - rank(y) ||
      compareCosts(totalCost(world, pool, x), totalCost(world, pool, y)) ||
      x.length - y.length ||
      latest(y) - latest(x) ||
      compare(a, b),
  );
  const inOrder = choices.flatMap(({ victims }) => victims);
  const once = inOrder.filter(
    ({ request }, index) => inOrder.findIndex((other) => other.request === request) === index,
  );
  return prefixThatCovers(place, once);
}

/** By class, cost and start; or first of all by how much of the shortage they cover, the largest part first. */
function sortBy<T extends Victim>(
  world: World,
  pool: Pool,
  candidates: T[],
  preference: Preference,
  shortage: Amounts,
): T[] {
  const size = ({ request }: Victim) =>
    Object.entries(shortage)
      .filter(([, lacking]) => lacking > 0)
      .map(([key, lacking]) => {
        const amount =
          pool.nodes === undefined ? amountOf(pool, request, key) : (request.resources[key] ?? 0);
        return least(ONE, over(fractionOf(amount), fractionOf(lacking)));
      })
      .reduce(plus, ZERO);
  const cost = ({ request }: Victim) => costOf(world, pool, request);
  return candidates.toSorted(
    (a, b) =>
      (preference === "size" ? compareCosts(size(b), size(a)) : 0) ||
      classOf(world, pool, a.request) - classOf(world, pool, b.request) ||
      compareCosts(cost(a), cost(b)) ||
      b.request.run!.position - a.request.run!.position,
  );
}

export function totalCost(world: World, pool: Pool, set: Victim[]): Fraction {
  return set.reduce((total, victim) => plus(total, costOf(world, pool, victim.request)), ZERO);
}

/** In minutes, exactly (10.4). */
export function costOf(world: World, pool: Pool, request: Request): Fraction {
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
