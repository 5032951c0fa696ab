// Pools, groups, policies and nodes: wire → commands of the engine, and records → wire.

import type {
  Command,
  GroupChange,
  GroupName,
  GroupRecord,
  Lifetime,
  NodeChange,
  NodeRecord,
  NodeView,
  PolicyChange,
  PolicyRecord,
  PoolRecord,
  RequestId,
  Resources,
} from "../engine/index.ts";
import type { WireGroup, WireNodeUpdate, WirePolicy, WirePool, WirePoolUpdate } from "../protocol/index.ts";
import { toComponentName, toGroupName, toNodeName, toPoolName } from "./names.ts";
import { presentGroupSettings, presentPoolSettings, toGroupSettings, toPoolSettings } from "./settings.ts";
import { given, toTimestamp } from "./units.ts";

type CommandOf<Kind extends Command["kind"]> = Extract<Command, { kind: Kind }>;

export function toCreatePool(pool: WirePool): CommandOf<"createPool"> {
  return given({
    kind: "createPool" as const,
    name: toPoolName(pool.name),
    capacity: pool.capacity,
    discipline: pool.discipline,
    description: pool.description,
    labels: pool.labels,
    settings: pool.settings && toPoolSettings(pool.settings),
    groups: pool.groups?.map(toGroupChange),
  });
}

export function toUpdatePool(
  pool: WirePoolUpdate & { force?: boolean | undefined },
): CommandOf<"updatePool"> {
  return given({
    kind: "updatePool" as const,
    name: toPoolName(pool.name),
    capacity: pool.capacity,
    description: pool.description,
    labels: pool.labels,
    settings: pool.settings && toPoolSettings(pool.settings),
    groups: pool.groups?.map(toGroupChange),
    force: pool.force,
  });
}

export function toGroupChange(group: WireGroup): GroupChange {
  return given({
    name: toGroupName(group.name),
    parent: toGroupNameOrNull(group.parent),
    weight: group.weight,
    reserved: group.reserved,
    limit: group.limit,
    mode: group.mode,
    settings: group.settings && toGroupSettings(group.settings),
  });
}

function toGroupNameOrNull(name: string | null | undefined): GroupName | null | undefined {
  return typeof name === "string" ? toGroupName(name) : name;
}

export function toPolicyChange(policy: WirePolicy): PolicyChange {
  return given({
    pool: toPoolName(policy.pool),
    component: toComponentName(policy.component),
    componentType: policy.component_type,
    priority: policy.priority,
    reserved: policy.reserved,
    limit: policy.limit,
    weight: policy.weight,
    kind: policy.kind,
    maxClass: policy.max_class,
    group: toGroupNameOrNull(policy.group),
    home: policy.home,
  });
}

export function toNodeChange(node: WireNodeUpdate): NodeChange {
  return given({
    name: toNodeName(node.name),
    pool: node.pool === undefined ? undefined : toPoolName(node.pool),
    capacity: node.capacity,
    labels: node.labels,
    topology: node.topology,
  });
}

/** A node-backed pool has no capacity of its own; what its nodes give it is passed in. */
export function presentPool(pool: PoolRecord, capacity: Resources = pool.capacity) {
  return {
    name: pool.name,
    description: pool.description,
    labels: pool.labels,
    discipline: pool.discipline,
    capacity,
    node_backed: pool.nodeBacked,
    closing: pool.closing,
    settings: presentPoolSettings(pool.settings),
  };
}

/** Null: it was created, or last changed, before such times were kept. */
export function presentLifetime({ createdAtMs, updatedAtMs }: Lifetime) {
  return {
    created_at: createdAtMs === undefined ? null : toTimestamp(createdAtMs),
    updated_at: updatedAtMs === undefined ? null : toTimestamp(updatedAtMs),
  };
}

export function presentGroup(group: GroupRecord) {
  return {
    pool: group.pool,
    name: group.name,
    parent: group.parent,
    weight: group.weight,
    reserved: group.reserved,
    limit: group.limit,
    mode: group.mode,
    settings: presentGroupSettings(group.settings),
  };
}

export function presentPolicy(policy: PolicyRecord) {
  return {
    pool: policy.pool,
    component: policy.component,
    component_type: policy.componentType,
    priority: policy.priority,
    reserved: policy.reserved,
    limit: policy.limit,
    weight: policy.weight,
    kind: policy.kind,
    max_class: policy.maxClass,
    group: policy.group,
    home: policy.home,
    closing: policy.closing,
  };
}

/** What people set of a node. */
export function presentNode(node: NodeRecord) {
  return {
    name: node.name,
    pool: node.pool,
    capacity: node.capacity,
    labels: node.labels,
    topology: node.topology,
    state: node.state,
    drain_deadline: node.drainDeadlineMs === null ? null : toTimestamp(node.drainDeadlineMs),
    enrolled: node.enrolled ?? null,
  };
}

/** The same with what is on it. */
export function presentNodeView(
  { record, usage, runs }: NodeView,
  numberOf: (id: RequestId) => number | undefined,
) {
  const requests = runs.map(({ requestId: id, devices }) => ({
    id,
    number: numberOf(id) ?? 0,
    devices: [...devices],
  }));
  return { ...presentNode(record), usage, requests };
}
