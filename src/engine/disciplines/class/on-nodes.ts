// Victims on nodes (N2, 10.5): of the minimal sets that make a placement possible, the best.
//
// Where one more node needs room, a minimal set lies on that node alone, so every node is a search of its own and
// the best of their choices is the best of all. Where several nodes do, sets are tried one by one; beyond
// `CANDIDATES_MAX` candidates only those on the nodes that are cheapest to clear are.

import type { Ask } from "../../placement/room.ts";
import { mayServe } from "../../placement/room.ts";
import type { NodeCover } from "../../scheduling/cover.ts";
import { spareFrom } from "../../scheduling/victims.ts";
import type { Node } from "../../state.ts";
import { type Bounds, bestSet, byCost, type Candidate, compareSets, Groups, isAffordable } from "./choice.ts";

/** With three victims these make fewer than 50 000 sets. */
const CANDIDATES_MAX = 64;
/** The most sets, whole or unfinished, that one search looks at. */
const SETS_MAX = 100_000;

/** What a search on nodes is about. */
export interface NodeField {
  readonly ask: Ask;
  readonly cover: NodeCover;
  /** Indices of the keys that are short; candidates hold amounts per node in the same order. */
  readonly short: readonly number[];
  readonly bounds: Bounds;
}

type VictimSet = readonly Candidate[];

export function bestOnNodes(candidates: readonly Candidate[], field: NodeField): VictimSet | null {
  const { cover } = field;
  const useful = candidates.filter(({ run }) => cover.isHelpedBy(run));
  const best =
    cover.missing === 1 ? bestOfAll(clearings(useful, field), field) : bestOfSeveral(useful, field);
  return best ?? beyondVictimsMax(useful, field);
}

/** For every node that could get room: the best set that gives it room. */
function clearings(candidates: readonly Candidate[], { ask, cover, short, bounds }: NodeField): VictimSet[] {
  const onNode = new Map<Node, Candidate[]>();
  for (const candidate of candidates) {
    for (const node of candidate.run.nodes) {
      if (!mayServe(node, ask)) continue;
      const there = onNode.get(node);
      if (there === undefined) onNode.set(node, [candidate]);
      else there.push(candidate);
    }
  }
  return [...onNode].flatMap(([node, there]) => {
    const left = cover.leftOn(node);
    const groups = new Groups(bounds);
    for (const candidate of there) {
      const bound = candidate.isUnbounded ? "unbounded" : "bounded";
      groups.add(groups.groupOf({ kind: candidate.run.kind, held: candidate.held }, bound), candidate);
    }
    const lacking = short.map((i) => (ask.need[i] as number) - (left[i] as number));
    const set = bestSet(groups, { ...bounds, lacking });
    return set === null ? [] : [set];
  });
}

function bestOfAll(sets: readonly VictimSet[], { bounds }: NodeField): VictimSet | null {
  let best: VictimSet | null = null;
  for (const set of sets) if (best === null || compareChoices(set, best, bounds) < 0) best = set;
  return best;
}

/** The lowest highest class, then what 10.5 says about sets of one class. */
function compareChoices(a: VictimSet, b: VictimSet, { nowMs }: Bounds): number {
  return highestClass(a) - highestClass(b) || compareSets(a, b, nowMs);
}

function highestClass(set: VictimSet): number {
  return Math.max(...set.map(({ preemptionClass }) => preemptionClass));
}

/** Class by class from below; every set has a member of the class, since those without one have been tried. */
function bestOfSeveral(candidates: readonly Candidate[], field: NodeField): VictimSet | null {
  const { nowMs } = field.bounds;
  const classes = [...new Set(candidates.map(({ preemptionClass }) => preemptionClass))].sort(
    (a, b) => a - b,
  );
  const search = new SetSearch(field);
  for (const highest of classes) {
    const allowed = candidates.filter(({ preemptionClass }) => preemptionClass <= highest);
    const sorted = narrowed(allowed, field).sort((a, b) => byCost(a, b, nowMs));
    const isTop = ({ preemptionClass }: Candidate) => preemptionClass === highest;
    const best = search.among(
      sorted.filter(isTop),
      sorted.filter((each) => !isTop(each)),
    );
    if (best !== null) return best;
  }
  return null;
}

/** Those on the nodes that are cheapest to clear, if there are too many to try them all. */
function narrowed(candidates: readonly Candidate[], field: NodeField): Candidate[] {
  if (candidates.length <= CANDIDATES_MAX) return [...candidates];
  const chosen = new Set<Candidate>();
  const sets = clearings(candidates, field).sort((a, b) => compareChoices(a, b, field.bounds));
  for (const set of sets) {
    for (const candidate of set) chosen.add(candidate);
    if (chosen.size >= CANDIDATES_MAX) break;
  }
  return [...chosen];
}

class SetSearch {
  readonly #field: NodeField;
  #setsLeft = SETS_MAX;
  #entries: readonly Candidate[] = [];
  #topCount = 0;
  /** The most nodes that one of the entries has. */
  #nodesMax = 0;
  readonly #chosen: Candidate[] = [];
  #best: VictimSet | null = null;

  constructor(field: NodeField) {
    this.#field = field;
  }

  /** The best set with at least one of `top`; both are sorted by cost. */
  among(top: readonly Candidate[], lower: readonly Candidate[]): VictimSet | null {
    this.#entries = [...top, ...lower];
    this.#topCount = top.length;
    this.#nodesMax = Math.max(0, ...this.#entries.map(({ run }) => run.nodes.length));
    this.#extend(0);
    return this.#best;
  }

  #extend(from: number): void {
    const { cover, bounds } = this.#field;
    const slots = bounds.victimsMax - this.#chosen.length;
    if (cover.missing > slots * this.#nodesMax) return;
    const end = this.#chosen.length === 0 ? this.#topCount : this.#entries.length;
    for (let i = from; i < end && this.#setsLeft > 0; i++) {
      const candidate = this.#entries[i] as Candidate;
      if (!cover.isHelpedBy(candidate.run)) continue;
      this.#setsLeft--;
      this.#chosen.push(candidate);
      cover.take(candidate.run);
      if (cover.isEnough) this.#consider();
      else if (slots > 1 && isAffordable(this.#chosen, bounds)) this.#extend(i + 1);
      cover.putBack(candidate.run);
      this.#chosen.pop();
    }
  }

  #consider(): void {
    const { cover, bounds } = this.#field;
    const isNeeded = ({ run }: Candidate) => {
      cover.putBack(run);
      const isMissed = !cover.isEnough;
      cover.take(run);
      return isMissed;
    };
    if (!isAffordable(this.#chosen, bounds) || !this.#chosen.every(isNeeded)) return;
    if (this.#best !== null && compareSets(this.#chosen, this.#best, bounds.nowMs) >= 0) return;
    this.#best = [...this.#chosen];
  }
}

/** What is taken back is not bounded by number: by class, cost and start until it fits (10.5). */
function beyondVictimsMax(candidates: readonly Candidate[], { cover, bounds }: NodeField): VictimSet | null {
  const unbounded = candidates
    .filter(({ isUnbounded }) => isUnbounded)
    .sort((a, b) => a.preemptionClass - b.preemptionClass || byCost(a, b, bounds.nowMs));
  const taken: Candidate[] = [];
  for (const candidate of unbounded) {
    if (!cover.isHelpedBy(candidate.run)) continue;
    taken.push(candidate);
    cover.take(candidate.run);
    if (cover.isEnough) break;
  }
  const chosen = cover.isEnough ? spareFrom(taken, cover) : null;
  for (const { run } of chosen ?? taken) cover.putBack(run);
  return chosen;
}
