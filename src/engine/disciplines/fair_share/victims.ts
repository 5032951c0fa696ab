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
  readonly #allocationsOf = new Map<Operation, ReadonlyMap<Run, Allocation>>();
  readonly #onNodes: Readonly<Record<Stage, Map<Node, OnNode>>> = {
    preemptive: new Map(),
    aggressive: new Map(),
  };

  constructor(state: EngineState, pool: Pool, tree: PoolTree, nowMs: number) {
    this.#state = state;
    this.#pool = pool;
    this.#tree = tree;
    this.#nowMs = nowMs;
  }

  #groupsOf(peers: Peers): readonly AllocationGroup[] {
    let groups = this.#groups.get(peers);
    if (groups === undefined) {
      groups = groupsOf(this.#pool, this.#tree, peers);
      this.#groups.set(peers, groups);
    }
    return groups;
  }

  /** What is allocated to certain operations and not stopping. */
  #allocations(isWanted: (peers: Peers, groups: readonly AllocationGroup[]) => boolean): Allocation[] {
    const found: Allocation[] = [];
    for (const peers of this.#tree.running) {
      const groups = this.#groupsOf(peers);
      if (!isWanted(peers, groups)) continue;
      for (const operation of peers.operations) found.push(...allocationsOf(operation, groups));
    }
    return found;
  }

  /** In the order in which they are taken: less protected groups first, the newest of each first. */
  #candidatesIn(stage: Stage): readonly Allocation[] {
    let found = this.#candidates.get(stage);
    if (found === undefined) {
      found = this.#allocations((peers, groups) => groups.some((group) => mayTake(stage, peers, group)))
        .filter((allocation) => this.#isCandidate(stage, allocation))
        .sort(byPreference);
      this.#candidates.set(stage, found);
    }
    return found;
  }

  #isCandidate(stage: Stage, { operation, run, group }: Allocation): boolean {
    if (operation.right > 0 || !mayTake(stage, operation.peers as Peers, group)) return false;
    return isTakeable(run) && !isShielded(run.kind, this.#nowMs) && isMature(run, this.#pool, this.#nowMs);
  }

  /** Those of them on a node, found from the node. */
  #onNode(stage: Stage, node: Node): OnNode {
    let found = this.#onNodes[stage].get(node);
    if (found === undefined) {
      const candidates: Allocation[] = [];
      const units = node.free.map(() => 0);
      for (const run of node.runs) {
        const allocation = run.isStopping ? undefined : this.#allocationOf(stage, run);
        if (allocation === undefined || !this.#isCandidate(stage, allocation)) continue;
        candidates.push(allocation);
        unitsOn(run, node).forEach((amount, i) => (units[i]! += amount));
      }
      found = { candidates: candidates.sort(byPreference), units };
      this.#onNodes[stage].set(node, found);
    }
    return found;
  }

  /** Undefined also where no run of its operation may be taken. */
  #allocationOf(stage: Stage, run: Run): Allocation | undefined {
    const operation = this.#tree.operationOf.get(run.poolLine);
    if (operation === undefined || operation.right > 0) return undefined;
    let all = this.#allocationsOf.get(operation);
    if (all === undefined) {
      const peers = operation.peers as Peers;
      const groups = this.#groupsOf(peers);
      if (!groups.some((group) => mayTake(stage, peers, group))) return undefined;
      const each = allocationsOf(operation, groups);
      all = new Map(each.map((allocation) => [allocation.run, allocation]));
      this.#allocationsOf.set(operation, all);
    }
    return all.get(run);
  }

  /** What all who may be taken on a node hold there; null: nobody may. */
  unitsOn(stage: Stage, node: Node): readonly number[] | null {
    const { candidates, units } = this.#onNode(stage, node);
    return candidates.length === 0 ? null : units;
  }

  /** Whether enough may be there in a place, whoever asks: if not, no search will find it. */
  mayCover(stage: Stage, { node, shortage }: Lack): boolean {
    if (node === null) return this.#candidatesIn(stage).length > 0;
    const { units } = this.#onNode(stage, node);
    for (let i = 0; i < shortage.length; i++) if (shortage[i]! > units[i]!) return false;
    return true;
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
    for (const candidate of node === null
      ? this.#candidatesIn(stage)
      : this.#onNode(stage, node).candidates) {
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
    // Each node is searched for itself, so those on the chosen ones tell why it was these (V7).
    const candidates = this.#pool.record.nodeBacked
      ? new Set(nodes.flatMap((node) => this.#onNode(stage, node).candidates))
      : this.#candidatesIn(stage);
    return {
      victims: victims.map(({ run }) => ({ run, reason })),
      considered: considered(candidates, permittedBy("9.8")),
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

/** Who may be taken on a node, in the order in which they are, and what they hold there together. */
interface OnNode {
  readonly candidates: readonly Allocation[];
  readonly units: readonly number[];
}

function mayTake(stage: Stage, { settings }: Peers, group: AllocationGroup): boolean {
  if (group === "preemptible") return true;
  return group === "aggressively_preemptible" && stage === "aggressive" && settings.allowAggressivePreemption;
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
  allocations: Iterable<Allocation>,
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
