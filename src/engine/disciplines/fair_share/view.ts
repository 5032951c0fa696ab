// What people see of a fair-share pool (9.10).

import type { PoolName, RequestId } from "../../records.ts";
import { type EngineState, type Pool, requirePool } from "../../state.ts";
import type { AllocationGroup } from "./allocation-groups.ts";
import { allocationsOf, groupsOf } from "./allocations.ts";
import { inOrder, satisfactionOf, waitersOf } from "./order.ts";
import { type StarvationStatus, statusOf } from "./starvation.ts";
import { type InnerNode, type Operation, type ShareNode, type ShareTree, shareTreeOf } from "./tree.ts";

type Fractions = Readonly<Record<string, number>>;

export interface ElementView {
  readonly kind: "group" | "policy" | "operation";
  readonly name: string;
  /** The group or policy above it; null: the pool itself. */
  readonly parent: string | null;
  readonly fairShare: Fractions;
  readonly usageShare: Fractions;
  readonly demandShare: Fractions;
  /** Null: it has no fair share at all, so that nothing compares with it. */
  readonly satisfaction: number | null;
  readonly status: StarvationStatus;
  /** Since when it has been below its fair share; null: it is not. */
  readonly belowSinceMs: number | null;
  /** When it begins to starve if nothing changes; null: it does already, or has what it should. */
  readonly starvesAtMs: number | null;
  readonly waitingCount: number;
}

export interface ShareView {
  /** By name. Where a group, a policy and an operation share one, the first of these three is shown. */
  readonly elements: ReadonlyMap<string, ElementView>;
  readonly allocationGroups: ReadonlyMap<RequestId, AllocationGroup>;
  /** Groups whose members are guaranteed more than there is, so that all guarantees were scaled down (9.1). */
  readonly overcommitted: readonly string[];
}

export function shareViewOf(state: EngineState, name: PoolName, _nowMs: number): ShareView {
  const pool = requirePool(state, name);
  const elements = new Map<string, ElementView>();
  const allocationGroups = new Map<RequestId, AllocationGroup>();
  if (pool.record.discipline !== "fair_share") return { elements, allocationGroups, overcommitted: [] };
  const tree = shareTreeOf(state, pool);
  const show = (element: ElementView) => {
    if (!elements.has(element.name)) elements.set(element.name, element);
  };
  for (const node of tree.inner) if (node.kind !== "root") show(viewOf(pool, tree, node, node.kind, node));
  for (const operation of tree.operations.values()) show(viewOfOperation(pool, tree, operation));
  for (const kind of tree.kinds) {
    const groups = groupsOf(pool, tree, kind);
    for (const operation of kind.operations) {
      for (const { run, group } of allocationsOf(operation, groups)) {
        allocationGroups.set(run.request.spec.id, group);
      }
    }
  }
  return { elements, allocationGroups, overcommitted: tree.overcommitted };
}

export function viewOfOperation(pool: Pool, tree: ShareTree, operation: Operation): ElementView {
  return viewOf(pool, tree, operation, "operation", operation.kind);
}

/** The policy of an operation and the groups above it, the nearest first. */
export function viewsAbove(pool: Pool, tree: ShareTree, { parent }: Operation): ElementView[] {
  const views: ElementView[] = [];
  for (let node: InnerNode | null = parent; node !== null; node = node.parent) {
    if (node.kind !== "root") views.push(viewOf(pool, tree, node, node.kind, node));
  }
  return views;
}

/** What an inner element and an operation have in common; how an operation stands is told by its kind. */
interface Named {
  readonly key: string;
  readonly name: string;
  readonly parent: InnerNode | null;
}

function viewOf(
  pool: Pool,
  { keyNames }: ShareTree,
  element: Named,
  kind: ElementView["kind"],
  node: ShareNode,
): ElementView {
  const { key, name, parent } = element;
  const named = (shares: readonly number[]): Fractions =>
    Object.fromEntries(keyNames.map((each, index) => [each, shares[index]!]));
  const satisfaction = satisfactionOf(node);
  const status = statusOf(pool, element);
  const belowSinceMs = pool.starvation.get(key)?.belowSinceMs ?? null;
  const isWarned = status === "below_fair_share" && belowSinceMs !== null;
  return {
    kind,
    name,
    parent: parent === null || parent.kind === "root" ? null : parent.name,
    fairShare: named(node.fairShare),
    usageShare: named(node.usageShare),
    demandShare: named(node.demandShare),
    satisfaction: satisfaction === Number.POSITIVE_INFINITY ? null : satisfaction,
    status,
    belowSinceMs,
    starvesAtMs: isWarned ? belowSinceMs + node.settings.starvationTimeoutMs : null,
    waitingCount: node.waitingCount,
  };
}

/** Everything that waits in the pool, in the order of 9.6. */
export function sharedQueueOf(state: EngineState, pool: Pool): RequestId[] {
  const tree = shareTreeOf(state, pool);
  return [...inOrder(tree)].flatMap((operation) =>
    waitersOf(pool, operation).map(({ request }) => request.spec.id),
  );
}
