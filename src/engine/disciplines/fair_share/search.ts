// What a preemptive stage knows of its pool (9.7, 9.8): who may be taken where, and for whom it could do nothing. It is
// kept with the tree, so that a look searches again only for those who stand otherwise, and only in places that changed.
//
// Invariants (checked by `checks.ts`)
//   1. A place that is not stale is as a new one would be.
//   2. Peers with the right to the stage have a hope, or are in vain: then no search for them would find anything, as
//      long as nobody's fair share leaves its margin. What depends on more than them and the places (limits, the guard
//      of V6) is never put down as vain.

import { covers } from "../../placement/node-list.ts";
import { compareIds } from "../../resources.ts";
import { isMature, isShielded } from "../../scheduling/victims.ts";
import { SortedList } from "../../sorted-list.ts";
import { freeOf, type Node, type Pool, type Run } from "../../state.ts";
import type { AllocationGroup } from "./allocation-groups.ts";
import {
  type Allocation,
  allocationsIn,
  byPreference,
  groupsIn,
  isTakeable,
  unitsOn,
} from "./allocations.ts";
import { operationWith, runsIn } from "./entries.ts";
import { forgetMargin, marginIn } from "./margins.ts";
import { isServedBy, type Need } from "./needs.ts";
import { satisfactionOf } from "./order.ts";
import { fraction, isShareAbove, satisfaction } from "./satisfaction.ts";
import type { Branch, Operation, Peers, PoolTree, Right } from "./tree.ts";

export type Stage = "preemptive" | "aggressive";

export const STAGES: readonly Stage[] = ["preemptive", "aggressive"];

export const RIGHT_FOR: Readonly<Record<Stage, Right>> = { preemptive: 1, aggressive: 2 };

/** Where victims may make room: a node, or a pool without nodes. */
export interface Place {
  /** Null in a pool without nodes. */
  readonly node: Node | null;
  /** In the order in which they are taken: less protected groups first, the newest of each first. */
  readonly candidates: readonly Allocation[];
  /** What is left when everything has ended that stops for nobody, and what would be without the candidates, too. */
  readonly left: readonly number[];
  readonly most: readonly number[];
  /** Who would lose them, as it stood then, and the least that it may be owed before it leaves its margin. */
  readonly losers: readonly Loser[];
  /**
   * No operation keeps a higher satisfaction when it loses one of the candidates, as long as all shares stay within their
   * margins: who has more takes nobody.
   */
  readonly best: number;
  /** Until when the back-off lasts here. */
  readonly backoffEndMs: number;
  /** When time alone changes it; infinite: never. */
  readonly dueMs: number;
}

interface Loser {
  readonly peers: Peers;
  readonly low: readonly number[];
}

/** Places, by their nodes; null: any. */
export type Where = Set<Node | null> | null;

export class Search {
  readonly stage: Stage;
  /** Where it may do something for peers; those with the right that are not in here are in vain. */
  readonly hopes = new Map<Peers, Where>();
  readonly #pool: Pool;
  readonly #tree: PoolTree;
  readonly #places = new Map<Node | null, Place>();
  /** Places where a run may be taken, the highest `best` first. */
  readonly #givers = new SortedList<Place>(byBest);
  readonly #due = new SortedList<Place>(byDue);
  readonly #stale = new Set<Node | null>();
  /** All peers with the right and less than all hope; perhaps some others. */
  readonly #doubtful = new Set<Peers>();
  #nowMs = Number.NEGATIVE_INFINITY;

  constructor(stage: Stage, pool: Pool, tree: PoolTree) {
    this.stage = stage;
    this.#pool = pool;
    this.#tree = tree;
    if (pool.record.nodeBacked) for (const node of pool.nodes.values()) this.note(node);
    else this.note(null);
    for (const peers of tree.waiting) if (hasRight(stage, peers)) this.hopes.set(peers, null);
  }

  /** Whether what it knows may be used at a time: it knows nothing of earlier ones. */
  isOf(nowMs: number): boolean {
    return nowMs >= this.#nowMs;
  }

  /** Something about a place changed. */
  note(node: Node | null): void {
    if (node !== null || !this.#pool.record.nodeBacked) this.#stale.add(node);
  }

  /**
   * Takes over what has changed, and gives hope to those who may find something there now; false: the time was up after
   * some of it, and the next call goes on.
   */
  renew(nowMs: number, isTimeUp: () => boolean = () => false): boolean {
    this.#nowMs = nowMs;
    for (const place of this.#due) {
      if (place.dueMs > nowMs) break;
      this.#stale.add(place.node);
    }
    for (const node of this.#stale) {
      const before = this.#places.get(node);
      const place = this.#replace(node);
      this.#stale.delete(node);
      if (place !== undefined && !isNoBetter(place, before, nowMs)) this.#giveHope(place);
      if (this.#stale.size > 0 && isTimeUp()) return false;
    }
    return true;
  }

  #replace(node: Node | null): Place | undefined {
    const before = this.#places.get(node);
    if (before !== undefined) {
      if (before.candidates.length > 0) this.#givers.remove(before);
      if (before.dueMs < Number.POSITIVE_INFINITY) this.#due.remove(before);
      this.#places.delete(node);
    }
    if (node !== null && (node.record.state !== "ready" || this.#pool.nodes.get(node.record.name) !== node))
      return undefined;
    const place = this.#placeOf(node);
    this.#places.set(node, place);
    if (place.candidates.length > 0) this.#givers.insert(place);
    if (place.dueMs < Number.POSITIVE_INFINITY) this.#due.insert(place);
    return place;
  }

  #placeOf(node: Node | null): Place {
    const candidates: Allocation[] = [];
    const left = leftSoon(this.#pool, this.#tree, node);
    const most = [...left];
    const backoffEndMs = this.#backoffEndMs(node);
    let dueMs = backoffEndMs > this.#nowMs ? backoffEndMs : Number.POSITIVE_INFINITY;
    for (const run of node === null ? this.#runs() : node.runs) {
      const candidate = this.#candidateFor(run);
      if (candidate === undefined) continue;
      const fromMs = this.#takeableFromMs(run);
      if (fromMs > this.#nowMs) {
        dueMs = Math.min(dueMs, fromMs);
        continue;
      }
      candidates.push(candidate);
      const units = unitsOn(run, node);
      for (let i = 0; i < units.length; i++) most[i]! += units[i]!;
    }
    candidates.sort(byPreference);
    const losers = candidates.map(({ operation }) => {
      const peers = operation.peers as Peers;
      return { peers, low: marginIn(this.#pool, this.#tree, peers).low };
    });
    let best = Number.NEGATIVE_INFINITY;
    for (const [index, { low }] of losers.entries())
      best = Math.max(best, satisfactionWithout(this.#tree, candidates[index]!, low));
    return { node, candidates, losers, left, most, best, backoffEndMs, dueMs };
  }

  /** Everything that runs in the pool, of peers that have a run to lose. */
  *#runs(): Generator<Run> {
    for (const peers of this.#tree.running) {
      if (!this.#mayLose(peers)) continue;
      for (const operation of peers.operations) {
        if (operation.right === 0) yield* allocationsIn(this.#pool, this.#tree, operation).keys();
      }
    }
  }

  #mayLose(peers: Peers): boolean {
    return groupsIn(this.#pool, this.#tree, peers).some((group) => mayTake(this.stage, peers, group));
  }

  /** Its allocation, if the stage may take it, perhaps later (9.5, 9.8, V2). */
  #candidateFor(run: Run): Allocation | undefined {
    const operation = operationWith(this.#tree, run.request);
    if (operation === undefined || run.isStopping || operation.right > 0 || !isTakeable(run))
      return undefined;
    const peers = operation.peers as Peers;
    if (!this.#mayLose(peers)) return undefined;
    const allocation = allocationsIn(this.#pool, this.#tree, operation).get(run) as Allocation;
    return mayTake(this.stage, peers, allocation.group) ? allocation : undefined;
  }

  /** From when on it may be taken: it must have run long enough, and a shield must be over (V2, V6). */
  #takeableFromMs(run: Run): number {
    if (isMature(run, this.#pool, this.#nowMs) && !isShielded(run.kind, this.#nowMs)) return this.#nowMs;
    return Math.max(run.startedAtMs + this.#pool.record.settings.minRuntimeMs, run.kind.shieldEndsAtMs);
  }

  #backoffEndMs(node: Node | null): number {
    const startedAtMs = this.#pool.preemptiveStartAtMs.get(node?.record.name ?? "");
    return startedAtMs === undefined
      ? Number.NEGATIVE_INFINITY
      : startedAtMs + this.#pool.record.settings.preemptiveBackoffMs;
  }

  #giveHope(place: Place): void {
    const { leastUnits } = this.#tree;
    if (!covers(this.#mostIn(place), leastUnits)) return; // As mostly: nobody is served there.
    for (const peers of this.#doubtful) {
      if (this.hopes.get(peers) === null || !hasRight(this.stage, peers)) this.#doubtful.delete(peers);
      else if (peers.needs.some((need) => this.#mayFind(place, peers, need))) this.#hopeAt(peers, place.node);
    }
  }

  #mayFind(place: Place, peers: Peers, need: Need): boolean {
    return this.#mayServe(place, need) && (hasRoom(place, need) || this.#isRicher(place, peers));
  }

  #mayServe(place: Place, need: Need): boolean {
    return covers(this.#mostIn(place), need.units) && isServedBy(need, place.node);
  }

  /** What a place could give at most, if nobody starts there before its back-off is over. */
  #mostIn({ backoffEndMs, left, most }: Place): readonly number[] {
    return backoffEndMs > this.#nowMs ? left : most;
  }

  #hopeAt(peers: Peers, node: Node | null): void {
    const where = this.hopes.get(peers);
    if (where) where.add(node);
    else this.hopes.set(peers, new Set([node]));
  }

  /** They stand otherwise than before, so nothing is known of them. Who gets the right later gets hope with it. */
  hopeAnywhere(peers: Peers): void {
    if (peers.waitingCount > 0 && hasRight(this.stage, peers)) this.hopes.set(peers, null);
    else this.hopes.delete(peers);
  }

  /** They have gone. */
  forget(peers: Peers): void {
    this.hopes.delete(peers);
    this.#doubtful.delete(peers);
  }

  /** Whether a search for one of the peers may find something. */
  mayHope(peers: Peers): boolean {
    return this.hopes.has(peers) && hasRight(this.stage, peers);
  }

  /**
   * A search for one of the peers found nothing, and will not but in some places, unless shares leave their margins; null:
   * it may in any. They differ only in their runs, and nobody may take runs of those who have what it has itself (9.8).
   */
  giveUp(peers: Peers, near: Where): void {
    if (near === null) return;
    this.#doubtful.add(peers);
    if (near.size > 0) this.hopes.set(peers, near);
    else this.hopes.delete(peers);
  }

  /** When time alone changes some place; infinite: never. */
  nextDueMs(): number {
    return this.#due.first()?.dueMs ?? Number.POSITIVE_INFINITY;
  }

  /** Places where a request of the peers may find room for one node's part, with victims or without. */
  *placesFor(peers: Peers, need: Need): Generator<Place> {
    const where = this.hopes.get(peers) ?? null;
    if (where !== null && need.ask?.count === 1) {
      for (const node of where) {
        const place = this.#places.get(node);
        if (place !== undefined && this.#isRicher(place, peers) && this.#mayServe(place, need)) yield place;
      }
      return;
    }
    for (const place of this.#givers) {
      if (!this.#isRicher(place, peers)) return;
      if (this.#mayServe(place, need)) yield place;
    }
  }

  /** Whether an operation there may have more than the peers, even without one of its runs. */
  #isRicher({ best }: Place, peers: Peers): boolean {
    return isHigher(best, marginIn(this.#pool, this.#tree, peers).satisfactionMin);
  }

  placeOn(node: Node | null): Place | undefined {
    return this.#places.get(node);
  }

  /** How what is kept differs from what a new search would know; for checks. */
  *violations(): Generator<string> {
    for (const [node, place] of this.#places) {
      if (this.#stale.has(node)) continue;
      const [kept, fresh] = [place, this.#placeOf(node)].map(describePlace);
      const where = `${this.stage} place ${node?.record.name ?? ""}`;
      if (kept !== fresh) yield `${where} is kept as ${kept} instead of ${fresh}`;
      const best = bestIn(this.#tree, place);
      if (best > place.best) yield `${where} has ${best}, more than ${place.best}`;
    }
  }
}

/** Whether nobody finds anything in a place that was not there before, at a time at which it would have been the same. */
function isNoBetter(place: Place, before: Place | undefined, nowMs: number): boolean {
  if (before === undefined || before.dueMs <= nowMs || place.backoffEndMs < before.backoffEndMs) return false;
  if (!covers(before.left, place.left) || !covers(before.most, place.most)) return false;
  return place.candidates.every(({ run, group }, index) => {
    const at = before.candidates.findIndex((candidate) => candidate.run === run);
    if (at < 0 || before.candidates[at]!.group !== group) return false;
    return isNoRicher(place.losers[index]!, before.losers[at]!);
  });
}

/** Whether an operation that loses runs keeps no more of its share, nor a higher satisfaction, than it did. */
function isNoRicher(loser: Loser, before: Loser): boolean {
  const [now, then] = [loser.peers, before.peers];
  return loser.low.every(
    (share, key) =>
      share >= before.low[key]! &&
      now.usage[key] === then.usage[key] &&
      isShareAbove(now.demandShare[key]!, share) === isShareAbove(then.demandShare[key]!, before.low[key]!),
  );
}

export function hasRight(stage: Stage, { aggressiveCount, starvingCount, leaf }: Peers): boolean {
  const own = aggressiveCount > 0 ? 2 : starvingCount > 0 ? 1 : 0;
  return Math.max(own, inheritedRight(leaf.parent)) >= RIGHT_FOR[stage];
}

/** What starving groups and policies pass on to the operations below a branch (9.4), as of the last look. */
export function inheritedRight(branch: Branch): Right {
  let right: Right = 0;
  for (let each: Branch | null = branch; each !== null; each = each.parent)
    if (each.right > right) right = each.right;
  return right;
}

/** Whether an operation there has more than the peers now, even without one of its runs. */
export function isRicherNow(tree: PoolTree, place: Place, peers: Peers): boolean {
  return isHigher(bestIn(tree, place), satisfactionOf(peers));
}

/** The highest satisfaction that an operation keeps when it loses one of the candidates, as shares are now. */
function bestIn(tree: PoolTree, { candidates }: Place): number {
  let best = Number.NEGATIVE_INFINITY;
  for (const candidate of candidates) {
    const { fairShare } = candidate.operation.peers as Peers;
    best = Math.max(best, satisfactionWithout(tree, candidate, fairShare));
  }
  return best;
}

function hasRoom({ left }: Place, { units }: Need): boolean {
  return covers(left, units);
}

/** Whether a satisfaction, or a part of a fair share, is higher than another one (9.8). */
export function isHigher(ratio: number, other: number): boolean {
  return (
    other < Number.POSITIVE_INFINITY && (ratio === Number.POSITIVE_INFINITY || isShareAbove(ratio, other))
  );
}

export function mayTake(stage: Stage, { settings }: Peers, group: AllocationGroup): boolean {
  if (group === "preemptible") return true;
  return group === "aggressively_preemptible" && stage === "aggressive" && settings.allowAggressivePreemption;
}

/** What is left when everything has ended that stops for nobody. */
function leftSoon(pool: Pool, { promises }: PoolTree, node: Node | null): readonly number[] {
  // As it is now: places are compared with what was.
  if (node !== null) return node.left.map((amount, i) => amount + node.stopping[i]!);
  return pool.keys.map((_, i) => freeOf(pool, i) + pool.stopping[i]! - promises.claimed[i]!);
}

/** The satisfaction that is left to an operation if it loses one run; with more of them it is not higher. */
function satisfactionWithout(
  { keys, total }: PoolTree,
  { operation, run }: Allocation,
  fairShare: readonly number[],
): number {
  const { usage: units, demandShare: demand } = operation.peers as Peers;
  const usage = keys.map((key, i) => fraction(units[i]! - run.poolLine.need[key]!, total[i]!));
  return satisfaction({ usage, demand, fairShare });
}

function byBest(a: Place, b: Place): number {
  return a.best === b.best ? byPlace(a, b) : a.best > b.best ? -1 : 1;
}

function byDue(a: Place, b: Place): number {
  return a.dueMs - b.dueMs || byPlace(a, b);
}

/** By name. */
export function byPlace(a: Place, b: Place): number {
  return compareIds(a.node?.record.name ?? "", b.node?.record.name ?? "");
}

function describePlace({ candidates, left, most, backoffEndMs, dueMs }: Place): string {
  const runs = candidates.map(({ run, group, freshness }) => `${run.token} ${group} ${freshness}`);
  return `${runs}; ${left}; ${most}; ${backoffEndMs}; ${dueMs}`;
}

/** The runs of an operation are others, or protected otherwise, than before: so are the places where they are. */
export function noteRuns({ searches }: PoolTree, { lines }: Operation): void {
  for (const stage of STAGES) {
    const search = searches[stage];
    if (search === null) continue;
    search.note(null);
    for (const entry of lines) {
      for (const { nodes } of runsIn(entry)) for (const node of nodes) search.note(node);
    }
  }
}

/** The fair share of peers has left its margin: so may the protection of their runs, and what they may hope for. */
export function leaveMargin(pool: Pool, tree: PoolTree, peers: Peers): void {
  const { groups, margin: before } = peers;
  forgetMargin(peers);
  const margin = marginIn(pool, tree, peers);
  if (!margin.coversGroups) return; // Nobody searches.
  if (peers.runCount > 0) {
    const now = groupsIn(pool, tree, peers);
    const isSame = groups !== null && now.every((group, index) => group === groups[index]);
    if (isSame) peers.groups = groups; // Lists of allocations refer to it.
    // Runs that nobody may take, neither before nor now, are on no place's list.
    const isListed = groups === null || mayLose(tree, peers, groups) || mayLose(tree, peers, now);
    const isAsListed = isSame && before !== null && !isLess(margin.low, before.low);
    if (isListed && !isAsListed) for (const operation of peers.operations) noteRuns(tree, operation);
  }
  // Who is owed no more than when a search was in vain may take nobody who was safe from it then (9.8).
  if (before === null || isLess(before.high, margin.high)) hopeFor(tree, peers);
}

/** Whether one share is less than another on some key. */
function isLess(a: readonly number[], b: readonly number[]): boolean {
  return a.some((share, key) => share < b[key]!);
}

/** Whether some search may take runs of these groups. */
function mayLose({ searches }: PoolTree, peers: Peers, groups: readonly AllocationGroup[]): boolean {
  return STAGES.some(
    (stage) => searches[stage] !== null && groups.some((group) => mayTake(stage, peers, group)),
  );
}

export function hopeFor({ searches }: PoolTree, peers: Peers): void {
  searches.preemptive?.hopeAnywhere(peers);
  searches.aggressive?.hopeAnywhere(peers);
}
