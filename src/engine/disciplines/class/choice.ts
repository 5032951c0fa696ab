// Which candidates go (10.5): greedily, by class, cost and start, until the waiter fits, without those not needed.
//
// Of runs that cost the same but for their start and walltime, later ones mostly cost less, so such runs are walked from
// the latest on, with the least that the further ones can cost.

import { Heap } from "../../heap.ts";
import { memoised } from "../../memoised.ts";
import { type Cover, Sum } from "../../scheduling/cover.ts";
import { countFrom, isMature, permittedBy, spareFrom } from "../../scheduling/victims.ts";
import type { SortedList } from "../../sorted-list.ts";
import type { PoolLine, Run } from "../../state.ts";
import type { VictimSearch } from "../queue/queue-discipline.ts";
import {
  type Candidate,
  candidateOf,
  isAnyLower,
  type Judge,
  type Permission,
  permissionsBy,
} from "./candidates.ts";
import { leastCostMsSince } from "./cost.ts";

/** What one search is about. */
export interface Field {
  readonly search: VictimSearch;
  readonly short: readonly number[];
  readonly judge: Judge;
  readonly victimsMax: number;
  /** What it is worth to start the waiter. */
  readonly valueMs: number;
}

/** Which candidates there are, in which order they are taken, and what the whole set may be. */
export interface Pass {
  readonly judge: Judge;
  /** With the largest first, by how much of the shortage they cover; otherwise by class. */
  readonly isLargestFirst: boolean;
  readonly victimsMax: number;
  readonly costMsMax: number;
}

/** What need not be bounded goes alone, if it is enough; otherwise all that is permitted, in one order and then another. */
export function* passesOf(field: Field): Generator<Pass> {
  const { judge, victimsMax, valueMs } = field;
  const noBounds = { victimsMax: Number.POSITIVE_INFINITY, costMsMax: Number.POSITIVE_INFINITY };
  yield { judge: memoised((kind) => unbounded(judge(kind))), isLargestFirst: false, ...noBounds };
  // Where nothing is bounded and all of it together was not enough, bounds would only leave less.
  if (!isAnyBounded(field)) return;
  const bounds = { judge, victimsMax, costMsMax: valueMs };
  yield { ...bounds, isLargestFirst: false };
  yield { ...bounds, isLargestFirst: true };
}

function unbounded(verdict: Permission | string): Permission | string {
  if (typeof verdict === "string" || verdict.from === verdict.unboundedFrom) return verdict;
  const { unboundedFrom: from } = verdict;
  return from === Number.POSITIVE_INFINITY ? "10.5" : { ...verdict, from };
}

function isAnyBounded(field: Field): boolean {
  if (!isAnyLower(field.search)) return false;
  for (const { from, unboundedFrom } of permissionsBy(field.judge, field)) {
    if (from !== unboundedFrom) return true;
  }
  return false;
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
    const permissions = [...permissionsBy(pass.judge, field)];
    if (!couldCover(field, pass, permissions)) continue;
    const cover = new Sum(search.shortage);
    const sources = permissions.map(({ kind: { poolLine, runs }, from }) => {
      const rank = rankIn(pass, poolLine, sizeOf(poolLine.need, search.shortage, short));
      return { rank, runs, from };
    });
    const candidates = inOrder(search, pass, sources, (run) => cover.isHelpedBy(run));
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
function couldCover(
  { search, short }: Field,
  { victimsMax }: Pass,
  permissions: readonly Permission[],
): boolean {
  const counts = permissions.map((permission) => countFrom(permission.kind, permission.from, search.nowMs));
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

/** Runs that cost the same but for their start and their walltime, by grant. */
export interface Source {
  /** In which order sources are taken, the lowest first. */
  readonly rank: number;
  readonly runs: SortedList<Run>;
  /** None that was granted earlier may be taken. */
  readonly from: number;
}

/** Candidates by the rank of their source, then by cost, then by start, the latest first. */
export function* inOrder(
  search: VictimSearch,
  { judge, costMsMax }: Pick<Pass, "judge" | "costMsMax">,
  sources: readonly Source[],
  isUseful: (run: Run) => boolean,
): Generator<Candidate> {
  const ranks = new Map<number, Source[]>();
  for (const source of sources) {
    const same = ranks.get(source.rank);
    if (same === undefined) ranks.set(source.rank, [source]);
    else same.push(source);
  }
  for (const rank of [...ranks.keys()].sort((a, b) => a - b)) {
    for (const candidate of cheapestFirst(search, judge, ranks.get(rank) as Source[], isUseful)) {
      if (candidate.costMs >= costMsMax) break; // And so do all that follow.
      yield candidate;
    }
  }
}

/** The rest of a source, with the least that its runs cost, or a candidate with its price. */
interface Entry {
  readonly run: Run;
  readonly costMs: number;
  readonly candidate: Candidate | null;
  readonly walk: Walk;
}

interface Walk {
  /** Those of its runs that are old enough, the latest first, from the next one on. */
  readonly rest: Iterator<Run, void>;
  readonly from: number;
  readonly walltimeMsMax: number;
}

/** Whatever is still to come of a source costs no less and began no later than its entry says. */
function* cheapestFirst(
  search: VictimSearch,
  judge: Judge,
  sources: readonly Source[],
  isUseful: (run: Run) => boolean,
): Generator<Candidate> {
  const { pool, nowMs } = search;
  const isOldEnough = (run: Run) => isMature(run, pool, nowMs);
  const isPermitted = permittedBy(judge);
  const nextOf = (walk: Walk): Entry | null => {
    const { rest, from, walltimeMsMax } = walk;
    for (let run = rest.next().value; run !== undefined && run.token >= from; run = rest.next().value) {
      if (!isUseful(run) || !isPermitted(run)) continue; // Nor will it be later.
      return { run, costMs: leastCostMsSince(run, walltimeMsMax, nowMs), candidate: null, walk };
    }
    return null;
  };
  const firsts: Entry[] = [];
  for (const { runs, from } of sources) {
    const first = nextOf({ rest: runs.backwards(isOldEnough), from, walltimeMsMax: -runs.rankMin() });
    if (first !== null) firsts.push(first);
  }
  const entries = new Heap<Entry>(
    (a, b) => (a.costMs === b.costMs ? a.run.token > b.run.token : a.costMs < b.costMs),
    firsts,
  );
  const bringNext = (walk: Walk) => {
    const next = nextOf(walk);
    if (next !== null) entries.push(next);
  };
  for (let entry = entries.pop(); entry !== undefined; entry = entries.pop()) {
    const { run, walk, candidate } = entry;
    if (!isUseful(run)) {
      if (candidate === null) bringNext(walk);
      continue;
    }
    if (candidate !== null) {
      yield candidate;
      continue;
    }
    const priced = candidateOf(run, judge(run.kind) as Permission, search);
    if (priced !== null) entries.push({ ...entry, costMs: priced.costMs, candidate: priced });
    bringNext(walk);
  }
}
