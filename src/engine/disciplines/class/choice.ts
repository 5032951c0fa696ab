// The best of all minimal sets of at most `max_victims` victims (10.5).
//
// Candidates that hold the same short units, have the same class and are bounded alike form a group. Of a group
// only the cheapest matter, as many as a set may have: any other member could be exchanged for one of them.
// The sets are searched class by class from below, because the lowest highest class comes first; in each class
// every set begins with a member of that class, since those without one have been searched before.

import type { PreemptionReason } from "../../records.ts";
import type { Run } from "../../state.ts";
import type { Permission } from "./candidates.ts";
import { compareCosts, costsLessThan, isClearlyMore, type Priced, product } from "./cost.ts";

export interface Candidate extends Priced {
  readonly reason: PreemptionReason;
  /** Taken back rather than taken, or in a gap, so that neither value nor number bounds it. */
  readonly isUnbounded: boolean;
  /** What it holds of every short key. */
  readonly held: readonly number[];
  readonly preemptionClass: number;
}

/** What a set must do, and may cost. */
export interface Bounds {
  /** Per short key. */
  readonly lacking: readonly number[];
  readonly victimsMax: number;
  /** What the waiter is worth, as factors; sets that are taken must cost less. */
  readonly value: readonly number[];
  readonly nowMs: number;
}

/**
 * The most sets, whole or unfinished, that one search looks at. With the default of three victims 64 groups make
 * fewer than 50 000; whatever has been found when the bound is reached is the choice.
 */
const SETS_MAX = 100_000;

/** Cheapest first; equally cheap: the latest start first. */
export function byCost(a: Candidate, b: Candidate, nowMs: number): number {
  const difference = a.costMs - b.costMs;
  const costs = a.isExact && b.isExact ? difference : compareCosts([a], [b], nowMs);
  return costs || b.run.token - a.run.token;
}

/** Keeps the cheapest members of every group. */
export class Groups {
  readonly #groups = new Map<string, Candidate[]>();
  readonly #sizeMax: number;
  readonly #nowMs: number;

  constructor({ victimsMax, nowMs }: Bounds) {
    this.#sizeMax = victimsMax;
    this.#nowMs = nowMs;
  }

  /** The members, so far, of the group that runs of a kind belong to. */
  groupOf({ kind, held }: Pick<Permission, "kind" | "held">, bound: "bounded" | "unbounded"): Candidate[] {
    const key = `${kind.poolLine.preemptionClass} ${bound} ${held.join()}`;
    let group = this.#groups.get(key);
    if (group === undefined) {
      group = [];
      this.#groups.set(key, group);
    }
    return group;
  }

  add(group: Candidate[], candidate: Candidate): void {
    let place = group.length;
    while (place > 0 && byCost(candidate, group[place - 1] as Candidate, this.#nowMs) < 0) place--;
    if (place >= this.#sizeMax) return;
    group.splice(place, 0, candidate);
    if (group.length > this.#sizeMax) group.pop();
  }

  /** Whether neither this run nor an earlier one of its kind, which all cost `leastMs` or more, has a place in the group. */
  isBeyond(group: readonly Candidate[], leastMs: number, run: Run): boolean {
    if (group.length < this.#sizeMax) return false;
    const last = group.at(-1);
    if (last === undefined || isClearlyMore(leastMs, last.costMs)) return true;
    return last.isExact && (leastMs > last.costMs || (leastMs === last.costMs && last.run.token > run.token));
  }

  [Symbol.iterator](): Iterator<readonly Candidate[]> {
    return this.#groups.values();
  }
}

/** A candidate in the search: it is tried only in a set that has the cheaper ones of its group already. */
interface Entry {
  readonly candidate: Candidate;
  readonly group: number;
  readonly placeInGroup: number;
}

export function bestSet(groups: Iterable<readonly Candidate[]>, bounds: Bounds): readonly Candidate[] | null {
  const entries = [...groups].flatMap((members, group) =>
    members.map((candidate, placeInGroup): Entry => ({ candidate, group, placeInGroup })),
  );
  const byPrice = (a: Entry, b: Entry) => byCost(a.candidate, b.candidate, bounds.nowMs);
  entries.sort(byPrice);
  const search = new Search(bounds);
  const classes = [...new Set(entries.map(({ candidate }) => candidate.preemptionClass))];
  for (const highest of classes.sort((a, b) => a - b)) {
    const top = entries.filter(({ candidate }) => candidate.preemptionClass === highest);
    const lower = entries.filter(({ candidate }) => candidate.preemptionClass < highest);
    const best = search.among(top, lower);
    if (best !== null) return best;
  }
  return null;
}

class Search {
  readonly #bounds: Bounds;
  readonly #valueMs: number;
  #setsLeft = SETS_MAX;
  #entries: readonly Entry[] = [];
  #topCount = 0;
  /** The most that one of the entries from each place on holds of every short key. */
  #most: number[][] = [];
  #lacking: number[] = [];
  readonly #chosen: Candidate[] = [];
  readonly #chosenOf = new Map<number, number>();
  #best: readonly Candidate[] | null = null;
  #bestMs = Number.POSITIVE_INFINITY;

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
    this.#valueMs = product(bounds.value);
  }

  /** The best set with at least one of `top`; both lists are sorted by cost. */
  among(top: readonly Entry[], lower: readonly Entry[]): readonly Candidate[] | null {
    this.#entries = [...top, ...lower];
    this.#topCount = top.length;
    this.#lacking = [...this.#bounds.lacking];
    this.#most = mostFrom(this.#entries, this.#lacking.length);
    this.#extend(0, 0, true);
    return this.#best;
  }

  /** Tries every entry from `from` on as the next member of the set. */
  #extend(from: number, costMs: number, isUnbounded: boolean): void {
    const isFirst = this.#chosen.length === 0;
    const end = isFirst ? this.#topCount : this.#entries.length;
    for (let i = from; i < end; i++) {
      if (!this.#couldCover(i) || this.#setsLeft <= 0) return;
      const { candidate, group, placeInGroup } = this.#entries[i] as Entry;
      const chosenOfGroup = this.#chosenOf.get(group) ?? 0;
      if (placeInGroup !== chosenOfGroup) continue;
      const totalMs = costMs + candidate.costMs;
      if (isClearlyMore(totalMs, this.#bestMs)) {
        // All that follow in this part of the list cost as much or more.
        if (i >= this.#topCount) return;
        i = this.#topCount - 1;
        continue;
      }
      const staysUnbounded = isUnbounded && candidate.isUnbounded;
      if (!staysUnbounded && isClearlyMore(totalMs, this.#valueMs)) continue;
      this.#setsLeft--;
      this.#chosen.push(candidate);
      this.#chosenOf.set(group, chosenOfGroup + 1);
      const isCovered = this.#take(candidate, -1);
      if (isCovered) this.#consider(staysUnbounded, totalMs);
      else if (this.#chosen.length < this.#bounds.victimsMax) this.#extend(i + 1, totalMs, staysUnbounded);
      this.#take(candidate, 1);
      this.#chosenOf.set(group, chosenOfGroup);
      this.#chosen.pop();
    }
  }

  #take({ held }: Candidate, sign: 1 | -1): boolean {
    let isCovered = true;
    for (let key = 0; key < held.length; key++) {
      const lacking = (this.#lacking[key] as number) + sign * (held[key] as number);
      this.#lacking[key] = lacking;
      isCovered &&= lacking <= 0;
    }
    return isCovered;
  }

  /** Whether as many as the set may still have, each holding the most of every key, would be enough. */
  #couldCover(from: number): boolean {
    const slots = this.#bounds.victimsMax - this.#chosen.length;
    const most = this.#most[from] as number[];
    return this.#lacking.every((lacking, key) => lacking <= slots * (most[key] as number));
  }

  #consider(isUnbounded: boolean, costMs: number): void {
    const chosen = this.#chosen;
    const { value, nowMs } = this.#bounds;
    const isMinimal = chosen.every(({ held }) =>
      held.some((amount, key) => (this.#lacking[key] as number) + amount > 0),
    );
    if (!isMinimal || !(isUnbounded || costsLessThan(chosen, value, nowMs))) return;
    if (this.#best !== null && compareSets(chosen, this.#best, nowMs) >= 0) return;
    this.#best = [...chosen];
    this.#bestMs = costMs;
  }
}

function mostFrom(entries: readonly Entry[], keyCount: number): number[][] {
  const most: number[][] = [];
  let after = new Array<number>(keyCount).fill(0);
  for (let i = entries.length - 1; i >= 0; i--) {
    const { held } = (entries[i] as Entry).candidate;
    after = after.map((amount, key) => Math.max(amount, held[key] as number));
    most[i] = after;
  }
  return most;
}

/** Whether a set costs less than the waiter is worth, or is only of runs that are taken back (10.5). */
export function isAffordable(set: readonly Candidate[], { value, nowMs }: Bounds): boolean {
  return set.every(({ isUnbounded }) => isUnbounded) || costsLessThan(set, value, nowMs);
}

/** Of two sets with the same highest class: cheaper, then fewer, then later starts. */
export function compareSets(a: readonly Candidate[], b: readonly Candidate[], nowMs: number): number {
  return compareCosts(a, b, nowMs) || a.length - b.length || compareStarts(a, b);
}

function compareStarts(a: readonly Candidate[], b: readonly Candidate[]): number {
  const starts = (set: readonly Candidate[]) => set.map(({ run }) => run.token).sort((x, y) => y - x);
  const others = starts(b);
  for (const [place, start] of starts(a).entries()) {
    if (start !== others[place]) return (others[place] as number) - start;
  }
  return 0;
}
