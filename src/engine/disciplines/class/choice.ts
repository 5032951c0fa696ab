// Which candidates go (10.5): greedily, by class, cost and start, until the waiter fits, without those not needed.
//
// Candidates of one kind differ in their start and their cost only, and later ones of a kind mostly cost less, so
// kinds are walked from their latest run on, each with the least that its further runs can cost.

import { Heap } from "../../heap.ts";
import { type Cover, Sum } from "../../scheduling/cover.ts";
import { isMature, spareFrom } from "../../scheduling/victims.ts";
import type { PoolLine, Run } from "../../state.ts";
import type { VictimSearch } from "../queue/queue-discipline.ts";
import { type Candidate, candidateOf, countFrom, type Permission } from "./candidates.ts";
import { leastCostMsSince } from "./cost.ts";

/** What one search is about. */
export interface Field {
  readonly search: VictimSearch;
  readonly short: readonly number[];
  readonly permissions: readonly Permission[];
  readonly victimsMax: number;
  /** What it is worth to start the waiter. */
  readonly valueMs: number;
}

/** Candidates in the order in which they are taken, and what the whole set may be. */
export interface Pass {
  readonly permissions: readonly Permission[];
  /** With the largest first, by how much of the shortage they cover; otherwise by class. */
  readonly isLargestFirst: boolean;
  readonly victimsMax: number;
  readonly costMsMax: number;
}

/** What need not be bounded goes alone, if it is enough; otherwise all that is permitted, in one order and then another. */
export function passesOf({ permissions, victimsMax, valueMs }: Field): Pass[] {
  const noBounds = { victimsMax: Number.POSITIVE_INFINITY, costMsMax: Number.POSITIVE_INFINITY };
  // Where nothing is bounded and all of it together is not enough, bounds would only leave less.
  if (permissions.every(({ from, unboundedFrom }) => from === unboundedFrom)) {
    return [{ permissions, isLargestFirst: false, ...noBounds }];
  }
  const unbounded = permissions
    .filter(({ unboundedFrom }) => unboundedFrom < Number.POSITIVE_INFINITY)
    .map((permission) => ({ ...permission, from: permission.unboundedFrom }));
  const bounds = { permissions, victimsMax, costMsMax: valueMs };
  return [
    { permissions: unbounded, isLargestFirst: false, ...noBounds },
    { ...bounds, isLargestFirst: false },
    { ...bounds, isLargestFirst: true },
  ];
}

export function isWithinBounds(victims: readonly Candidate[], { victimsMax, costMsMax }: Pass): boolean {
  return victims.length <= victimsMax && totalMs(victims) < costMsMax;
}

export function totalMs(victims: readonly Candidate[]): number {
  return victims.reduce((total, { costMs }) => total + costMs, 0);
}

/** In a pool without nodes. */
export function chooseBySum(field: Field): Candidate[] | null {
  const { search, short } = field;
  for (const pass of passesOf(field)) {
    if (!couldCover(field, pass)) continue;
    const cover = new Sum(search.shortage);
    const rankOf = ({ kind }: Permission) =>
      rankIn(pass, kind.poolLine, sizeOf(kind.poolLine.need, search.shortage, short));
    const candidates = inOrder(search, pass, rankOf, (run) => cover.isHelpedBy(run));
    const victims = take(candidates, cover);
    if (victims !== null && isWithinBounds(victims, pass)) return victims;
  }
  return null;
}

/** Takes candidates until they are enough, and leaves out what is not needed. */
export function take(candidates: Iterable<Candidate>, cover: Cover): Candidate[] | null {
  const taken: Candidate[] = [];
  for (const candidate of candidates) {
    taken.push(candidate);
    cover.take(candidate.run);
    if (cover.isEnough) return spareFrom(taken, cover);
  }
  return null;
}

/** Whether as many as may go would be enough, by counting (V3). */
function couldCover({ search, short }: Field, { permissions, victimsMax }: Pass): boolean {
  const counts = permissions.map((permission) => countFrom(permission.from, permission, search));
  return short.every((i) => {
    let [sum, largest] = [0, 0];
    permissions.forEach(({ kind }, at) => {
      const amount = kind.poolLine.need[i] as number;
      sum += (counts[at] as number) * amount;
      if (counts[at] !== 0) largest = Math.max(largest, amount);
    });
    const lacking = search.shortage[i] as number;
    return sum >= lacking && (largest * victimsMax >= lacking || victimsMax === Number.POSITIVE_INFINITY);
  });
}

/** In which order kinds are taken, the lowest number first: by class, or by size and then by class. */
export function rankIn({ isLargestFirst }: Pass, { preemptionClass }: PoolLine, size: number): number {
  return isLargestFirst ? preemptionClass - 16 * size : preemptionClass;
}

/**
 * How much of a shortage a run covers: the sum over the short keys of the part that it covers there, in
 * billionths, so that equal sums are equal numbers.
 */
export function sizeOf(
  held: readonly number[],
  shortage: readonly number[],
  short: readonly number[],
): number {
  const size = short.reduce((sum, i) => sum + Math.min(1, (held[i] as number) / (shortage[i] as number)), 0);
  return Math.round(size * 1e9);
}

/** Candidates by the rank of their kind, then by cost, then by start, the latest first. */
export function* inOrder(
  search: VictimSearch,
  { permissions, costMsMax }: Pick<Pass, "permissions" | "costMsMax">,
  rankOf: (permission: Permission) => number,
  isUseful: (run: Run) => boolean,
): Generator<Candidate> {
  const ranks = new Map<number, Permission[]>();
  for (const permission of permissions) {
    const rank = rankOf(permission);
    const same = ranks.get(rank);
    if (same === undefined) ranks.set(rank, [permission]);
    else same.push(permission);
  }
  for (const rank of [...ranks.keys()].sort((a, b) => a - b)) {
    for (const candidate of cheapestFirst(search, ranks.get(rank) as Permission[], isUseful)) {
      if (candidate.costMs >= costMsMax) break; // And so do all that follow.
      yield candidate;
    }
  }
}

/** The rest of a kind, with the least that its runs cost, or a candidate with its price. */
interface Entry {
  readonly run: Run;
  readonly costMs: number;
  readonly candidate: Candidate | null;
  readonly source: Source;
}

interface Source {
  readonly permission: Permission;
  /** What comes after the latest run; null: nobody has asked, as of most kinds nobody does. */
  rest: Iterator<Run, void> | null;
  readonly walltimeMsMax: number;
}

/** Whatever is still to come of a kind costs no less and began no later than its entry says. */
function* cheapestFirst(
  search: VictimSearch,
  permissions: readonly Permission[],
  isUseful: (run: Run) => boolean,
): Generator<Candidate> {
  const { pool, nowMs } = search;
  const matureOf = ({ kind }: Permission) => kind.runs.backwards((run) => isMature(run, pool, nowMs));
  const entryOf = (run: Run, source: Source): Entry => {
    return { run, costMs: leastCostMsSince(run, source.walltimeMsMax, nowMs), candidate: null, source };
  };
  const firsts: Entry[] = [];
  for (const permission of permissions) {
    const { runs } = permission.kind;
    const latest = runs.last() as Run;
    if (latest.token < permission.from) continue; // And so are all of them.
    const source: Source = { permission, rest: null, walltimeMsMax: -runs.rankMin() };
    if (!isMature(latest, pool, nowMs)) source.rest = matureOf(permission);
    const first = source.rest === null ? latest : source.rest.next().value;
    if (first !== undefined && first.token >= permission.from) firsts.push(entryOf(first, source));
  }
  const entries = new Heap<Entry>(
    (a, b) => (a.costMs === b.costMs ? a.run.token > b.run.token : a.costMs < b.costMs),
    firsts,
  );
  const bringNext = (source: Source) => {
    const { permission } = source;
    if (source.rest === null) {
      source.rest = matureOf(permission);
      source.rest.next(); // The latest.
    }
    let run = source.rest.next().value;
    while (run !== undefined && !isUseful(run)) run = source.rest.next().value; // Nor will they be later.
    if (run !== undefined && run.token >= permission.from) entries.push(entryOf(run, source));
  };
  for (let entry = entries.pop(); entry !== undefined; entry = entries.pop()) {
    const { run, source, candidate } = entry;
    if (!isUseful(run)) {
      if (candidate === null) bringNext(source);
      continue;
    }
    if (candidate !== null) {
      yield candidate;
      continue;
    }
    const priced = candidateOf(run, source.permission, search);
    if (priced !== null) entries.push({ ...entry, costMs: priced.costMs, candidate: priced });
    bringNext(source);
  }
}
