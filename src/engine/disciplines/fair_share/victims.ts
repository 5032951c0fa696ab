// Who has to stop for a starving request (9.8), and for a limit that is enforced (9.9).

import type { ConsideredKind } from "../../events.ts";
import { hasDisplaced } from "../../scheduling/victims.ts";
import type { EngineState, Group, Node, Policy, Pool, PoolLine, Request, Run } from "../../state.ts";
import type { VictimChoice } from "../discipline.ts";
import { type Allocation, allocationsOfAll, byPreference, isTakeable, unitsOn } from "./allocations.ts";
import { marginIn } from "./margins.ts";
import { satisfactionOf } from "./order.ts";
import { fraction, satisfaction } from "./satisfaction.ts";
import { isHigher, type Place, type Stage } from "./search.ts";
import type { Space } from "./space.ts";
import { SHARE_EPSILON } from "./tolerances.ts";
import type { Operation, Peers, PoolTree } from "./tree.ts";

/**
 * Who stops in a place so that a request is no longer short there, besides those who stop for it elsewhere; null if
 * those who may are not enough (V3).
 */
export function chooseVictims(
  { state, tree }: Round,
  waiter: Starving,
  { place, shortage, others, barred }: Wanted,
): Allocation[] | null {
  const { node, candidates } = place;
  const asked = node === null ? shortage : waiter.poolLine.need; // On nodes everything asked for is short (N2).
  const means = new Means(tree, waiter.operation);
  for (const other of others) means.take(other);
  const lacking = [...shortage];
  const chosen: Allocation[] = [];
  for (const candidate of candidates) {
    const { run, operation } = candidate;
    if (operation === waiter.operation || others.includes(candidate)) continue;
    if (!run.poolLine.need.some((amount, i) => amount > 0 && asked[i]! > 0)) continue;
    if (hasDisplaced(state, run.request.spec.id, waiter.request.spec.id)) {
      barred.add(waiter.request);
      continue;
    }
    if (!means.take(candidate)) continue;
    chosen.push(candidate);
    subtract(lacking, unitsOn(run, node));
    if (lacking.every((amount) => amount <= 0)) return minimal(chosen, shortage, node);
  }
  return null;
}

/**
 * Whether a place may make room for an operation before a share leaves its margin. That it may not is certain: runs that
 * differ are taken one by one, each as if it were the only one of its operation.
 */
export function mightMakeRoom(
  { pool, tree }: Round,
  { poolLine, operation }: Omit<Starving, "request">,
  { place, shortage }: Pick<Wanted, "place" | "shortage">,
): boolean {
  const { node, candidates } = place;
  const asked = node === null ? shortage : poolLine.need;
  const means = new Means(tree, operation, pool);
  const lacking = [...shortage];
  for (const candidate of candidates) {
    if (lacking.every((amount) => amount <= 0)) break;
    const { run } = candidate;
    if (candidate.operation === operation) continue;
    if (!run.poolLine.need.some((amount, i) => amount > 0 && asked[i]! > 0)) continue;
    if (means.take(candidate)) subtract(lacking, unitsOn(run, node));
  }
  return lacking.every((amount) => amount <= 0);
}

/** What one look at the stages has in common. */
export interface Round {
  readonly state: EngineState;
  readonly pool: Pool;
  readonly tree: PoolTree;
  readonly nowMs: number;
  /** What is left beside what is promised. */
  readonly space: Space;
}

interface Wanted {
  readonly place: Place;
  readonly shortage: readonly number[];
  readonly others: readonly Allocation[];
  /** Gets the request if the guard keeps it from a victim (V6). */
  readonly barred: Set<Request>;
}

/** The decision. Each node is searched for itself, so those on the chosen ones tell why it was these (V7). */
export function describeChoice(
  stage: Stage,
  victims: readonly Allocation[],
  places: readonly Place[],
): VictimChoice {
  const reason = stage === "aggressive" ? "aggressive" : "fair_share";
  return {
    victims: victims.map(({ run }) => ({ run, reason })),
    considered: considered(new Set(places.flatMap(({ candidates }) => candidates)), permittedBy("9.8")),
    nodes: places.flatMap(({ node }) => node ?? []),
  };
}

/** Who stops because a policy, a group or a node holds more than it may; null if nobody does or may (9.9). */
export function chooseOver(
  pool: Pool,
  tree: PoolTree,
  owner: Policy | Group | Node,
  excess: readonly number[],
): VictimChoice | null {
  const node = isNode(owner) ? owner : null;
  const candidates = [...allocationsOfAll(pool, tree)]
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

/** A request that may preempt. */
export interface Starving {
  readonly request: Request;
  readonly poolLine: PoolLine;
  readonly operation: Operation;
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

/** Leaves out victims that are not needed, the oldest first (V4). */
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

export function isBelow(policy: Policy, owner: Policy | Group): boolean {
  if (policy === owner) return true;
  for (let group = policy.group; group !== null; group = group.parent) if (group === owner) return true;
  return false;
}

/** What is left to operations from which victims were chosen, compared with what the waiter's has (9.8). */
class Means {
  readonly #tree: PoolTree;
  /** Null: as fair shares are now; else as well as they may become for the waiter, each within its margin. */
  readonly #pool: Pool | null;
  readonly #satisfaction: number;
  readonly #waiter: Peers;
  readonly #waiterShare: readonly number[];
  readonly #left = new Map<Operation, { line: PoolLine; usage: number[]; touched: boolean[] }>();

  constructor(tree: PoolTree, waiter: Operation, pool: Pool | null = null) {
    this.#tree = tree;
    this.#pool = pool;
    this.#waiter = waiter.peers as Peers;
    const margin = pool === null ? null : marginIn(pool, tree, this.#waiter);
    this.#waiterShare = margin?.high ?? this.#waiter.fairShare;
    this.#satisfaction = margin?.satisfactionMin ?? satisfactionOf(this.#waiter);
  }

  /** Takes an allocation unless that would leave its operation too poor. */
  take({ operation, run }: Pick<Allocation, "run" | "operation">): boolean {
    const { keys } = this.#tree;
    const line = run.poolLine;
    const known = this.#left.get(operation);
    // What may be taken in which order is not certain if shares move.
    const before = this.#pool === null || known?.line === line ? known : undefined;
    const need = keys.map((key) => line.need[key]!);
    const peers = operation.peers as Peers;
    const usage = (before?.usage ?? peers.usage).map((units, key) => units - need[key]!);
    const touched = need.map((amount, key) => amount > 0 || (before?.touched[key] ?? false));
    if (!this.#isRicher(peers, usage, touched)) return false;
    this.#left.set(operation, { line, usage, touched });
    return true;
  }

  #isRicher(peers: Peers, units: readonly number[], touched: readonly boolean[]): boolean {
    const { total } = this.#tree;
    const waiter = this.#waiter;
    const fairShare = this.#pool === null ? peers.fairShare : marginIn(this.#pool, this.#tree, peers).low;
    const usage = units.map((amount, key) => fraction(amount, total[key]!));
    if (!isHigher(satisfaction({ usage, demand: peers.demandShare, fairShare }), this.#satisfaction))
      return false;
    return usage.every((share, key) => {
      if (!touched[key]! || waiter.leaf.demand[key]! === 0) return true;
      return isHigher(part(share, fairShare[key]!), part(waiter.usageShare[key]!, this.#waiterShare[key]!));
    });
  }
}

/** Whether an operation would be too poor without one of its runs alone (9.8). */
export function leavesTooPoor(
  tree: PoolTree,
  waiter: Operation,
  allocation: Pick<Allocation, "run" | "operation">,
): boolean {
  return !new Means(tree, waiter).take(allocation);
}

/** Which part of its fair share an operation has on a key; infinite without a fair share. */
function part(usage: number, fairShare: number): number {
  return fairShare > SHARE_EPSILON ? usage / fairShare : Number.POSITIVE_INFINITY;
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
