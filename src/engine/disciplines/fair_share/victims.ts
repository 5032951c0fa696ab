// Who has to stop for a starving request (9.8), and for a limit that is enforced (9.9).

import type { ConsideredKind } from "../../events.ts";
import { hasDisplaced, isMature, shortKeys, spareRedundant } from "../../scheduling/victims.ts";
import type { EngineState, Group, Policy, Pool, PoolLine, Request } from "../../state.ts";
import type { VictimChoice } from "../discipline.ts";
import type { AllocationGroup } from "./allocation-groups.ts";
import { type Allocation, allocationsOf } from "./allocations.ts";
import { satisfactionOf } from "./order.ts";
import { isShareAbove, SHARE_EPSILON, satisfaction } from "./satisfaction.ts";
import { isStarving } from "./starvation.ts";
import type { OperationNode, ShareTree } from "./tree.ts";

export type Stage = "preemptive" | "aggressive";

/** Everybody's allocations at the time of one look, grouped only when somebody asks. */
export class Field {
  readonly #state: EngineState;
  readonly #pool: Pool;
  readonly #tree: ShareTree;
  readonly #nowMs: number;
  #allocations: readonly Allocation[] | undefined;
  readonly #candidates = new Map<Stage, readonly Allocation[]>();
  /** Searches that found nobody, by all that a search depends on. */
  readonly #vain = new Set<string>();

  constructor(state: EngineState, pool: Pool, tree: ShareTree, nowMs: number) {
    this.#state = state;
    this.#pool = pool;
    this.#tree = tree;
    this.#nowMs = nowMs;
  }

  /** All that is allocated and not stopping. */
  get allocations(): readonly Allocation[] {
    this.#allocations ??= [...this.#tree.operations.values()]
      .filter(({ runCount }) => runCount > 0)
      .flatMap((operation) => allocationsOf(this.#pool, this.#tree, operation));
    return this.#allocations;
  }

  /** In the order in which they are taken: less protected groups first, the newest of each first. */
  #candidatesIn(stage: Stage): readonly Allocation[] {
    let found = this.#candidates.get(stage);
    if (found === undefined) {
      found = this.allocations
        .filter(({ operation, group }) => {
          if (group === "non_preemptible" || isStarving(this.#pool, operation)) return false;
          if (group === "preemptible") return true;
          return stage === "aggressive" && operation.settings.allowAggressivePreemption;
        })
        .filter(
          (allocation) => isSparedNever(allocation) && isMature(allocation.run, this.#pool, this.#nowMs),
        )
        .sort(byPreference);
      this.#candidates.set(stage, found);
    }
    return found;
  }

  /** Who stops so that the request is no longer short; null if those who may are not enough (V3). */
  choose(
    stage: Stage,
    waiter: { request: Request; poolLine: PoolLine; operation: OperationNode },
    shortage: readonly number[],
  ): VictimChoice | null {
    const candidates = this.#candidatesIn(stage);
    if (candidates.length === 0) return null;
    const search = this.#vainKey(stage, waiter.operation, shortage);
    if (search !== undefined && this.#vain.has(search)) return null;
    const short = shortKeys(shortage);
    const means = new Means(this.#tree, waiter.operation);
    const lacking = [...shortage];
    const chosen: Allocation[] = [];
    for (const candidate of candidates) {
      const { run, operation } = candidate;
      if (operation === waiter.operation) continue;
      if (!short.some((i) => run.poolLine.need[i]! > 0)) continue;
      if (hasDisplaced(this.#state, run.request.spec.id, waiter.request.spec.id)) continue;
      if (!means.take(candidate)) continue;
      chosen.push(candidate);
      run.poolLine.need.forEach((amount, i) => (lacking[i]! -= amount));
      if (short.some((i) => lacking[i]! > 0)) continue;
      const reason = stage === "aggressive" ? "aggressive" : "fair_share";
      return {
        victims: spareRedundant(chosen, shortage).map((victim) => ({ run: victim.run, reason })),
        considered: considered(candidates),
      };
    }
    if (search !== undefined) this.#vain.add(search);
    return null;
  }

  /** Operations that hold nothing are told apart by what they ask for only, unless somebody is barred (V6). */
  #vainKey(
    stage: Stage,
    { usage, demand, fairShare }: OperationNode,
    shortage: readonly number[],
  ): string | undefined {
    if (this.#state.displaced.size > 0 || usage.some((units) => units > 0)) return undefined;
    const asks = demand.map((units, key) => (units > 0 ? (fairShare[key]! > SHARE_EPSILON ? 2 : 1) : 0));
    return `${stage} ${asks.join()} ${shortage.join()}`;
  }

  /** Who stops because a policy or a group holds more than its limit; null if nobody does or may (9.9). */
  chooseOver(owner: Policy | Group, excess: readonly number[]): VictimChoice | null {
    const over = shortKeys(excess);
    const candidates = this.allocations
      .filter((allocation) => isSparedNever(allocation) && isBelow(allocation.run.poolLine.policy, owner))
      .filter(({ run }) => over.some((i) => run.poolLine.need[i]! > 0))
      .sort(byPreference);
    // Where that is not enough, all that may be taken is.
    const within = excess.map((units, i) =>
      Math.min(
        units,
        candidates.reduce((sum, { run }) => sum + run.poolLine.need[i]!, 0),
      ),
    );
    const chosen = spareRedundant(untilEnough(candidates, within), within);
    if (chosen.length === 0) return null;
    return {
      victims: chosen.map(({ run }) => ({ run, reason: "limit" })),
      considered: considered(candidates),
    };
  }
}

function untilEnough(candidates: readonly Allocation[], shortage: readonly number[]): Allocation[] {
  const lacking = [...shortage];
  const chosen: Allocation[] = [];
  for (const candidate of candidates) {
    if (lacking.every((amount) => amount <= 0)) break;
    chosen.push(candidate);
    candidate.run.poolLine.need.forEach((amount, i) => (lacking[i]! -= amount));
  }
  return chosen;
}

/** NP and sensitive work, and what was preempted too often, is never taken (V2, V6). */
function isSparedNever({ run }: Allocation): boolean {
  const { poolLine, shielded } = run.kind;
  return poolLine.line.shape.preemptible && !poolLine.sensitive && !shielded;
}

function isBelow(policy: Policy, owner: Policy | Group): boolean {
  if (policy === owner) return true;
  for (let group = policy.group; group !== null; group = group.parent) if (group === owner) return true;
  return false;
}

const PREFERENCE: Readonly<Record<AllocationGroup, number>> = {
  preemptible: 0,
  aggressively_preemptible: 1,
  non_preemptible: 2,
};

function byPreference(a: Allocation, b: Allocation): number {
  return PREFERENCE[a.group] - PREFERENCE[b.group] || b.freshness - a.freshness;
}

/** What is left to operations from which victims were chosen, compared with what the waiter's has now (9.8). */
class Means {
  readonly #tree: ShareTree;
  readonly #satisfaction: number;
  readonly #waiter: OperationNode;
  readonly #left = new Map<OperationNode, { usage: number[]; touched: boolean[] }>();

  constructor(tree: ShareTree, waiter: OperationNode) {
    this.#tree = tree;
    this.#waiter = waiter;
    this.#satisfaction = satisfactionOf(waiter);
  }

  /** Takes an allocation unless that would leave its operation too poor. */
  take({ operation, run }: Allocation): boolean {
    const { keys } = this.#tree;
    const before = this.#left.get(operation);
    const need = keys.map((key) => run.poolLine.need[key]!);
    const usage = (before?.usage ?? operation.usage).map((units, key) => units - need[key]!);
    const touched = need.map((amount, key) => amount > 0 || (before?.touched[key] ?? false));
    if (!this.#isRicher(operation, usage, touched)) return false;
    this.#left.set(operation, { usage, touched });
    return true;
  }

  #isRicher(
    { demandShare, fairShare }: OperationNode,
    units: readonly number[],
    touched: readonly boolean[],
  ): boolean {
    const { total } = this.#tree;
    const waiter = this.#waiter;
    const usage = units.map((amount, key) => (total[key]! > 0 ? amount / total[key]! : 0));
    if (!isHigher(satisfaction({ usage, demand: demandShare, fairShare }), this.#satisfaction)) return false;
    return usage.every((share, key) => {
      if (!touched[key]! || waiter.demand[key]! === 0) return true;
      return isHigher(part(share, fairShare[key]!), part(waiter.usageShare[key]!, waiter.fairShare[key]!));
    });
  }
}

/** Which part of its fair share somebody has on a key; infinite without a fair share. */
function part(usage: number, fairShare: number): number {
  return fairShare > SHARE_EPSILON ? usage / fairShare : Number.POSITIVE_INFINITY;
}

function isHigher(ratio: number, other: number): boolean {
  return (
    other < Number.POSITIVE_INFINITY && (ratio === Number.POSITIVE_INFINITY || isShareAbove(ratio, other))
  );
}

/** Candidates by kind, with their numbers (V7). */
function considered(candidates: readonly Allocation[]): ConsideredKind[] {
  const kinds = new Map<string, ConsideredKind>();
  for (const { run, group } of candidates) {
    const { policy, line, preemptionClass } = run.poolLine;
    const { component, priority } = policy.record;
    const key = JSON.stringify([component, group, line.shape.resources]);
    const count = (kinds.get(key)?.count ?? 0) + 1;
    const { resources } = line.shape;
    kinds.set(key, {
      component,
      priority,
      preemptionClass,
      resources,
      count,
      permitted: count,
      rule: `9.5 ${group}`,
    });
  }
  return [...kinds.values()];
}
