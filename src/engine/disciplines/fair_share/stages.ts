// The stages of service in a fair-share pool (9.7, 9.9, 9.11): what one look at the pool finds to do.

import { quotaBlockOf } from "../../scheduling/quotas.ts";
import type { EngineState, Group, Node, Policy, Pool, PoolLine, Request } from "../../state.ts";
import type { Transaction } from "../../transaction.ts";
import type { PoolLook, Preemption, VictimChoice, Waiter } from "../discipline.ts";
import { membersIn, operationsIn, passersIn } from "./entries.ts";
import { firstServed, isOnNodes } from "./holds.ts";
import { forgetMarginsWithoutGroups } from "./margins.ts";
import { hasRoomFor, type Need, noteGrowth } from "./needs.ts";
import { forgetFindings } from "./operations.ts";
import { type Asked, ask, firstInOrder, inOrder } from "./order.ts";
import { excessOn, lookForOvercommit, overcommittedFor } from "./overcommit.ts";
import { PreemptiveStages, type Service, waiterOf } from "./preemptive.ts";
import { Search, STAGES } from "./search.ts";
import { type Space, spaceOf } from "./space.ts";
import { evaluate, finishEvaluation } from "./starvation.ts";
import { type LineEntry, type Operation, type Peers, type PoolTree, shareTreeInTime } from "./tree.ts";
import { chooseOver, isBelow, type Round } from "./victims.ts";

/**
 * Looks at shares and statuses, which is an evaluation, and then at the stages one after another. Null: the time was up
 * before the tree or the searches had taken over what changed.
 */
export function lookAtShares(transaction: Transaction, pool: Pool, isTimeUp: () => boolean): PoolLook | null {
  const tree = shareTreeInTime(transaction.state, pool, isTimeUp);
  if (tree === null) return null;
  tree.areHoldsChecked = true; // No promise is lost when a pool is looked at.
  tree.isInLook = true;
  const look = lookAtTree(transaction, pool, tree, isTimeUp);
  tree.isInLook = false;
  return look;
}

function lookAtTree(
  transaction: Transaction,
  pool: Pool,
  tree: PoolTree,
  isTimeUp: () => boolean,
): PoolLook | null {
  const { state, nowMs } = transaction;
  const overcommitUntilMs = lookForOvercommit(transaction, pool, !tree.isLookedAt);
  const evaluation = evaluate(transaction, pool, tree);
  if (!takeOverChanges(pool, tree, nowMs, isTimeUp)) {
    finishEvaluation(evaluation, false);
    forgetFindings(tree);
    return null;
  }
  const stages = new Stages(state, pool, tree, nowMs);
  const waiter = stages.findGrant();
  const enforce = waiter === undefined ? stages.findEnforcement() : undefined;
  const isBusy = waiter !== undefined || enforce !== undefined;
  const service = isBusy ? undefined : stages.findService();
  const statusUntilMs = finishEvaluation(evaluation, !isBusy && service === undefined);
  return {
    grant: waiter === undefined ? undefined : { waiter, opportunistic: false },
    enforce,
    promise: service?.choice === null ? service.waiter : undefined,
    preempt: service === undefined ? undefined : preemptionOf(service),
    untilMs: Math.min(statusUntilMs, overcommitUntilMs, stages.backoffEndMs()),
  };
}

/** Where nobody has to stop there is none. */
function preemptionOf({ waiter, shortage, choice }: Service): Preemption | undefined {
  return choice === null ? undefined : { waiter, shortage, choice, isHelped: false };
}

export class Stages implements Round {
  readonly state: EngineState;
  readonly pool: Pool;
  readonly tree: PoolTree;
  readonly nowMs: number;
  readonly space: Space;
  /** Made when somebody has a right to preempt. */
  #preemptive: PreemptiveStages | undefined = undefined;

  constructor(state: EngineState, pool: Pool, tree: PoolTree, nowMs: number) {
    this.state = state;
    this.pool = pool;
    this.tree = tree;
    this.nowMs = nowMs;
    this.space = spaceOf(pool, tree.promises);
  }

  // --- regular ---------------------------------------------------------------------------------------

  findGrant(): Waiter | undefined {
    return this.#servedHold() ?? this.#regular();
  }

  /** Units that are free go to the holds in the order of the decisions. */
  #servedHold(): Waiter | undefined {
    const held = firstServed(this.pool, this.tree.promises);
    return held === undefined ? undefined : waiterOf(held.request, held.poolLine, "here", held.nodes);
  }

  /** Everyone, on free units; but nobody behind a starving operation that a preemptive stage could serve now. */
  #regular(): Waiter | undefined {
    const tree = this.tree;
    const preemptive = this.#preemptiveStages();
    if (tree.hasNewRoom) {
      tree.hasNewRoom = this.#hasRoomForAny();
      return tree.hasNewRoom ? this.#firstThatFits(preemptive) : undefined;
    }
    const asking = ++tree.askCount;
    tree.hasNewRoom = this.#askThoseThatFit(asking);
    if (!tree.hasNewRoom) return undefined;
    if (preemptive === undefined || !preemptive.askAll(asking)) {
      return this.#grantTo(firstInOrder(tree, { asking }));
    }
    const isAskedFor = (peers: Peers) => peers.fitsIn === asking || preemptive.mayHope(peers);
    return this.#firstToServe(preemptive, { asking, isAskedFor }) ?? undefined;
  }

  /** When units have come free, most who ask for little fit: only those of them are looked at whose turn comes. */
  #firstThatFits(preemptive: PreemptiveStages | undefined): Waiter | undefined {
    const { tree } = this;
    // Mostly the first of all that wait fits: then nobody else need be looked at.
    const first = preemptive === undefined ? this.#grantTo(firstInOrder(tree)) : undefined;
    return first ?? this.#firstOfThoseThatFit(preemptive);
  }

  #firstOfThoseThatFit(preemptive: PreemptiveStages | undefined): Waiter | undefined {
    const { tree } = this;
    const asking = ++tree.askCount;
    for (const { peers } of tree.openNeeds) for (const waiters of peers) ask(waiters, asking);
    preemptive?.askAll(asking);
    const isAskedFor = (peers: Peers) =>
      this.#askIfFits(peers, asking) || (preemptive?.mayHope(peers) ?? false);
    const served = this.#firstToServe(preemptive, { asking, isAskedFor });
    if (served === undefined) tree.hasNewRoom = false;
    return served ?? undefined;
  }

  /** The first that fits; null: a preemptive stage could serve one before it. */
  #firstToServe(preemptive: PreemptiveStages | undefined, asked: Asked): Waiter | null | undefined {
    for (const operation of inOrder(this.tree, asked)) {
      if ((operation.peers as Peers).fitsIn === asked.asking) return this.#grantTo(operation);
      if (preemptive?.couldServe(operation)) return null;
    }
    return undefined;
  }

  #hasRoomForAny(): boolean {
    for (const need of this.tree.openNeeds) if (this.#hasRoomFor(need)) return true;
    return false;
  }

  /** As long as no units have come free, nobody fits who did not at the last look. Answers whether anybody does. */
  #askThoseThatFit(asking: number): boolean {
    let areAny = false;
    for (const { peers } of this.tree.moved)
      if (peers !== null && this.#askIfFits(peers, asking)) areAny = true;
    return areAny;
  }

  #askIfFits(peers: Peers, asking: number): boolean {
    if (peers.fitsIn === asking) return true;
    if (peers.waitingCount === 0 || !peers.needs.some((need) => this.#hasRoomFor(need))) return false;
    for (const entry of (peers.operations.first() as Operation).lines) {
      if (!this.#mayStart(entry)) continue;
      peers.fitsIn = asking;
      ask(peers, asking);
      return true;
    }
    return false;
  }

  /** Whether the first that waits without units here may start; who is promised some is served before. */
  #mayStart({ poolLine, need, waiting, promised }: LineEntry): boolean {
    if (poolLine.verdict !== null || waiting === promised || !this.#hasRoomFor(need)) return false;
    return quotaBlockOf(poolLine, this.tree.promises, isOnNodes) === null;
  }

  #hasRoomFor(need: Need): boolean {
    return hasRoomFor(this.tree, this.space, need);
  }

  /** The first request of the operation that fits. */
  #grantTo({ lines }: Operation): Waiter | undefined {
    let found: Request | undefined;
    let from: PoolLine | undefined;
    let hold: Waiter["hold"] = null;
    for (const entry of lines) {
      if (!this.#mayStart(entry)) continue;
      const { poolLine } = entry;
      const [first] = membersIn(entry);
      if (first !== undefined && !precedes(found, first)) [found, from, hold] = [first, poolLine, null];
      for (const passer of passersIn(this.pool, entry)) {
        if (!precedes(found, passer)) [found, from, hold] = [passer, poolLine, "elsewhere"];
      }
    }
    if (found === undefined || from === undefined) return undefined;
    return waiterOf(found, from, hold, this.space.placeNow(from) ?? []);
  }

  // --- limits ----------------------------------------------------------------------------------------

  /** Nodes, then policies, then groups before those above them, so that nobody stops twice for one debt (9.9, 9.11). */
  findEnforcement(): VictimChoice | undefined {
    for (const owner of this.#owners()) {
      const excess = this.#excessOf(owner);
      if (excess.every((units) => units <= 0)) continue;
      const choice = chooseOver(this.pool, this.tree, owner, excess);
      if (choice !== null) return choice;
    }
    return undefined;
  }

  #owners(): readonly (Policy | Group | Node)[] {
    const nodes = overcommittedFor(this.pool, this.nowMs);
    if (!this.pool.record.settings.enforceLimits) return nodes;
    const groups = [...this.tree.branches.values()].flatMap(({ kind, group }) =>
      kind === "group" && group !== null ? [group] : [],
    );
    return [...nodes, ...this.tree.policies.keys(), ...groups.reverse()];
  }

  /** What is stopping is on its way out already. */
  #excessOf(owner: Policy | Group | Node): number[] {
    if ("devices" in owner) return excessOn(owner);
    const excess = owner.usage.map((units, i) => units - owner.limit[i]!);
    if (excess.every((units) => units <= 0)) return excess;
    for (const { lines } of operationsIn(this.tree)) {
      for (const { poolLine, stopping } of lines) {
        if (stopping === 0 || !isBelow(poolLine.policy, owner)) continue;
        poolLine.need.forEach((amount, i) => (excess[i]! -= amount * stopping));
      }
    }
    return excess;
  }

  // --- preemptive ------------------------------------------------------------------------------------

  findService(): Service | undefined {
    return this.#preemptiveStages()?.find();
  }

  /** Undefined: nobody has the right to any of them. */
  #preemptiveStages(): PreemptiveStages | undefined {
    const { preemptive, aggressive } = this.tree.rights;
    if (preemptive + aggressive > 0) this.#preemptive ??= new PreemptiveStages(this);
    return this.#preemptive;
  }

  /** Compares what the searches know with what new ones find; for checks. */
  *violations(): Generator<string> {
    const { searches } = this.tree;
    const preemptive = new PreemptiveStages(this);
    for (const stage of STAGES) {
      const kept = searches[stage];
      if (kept === null || !kept.isOf(this.nowMs)) continue;
      yield* kept.violations();
      searches[stage] = new Search(stage, this.pool, this.tree);
      searches[stage].renew(this.nowMs);
      yield* preemptive.misjudged(stage, kept);
      searches[stage] = kept;
    }
  }

  /** When somebody who starves may try again; infinite if nobody waits for that. */
  backoffEndMs(): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const stage of STAGES) {
      if (this.tree.rights[stage] > 0)
        nextMs = Math.min(nextMs, this.tree.searches[stage]?.nextDueMs() ?? nextMs);
    }
    return nextMs;
  }
}

function precedes(found: Request | undefined, request: Request): boolean {
  return found !== undefined && found.progress.seq < request.progress.seq;
}

/** The searches learn what has changed since the last look; answers whether the time was enough for all of it. */
export function takeOverChanges(
  pool: Pool,
  tree: PoolTree,
  nowMs: number,
  isTimeUp: () => boolean = () => false,
): boolean {
  const { searches, rights } = tree;
  for (const stage of STAGES) {
    if (rights[stage] === 0) continue;
    const known = searches[stage];
    if (known?.isOf(nowMs)) continue;
    searches[stage] = new Search(stage, pool, tree);
    forgetMarginsWithoutGroups(tree);
  }
  const { changed } = pool.places;
  if (changed.size > 0) {
    for (const node of changed) {
      noteGrowth(tree, node);
      for (const stage of STAGES) searches[stage]?.note(node);
    }
    changed.clear();
  }
  for (const stage of STAGES) {
    if (rights[stage] > 0 && searches[stage]?.renew(nowMs, isTimeUp) === false) return false;
  }
  return true;
}
