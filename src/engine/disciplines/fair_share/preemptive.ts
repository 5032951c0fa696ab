// The preemptive stages (9.7, 9.11): whom they could serve, and who would have to stop for that. One object serves one
// look; what outlives it is in the searches (`search.ts`).

import { covers } from "../../placement/node-list.ts";
import { mayServe } from "../../placement/room.ts";
import { quotaBlockOf } from "../../scheduling/quotas.ts";
import type { Node, PoolLine, Request } from "../../state.ts";
import type { VictimChoice, Waiter } from "../discipline.ts";
import { type Allocation, unitsOn } from "./allocations.ts";
import { membersIn } from "./entries.ts";
import { hasRoomFor } from "./needs.ts";
import { ask, inOrder } from "./order.ts";
import {
  byPlace,
  hasRight,
  inheritedRight,
  isRicherNow,
  type Place,
  RIGHT_FOR,
  type Search,
  STAGES,
  type Stage,
  type Where,
} from "./search.ts";
import type { LineEntry, Operation, Peers, PoolTree } from "./tree.ts";
import { chooseVictims, describeChoice, mightMakeRoom, type Round, type Starving } from "./victims.ts";

/** A starving request that a preemptive stage serves. */
export interface Service {
  readonly waiter: Waiter;
  readonly shortage: readonly number[];
  /** Null: free units and units that stop for nobody are enough. */
  readonly choice: VictimChoice | null;
}

export class PreemptiveStages {
  readonly #round: Round;
  readonly #tree: PoolTree;
  /** Requests that the guard kept from a victim (V6). */
  readonly #barred = new Set<Request>();
  readonly #services = new Map<Operation, Map<Stage, Service | undefined>>();

  constructor(round: Round) {
    this.#round = round;
    this.#tree = round.tree;
  }

  /** The aggressive stage when the preemptive one has nothing to do. */
  find(): Service | undefined {
    for (const stage of STAGES) {
      const asking = ++this.#tree.askCount;
      if (!this.#askHopeful(stage, asking)) continue;
      const isAskedFor = (peers: Peers) => this.#mayHope(stage, peers);
      for (const operation of inOrder(this.#tree, { asking, isAskedFor })) {
        const service = this.#serviceOf(operation, stage);
        if (service !== undefined) return service;
      }
    }
    return undefined;
  }

  /** Asks for all for whom some stage may do something; answers whether there are any. */
  askAll(asking: number): boolean {
    let areAny = false;
    for (const stage of STAGES) if (this.#askHopeful(stage, asking)) areAny = true;
    return areAny;
  }

  #askHopeful(stage: Stage, asking: number): boolean {
    let areAny = false;
    const search = this.#tree.searches[stage];
    if (search === null) return false;
    for (const peers of search.hopes.keys()) {
      if (!search.mayHope(peers)) continue;
      ask(peers, asking);
      areAny = true;
    }
    return areAny;
  }

  /** Whether some stage may do something for some of the peers. */
  mayHope(peers: Peers): boolean {
    return STAGES.some((stage) => this.#mayHope(stage, peers));
  }

  #mayHope(stage: Stage, peers: Peers): boolean {
    return this.#tree.searches[stage]?.mayHope(peers) ?? false;
  }

  /** Whether some stage could serve it now. */
  couldServe(operation: Operation): boolean {
    return STAGES.some((stage) => this.#serviceOf(operation, stage) !== undefined);
  }

  #serviceOf(operation: Operation, stage: Stage): Service | undefined {
    const search = this.#tree.searches[stage];
    const right = Math.max(operation.right, inheritedRight(operation.parent));
    if (search === null || right < RIGHT_FOR[stage] || !search.mayHope(operation.peers as Peers))
      return undefined;
    let known = this.#services.get(operation);
    if (known === undefined) {
      known = new Map();
      this.#services.set(operation, known);
    }
    if (!known.has(stage)) known.set(stage, this.#findServiceOf(operation, search));
    return known.get(stage);
  }

  #findServiceOf(operation: Operation, search: Search): Service | undefined {
    const { space } = this.#round;
    let isVain = true;
    const tried = new Set<LineEntry>();
    for (const { request, entry } of this.#unserved(operation)) {
      const { poolLine, need } = entry;
      const hasRoom = () => poolLine.ask !== null && hasRoomFor(this.#tree, space, need);
      if (quotaBlockOf(poolLine, this.#tree.promises, hasRoom) !== null) isVain = false;
      else {
        const service = this.#serve(search, { request, poolLine, operation }, entry);
        if (service !== undefined) return service;
        if (this.#barred.has(request)) isVain = false;
        tried.add(entry);
      }
    }
    if (isVain) search.giveUp(operation.peers as Peers, this.#nearTo(search, operation, tried));
    return undefined;
  }

  /** Where searches that found nothing may find something before a share leaves its margin; null: anywhere. */
  #nearTo(search: Search, operation: Operation, tried: ReadonlySet<LineEntry>): Where {
    const near = new Set<Node | null>();
    for (const entry of tried) {
      const found = this.#placesNear(search, operation, entry);
      if (found === null) return null;
      for (const node of found) near.add(node);
    }
    return near;
  }

  #placesNear(search: Search, operation: Operation, { poolLine, need }: LineEntry): Where {
    const near = new Set<Node | null>();
    const count = need.ask?.count ?? 1;
    const room = { victims: [], places: [], shortage: [] };
    const lacks = count > 1 ? this.#lacksOnNodes(search, need, room) : this.#lacksOf(search, operation, need);
    for (const lack of lacks) {
      // Of several nodes, one that is pausing may get room by victims on another one.
      if (count === 1 && lack.place.backoffEndMs > this.#round.nowMs) continue;
      if (mightMakeRoom(this.#round, { poolLine, operation }, lack)) near.add(lack.place.node);
    }
    if (count === 1) return near;
    return near.size < count ? new Set() : null;
  }

  /** Requests of an operation that hold nothing, by submission. Of a line the first stands for all that nobody bars (V6). */
  *#unserved({ lines }: Operation): Generator<{ request: Request; entry: LineEntry }> {
    const heads: { request: Request; entry: LineEntry; rest: Iterator<Request> }[] = [];
    const show = (entry: LineEntry, rest: Iterator<Request>) => {
      const { value: request, done } = rest.next();
      if (!done) heads.push({ request, entry, rest });
    };
    for (const entry of lines) {
      if (entry.poolLine.verdict === null) show(entry, membersIn(entry)[Symbol.iterator]());
    }
    while (heads.length > 0) {
      heads.sort((a, b) => b.request.progress.seq - a.request.progress.seq);
      const { request, entry, rest } = heads.pop() as (typeof heads)[number];
      yield { request, entry };
      if (this.#barred.has(request)) show(entry, rest);
    }
  }

  #serve(search: Search, starving: Starving, { need }: LineEntry): Service | undefined {
    const { request, poolLine } = starving;
    const covered = this.#round.space.placeSoon(poolLine);
    if (covered !== null)
      return { waiter: waiterOf(request, poolLine, null, covered), shortage: [], choice: null };
    const found = this.#makeRoom(search, starving, need);
    if (found !== undefined) {
      const { victims, places, shortage } = found;
      const waiter = waiterOf(request, poolLine, null);
      return { waiter, shortage, choice: describeChoice(search.stage, victims, places) };
    }
    return undefined;
  }

  /** Place by place, those with the fewest victims first, then the newest, then by name (9.7). */
  #makeRoom(search: Search, starving: Starving, need: LineEntry["need"]): Room | undefined {
    const room = {
      victims: [] as Allocation[],
      places: [] as Place[],
      shortage: this.#round.pool.keys.map(() => 0),
    };
    for (let missing = need.ask?.count ?? 1; missing > 0; missing--) {
      let best: Choice | undefined;
      for (const lack of this.#lacks(search, starving, need, room)) {
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
    if (place.backoffEndMs > this.#round.nowMs) return null;
    const { left, most } = place;
    if (shortage.some((amount, i) => amount > most[i]! - left[i]!)) return null;
    return chooseVictims(this.#round, starving, { place, shortage, others, barred: this.#barred });
  }

  /** What is lacking for one node's part, in each place that may serve it. */
  *#lacks(search: Search, { operation }: Starving, need: LineEntry["need"], room: Room): Generator<Lack> {
    if (need.ask !== null && need.ask.count > 1) {
      yield* this.#lacksOnNodes(search, need, room);
      return;
    }
    for (const lack of this.#lacksOf(search, operation, need)) {
      if (isRicherNow(this.#tree, lack.place, operation.peers as Peers)) yield lack;
    }
  }

  /** Also in places that may serve it soon, when shares have moved. */
  *#lacksOf(search: Search, operation: Operation, need: LineEntry["need"]): Generator<Lack> {
    for (const place of search.placesFor(operation.peers as Peers, need)) {
      yield { place, shortage: need.units.map((amount, i) => (amount === 0 ? 0 : amount - place.left[i]!)) };
    }
  }

  /** Of a request for several nodes. */
  *#lacksOnNodes(
    search: Search,
    { ask: asked, units }: LineEntry["need"],
    { victims, places }: Room,
  ): Generator<Lack> {
    for (const node of this.#round.space.nodes()) {
      const place = search.placeOn(node);
      if (place === undefined || places.includes(place) || asked === null || !mayServe(node, asked)) continue;
      if (!covers(node.capacity, units)) continue;
      const shortage = units.map((amount, i) => (amount === 0 ? 0 : amount - place.left[i]!));
      for (const { run } of victims) {
        unitsOn(run, node).forEach((amount, i) => (shortage[i]! -= units[i] === 0 ? 0 : amount));
      }
      yield { place, shortage };
    }
  }

  /** What is put down as in vain, or as a misfit, and is not; `kept` is what was known of the stage. For checks. */
  *misjudged(stage: Stage, kept: Search): Generator<string> {
    for (const { key, isMisfit, ask: asked, units } of this.#tree.needs.values()) {
      if (isMisfit && this.#round.space.fitsNow({ ask: asked, units })) yield `${key} is no misfit`;
    }
    for (const peers of this.#tree.waiting) {
      if (!hasRight(stage, peers)) continue;
      const where = kept.hopes.get(peers);
      if (where === null) continue;
      for (const operation of peers.operations) {
        const service = this.#serviceOf(operation, stage);
        if (service !== undefined && !(where !== undefined && isWithin(service, where)))
          yield `${operation.key} is not in vain in the ${stage} stage`;
      }
    }
  }
}

/** Whether a search would find it that looks on some nodes only, or for a request of several nodes. */
function isWithin({ choice }: Service, where: ReadonlySet<Node | null>): boolean {
  const nodes = choice?.nodes ?? [];
  return nodes.length !== 1 || nodes.every((node) => where.has(node));
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

export function waiterOf(
  request: Request,
  poolLine: PoolLine,
  hold: Waiter["hold"],
  nodes: Waiter["nodes"] = [],
): Waiter {
  return { request, poolLine, hold, borrows: false, rank: [], score: Number.NaN, nodes };
}
