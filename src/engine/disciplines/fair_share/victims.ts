// Who has to stop for a starving request (9.8), and for a limit that is enforced (9.9).

import type { ConsideredKind } from "../../events.ts";
import { hasDisplaced, isMature, isShielded } from "../../scheduling/victims.ts";
import type { EngineState, Group, Node, Policy, Pool, PoolLine, Request, Run } from "../../state.ts";
import type { VictimChoice } from "../discipline.ts";
import type { AllocationGroup } from "./allocation-groups.ts";
import { type Allocation, allocationsOf, groupsOf } from "./allocations.ts";
import { satisfactionOf } from "./order.ts";
import { isShareAbove, satisfaction } from "./satisfaction.ts";
import { SHARE_EPSILON } from "./tolerances.ts";
import type { Operation, Peers, PoolTree } from "./tree.ts";

export type Stage = "preemptive" | "aggressive";

/** Everybody's allocations at the time of one look, grouped only when somebody asks. */
export class Field {
  readonly #state: EngineState;
  readonly #pool: Pool;
  readonly #tree: PoolTree;
  readonly #nowMs: number;
  readonly #groups = new Map<Peers, readonly AllocationGroup[]>();
  readonly #candidates = new Map<Stage, readonly Allocation[]>();
  readonly #byNode = new Map<Stage, Map<Node, Allocation[]>>();

  constructor(state: EngineState, pool: Pool, tree: PoolTree, nowMs: number) {
    this.#state = state;
    this.#pool = pool;
    this.#tree = tree;
    this.#nowMs = nowMs;
  }

  /** What is allocated to certain operations and not stopping. */
  #allocations(isWanted: (peers: Peers, groups: readonly AllocationGroup[]) => boolean): Allocation[] {
    const found: Allocation[] = [];
    for (const peers of this.#tree.running) {
      let groups = this.#groups.get(peers);
      if (groups === undefined) {
        groups = groupsOf(this.#pool, this.#tree, peers);
        this.#groups.set(peers, groups);
      }
      if (!isWanted(peers, groups)) continue;
      for (const operation of peers.operations) found.push(...allocationsOf(operation, groups));
    }
    return found;
  }

  /** In the order in which they are taken: less protected groups first, the newest of each first. */
  #candidatesIn(stage: Stage): readonly Allocation[] {
    let found = this.#candidates.get(stage);
    if (found === undefined) {
      const mayTake = ({ settings }: Peers, group: AllocationGroup) =>
        group === "preemptible" ||
        (group === "aggressively_preemptible" &&
          stage === "aggressive" &&
          settings.allowAggressivePreemption);
      found = this.#allocations((peers, groups) => groups.some((group) => mayTake(peers, group)))
        .filter(({ operation, group }) => operation.right === 0 && mayTake(operation.peers as Peers, group))
        .filter(
          ({ run }) =>
            isTakeable(run) && !isShielded(run.kind, this.#nowMs) && isMature(run, this.#pool, this.#nowMs),
        )
        .sort(byPreference);
      this.#candidates.set(stage, found);
    }
    return found;
  }

  /** Those of them on a node; all of them in a pool without nodes. */
  #candidatesOn(stage: Stage, node: Node | null): readonly Allocation[] {
    const all = this.#candidatesIn(stage);
    if (node === null) return all;
    let byNode = this.#byNode.get(stage);
    if (byNode === undefined) {
      byNode = new Map();
      for (const candidate of all) {
        for (const each of candidate.run.nodes) byNode.set(each, [...(byNode.get(each) ?? []), candidate]);
      }
      this.#byNode.set(stage, byNode);
    }
    return byNode.get(node) ?? [];
  }

  hasCandidates(stage: Stage): boolean {
    return this.#candidatesIn(stage).length > 0;
  }

  /**
   * Who stops in a place so that the request is no longer short there, besides those who stop for it elsewhere;
   * null if those who may are not enough (V3).
   */
  choose(
    stage: Stage,
    waiter: Starving,
    { node, shortage }: Lack,
    others: readonly Allocation[],
  ): Allocation[] | null {
    const asked = node === null ? shortage : waiter.poolLine.need; // On nodes everything asked for is short (N2).
    const means = new Means(this.#tree, waiter.operation);
    for (const other of others) means.take(other);
    const lacking = [...shortage];
    const chosen: Allocation[] = [];
    for (const candidate of this.#candidatesOn(stage, node)) {
      const { run, operation } = candidate;
      if (operation === waiter.operation || others.includes(candidate)) continue;
      if (!run.poolLine.need.some((amount, i) => amount > 0 && asked[i]! > 0)) continue;
      if (hasDisplaced(this.#state, run.request.spec.id, waiter.request.spec.id)) continue;
      if (!means.take(candidate)) continue;
      chosen.push(candidate);
      subtract(lacking, unitsOn(run, node));
      if (lacking.every((amount) => amount <= 0)) return minimal(chosen, shortage, node);
    }
    return null;
  }

  /** What a search for an operation looks at, with who may be taken and why others may not (V7). */
  consider(stage: Stage, waiter: Operation): ConsideredKind[] {
    const permitted = new Set(this.#candidatesIn(stage).map(({ run }) => run));
    return considered(
      this.#allocations(() => true),
      (allocation) => {
        const { run, operation, group } = allocation;
        if (isShielded(run.kind, this.#nowMs)) return { rule: "V6", isPermitted: false };
        if (!isTakeable(run)) return { rule: "V2", isPermitted: false };
        if (operation === waiter || operation.right > 0) return { rule: "9.8", isPermitted: false };
        if (permitted.has(run)) return { rule: "9.8", isPermitted: true };
        return { rule: group === "preemptible" ? "V2" : "9.5", isPermitted: false };
      },
    );
  }

  describe(stage: Stage, victims: readonly Allocation[], nodes: readonly Node[]): VictimChoice {
    const reason = stage === "aggressive" ? "aggressive" : "fair_share";
    return {
      victims: victims.map(({ run }) => ({ run, reason })),
      considered: considered(this.#candidatesIn(stage), permittedBy("9.8")),
      nodes,
    };
  }

  /** Who stops because a policy, a group or a node holds more than it may; null if nobody does or may (9.9). */
  chooseOver(owner: Policy | Group | Node, excess: readonly number[]): VictimChoice | null {
    const node = isNode(owner) ? owner : null;
    const candidates = this.#allocations(() => true)
      .filter(({ run }) => isTakeable(run) && isWithin(run, owner))
      .filter(({ run }) => unitsOn(run, node).some((amount, i) => amount > 0 && excess[i]! > 0))
      .sort(byPreference);
    // Where all of them are not enough, all that may be taken is.
    const most = excess.map(() => 0);
    for (const { run } of candidates) unitsOn(run, node).forEach((amount, i) => (most[i]! += amount));
    const within = excess.map((units, i) => Math.min(units, most[i]!));
    const chosen = minimal(untilEnough(candidates, within, node), within, node);
    if (chosen.length === 0) return null;
    const reason = node === null ? "limit" : "overcommit";
    return {
      victims: chosen.map(({ run }) => ({ run, reason })),
      considered: considered(candidates, permittedBy("9.9")),
    };
  }
}

/** A request that may preempt. */
export interface Starving {
  readonly request: Request;
  readonly poolLine: PoolLine;
  readonly operation: Operation;
}

/** What is lacking in one place: on a node, or in a pool without nodes. */
export interface Lack {
  readonly node: Node | null;
  readonly shortage: readonly number[];
}

/** What a run holds in a place. */
export function unitsOn({ poolLine, nodes }: Run, node: Node | null): readonly number[] {
  if (node === null) return poolLine.need;
  return nodes.includes(node) ? (poolLine.ask?.need ?? []) : [];
}

function subtract(lacking: number[], amounts: readonly number[]): void {
  amounts.forEach((amount, i) => (lacking[i]! -= amount));
}

function untilEnough(
  candidates: readonly Allocation[],
  shortage: readonly number[],
  node: Node | null,
): Allocation[] {
  const lacking = [...shortage];
  const chosen: Allocation[] = [];
  for (const candidate of candidates) {
    if (lacking.every((amount) => amount <= 0)) break;
    chosen.push(candidate);
    subtract(lacking, unitsOn(candidate.run, node));
  }
  return chosen;
}

/** Leaves out whoever is not needed, the oldest first (V4). */
function minimal(
  chosen: readonly Allocation[],
  shortage: readonly number[],
  node: Node | null,
): Allocation[] {
  const lacking = [...shortage];
  for (const { run } of chosen) subtract(lacking, unitsOn(run, node));
  const needed: Allocation[] = [];
  for (const victim of chosen.toReversed()) {
    const units = unitsOn(victim.run, node);
    if (units.some((amount, i) => shortage[i]! > 0 && lacking[i]! + amount > 0)) needed.push(victim);
    else units.forEach((amount, i) => (lacking[i]! += amount));
  }
  return needed.reverse();
}

function isNode(owner: Policy | Group | Node): owner is Node {
  return "devices" in owner;
}

function isWithin(run: Run, owner: Policy | Group | Node): boolean {
  return isNode(owner) ? run.nodes.includes(owner) : isBelow(run.poolLine.policy, owner);
}

/** NP and sensitive work is never taken (V2, 9.11). */
function isTakeable({ poolLine }: Run): boolean {
  return poolLine.line.shape.preemptible && !poolLine.sensitive;
}

export function isBelow(policy: Policy, owner: Policy | Group): boolean {
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
  readonly #tree: PoolTree;
  readonly #satisfaction: number;
  readonly #waiter: Peers;
  readonly #left = new Map<Operation, { usage: number[]; touched: boolean[] }>();

  constructor(tree: PoolTree, waiter: Operation) {
    this.#tree = tree;
    this.#waiter = waiter.peers as Peers;
    this.#satisfaction = satisfactionOf(this.#waiter);
  }

  /** Takes an allocation unless that would leave its operation too poor. */
  take({ operation, run }: Allocation): boolean {
    const { keys } = this.#tree;
    const before = this.#left.get(operation);
    const need = keys.map((key) => run.poolLine.need[key]!);
    const peers = operation.peers as Peers;
    const usage = (before?.usage ?? peers.usage).map((units, key) => units - need[key]!);
    const touched = need.map((amount, key) => amount > 0 || (before?.touched[key] ?? false));
    if (!this.#isRicher(peers, usage, touched)) return false;
    this.#left.set(operation, { usage, touched });
    return true;
  }

  #isRicher(
    { demandShare, fairShare }: Peers,
    units: readonly number[],
    touched: readonly boolean[],
  ): boolean {
    const { total } = this.#tree;
    const waiter = this.#waiter;
    const usage = units.map((amount, key) => (total[key]! > 0 ? amount / total[key]! : 0));
    if (!isHigher(satisfaction({ usage, demand: demandShare, fairShare }), this.#satisfaction)) return false;
    return usage.every((share, key) => {
      if (!touched[key]! || waiter.leaf.demand[key]! === 0) return true;
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

/** Allocations by kind, with their numbers and the rule that permits or forbids them (V7). */
function considered(
  allocations: readonly Allocation[],
  ruleOf: (allocation: Allocation) => { readonly rule: string; readonly isPermitted: boolean },
): ConsideredKind[] {
  const kinds = new Map<string, ConsideredKind>();
  for (const allocation of allocations) {
    const { policy, line, preemptionClass } = allocation.run.poolLine;
    const { component, priority } = policy.record;
    const { resources } = line.shape;
    const { rule, isPermitted } = ruleOf(allocation);
    const key = JSON.stringify([component, rule, isPermitted, preemptionClass, resources]);
    const count = (kinds.get(key)?.count ?? 0) + 1;
    const permitted = isPermitted ? count : 0;
    kinds.set(key, { component, priority, preemptionClass, resources, count, permitted, rule });
  }
  return [...kinds.values()];
}

function permittedBy(rule: string): () => { rule: string; isPermitted: boolean } {
  return () => ({ rule, isPermitted: true });
}
