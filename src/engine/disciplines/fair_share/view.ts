// What people see of a fair-share pool (9.10).

import type { PoolName, RequestId } from "../../records.ts";
import { type EngineState, type Pool, type Request, requirePool } from "../../state.ts";
import type { AllocationGroup } from "./allocation-groups.ts";
import { allocationsOfAll } from "./allocations.ts";
import { membersIn, operationsIn } from "./entries.ts";
import { inOrder, parentIn, satisfactionOf, waitersOf } from "./order.ts";
import { type StarvationStatus, statusOf } from "./starvation.ts";
import { SHARE_EPSILON, SHOWN_STEPS, UNIT_EPSILON } from "./tolerances.ts";
import {
  type Branch,
  type LineEntry,
  type Operation,
  type Peers,
  type PoolTree,
  type Standing,
  shareTreeOf,
} from "./tree.ts";

type Fractions = Readonly<Record<string, number>>;

export interface ElementView {
  readonly kind: "group" | "policy" | "operation";
  readonly name: string;
  /** The group or policy above it; null: the pool itself. */
  readonly parent: string | null;
  readonly fairShare: Fractions;
  readonly usageShare: Fractions;
  readonly demandShare: Fractions;
  /** Null for operations, which have no reserve. */
  readonly loans: Loans | null;
  /** Null: it has no fair share at all, so that nothing compares with it. */
  readonly satisfaction: number | null;
  readonly status: StarvationStatus;
  /** Since when it has been below its fair share; null: it is not. */
  readonly belowSinceMs: number | null;
  /** When it begins to starve if nothing changes, or when it began; null: it has what it should. */
  readonly starvesAtMs: number | null;
  readonly waitingCount: number;
  /** A request of it asks for more than the fair share, so that it can never be served within that (9.10). */
  readonly exceedsFairShare: boolean;
}

export interface Loans {
  readonly guarantee: Fractions;
  /** Usage above the guarantee. */
  readonly borrowed: Fractions;
  /** What is guaranteed to it and used by others. */
  readonly lent: Fractions;
}

export interface ShareView {
  /** Groups, then policies, both below what they belong to, then operations by age. */
  readonly elements: readonly ElementView[];
  readonly allocationGroups: ReadonlyMap<RequestId, AllocationGroup>;
  /** Groups whose members are guaranteed more than there is, so that all guarantees were scaled down (9.1). */
  readonly overcommitted: readonly string[];
}

export function shareViewOf(state: EngineState, name: PoolName): ShareView {
  const pool = requirePool(state, name);
  const allocationGroups = new Map<RequestId, AllocationGroup>();
  if (pool.record.discipline !== "fair_share") return { elements: [], allocationGroups, overcommitted: [] };
  const tree = shareTreeOf(state, pool);
  const operations = [...operationsIn(tree)].sort((a, b) => a.order - b.order);
  for (const { run, group } of allocationsOfAll(pool, tree)) {
    allocationGroups.set(run.request.spec.id, group);
  }
  const views = operations.map((operation) => viewOfOperation(pool, tree, operation));
  return {
    elements: [...innerViews(pool, tree), ...views],
    allocationGroups,
    overcommitted: tree.overcommitted,
  };
}

/**
 * Groups of a pool, and "" for the pool as a whole, whose members are guaranteed more than there is, so that all
 * guarantees were scaled down: an alert (9.1).
 */
export function scaledGroupsOf(state: EngineState, name: PoolName): readonly string[] {
  const pool = requirePool(state, name);
  return pool.record.discipline === "fair_share" ? shareTreeOf(state, pool).overcommitted : [];
}

/** The groups and policies of a pool alone: few, however much waits. */
export function teamSharesOf(state: EngineState, name: PoolName): ElementView[] {
  const pool = requirePool(state, name);
  return pool.record.discipline === "fair_share" ? innerViews(pool, shareTreeOf(state, pool)) : [];
}

function innerViews(pool: Pool, tree: PoolTree): ElementView[] {
  const lent = lentBy(tree);
  return [...tree.branches.values()]
    .filter(({ kind }) => kind !== "root")
    .map((node) => ({ ...viewOfInner(pool, tree, node), loans: loansOf(tree, node, lent.get(node)!) }));
}

export function viewOfInner(pool: Pool, tree: PoolTree, node: Branch): ElementView {
  return viewOf(pool, tree, node, node.kind === "group" ? "group" : "policy", node);
}

export function viewOfOperation(pool: Pool, tree: PoolTree, operation: Operation): ElementView {
  const exceedsFairShare = operation.lines.some((entry) => isBeyondFairShare(tree, operation, entry));
  return { ...viewOf(pool, tree, operation, "operation", operation.peers as Peers), exceedsFairShare };
}

/**
 * Whether no request of the line can ever be served within the fair share of its operation (9.10). Below a FIFO group
 * the next one is owed nothing yet, and as much as the group when its turn comes.
 */
export function isBeyondFairShare(tree: PoolTree, operation: Operation, entry: LineEntry): boolean {
  const { fairShare: own, leaf } = operation.peers as Peers;
  const [waiting] = membersIn(entry);
  if (leaf.isGang || waiting === undefined) return false;
  const { fairShare } = operation.parent.isInLine ? parentIn(operation) : { fairShare: own };
  return entry.shape.units.some((amount, i) => amount > fairShare[i]! * tree.total[i]! + UNIT_EPSILON);
}

/** The policy of an operation and the groups above it, the nearest first. */
export function viewsAbove(pool: Pool, tree: PoolTree, { parent }: Operation): ElementView[] {
  const views: ElementView[] = [];
  for (let node: Branch | null = parent; node !== null; node = node.parent) {
    if (node.kind !== "root") views.push(viewOfInner(pool, tree, node));
  }
  return views;
}

/** What a branch and an operation have in common; an operation stands as its peers do. */
interface Named {
  readonly key: string;
  readonly name: string;
  readonly parent: Branch | null;
}

function viewOf(
  pool: Pool,
  tree: PoolTree,
  element: Named,
  kind: ElementView["kind"],
  standing: Standing,
): ElementView {
  const { key, name, parent } = element;
  const satisfaction = satisfactionOf(standing);
  const belowSinceMs = pool.starvation.get(key)?.belowSinceMs ?? null;
  return {
    kind,
    name,
    parent: parent === null || parent.kind === "root" ? null : parent.name,
    fairShare: named(tree, standing.fairShare),
    usageShare: named(tree, standing.usageShare),
    demandShare: named(tree, standing.demandShare),
    loans: null,
    satisfaction: satisfaction === Number.POSITIVE_INFINITY ? null : satisfaction,
    status: statusOf(pool, element),
    belowSinceMs,
    starvesAtMs: belowSinceMs === null ? null : belowSinceMs + standing.settings.starvationTimeoutMs,
    waitingCount: standing.waitingCount,
    exceedsFairShare: false,
  };
}

function named({ keyNames }: PoolTree, shares: readonly number[]): Fractions {
  return Object.fromEntries(keyNames.map((key, index) => [key, shown(shares[index]!)]));
}

/** Without the digits that rounding leaves. */
function shown(share: number): number {
  return Math.round(share * SHOWN_STEPS) / SHOWN_STEPS;
}

function loansOf(tree: PoolTree, { usageShare, guarantee }: Branch, lent: readonly number[]): Loans {
  return {
    guarantee: named(tree, guarantee),
    borrowed: named(
      tree,
      usageShare.map((share, key) => Math.max(0, share - guarantee[key]!)),
    ),
    lent: named(tree, lent),
  };
}

/**
 * What every element lends. Of what the members of a group leave idle, the part that is free is lent to nobody;
 * the rest is in the hands of others, and each member lends as much of its own as any other.
 */
function lentBy(tree: PoolTree): Map<Branch, readonly number[]> {
  const lent = new Map<Branch, readonly number[]>();
  const descend = (branch: Branch, free: readonly number[]): void => {
    const members = branch.members.filter((member): member is Branch => member.kind !== "operations");
    const idle = members.map(({ guarantee, usageShare }) =>
      guarantee.map((share, key) => Math.max(0, share - usageShare[key]!)),
    );
    const parts = free.map((left, key) => {
      const sum = idle.reduce((total, each) => total + each[key]!, 0);
      const unused = Math.max(0, left); // More may be in use than there is.
      return sum > unused + SHARE_EPSILON ? 1 - unused / sum : 0;
    });
    for (const [index, member] of members.entries()) {
      const own = idle[index]!.map((share, key) => share * parts[key]!);
      lent.set(member, own);
      descend(
        member,
        idle[index]!.map((share, key) => share - own[key]!),
      );
    }
  };
  descend(
    tree.root,
    tree.root.usageShare.map((share) => 1 - share),
  );
  return lent;
}

/** Everything that waits in the pool, in the order of 9.6. */
export function sharedQueueOf(state: EngineState, pool: Pool): Request[] {
  return [...inOrder(shareTreeOf(state, pool))].flatMap((operation) =>
    waitersOf(pool, operation).map(({ request }) => request),
  );
}
