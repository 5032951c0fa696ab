// What is accepted but cannot be kept, or looks like a slip: told when things are changed, planned and looked over.

import type { ComponentName, PoolName, PoolRecord, RequestSpec } from "./records.ts";
import { amountOf } from "./resources.ts";
import { type EngineState, requirePool } from "./state.ts";
import {
  capacityOf,
  forcesSensitive,
  hasShares,
  policiesOf,
  reservedOf,
  scaledGroupsOf,
  shieldedRunsOf,
} from "./views.ts";

/** What alerts are raised about, as long as it lasts (P7, 9.1, V6). */
export type PoolAlert =
  /** Its policies reserve more than there is, so that not everybody can have it (P7). */
  | {
      readonly code: "reserve_not_reachable";
      readonly pool: PoolName;
      readonly key: string;
      readonly reserved: number;
      readonly capacity: number;
    }
  /** Groups, and "" for the pool as a whole, that guarantee more than there is (9.1). */
  | { readonly code: "guarantees_scaled"; readonly pool: PoolName; readonly groups: readonly string[] }
  /** Runs that were preempted too often lately (V6). */
  | { readonly code: "runs_shielded"; readonly pool: PoolName; readonly count: number };

/** A sensitive policy is bounded by its reserve alone, and only where some policy reserves something (10.8). */
export interface UnreservedWarning {
  readonly code: "sensitive_unreserved";
  readonly pool: PoolName;
  readonly component: ComponentName;
  readonly key: string;
  readonly isReservedByOthers: boolean;
}

/** Fair shares alone know operations that have all they ask for or nothing (9.2). */
export interface GangWarning {
  readonly code: "gang_without_effect";
  readonly pools: readonly Pick<PoolRecord, "name" | "discipline">[];
}

export type Warning = PoolAlert | UnreservedWarning | GangWarning;

export function poolAlerts(state: EngineState, pool: PoolName, nowMs: number): PoolAlert[] {
  const groups = scaledGroupsOf(state, pool);
  const count = shieldedRunsOf(state, pool, nowMs);
  const capacities = capacityOf(state, pool);
  return [
    ...(groups.length > 0 ? [{ code: "guarantees_scaled" as const, pool, groups }] : []),
    ...(count > 0 ? [{ code: "runs_shielded" as const, pool, count }] : []),
    ...Object.entries(reservedOf(state, pool)).flatMap(([key, reserved]) => {
      const capacity = amountOf(capacities, key);
      return reserved <= capacity
        ? []
        : [{ code: "reserve_not_reachable" as const, pool, key, reserved, capacity }];
    }),
  ];
}

export function unreservedIn(state: EngineState, pool: PoolName): UnreservedWarning[] {
  const policies = policiesOf(state, pool);
  const sensitive = policies.filter((policy) => forcesSensitive(state, policy));
  return sensitive.flatMap(({ component, reserved: own }) =>
    Object.keys(capacityOf(state, pool))
      .filter((key) => amountOf(own, key) === 0)
      .map((key) => ({
        ...{ code: "sensitive_unreserved" as const, pool, component, key },
        isReservedByOthers: policies.some(({ reserved }) => amountOf(reserved, key) > 0),
      })),
  );
}

/** Of the pools that `reaches` holds for. */
export function gangWarnings(
  state: EngineState,
  spec: RequestSpec,
  reaches: (pool: PoolName) => boolean = () => true,
): GangWarning[] {
  if (!spec.gang) return [];
  const names = [...(state.components.get(spec.component)?.policies.keys() ?? [])].filter(
    (name) => (spec.pools?.includes(name) ?? true) && reaches(name),
  );
  if (names.length === 0 || names.some((name) => hasShares(state, name))) return [];
  const pools = names.map((name) => ({ name, discipline: requirePool(state, name).record.discipline }));
  return [{ code: "gang_without_effect", pools }];
}
