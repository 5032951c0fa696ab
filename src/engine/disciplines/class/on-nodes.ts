// Victims on nodes (N2, 10.5): of the minimal sets that make a placement possible, the best.
//
// Where one more node needs room, a minimal set lies on that node alone, so every node is a small search of its own
// and the best of their choices is the best of all. Runs are walked from the cheapest on, and each brings its nodes
// into the search; the walk ends when no node without one of them could do better. Where several nodes need
// room, sets are tried one by one, of at most `CANDIDATES_MAX` candidates.

import type { Ask } from "../../placement/room.ts";
import { mayServe } from "../../placement/room.ts";
import { coverFor, type NodeCover } from "../../scheduling/cover.ts";
import { hasDisplaced, isMature, spareFrom } from "../../scheduling/victims.ts";
import type { Node, Run, RunKind } from "../../state.ts";
import type { VictimSearch } from "../queue/queue-discipline.ts";
import { type Permission, permitOf } from "./candidates.ts";
import { type Bounds, bestSet, byCost, type Candidate, compareSets, Groups, isAffordable } from "./choice.ts";
import { costOf, isClearlyMore, leastCostSince, product, totalMs } from "./cost.ts";

/** With three victims these make fewer than 50 000 sets. */
const CANDIDATES_MAX = 64;
/** The most sets, whole or unfinished, that one search looks at. */
const SETS_MAX = 100_000;

type VictimSet = readonly Candidate[];

export interface Chosen {
  readonly victims: VictimSet;
  /** Where the head will go; in a pool without nodes nowhere. */
  readonly nodes: readonly Node[];
}

export function chooseOnNodes(
  search: VictimSearch,
  permissions: readonly Permission[],
  bounds: Bounds,
): Chosen | null {
  if (permissions.length === 0) return null;
  const field = new NodeField(search, permissions, bounds);
  const victims = bestByClass(field) ?? beyondVictimsMax(field);
  if (victims === null) return null;
  for (const { run } of victims) field.cover.take(run);
  return { victims, nodes: field.cover.places() };
}

/** Class by class from below, because the lowest highest class comes first. */
function bestByClass(field: NodeField): VictimSet | null {
  for (const highest of field.classes()) {
    const perNodeMin = field.victimsPerNodeMin(highest);
    if (perNodeMin === null || field.cover.missing > field.bounds.victimsMax * field.nodesMax(highest))
      continue;
    const best =
      field.cover.missing === 1
        ? bestOfOneNode(field, highest, perNodeMin)
        : bestOfSeveralNodes(field, highest);
    if (best !== null) return best;
  }
  return null;
}

/** What one search is about. */
class NodeField {
  readonly search: VictimSearch;
  readonly bounds: Bounds;
  readonly cover: NodeCover;
  readonly ask: Ask;
  readonly permissions: readonly Permission[];
  readonly #permissionOf: ReadonlyMap<RunKind, Permission>;
  /** Indices of the keys that the head asks for; candidates hold amounts per node in the same order. */
  readonly #keys: readonly number[];

  constructor(search: VictimSearch, permissions: readonly Permission[], bounds: Bounds) {
    this.search = search;
    this.bounds = bounds;
    this.ask = search.head.poolLine.ask as Ask;
    this.cover = coverFor(search) as NodeCover;
    this.permissions = permissions;
    this.#permissionOf = new Map(permissions.map((permission) => [permission.kind, permission]));
    this.#keys = this.ask.need.flatMap((amount, i) => (amount > 0 ? [i] : []));
  }

  classes(): number[] {
    return [...new Set(this.permissions.map(classOf))].sort((a, b) => a - b);
  }

  upTo(highest: number): Permission[] {
    return this.permissions.filter((permission) => classOf(permission) <= highest);
  }

  /** How many must go at least for a node to get room, if each held the most that any holds; null: too many. */
  victimsPerNodeMin(highest: number): number | null {
    const kinds = this.upTo(highest).map(({ kind }) => (kind.poolLine.ask as Ask).need);
    const most = this.ask.need.map((_, i) => Math.max(...kinds.map((need) => need[i] as number)));
    for (let count = 1; count <= this.bounds.victimsMax; count++) {
      const rest = this.ask.need.map((amount, i) => Math.max(0, amount - count * (most[i] as number)));
      if (this.cover.couldServe(rest)) return count;
    }
    return null;
  }

  /** The most nodes that one victim has. */
  nodesMax(highest: number): number {
    return Math.max(...this.upTo(highest).map(({ kind }) => kind.poolLine.line.shape.nodes));
  }

  /** A run with its price, if it may be taken. */
  candidateOf(run: Run): Candidate | null {
    const { state, pool, head, nowMs } = this.search;
    const permission = run.isStopping ? undefined : this.#permissionOf.get(run.kind);
    if (permission === undefined || run.token < permission.from || !isMature(run, pool, nowMs)) return null;
    const permit = permitOf(run, permission, nowMs);
    if (permit === null || hasDisplaced(state, run.request.spec.id, head.request.spec.id)) return null;
    const { need } = run.poolLine.ask as Ask;
    const held = this.#keys.map((i) => need[i] as number);
    return { run, ...costOf(run, nowMs), ...permit, held, preemptionClass: run.poolLine.preemptionClass };
  }

  /** The nodes of a run that are of use and have not been seen. */
  newNodes({ nodes }: Run, seen: Set<Node>): Node[] {
    const fresh = nodes.filter((node) => !seen.has(node) && mayServe(node, this.ask));
    for (const node of fresh) seen.add(node);
    return fresh;
  }

  /** The best set that gives a node room. */
  clearing(node: Node, highest: number): VictimSet | null {
    const left = this.cover.leftOn(node);
    const groups = new Groups(this.bounds);
    for (const run of node.runs) {
      const candidate = this.candidateOf(run);
      if (candidate === null || candidate.preemptionClass > highest) continue;
      const bound = candidate.isUnbounded ? "unbounded" : "bounded";
      groups.add(groups.groupOf({ kind: run.kind, held: candidate.held }, bound), candidate);
    }
    const lacking = this.#keys.map((i) => (this.ask.need[i] as number) - (left[i] as number));
    return bestSet(groups, { ...this.bounds, lacking });
  }

  /** Runs of the kinds up to a class by what they cost at least, among equals the latest first. */
  *cheapestFirst(highest: number): Generator<{ readonly run: Run; readonly leastMs: number }> {
    const { pool, nowMs } = this.search;
    const sources = this.upTo(highest).map(({ kind, from }) => {
      const runs = kind.runs.backwards((run) => isMature(run, pool, nowMs));
      return { runs, from, ...nextOf(runs, from, nowMs) };
    });
    for (;;) {
      const next = sources.reduce((best, source) => (isBefore(source, best) ? source : best));
      if (next.run === undefined) return;
      yield { run: next.run, leastMs: next.leastMs };
      Object.assign(next, nextOf(next.runs, next.from, nowMs));
    }
  }
}

interface Next {
  readonly run: Run | undefined;
  readonly leastMs: number;
}

function isBefore(a: Next, b: Next): boolean {
  return a.leastMs === b.leastMs ? (a.run?.token ?? -1) > (b.run?.token ?? -1) : a.leastMs < b.leastMs;
}

function nextOf(runs: Iterator<Run>, from: number, nowMs: number): Next {
  const { value, done } = runs.next();
  if (done || value.token < from) return { run: undefined, leastMs: Number.POSITIVE_INFINITY };
  return { run: value, leastMs: leastCostSince(value, nowMs) };
}

function classOf({ kind }: Permission): number {
  return kind.poolLine.preemptionClass;
}

function bestOfOneNode(field: NodeField, highest: number, perNodeMin: number): VictimSet | null {
  const { bounds } = field;
  const seen = new Set<Node>();
  let best: VictimSet | null = null;
  for (const { run, leastMs } of field.cheapestFirst(highest)) {
    if (isBeyondBest(field, best, run, perNodeMin, perNodeMin * leastMs)) break;
    for (const node of field.newNodes(run, seen)) {
      const set = field.clearing(node, highest);
      if (set !== null && (best === null || compareSets(set, best, bounds.nowMs) < 0)) best = set;
    }
  }
  return best;
}

/**
 * Whether no node that none of the walked runs is on has a better set: one of so many victims at least, which cost
 * so much at least, and which began no later than `next` if they cost no more than that.
 */
function isBeyondBest(
  { bounds, permissions }: NodeField,
  best: VictimSet | null,
  next: Run,
  sizeMin: number,
  costMsMin: number,
): boolean {
  if (best === null) {
    const isBounded = permissions.every(({ unboundedFrom }) => unboundedFrom === Number.POSITIVE_INFINITY);
    return isBounded && isClearlyMore(costMsMin, product(bounds.value));
  }
  const costMs = totalMs(best);
  if (isClearlyMore(costMsMin, costMs)) return true;
  if (costMsMin !== costMs || !best.every(({ isExact }) => isExact)) return false;
  return sizeMin > best.length || (sizeMin === best.length && best.some(({ run }) => run.token > next.token));
}

function bestOfSeveralNodes(field: NodeField, highest: number): VictimSet | null {
  const { nowMs } = field.bounds;
  const sorted = candidatesOnNodes(field, highest).sort((a, b) => byCost(a, b, nowMs));
  const isTop = ({ preemptionClass }: Candidate) => preemptionClass === highest;
  return new SetSearch(field).among(
    sorted.filter(isTop),
    sorted.filter((each) => !isTop(each)),
  );
}

/** All candidates if they are few; otherwise those that clear the nodes of the cheapest and latest runs. */
function candidatesOnNodes(field: NodeField, highest: number): Candidate[] {
  const all: Candidate[] = [];
  for (const { run } of field.cheapestFirst(highest)) {
    const candidate = field.cover.isHelpedBy(run) ? field.candidateOf(run) : null;
    if (candidate !== null) all.push(candidate);
    if (all.length > CANDIDATES_MAX) break;
  }
  if (all.length <= CANDIDATES_MAX) return all;
  const chosen = new Map<Run, Candidate>();
  const seen = new Set<Node>();
  for (const { run } of field.cheapestFirst(highest)) {
    const sets = field.newNodes(run, seen).map((node) => field.clearing(node, highest) ?? []);
    for (const candidate of sets.flat()) chosen.set(candidate.run, candidate);
    if (chosen.size >= CANDIDATES_MAX) break;
  }
  return [...chosen.values()];
}

/** Tries sets one by one; each has a member of the highest class, since those without one have been tried. */
class SetSearch {
  readonly #field: NodeField;
  #setsLeft = SETS_MAX;
  #entries: readonly Candidate[] = [];
  #topCount = 0;
  #nodesMax = 0;
  readonly #chosen: Candidate[] = [];
  #best: VictimSet | null = null;
  #bestMs = Number.POSITIVE_INFINITY;

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
      const costMs = totalMs(this.#chosen) + candidate.costMs;
      if (!cover.isHelpedBy(candidate.run) || isClearlyMore(costMs, this.#bestMs)) continue;
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
    this.#bestMs = totalMs(this.#best);
  }
}

/** What is taken back is not bounded by number: by class, cost and start until it fits (10.5). */
function beyondVictimsMax(field: NodeField): VictimSet | null {
  const { cover, bounds, search, permissions } = field;
  const unbounded: Candidate[] = [];
  for (const { kind, unboundedFrom } of permissions) {
    if (unboundedFrom === Number.POSITIVE_INFINITY) continue;
    for (const run of kind.runs.backwards((each) => isMature(each, search.pool, bounds.nowMs))) {
      if (run.token < unboundedFrom) break;
      const candidate = cover.isHelpedBy(run) ? field.candidateOf(run) : null;
      if (candidate?.isUnbounded) unbounded.push(candidate);
    }
  }
  unbounded.sort((a, b) => a.preemptionClass - b.preemptionClass || byCost(a, b, bounds.nowMs));
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
