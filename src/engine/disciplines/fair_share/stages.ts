// The stages of service in a fair-share pool (9.7, 9.9, 9.11): what one look at the pool finds to do.

import { memoised } from "../../memoised.ts";
import { covers } from "../../placement/node-list.ts";
import { mayServe } from "../../placement/room.ts";
import { Promises, quotaBlockOf } from "../../scheduling/quotas.ts";
import type { EngineState, Group, Node, Policy, Pool, PoolLine, Request } from "../../state.ts";
import type { Transaction } from "../../transaction.ts";
import type { VictimChoice, Waiter } from "../discipline.ts";
import { type Allocation, unitsOn } from "./allocations.ts";
import { type Holds, holdsOf, isServed } from "./holds.ts";
import { type Need, noteGrowth } from "./needs.ts";
import { forgetFindings } from "./operations.ts";
import { inOrder } from "./order.ts";
import { excessOn, lookForOvercommit, overcommittedFor } from "./overcommit.ts";
import { byPlace, inheritedRight, type Place, RIGHT_FOR, Search, STAGES, type Stage } from "./search.ts";
import { Misfits, type Space, spaceOf } from "./space.ts";
import { Evaluation } from "./starvation.ts";
import { SHARE_EPSILON } from "./tolerances.ts";
import { type LineEntry, type Operation, type Peers, type PoolTree, shareTreeOf } from "./tree.ts";
import {
  chooseOver,
  chooseVictims,
  describeChoice,
  isBelow,
  type SearchRound,
  type Starving,
} from "./victims.ts";

/** A starving request that a preemptive stage serves. */
export interface Service {
  readonly waiter: Waiter;
  readonly shortage: readonly number[];
  /** Null: free units and units that stop for nobody are enough. */
  readonly choice: VictimChoice | null;
}

export interface ShareLook {
  /** The first request that the regular stage can serve, or whose hold has all its units. */
  readonly grant: Waiter | undefined;
  /** Whom a limit that is enforced sends away. */
  readonly enforcement: VictimChoice | undefined;
  /** The first request that a preemptive stage can serve. */
  readonly service: Service | undefined;
  /** Until when time alone changes nothing. */
  readonly untilMs: number;
}

/**
 * Looks at shares and statuses, which is an evaluation, and then at the stages one after another. Null: the time was up
 * before the searches had taken over what changed.
 */
export function lookAtShares(transaction: Transaction, pool: Pool): ShareLook | null {
  const { state, nowMs, isTimeUp } = transaction;
  const tree = shareTreeOf(state, pool);
  const overcommitUntilMs = lookForOvercommit(transaction, pool, !tree.isLookedAt);
  const moved = new Set(Array.from(tree.moved, ({ peers }) => peers as Peers));
  const evaluation = new Evaluation(transaction, pool, tree);
  if (!takeOverChanges(pool, tree, nowMs, isTimeUp)) {
    evaluation.finish(false);
    forgetFindings(tree);
    return null;
  }
  const stages = new Stages(state, pool, tree, nowMs, moved);
  const grant = stages.findGrant();
  const enforcement = grant === undefined ? stages.findEnforcement() : undefined;
  const isBusy = grant !== undefined || enforcement !== undefined;
  const service = isBusy ? undefined : stages.findService();
  const untilMs = evaluation.finish(!isBusy && service === undefined);
  return {
    grant,
    enforcement,
    service,
    untilMs: Math.min(untilMs, overcommitUntilMs, stages.backoffEndMs()),
  };
}

export class Stages {
  readonly #pool: Pool;
  readonly #tree: PoolTree;
  readonly #nowMs: number;
  readonly #round: SearchRound;
  /** What is promised, and what is left beside it. */
  readonly #holds: Holds;
  readonly #space: Space;
  /** Those with an operation that stands otherwise than at the last look. */
  readonly #moved: ReadonlySet<Peers>;
  /** Searches for victims everywhere that found nobody, by all that they depend on. */
  readonly #vain = new Set<string>();
  /** Asks that no node could serve, whoever may be taken there. */
  readonly #tooMuch: Readonly<Record<Stage, Misfits>> = {
    preemptive: new Misfits(),
    aggressive: new Misfits(),
  };
  readonly #services = new Map<Operation, Map<Stage, Service | undefined>>();

  constructor(state: EngineState, pool: Pool, tree: PoolTree, nowMs: number, moved: ReadonlySet<Peers>) {
    this.#pool = pool;
    this.#tree = tree;
    this.#nowMs = nowMs;
    this.#round = { state, pool, tree, nowMs, barred: new Set() };
    tree.holds ??= holdsOf(pool);
    this.#holds = tree.holds;
    this.#space = spaceOf(pool, tree.holds);
    this.#moved = moved;
  }

  // --- regular ---------------------------------------------------------------------------------------

  findGrant(): Waiter | undefined {
    return this.#servedHold() ?? this.#regular();
  }

  /** Units that are free go to the holds in the order of the decisions. */
  #servedHold(): Waiter | undefined {
    const { list } = this.#holds;
    for (const [place, held] of list.entries()) {
      if (!isServed(this.#pool, held)) continue;
      const { request, poolLine, nodes } = held;
      const before = new Promises(this.#pool.keys.length);
      for (const earlier of list.slice(0, place)) before.add(earlier.poolLine);
      if (quotaBlockOf(poolLine, before, () => poolLine.ask !== null) !== null) continue;
      return { ...waiterOf(request, poolLine, "here"), nodes };
    }
    return undefined;
  }

  /** Everyone, on free units; but nobody behind a starving operation that a preemptive stage could serve now. */
  #regular(): Waiter | undefined {
    const { hasNewRoom } = this.#tree;
    // As long as no units have come free, nobody fits who did not at the last look.
    const fits = memoised(
      (peers: Peers) =>
        peers.waitingCount > 0 &&
        (hasNewRoom || this.#moved.has(peers)) &&
        this.#firstThatFits(peers.operations.first() as Operation) !== undefined,
    );
    this.#tree.hasNewRoom = some(this.#mayFit(hasNewRoom), fits);
    if (!this.#tree.hasNewRoom) return undefined;
    const matters = (peers: Peers) => fits(peers) || STAGES.some((stage) => this.#mayHope(stage, peers));
    const among = [
      ...this.#mayFit(hasNewRoom),
      ...this.#hopeful("preemptive"),
      ...this.#hopeful("aggressive"),
    ];
    for (const operation of inOrder(this.#tree, { among, isAskedFor: matters })) {
      if (fits(operation.peers as Peers)) {
        const waiter = this.#firstThatFits(operation) as Waiter;
        return { ...waiter, nodes: this.#space.placeNow(waiter.poolLine) ?? [] };
      }
      if (STAGES.some((stage) => this.#serviceOf(operation, stage) !== undefined)) return undefined;
    }
    return undefined;
  }

  /** All that may fit, given whether units may have come free since the last look. */
  *#mayFit(hasNewRoom: boolean): Generator<Peers> {
    if (!hasNewRoom) return yield* this.#moved;
    for (const need of this.#tree.needs.values()) {
      if (need.peers.size > 0 && this.#hasRoomFor(need)) yield* need.peers;
    }
  }

  #hopeful(stage: Stage): Iterable<Peers> {
    return this.#tree.searches[stage]?.hopes.keys() ?? [];
  }

  /** On nodes that is remembered until one of them has grown. */
  #hasRoomFor(need: Need): boolean {
    if (need.isMisfit) return false;
    const hasRoom = this.#space.fitsNow(need);
    if (!hasRoom && need.ask !== null) need.isMisfit = true;
    return hasRoom;
  }

  #firstThatFits({ lines }: Operation): Waiter | undefined {
    let found: Waiter | undefined;
    const consider = (request: Request | undefined, poolLine: PoolLine, hold: Waiter["hold"]) => {
      if (request === undefined) return;
      if (found !== undefined && found.request.progress.seq < request.progress.seq) return;
      found = waiterOf(request, poolLine, hold);
    };
    for (const poolLine of lines) {
      if (poolLine.verdict !== null || !this.#hasRoomFor(this.#needOf(poolLine))) continue;
      if (quotaBlockOf(poolLine, this.#holds.promises, () => poolLine.ask !== null) !== null) continue;
      consider(poolLine.line.members.first(), poolLine, null);
      for (const passer of this.#pool.passers) {
        if (passer.line === poolLine.line) consider(passer, poolLine, "elsewhere");
      }
    }
    return found;
  }

  #needOf(poolLine: PoolLine): Need {
    return (this.#tree.entries.get(poolLine) as LineEntry).need;
  }

  // --- limits ----------------------------------------------------------------------------------------

  /** Nodes, then policies, then groups before those above them, so that nobody stops twice for one debt (9.9, 9.11). */
  findEnforcement(): VictimChoice | undefined {
    for (const owner of this.#owners()) {
      const excess = this.#excessOf(owner);
      if (excess.every((units) => units <= 0)) continue;
      const choice = chooseOver(this.#pool, this.#tree, owner, excess);
      if (choice !== null) return choice;
    }
    return undefined;
  }

  #owners(): (Policy | Group | Node)[] {
    const nodes = overcommittedFor(this.#pool, this.#nowMs);
    if (!this.#pool.record.settings.enforceLimits) return nodes;
    const groups = [...this.#tree.branches.values()].flatMap(({ kind, group }) =>
      kind === "group" && group !== null ? [group] : [],
    );
    return [...nodes, ...this.#tree.policies.keys(), ...groups.reverse()];
  }

  /** What is stopping is on its way out already. */
  #excessOf(owner: Policy | Group | Node): number[] {
    if ("devices" in owner) return excessOn(owner);
    const excess = owner.usage.map((units, i) => units - owner.limit[i]!);
    if (excess.every((units) => units <= 0)) return excess;
    for (const { lines } of this.#tree.operations.values()) {
      for (const { policy, need, stoppingRuns } of lines) {
        if (stoppingRuns.size === 0 || !isBelow(policy, owner)) continue;
        need.forEach((amount, i) => (excess[i]! -= amount * stoppingRuns.size));
      }
    }
    return excess;
  }

  // --- preemptive ------------------------------------------------------------------------------------

  /** The aggressive stage when the preemptive one has nothing to do. */
  findService(): Service | undefined {
    for (const stage of STAGES) {
      const isAskedFor = (peers: Peers) => this.#mayHope(stage, peers);
      const among = [...this.#hopeful(stage)].filter(isAskedFor);
      for (const operation of inOrder(this.#tree, { among, isAskedFor })) {
        const service = this.#serviceOf(operation, stage);
        if (service !== undefined) return service;
      }
    }
    return undefined;
  }

  /** Whether the stage may do something for some of the peers. */
  #mayHope(stage: Stage, peers: Peers): boolean {
    return (this.#tree.searches[stage]?.hopes.has(peers) ?? false) && hasRight(stage, peers);
  }

  #serviceOf(operation: Operation, stage: Stage): Service | undefined {
    const search = this.#tree.searches[stage];
    const right = Math.max(operation.right, inheritedRight(operation.parent));
    if (search === null || right < RIGHT_FOR[stage] || !search.mayHope(operation)) return undefined;
    let known = this.#services.get(operation);
    if (known === undefined) {
      known = new Map();
      this.#services.set(operation, known);
    }
    if (!known.has(stage)) known.set(stage, this.#findServiceOf(operation, search));
    return known.get(stage);
  }

  #findServiceOf(operation: Operation, search: Search): Service | undefined {
    let isVain = true;
    for (const { request, poolLine } of this.#unserved(operation)) {
      const hasRoom = () => poolLine.ask !== null && this.#hasRoomFor(this.#needOf(poolLine));
      if (quotaBlockOf(poolLine, this.#holds.promises, hasRoom) !== null) isVain = false;
      else {
        const service = this.#serve(search, { request, poolLine, operation });
        if (service !== undefined) return service;
        if (this.#round.barred.has(request)) isVain = false;
      }
    }
    if (isVain) search.giveUp(operation);
    return undefined;
  }

  /** Requests of an operation that hold nothing, by submission. Of a line the first stands for all that nobody bars (V6). */
  *#unserved({ lines }: Operation): Generator<{ request: Request; poolLine: PoolLine }> {
    const heads: { request: Request; poolLine: PoolLine; rest: Iterator<Request> }[] = [];
    const show = (poolLine: PoolLine, rest: Iterator<Request>) => {
      const { value: request, done } = rest.next();
      if (!done) heads.push({ request, poolLine, rest });
    };
    for (const poolLine of lines) {
      if (poolLine.verdict === null) show(poolLine, poolLine.line.members[Symbol.iterator]());
    }
    while (heads.length > 0) {
      heads.sort((a, b) => b.request.progress.seq - a.request.progress.seq);
      const { request, poolLine, rest } = heads.pop() as (typeof heads)[number];
      yield { request, poolLine };
      if (this.#round.barred.has(request)) show(poolLine, rest);
    }
  }

  #serve(search: Search, starving: Starving): Service | undefined {
    const { request, poolLine, operation } = starving;
    const waiter = waiterOf(request, poolLine, null);
    const covered = this.#space.placeSoon(poolLine);
    if (covered !== null) return { waiter: { ...waiter, nodes: covered }, shortage: [], choice: null };
    const key = this.#vainKey(search, operation.peers as Peers, poolLine);
    if (key !== undefined && this.#vain.has(key)) return undefined;
    const found = this.#makeRoom(search, starving);
    if (found !== undefined) {
      const { victims, places, shortage } = found;
      return { waiter, shortage, choice: describeChoice(search.stage, victims, places) };
    }
    if (key !== undefined && !this.#round.barred.has(request)) this.#vain.add(key);
    return undefined;
  }

  /** Place by place, those with the fewest victims first, then the newest, then by name (9.7). */
  #makeRoom(search: Search, starving: Starving): Room | undefined {
    const { ask } = starving.poolLine;
    const room = {
      victims: [] as Allocation[],
      places: [] as Place[],
      shortage: this.#pool.keys.map(() => 0),
    };
    for (let missing = ask?.count ?? 1; missing > 0; missing--) {
      let best: Choice | undefined;
      for (const lack of this.#lacks(search, starving, room)) {
        const victims = this.#victimsFor(starving, lack, room.victims);
        if (victims === null) continue;
        const choice = { victims, lack };
        if (best === undefined || compareChoices(choice, best) < 0) best = choice;
      }
      if (best === undefined) return undefined;
      room.victims.push(...best.victims);
      room.places.push(best.lack.place);
      best.lack.shortage.forEach((amount, i) => (room.shortage[i]! += Math.max(0, amount)));
    }
    return room;
  }

  #victimsFor(
    starving: Starving,
    { place, shortage }: Lack,
    others: readonly Allocation[],
  ): Allocation[] | null {
    if (shortage.every((amount) => amount <= 0)) return [];
    if (place.backoffEndMs > this.#nowMs) return null;
    const { left, most } = place;
    if (shortage.some((amount, i) => amount > most[i]! - left[i]!)) return null;
    return chooseVictims(this.#round, starving, place, shortage, others);
  }

  /** What is lacking for one node's part, in each place that may serve it. */
  *#lacks(search: Search, { poolLine, operation }: Starving, { victims, places }: Room): Generator<Lack> {
    const need = this.#needOf(poolLine);
    const { ask, units } = need;
    if (ask === null || ask.count === 1) {
      const isPossible =
        ask === null || this.#tooMuch[search.stage].test(ask, () => search.mayAnyServe(need));
      if (!isPossible) return;
      for (const place of search.placesFor(operation.peers as Peers, need)) {
        yield { place, shortage: units.map((amount, i) => (amount === 0 ? 0 : amount - place.left[i]!)) };
      }
      return;
    }
    for (const node of this.#space.nodes()) {
      const place = search.placeOn(node);
      if (place === undefined || places.includes(place) || !mayServe(node, ask)) continue;
      if (!covers(node.capacity, units)) continue;
      const shortage = units.map((amount, i) => (amount === 0 ? 0 : amount - place.left[i]!));
      for (const { run } of victims) {
        unitsOn(run, node).forEach((amount, i) => (shortage[i]! -= units[i] === 0 ? 0 : amount));
      }
      yield { place, shortage };
    }
  }

  /** Operations that hold nothing are told apart by what they ask for only, where they may hope for anything. */
  #vainKey(search: Search, peers: Peers, poolLine: PoolLine): string | undefined {
    const { usage, leaf, fairShare } = peers;
    if (search.hopes.get(peers)?.where !== null || usage.some((units) => units > 0)) return undefined;
    const asks = leaf.demand.map((units, key) => (units > 0 ? (fairShare[key]! > SHARE_EPSILON ? 2 : 1) : 0));
    return `${search.stage}|${asks}|${this.#needOf(poolLine).key}`;
  }

  /** What is put down as in vain, or as a misfit, and is not. */
  *#misjudged(stage: Stage): Generator<string> {
    for (const { key, isMisfit, ask, units, vain } of this.#tree.needs.values()) {
      if (isMisfit && this.#space.fitsNow({ ask, units })) yield `${key} is no misfit`;
      for (const { operations } of vain[stage]) {
        for (const operation of operations) {
          if (this.#serviceOf(operation, stage) !== undefined)
            yield `${operation.key} is not in vain in the ${stage} stage`;
        }
      }
    }
  }

  /** Compares what the searches know with what new ones find; for checks. */
  *violations(): Generator<string> {
    const { searches } = this.#tree;
    for (const stage of STAGES) {
      const kept = searches[stage];
      if (kept === null || !kept.isOf(this.#nowMs)) continue;
      yield* kept.violations();
      searches[stage] = new Search(stage, this.#pool, this.#tree);
      searches[stage].renew(this.#nowMs);
      yield* this.#misjudged(stage);
      searches[stage] = kept;
    }
  }

  /** When somebody who starves may try again; infinite if nobody waits for that. */
  backoffEndMs(): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const stage of STAGES) {
      if (this.#tree.rights[stage] > 0)
        nextMs = Math.min(nextMs, this.#tree.searches[stage]?.nextDueMs() ?? nextMs);
    }
    return nextMs;
  }
}

/** The searches learn what has changed since the last look; answers whether the time was enough for all of it. */
export function takeOverChanges(
  pool: Pool,
  tree: PoolTree,
  nowMs: number,
  isTimeUp: () => boolean = () => false,
): boolean {
  const { searches, rights } = tree;
  tree.holds ??= holdsOf(pool); // A pool without nodes is one place, and what is promised is not left there.
  for (const stage of STAGES) {
    if (rights[stage] === 0) continue;
    const known = searches[stage];
    if (known?.isOf(nowMs)) continue;
    for (const { vain } of tree.needs.values()) vain[stage].clear();
    searches[stage] = new Search(stage, pool, tree);
  }
  for (const node of pool.places.changed) {
    noteGrowth(tree, node);
    for (const stage of STAGES) searches[stage]?.note(node);
  }
  pool.places.changed.clear();
  for (const stage of STAGES) {
    if (rights[stage] > 0 && searches[stage]?.renew(nowMs, isTimeUp) === false) return false;
  }
  return true;
}

function hasRight(stage: Stage, { aggressiveCount, starvingCount, leaf }: Peers): boolean {
  const own = aggressiveCount > 0 ? 2 : starvingCount > 0 ? 1 : 0;
  return Math.max(own, inheritedRight(leaf.parent)) >= RIGHT_FOR[stage];
}

function some<Item>(items: Iterable<Item>, isWanted: (item: Item) => boolean): boolean {
  for (const item of items) if (isWanted(item)) return true;
  return false;
}

/** What is lacking in one place. */
interface Lack {
  readonly place: Place;
  readonly shortage: readonly number[];
}

interface Choice {
  readonly victims: readonly Allocation[];
  readonly lack: Lack;
}

/** Where victims make room, and what was lacking there. */
interface Room {
  readonly victims: readonly Allocation[];
  readonly places: readonly Place[];
  readonly shortage: readonly number[];
}

/** Fewer victims, or of equally many the newer ones, or by name (9.7). */
function compareChoices(a: Choice, b: Choice): number {
  if (a.victims.length !== b.victims.length) return a.victims.length - b.victims.length;
  const newestFirst = ({ victims }: Choice) =>
    victims.map(({ freshness }) => freshness).sort((x, y) => y - x);
  const theirs = newestFirst(b);
  for (const [index, freshness] of newestFirst(a).entries()) {
    if (freshness !== theirs[index]) return theirs[index]! - freshness;
  }
  return byPlace(a.lack.place, b.lack.place);
}

function waiterOf(request: Request, poolLine: PoolLine, hold: Waiter["hold"]): Waiter {
  return { request, poolLine, hold, borrows: false, rank: [], score: Number.NaN };
}
