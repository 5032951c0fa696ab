// The search for victims, as disciplines with a head share it (V2–V4): kinds of running work are judged, and their runs are
// taken in an order until they are enough; then those that are not needed are spared.
//
// Of runs that cost the same but for their start and walltime, later ones mostly cost less, so such runs are walked from
// the latest on, with the least that the further ones can cost. Where nothing is weighed, all of them cost nothing.

import { Heap } from "../../heap.ts";
import type { PreemptionReason } from "../../records.ts";
import type { Cover } from "../../scheduling/cover.ts";
import { countFrom, hasDisplaced, isMature, permittedBy, spareFrom } from "../../scheduling/victims.ts";
import type { SortedList } from "../../sorted-list.ts";
import type { Policy, Run, RunKind } from "../../state.ts";
import type { VictimSearch } from "./queue-discipline.ts";

/** What may be taken of a kind. */
export interface Permission {
  readonly kind: RunKind;
  /** From which grant on by which rule, in the order in which a decision names one of them. */
  readonly rules: readonly { readonly reason: PreemptionReason; readonly from: number }[];
  /** From which one on at all: as a rule by any of them. */
  readonly from: number;
}

/** A permission, or the rule that forbids it. */
export type Judge = (kind: RunKind) => Permission | string;

/** Null: no rule permits anything; infinite: that one does not. */
export function permission(kind: RunKind, rules: Permission["rules"]): Permission | null {
  const from = Math.min(...rules.map((rule) => rule.from));
  return from === Number.POSITIVE_INFINITY ? null : { kind, rules, from };
}

/** All reasons for which a run may be taken, the one that a decision names first. */
export function reasonsFor({ token }: Run, { rules }: Permission): PreemptionReason[] {
  return rules.filter(({ from }) => token >= from).map(({ reason }) => reason);
}

export interface Candidate {
  readonly run: Run;
  readonly reason: PreemptionReason;
  readonly costMs: number;
}

/** What the whole set of victims may be. */
export interface Bounds {
  readonly victimsMax: number;
  /** What it is worth to start the waiter, in milliseconds of work. */
  readonly costMsMax: number;
}

export const NO_BOUNDS: Bounds = {
  victimsMax: Number.POSITIVE_INFINITY,
  costMsMax: Number.POSITIVE_INFINITY,
};

export interface Prices {
  costMsOf(run: Run, nowMs: number): number;
  /** The least that runs of the same price cost that began no later than this one, if the longest walltime is given. */
  leastCostMsSince(run: Run, walltimeMsMax: number, nowMs: number): number;
  /** So close to its end that it is left to finish. */
  isNearCompletion(run: Run, nowMs: number): boolean;
}

/** Where nothing is weighed. */
export const NO_PRICES: Prices = {
  costMsOf: () => 0,
  leastCostMsSince: () => 0,
  isNearCompletion: () => false,
};

/** What one search is about. */
export interface Field {
  readonly search: VictimSearch;
  readonly short: readonly number[];
  readonly judge: Judge;
  /** Whether something may be permitted of a component: a no is certain. */
  readonly mayPermit: (policy: Policy) => boolean;
  readonly prices: Prices;
  readonly bounds: Bounds;
}

/** Whether a run may be taken as far as its kind and its grant say. */
export function permitsRun({ judge, mayPermit }: Field): (run: Run) => boolean {
  const isPermitted = permittedBy(judge);
  return (run) => mayPermit(run.poolLine.policy) && isPermitted(run);
}

/** When all shields of today have ended. */
export function withoutShields(search: VictimSearch): VictimSearch {
  return { ...search, nowMs: Number.POSITIVE_INFINITY };
}

/** What is permitted of all kinds. */
export function* permissionsIn({ search, judge, mayPermit }: Field): Generator<Permission> {
  for (const policy of search.pool.policies.values()) {
    if (!mayPermit(policy)) continue;
    for (const kind of policy.runKinds) {
      const verdict = judge(kind);
      if (typeof verdict !== "string") yield verdict;
    }
  }
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

/** Whether so many of what is permitted would be enough, by counting (V3). */
export function couldCover(
  { search, short, bounds: { victimsMax } }: Field,
  permissions: readonly Permission[],
): boolean {
  const counts = permissions.map(({ kind, from }) => countFrom(kind, from, search.nowMs));
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

/** Runs that cost the same but for their start and their walltime, by grant. */
export interface Source {
  /** In which order sources are taken, the lowest first. */
  readonly rank: number;
  readonly runs: SortedList<Run>;
  /** None that was granted earlier may be taken. */
  readonly from: number;
}

/** Candidates within bounds, by the rank of their source, then by cost, then by start, the latest first. */
export function* inOrder(
  field: Field,
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
    for (const candidate of cheapestFirst(field, ranks.get(rank) as Source[], isUseful)) {
      if (candidate.costMs >= field.bounds.costMsMax) break; // And so do all that follow.
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
  field: Field,
  sources: readonly Source[],
  isUseful: (run: Run) => boolean,
): Generator<Candidate> {
  const { search, judge, prices } = field;
  const { pool, nowMs } = search;
  const isOldEnough = (run: Run) => isMature(run, pool, nowMs);
  const isPermitted = permittedBy(judge);
  const nextOf = (walk: Walk): Entry | null => {
    const { rest, from, walltimeMsMax } = walk;
    for (let run = rest.next().value; run !== undefined && run.token >= from; run = rest.next().value) {
      if (!isUseful(run) || !isPermitted(run)) continue; // Nor will it be later.
      return { run, costMs: prices.leastCostMsSince(run, walltimeMsMax, nowMs), candidate: null, walk };
    }
    return null;
  };
  const firsts: Entry[] = [];
  for (const { runs, from } of sources) {
    const first = nextOf({
      rest: runs.backwards(isOldEnough),
      from,
      walltimeMsMax: -runs.rankMin(),
    });
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
    const priced = candidateOf(field, run, judge(run.kind));
    if (priced !== null) entries.push({ ...entry, costMs: priced.costMs, candidate: priced });
    bringNext(walk);
  }
}

/** The run with its price; null: it may not be taken. */
export function candidateOf(
  { search, prices }: Field,
  run: Run,
  permitted: Permission | string,
): Candidate | null {
  const { state, pool, head, nowMs } = search;
  if (typeof permitted === "string" || run.token < permitted.from) return null;
  if (!isMature(run, pool, nowMs) || prices.isNearCompletion(run, nowMs)) return null;
  if (hasDisplaced(state, run.request.spec.id, head.request.spec.id)) return null;
  const reason = reasonsFor(run, permitted)[0] as PreemptionReason;
  return { run, reason, costMs: prices.costMsOf(run, nowMs) };
}
