// The stages of service in a fair-share pool (9.7, 9.9, 9.11): what one look at the pool finds to do.

import type { Waiter } from "../../scheduling/queue-walk.ts";
import { Promises, quotaBlockOf } from "../../scheduling/quotas.ts";
import { emit, type Transaction } from "../../scheduling/transaction.ts";
import { freeOf, type Group, type Policy, type Pool, type PoolLine, type Request } from "../../state.ts";
import type { VictimChoice } from "../discipline.ts";
import { inOrder } from "./order.ts";
import { evaluate, rightToPreempt } from "./starvation.ts";
import { type OperationNode, type ShareTree, shareTreeOf } from "./tree.ts";
import { Field, type Stage } from "./victims.ts";

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
  const { state, nowMs } = transaction;
  const tree = shareTreeOf(state, pool);
  const { changes, untilMs } = evaluate(pool, tree, nowMs);
  if (changes.length > 0) {
    emit(transaction, { kind: "starvationChanged", pool: pool.record.name, changes, atMs: nowMs });
  }
  const stages = new Stages(transaction, pool, tree);
  const grant = stages.findGrant();
  const enforcement = grant === undefined ? stages.findEnforcement() : undefined;
  const isBusy = grant !== undefined || enforcement !== undefined;
  const service = isBusy ? undefined : stages.findService();
  return { grant, enforcement, service, untilMs: Math.min(untilMs, stages.backoffEndMs()) };
}

class Stages {
  readonly #transaction: Transaction;
  readonly #pool: Pool;
  readonly #tree: ShareTree;
  readonly #field: Field;
  /** What all holds have set aside. */
  readonly #promises: Promises;
  readonly #rights = new Map<OperationNode, 0 | 1 | 2>();
  readonly #services = new Map<OperationNode, Map<Stage, Service | undefined>>();

  constructor(transaction: Transaction, pool: Pool, tree: ShareTree) {
    this.#transaction = transaction;
    this.#pool = pool;
    this.#tree = tree;
    this.#field = new Field(transaction.state, pool, tree, transaction.nowMs);
    this.#promises = new Promises(pool.keys.length);
    for (const holder of pool.holders) this.#promises.add(this.#lineOf(holder));
    if (pool.starvation.size === 0) return;
    for (const operation of tree.operations.values()) {
      const right = operation.waitingCount === 0 ? 0 : rightToPreempt(pool, operation);
      if (right > 0) this.#rights.set(operation, right);
    }
  }

  #lineOf(request: Request): PoolLine {
    return request.line.pools.get(this.#pool.record.name) as PoolLine;
  }

  // --- regular ---------------------------------------------------------------------------------------

  findGrant(): Waiter | undefined {
    return this.#servedHold() ?? this.#regular();
  }

  /** Units that are free go to the holds in the order of the decisions. */
  #servedHold(): Waiter | undefined {
    const holders = [...this.#pool.holders].sort((a, b) => seqOfHold(a) - seqOfHold(b));
    const before = new Promises(this.#pool.keys.length);
    for (const request of holders) {
      const poolLine = this.#lineOf(request);
      if (this.#fits(poolLine, before) && quotaBlockOf(poolLine, before) === null) {
        return waiterOf(request, poolLine, "here");
      }
      before.add(poolLine);
    }
    return undefined;
  }

  /** Everyone, on free units; but nobody behind a starving operation that a preemptive stage could serve now. */
  #regular(): Waiter | undefined {
    const served = new Map<OperationNode, Waiter>();
    for (const operation of this.#tree.operations.values()) {
      const waiter = operation.waitingCount === 0 ? undefined : this.#firstThatFits(operation);
      if (waiter !== undefined) served.set(operation, waiter);
    }
    if (served.size === 0) return undefined;
    const matters = (operation: OperationNode) => served.has(operation) || this.#rights.has(operation);
    for (const operation of inOrder(this.#tree, matters)) {
      const waiter = served.get(operation);
      if (waiter !== undefined) return waiter;
      if (this.#serviceOf(operation, "preemptive") ?? this.#serviceOf(operation, "aggressive"))
        return undefined;
    }
    return undefined;
  }

  #firstThatFits({ lines }: OperationNode): Waiter | undefined {
    let found: Waiter | undefined;
    const consider = (request: Request | undefined, poolLine: PoolLine, hold: Waiter["hold"]) => {
      if (request === undefined) return;
      if (found !== undefined && found.request.progress.seq < request.progress.seq) return;
      found = waiterOf(request, poolLine, hold);
    };
    for (const poolLine of lines) {
      if (poolLine.verdict !== null || !this.#fits(poolLine, this.#promises)) continue;
      if (quotaBlockOf(poolLine, this.#promises) !== null) continue;
      consider(poolLine.line.members.first(), poolLine, null);
      for (const passer of this.#pool.passers) {
        if (passer.line === poolLine.line) consider(passer, poolLine, "elsewhere");
      }
    }
    return found;
  }

  #fits({ need }: PoolLine, { claimed }: Promises): boolean {
    for (let i = 0; i < need.length; i++) {
      if (need[i]! > 0 && need[i]! > freeOf(this.#pool, i) - claimed[i]!) return false;
    }
    return true;
  }

  // --- limits ----------------------------------------------------------------------------------------

  /** Policies before groups, and groups before those above them, so that nobody stops twice for one debt. */
  findEnforcement(): VictimChoice | undefined {
    if (!this.#pool.record.settings.enforceLimits) return undefined;
    for (const owner of this.#owners()) {
      const excess = this.#excessOf(owner);
      if (excess.every((units) => units <= 0)) continue;
      const choice = this.#field.chooseOver(owner, excess);
      if (choice !== null) return choice;
    }
    return undefined;
  }

  #owners(): (Policy | Group)[] {
    const { inner } = this.#tree;
    const groups = inner.flatMap(({ kind, group }) => (kind === "group" && group !== null ? [group] : []));
    return [...this.#tree.policies.keys(), ...groups.reverse()];
  }

  /** What is stopping is on its way out already. */
  #excessOf(owner: Policy | Group): number[] {
    const used = this.#pool.keys.map(() => 0);
    for (const { run } of this.#field.allocations) {
      const { policy, need } = run.poolLine;
      for (let above: Policy | Group | null = policy; above !== null; above = aboveOf(above)) {
        if (above === owner) need.forEach((amount, i) => (used[i]! += amount));
      }
    }
    return used.map((units, i) => units - owner.limit[i]!);
  }

  // --- preemptive ------------------------------------------------------------------------------------

  /** The aggressive stage when the preemptive one has nothing to do. */
  findService(): Service | undefined {
    if (this.#rights.size === 0) return undefined;
    for (const stage of ["preemptive", "aggressive"] as const) {
      const mayPreempt = (operation: OperationNode) => this.#mayUse(stage, operation);
      for (const operation of inOrder(this.#tree, mayPreempt)) {
        const service = this.#serviceOf(operation, stage);
        if (service !== undefined) return service;
      }
    }
    return undefined;
  }

  #mayUse(stage: Stage, operation: OperationNode): boolean {
    return (this.#rights.get(operation) ?? 0) >= (stage === "aggressive" ? 2 : 1);
  }

  #serviceOf(operation: OperationNode, stage: Stage): Service | undefined {
    if (!this.#mayUse(stage, operation)) return undefined;
    let known = this.#services.get(operation);
    if (known === undefined) {
      known = new Map();
      this.#services.set(operation, known);
    }
    if (!known.has(stage)) known.set(stage, this.#findServiceOf(operation, stage));
    return known.get(stage);
  }

  #findServiceOf(operation: OperationNode, stage: Stage): Service | undefined {
    for (const { request, poolLine } of this.#unserved(operation)) {
      if (quotaBlockOf(poolLine, this.#promises) !== null) continue;
      const waiter = waiterOf(request, poolLine, null);
      const shortage = this.#shortageOf(poolLine);
      if (shortage.every((lacking) => lacking <= 0)) return { waiter, shortage, choice: null };
      if (this.#backsOff()) continue;
      const choice = this.#field.choose(stage, { request, poolLine, operation }, shortage);
      if (choice !== null) return { waiter, shortage, choice };
    }
    return undefined;
  }

  /** Requests of an operation that hold nothing, by submission. Of a line the first stands for all, unless somebody is barred (V6). */
  #unserved({ lines }: OperationNode): { request: Request; poolLine: PoolLine }[] {
    const isAnyBarred = this.#transaction.state.displaced.size > 0;
    const waiters: { request: Request; poolLine: PoolLine }[] = [];
    for (const poolLine of lines) {
      const { members } = poolLine.line;
      if (poolLine.verdict !== null || members.size === 0) continue;
      for (const request of isAnyBarred ? members : [members.first() as Request])
        waiters.push({ request, poolLine });
    }
    return waiters.sort((a, b) => a.request.progress.seq - b.request.progress.seq);
  }

  /** What is lacking when all that stops for nobody has come free. */
  #shortageOf({ need }: PoolLine): number[] {
    const { stopping } = this.#pool;
    const { claimed } = this.#promises;
    return need.map((amount, i) =>
      amount === 0 ? 0 : amount - (freeOf(this.#pool, i) + stopping[i]! - claimed[i]!),
    );
  }

  #backsOff(): boolean {
    return this.#backoffUntilMs() > this.#transaction.nowMs;
  }

  #backoffUntilMs(): number {
    const { preemptiveStartAtMs, record } = this.#pool;
    return (preemptiveStartAtMs.get("") ?? Number.NEGATIVE_INFINITY) + record.settings.preemptiveBackoffMs;
  }

  /** When somebody who starves may try again; infinite if nobody waits for that. */
  backoffEndMs(): number {
    const untilMs = this.#backoffUntilMs();
    return this.#rights.size > 0 && untilMs > this.#transaction.nowMs ? untilMs : Number.POSITIVE_INFINITY;
  }
}

function seqOfHold({ progress }: Request): number {
  return progress.hold?.seq ?? 0;
}

function aboveOf(owner: Policy | Group): Group | null {
  return "parent" in owner ? owner.parent : owner.group;
}

function waiterOf(request: Request, poolLine: PoolLine, hold: Waiter["hold"]): Waiter {
  return { request, poolLine, hold, borrows: false, score: 0 };
}
