// The stages of service in a fair-share pool (9.7, 9.9, 9.11): what one look at the pool finds to do.

import { covers } from "../../placement/node-list.ts";
import { type Ask, mayServe } from "../../placement/room.ts";
import { Promises, quotaBlockOf } from "../../scheduling/quotas.ts";
import { isShielded } from "../../scheduling/victims.ts";
import type { Group, Node, Policy, Pool, PoolLine, Request } from "../../state.ts";
import type { Transaction } from "../../transaction.ts";
import type { VictimChoice, Waiter } from "../discipline.ts";
import type { Allocation } from "./allocations.ts";
import { type Holds, holdsOf, isServed } from "./holds.ts";
import { forgetVain } from "./operations.ts";
import { inOrder } from "./order.ts";
import { excessOn, lookForOvercommit, overcommittedFor } from "./overcommit.ts";
import { isShareAbove } from "./satisfaction.ts";
import { Misfits, type NodeSpace, type Space, spaceOf } from "./space.ts";
import { Evaluation, rightFrom } from "./starvation.ts";
import { SHARE_EPSILON, SHOWN_STEPS } from "./tolerances.ts";
import { type Branch, type Operation, type Peers, type PoolTree, type Right, shareTreeOf } from "./tree.ts";
import { Field, isBelow, type Lack, type Stage, type Starving } from "./victims.ts";

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

/** Looks at shares and statuses, which is an evaluation, and then at the stages one after another. */
export function lookAtShares(transaction: Transaction, pool: Pool): ShareLook {
  const tree = shareTreeOf(transaction.state, pool);
  const overcommitUntilMs = lookForOvercommit(transaction, pool, !tree.isLookedAt);
  noteMoved(tree);
  const moved = new Set(Array.from(tree.moved, ({ peers }) => peers as Peers));
  const evaluation = new Evaluation(transaction, pool, tree);
  const stages = new Stages(transaction, pool, tree, moved);
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

/** Whether the runs of an operation are candidates depends on its fair share, and on where that covers its demand. */
function noteMoved(tree: PoolTree): void {
  for (const operation of tree.moved) {
    const { fairShare, demandShare, runCount } = operation.peers as Peers;
    const protection =
      runCount === 0
        ? ""
        : fairShare
            .map(
              (share, key) => `${Math.round(share * SHOWN_STEPS)} ${isShareAbove(demandShare[key]!, share)}`,
            )
            .join();
    if (protection !== operation.protection) forgetVain(tree);
    operation.protection = protection;
  }
}

class Stages {
  readonly #transaction: Transaction;
  readonly #pool: Pool;
  readonly #tree: PoolTree;
  readonly #field: Field;
  /** What is promised, and what is left beside it. */
  readonly #holds: Holds;
  readonly #space: Space;
  /** Those with an operation that stands otherwise than at the last look. */
  readonly #moved: ReadonlySet<Peers>;
  /** Whether the last search for victims still tells that only they may have hope. */
  readonly #isVain: boolean;
  /** Searches for victims that found nobody, by all that a search depends on. */
  readonly #vain = new Set<string>();
  /** Peers for which a stage can do nothing, whichever of them asks. */
  readonly #hopeless: Readonly<Record<Stage, Set<Peers>>> = {
    preemptive: new Set(),
    aggressive: new Set(),
  };
  readonly #givers = new Map<Stage, readonly Giver[]>();
  /** Asks that no node could serve, whoever may be taken there. */
  readonly #tooMuch: Readonly<Record<Stage, Misfits>> = {
    preemptive: new Misfits(),
    aggressive: new Misfits(),
  };
  readonly #inherited = new Map<Branch, Right>();
  readonly #services = new Map<Operation, Map<Stage, Service | undefined>>();

  constructor(transaction: Transaction, pool: Pool, tree: PoolTree, moved: ReadonlySet<Peers>) {
    this.#transaction = transaction;
    this.#pool = pool;
    this.#tree = tree;
    this.#field = new Field(transaction.state, pool, tree, transaction.nowMs);
    tree.holds ??= holdsOf(pool);
    this.#holds = tree.holds;
    this.#space = spaceOf(pool, tree.holds);
    this.#moved = moved;
    this.#isVain = transaction.nowMs < tree.vainUntilMs && transaction.state.guarded.size === 0;
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
    const { hasNewRoom, waiting } = this.#tree;
    // As long as no units have come free, nobody fits who did not at the last look.
    const fits = memoised(
      (peers: Peers) =>
        peers.waitingCount > 0 &&
        (hasNewRoom || this.#moved.has(peers)) &&
        this.#firstThatFits(peers.operations.first() as Operation) !== undefined,
    );
    this.#tree.hasNewRoom = some(hasNewRoom ? waiting : this.#moved, fits);
    if (!this.#tree.hasNewRoom) return undefined;
    const matters = (peers: Peers) =>
      fits(peers) || this.#mayHope("preemptive", peers) || this.#mayHope("aggressive", peers);
    for (const operation of inOrder(this.#tree, matters)) {
      if (fits(operation.peers as Peers)) {
        const waiter = this.#firstThatFits(operation) as Waiter;
        return { ...waiter, nodes: this.#space.placeNow(waiter.poolLine) ?? [] };
      }
      if (this.#serviceOf(operation, "preemptive") ?? this.#serviceOf(operation, "aggressive"))
        return undefined;
    }
    return undefined;
  }

  #firstThatFits({ lines }: Operation): Waiter | undefined {
    let found: Waiter | undefined;
    const consider = (request: Request | undefined, poolLine: PoolLine, hold: Waiter["hold"]) => {
      if (request === undefined) return;
      if (found !== undefined && found.request.progress.seq < request.progress.seq) return;
      found = waiterOf(request, poolLine, hold);
    };
    for (const poolLine of lines) {
      if (poolLine.verdict !== null || !this.#space.fitsNow(poolLine)) continue;
      if (quotaBlockOf(poolLine, this.#holds.promises, () => poolLine.ask !== null) !== null) continue;
      consider(poolLine.line.members.first(), poolLine, null);
      for (const passer of this.#pool.passers) {
        if (passer.line === poolLine.line) consider(passer, poolLine, "elsewhere");
      }
    }
    return found;
  }

  // --- limits ----------------------------------------------------------------------------------------

  /** Nodes, then policies, then groups before those above them, so that nobody stops twice for one debt (9.9, 9.11). */
  findEnforcement(): VictimChoice | undefined {
    for (const owner of this.#owners()) {
      const excess = this.#excessOf(owner);
      if (excess.every((units) => units <= 0)) continue;
      const choice = this.#field.chooseOver(owner, excess);
      if (choice !== null) return choice;
    }
    return undefined;
  }

  #owners(): (Policy | Group | Node)[] {
    const nodes = overcommittedFor(this.#pool, this.#transaction.nowMs);
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
    if (this.#pool.starvation.size === 0) return undefined;
    for (const stage of ["preemptive", "aggressive"] as const) {
      if (!some(this.#tree.waiting, (peers) => this.#mayHope(stage, peers))) continue;
      for (const operation of inOrder(this.#tree, (peers) => this.#mayHope(stage, peers))) {
        const service = this.#serviceOf(operation, stage);
        if (service !== undefined) return service;
      }
    }
    this.#rememberVain();
    return undefined;
  }

  /** Nobody can be served, until something else changes than what waits, or a back-off ends. */
  #rememberVain(): void {
    const { record, runKinds } = this.#pool;
    if (record.settings.minRuntimeMs > 0 || this.#transaction.state.guarded.size > 0) return;
    if (some(runKinds, (kind) => isShielded(kind, this.#transaction.nowMs))) return; // A shield ends with time (V6).
    this.#tree.vainUntilMs = this.backoffEndMs();
  }

  /** Whether the stage may be there for some of the peers. */
  #mayHope(stage: Stage, peers: Peers): boolean {
    if (this.#hopeless[stage].has(peers) || (this.#isVain && !this.#moved.has(peers))) return false;
    const own = peers.aggressiveCount > 0 ? 2 : peers.starvingCount > 0 ? 1 : 0;
    return Math.max(own, this.#inheritedBy(peers.leaf.parent)) >= RIGHT_FOR[stage];
  }

  #inheritedBy(policy: Branch): Right {
    if (this.#pool.starvation.size === 0) return 0;
    let right = this.#inherited.get(policy);
    if (right === undefined) {
      right = rightFrom(this.#pool, policy);
      this.#inherited.set(policy, right);
    }
    return right;
  }

  #mayUse(stage: Stage, { parent, right }: Operation): boolean {
    return Math.max(right, this.#inheritedBy(parent)) >= RIGHT_FOR[stage];
  }

  #serviceOf(operation: Operation, stage: Stage): Service | undefined {
    if (!this.#mayUse(stage, operation)) return undefined;
    let known = this.#services.get(operation);
    if (known === undefined) {
      known = new Map();
      this.#services.set(operation, known);
    }
    if (!known.has(stage)) known.set(stage, this.#findServiceOf(operation, stage));
    return known.get(stage);
  }

  #findServiceOf(operation: Operation, stage: Stage): Service | undefined {
    for (const { request, poolLine } of this.#unserved(operation)) {
      const hasRoom = () => poolLine.ask !== null && this.#space.fitsNow(poolLine);
      if (quotaBlockOf(poolLine, this.#holds.promises, hasRoom) !== null) continue;
      const service = this.#serve(stage, { request, poolLine, operation });
      if (service !== undefined) return service;
    }
    // Peers that hold nothing differ in nothing that matters here, unless somebody is barred (V6).
    const peers = operation.peers as Peers;
    if (peers.runCount === 0 && this.#transaction.state.guarded.size === 0) this.#hopeless[stage].add(peers);
    return undefined;
  }

  #serve(stage: Stage, starving: Starving): Service | undefined {
    const { request, poolLine, operation } = starving;
    const waiter = waiterOf(request, poolLine, null);
    const covered = this.#space.placeSoon(poolLine);
    if (covered !== null) return { waiter: { ...waiter, nodes: covered }, shortage: [], choice: null };
    const search = this.#vainKey(stage, operation.peers as Peers, poolLine);
    if (search !== undefined && this.#vain.has(search)) return undefined;
    const found = this.#makeRoom(stage, starving);
    if (found !== undefined) {
      const { victims, nodes, shortage } = found;
      return { waiter, shortage, choice: this.#field.describe(stage, victims, nodes) };
    }
    if (search !== undefined) this.#vain.add(search);
    return undefined;
  }

  /** Place by place, those with the fewest victims first, then the newest, then by name (9.7). */
  #makeRoom(stage: Stage, starving: Starving): Room | undefined {
    const { ask } = starving.poolLine;
    const victims: Allocation[] = [];
    const nodes: Node[] = [];
    const shortage = this.#pool.keys.map(() => 0);
    for (let missing = ask?.count ?? 1; missing > 0; missing--) {
      const lacks =
        ask?.count === 1
          ? this.#lacksOfOne(stage, ask)
          : this.#space.lacks(starving.poolLine, victims, nodes);
      let best: { victims: Allocation[]; lack: Lack } | undefined;
      for (const lack of lacks) {
        const isEnough = lack.shortage.every((amount) => amount <= 0);
        if (!isEnough && (this.#backsOff(lack.node) || !this.#field.mayCover(stage, lack))) continue;
        const chosen = isEnough ? [] : this.#field.choose(stage, starving, lack, victims);
        if (chosen !== null && (best === undefined || isBetter(chosen, best.victims))) {
          best = { victims: chosen, lack };
        }
      }
      if (best === undefined) return undefined;
      victims.push(...best.victims);
      if (best.lack.node !== null) nodes.push(best.lack.node);
      best.lack.shortage.forEach((amount, i) => (shortage[i]! += Math.max(0, amount)));
    }
    return { victims, nodes, shortage };
  }

  /** What one node lacks, of those that could give enough. There is none that has enough: it would be held already. */
  *#lacksOfOne(stage: Stage, ask: Ask): Generator<Lack> {
    const givers = this.#giversIn(stage);
    const canGive = ({ node, most }: Giver) => covers(most, ask.need) && mayServe(node, ask);
    if (!this.#tooMuch[stage].test(ask, () => givers.some(canGive))) return;
    for (const giver of givers) {
      if (!canGive(giver)) continue;
      const { node, left } = giver;
      yield { node, shortage: ask.need.map((amount, i) => (amount === 0 ? 0 : amount - left[i]!)) };
    }
  }

  /** Nodes on which somebody may be taken now, by name. */
  #giversIn(stage: Stage): readonly Giver[] {
    let givers = this.#givers.get(stage);
    if (givers === undefined) {
      const found: Giver[] = [];
      const space = this.#space as NodeSpace;
      for (const node of space.readyNodes()) {
        const units = this.#backsOff(node) ? null : this.#field.unitsOn(stage, node);
        if (units === null) continue;
        const left = space.soon.leftOn(node);
        found.push({ node, left, most: left.map((amount, i) => amount + units[i]!) });
      }
      givers = found;
      this.#givers.set(stage, givers);
    }
    return givers;
  }

  /** Operations that hold nothing are told apart by what they ask for only, unless somebody is barred (V6). */
  #vainKey(stage: Stage, { usage, leaf, fairShare }: Peers, { need, ask }: PoolLine): string | undefined {
    if (this.#transaction.state.guarded.size > 0 || usage.some((units) => units > 0)) return undefined;
    const asks = leaf.demand.map((units, key) => (units > 0 ? (fairShare[key]! > SHARE_EPSILON ? 2 : 1) : 0));
    return [stage, asks, need, ask?.count, ask?.wanted.key].join("|");
  }

  /** Requests of an operation that hold nothing, by submission. Of a line the first stands for all, unless somebody is barred (V6). */
  #unserved({ lines }: Operation): { request: Request; poolLine: PoolLine }[] {
    const isAnyBarred = this.#transaction.state.guarded.size > 0;
    const waiters: { request: Request; poolLine: PoolLine }[] = [];
    for (const poolLine of lines) {
      const { members } = poolLine.line;
      if (poolLine.verdict !== null || members.size === 0) continue;
      for (const request of isAnyBarred ? members : [members.first() as Request])
        waiters.push({ request, poolLine });
    }
    return waiters.sort((a, b) => a.request.progress.seq - b.request.progress.seq);
  }

  #backsOff(node: Node | null): boolean {
    const startedAtMs = this.#pool.preemptiveStartAtMs.get(node?.record.name ?? "");
    return startedAtMs !== undefined && this.#backoffEndMs(startedAtMs) > this.#transaction.nowMs;
  }

  #backoffEndMs(startedAtMs: number): number {
    return startedAtMs + this.#pool.record.settings.preemptiveBackoffMs;
  }

  #isAnyStarving(): boolean {
    return some(
      this.#tree.waiting,
      ({ starvingCount, leaf }) => starvingCount > 0 || this.#inheritedBy(leaf.parent) > 0,
    );
  }

  /** When somebody who starves may try again; infinite if nobody waits for that. */
  backoffEndMs(): number {
    const { preemptiveStartAtMs } = this.#pool;
    if (preemptiveStartAtMs.size === 0 || !this.#isAnyStarving()) return Number.POSITIVE_INFINITY;
    let nextMs = Number.POSITIVE_INFINITY;
    for (const startedAtMs of preemptiveStartAtMs.values()) {
      const endMs = this.#backoffEndMs(startedAtMs);
      if (endMs > this.#transaction.nowMs && endMs < nextMs) nextMs = endMs;
    }
    return nextMs;
  }
}

function some<Item>(items: Iterable<Item>, isWanted: (item: Item) => boolean): boolean {
  for (const item of items) if (isWanted(item)) return true;
  return false;
}

function memoised<Item>(claim: (item: Item) => boolean): (item: Item) => boolean {
  const known = new Map<Item, boolean>();
  return (item) => {
    let isTrue = known.get(item);
    if (isTrue === undefined) {
      isTrue = claim(item);
      known.set(item, isTrue);
    }
    return isTrue;
  };
}

const RIGHT_FOR: Readonly<Record<Stage, Right>> = { preemptive: 1, aggressive: 2 };

/** A node on which somebody may be taken: what is left there, and what would be without all of them. */
interface Giver {
  readonly node: Node;
  readonly left: readonly number[];
  readonly most: readonly number[];
}

/** Where victims make room, and what was lacking there. */
interface Room {
  readonly victims: readonly Allocation[];
  readonly nodes: readonly Node[];
  readonly shortage: readonly number[];
}

/** Fewer victims, or of equally many the newer ones. */
function isBetter(victims: readonly Allocation[], others: readonly Allocation[]): boolean {
  if (victims.length !== others.length) return victims.length < others.length;
  const newestFirst = (each: readonly Allocation[]) =>
    each.map(({ freshness }) => freshness).sort((a, b) => b - a);
  const theirs = newestFirst(others);
  for (const [index, freshness] of newestFirst(victims).entries()) {
    if (freshness !== theirs[index]) return freshness > theirs[index]!;
  }
  return false;
}

function waiterOf(request: Request, poolLine: PoolLine, hold: Waiter["hold"]): Waiter {
  return { request, poolLine, hold, borrows: false, rank: [], score: Number.NaN };
}
