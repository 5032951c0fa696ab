// Changes of pools, groups and policies (3): what is refused, and what a change does.

import type { GroupSpec, NodeSpec, PolicySpec, PoolSpec } from "./scenario.ts";
import { endAttempt, newEvent, poolsOf, tellToStop, terminate } from "./stopping.ts";
import {
  admittingPools,
  isStopping,
  isWaiting,
  type Policy,
  type Pool,
  policyOf,
  type Request,
  runsIn,
  type World,
} from "./world.ts";

export class Refused extends Error {}

export function refuse(code: string): never {
  throw new Refused(code);
}

export function poolNamed(world: World, name: string): Pool {
  const pool = world.pools.find((one) => one.name === name) ?? refuse("not_found");
  return pool.closing ? refuse("in_use") : pool;
}

export function createPool(world: World, spec: PoolSpec, nodes?: NodeSpec[]): void {
  if (world.pools.some((pool) => pool.name === spec.name)) refuse("name_taken");
  const capacity = spec.capacity ?? {};
  if (Object.keys(capacity).length === 0 && nodes === undefined) refuse("empty_capacity");
  if (Object.values(capacity).some((amount) => !isAmount(amount) || amount === 0)) refuse("invalid_amount");
  change(world, spec.name, spec.force, () => {
    world.pools.push({
      name: spec.name,
      capacity: { ...capacity },
      discipline: spec.discipline ?? "priority",
      settings: { ...spec.settings },
      groups: structuredClone(spec.groups ?? []),
      closing: false,
      ...(nodes && { nodes: nodes.map((node) => ({ ...node, state: "ready" as const })) }),
    });
    sumNodes(world.pools.at(-1)!);
  });
}

/** The capacity of a node-backed pool is what its ready nodes have; known keys stay metered (P2, R4). */
function sumNodes(pool: Pool): void {
  if (pool.nodes === undefined) return;
  pool.capacity = {};
  for (const { capacity, state } of pool.nodes) {
    for (const [key, amount] of Object.entries(capacity)) {
      pool.capacity[key] = (pool.capacity[key] ?? 0) + (state === "ready" ? amount : 0);
    }
  }
}

/** A new node, or a known one that is back with what it has now. */
export function nodeUp(world: World, spec: NodeSpec): void {
  const pool = poolNamed(world, spec.pool);
  if (pool.nodes === undefined) return refuse("invalid_request");
  pool.nodes = [...pool.nodes.filter((node) => node.name !== spec.name), { ...spec, state: "ready" }];
  sumNodes(pool);
  newEvent(world, [pool.name]);
}

/** What ran there is lost at once; a draining node only takes nothing new (N4). */
export function nodeAway(world: World, name: string, state: "down" | "draining"): void {
  const pool = world.pools.find((other) => other.nodes?.some((node) => node.name === name));
  const node = pool?.nodes?.find((other) => other.name === name);
  if (pool === undefined || node === undefined) return refuse("not_found");
  node.state = state;
  sumNodes(pool);
  newEvent(world, [pool.name]);
  if (state === "draining") return;
  for (const request of runsIn(world, pool)) {
    if (request.run!.placed!.includes(name)) endAttempt(world, request, "lost");
  }
}

export function updatePool(world: World, spec: PoolSpec): void {
  const pool = poolNamed(world, spec.name);
  if (!Object.values(spec.capacity ?? {}).every(isAmount)) refuse("invalid_amount");
  change(world, spec.name, spec.force, () => {
    Object.assign(pool.capacity, spec.capacity);
    for (const [key, amount] of Object.entries(pool.capacity)) {
      // (P2) What the nodes of a pool have together may be nothing for a while.
      if (amount === 0 && pool.nodes === undefined) delete pool.capacity[key];
    }
    if (Object.keys(pool.capacity).length === 0) refuse("empty_capacity");
    Object.assign(pool.settings, spec.settings);
    for (const group of spec.groups ?? []) {
      const known = pool.groups.find((other) => other.name === group.name);
      if (known === undefined) pool.groups.push({ ...group });
      else changeGroup(known, group);
    }
  });
}

export function updateGroup(world: World, spec: GroupSpec & { pool: string; force?: boolean }): void {
  const { pool: name, force, ...fields } = spec;
  const groups = poolNamed(world, name).groups;
  const group = groups.find((other) => other.name === spec.name) ?? refuse("not_found");
  checkAmounts(spec);
  change(world, name, force, () => {
    changeGroup(group, fields);
  });
}

/** What is not said stays, of the settings too. */
function changeGroup(group: GroupSpec, change: GroupSpec): void {
  Object.assign(group, change, { settings: { ...group.settings, ...change.settings } });
}

export function attachPolicy(world: World, spec: PolicySpec): void {
  const pool = poolNamed(world, spec.pool);
  if (policyOf(world, pool, spec.component) !== undefined) refuse("policy_exists");
  checkAmounts(spec);
  checkGroup(pool, spec);
  const { force, ...fields } = spec;
  const policy: Policy = { priority: 0, reserved: {}, limit: {}, kind: "batch", ...fields };
  change(world, pool.name, force, () => {
    world.policies.push(policy);
  });
}

export function updatePolicy(world: World, spec: PolicySpec): void {
  const pool = poolNamed(world, spec.pool);
  const policy = policyOf(world, pool, spec.component) ?? refuse("not_found");
  checkAmounts(spec);
  checkGroup(pool, spec);
  const { force, ...fields } = spec;
  change(world, pool.name, force, () => {
    Object.assign(policy, fields);
  });
}

export function detachPolicy(world: World, spec: { pool: string; component: string; force?: boolean }): void {
  const pool = poolNamed(world, spec.pool);
  const policy = policyOf(world, pool, spec.component) ?? refuse("not_found");
  const isOurs = (request: Request) => request.component === spec.component;
  const queued = waitingIn(world, pool).filter(isOurs);
  const runs = runsIn(world, pool).filter(isOurs);
  if (queued.length + runs.length > 0 && !spec.force) refuse("in_use");
  clear(world, pool, queued, runs);
  change(world, pool.name, true, () => {
    world.policies.splice(world.policies.indexOf(policy), 1);
  });
}

export function deletePool(world: World, spec: { name: string; force?: boolean }): void {
  const pool = poolNamed(world, spec.name);
  const queued = waitingIn(world, pool);
  const runs = runsIn(world, pool);
  if (queued.length + runs.length > 0 && !spec.force) refuse("in_use");
  clear(world, pool, queued, runs);
  change(world, pool.name, true, () => {
    pool.closing = true;
    world.policies = world.policies.filter((policy) => policy.pool !== pool.name);
  });
}

/** Cancels what waits here and nowhere else, and stops what runs (P8). */
function clear(world: World, pool: Pool, queued: Request[], runs: Request[]): void {
  for (const request of queued) {
    if (admittingPools(world, request).length > 1) continue;
    newEvent(world, [pool.name]);
    request.status = "cancelled";
  }
  for (const request of runs) {
    if (!isStopping(request)) tellToStop(world, pool, request, "administration");
  }
}

function waitingIn(world: World, pool: Pool): Request[] {
  return world.requests.filter(
    (request) => isWaiting(request) && admittingPools(world, request).includes(pool),
  );
}

export function cancel(world: World, request: Request): void {
  newEvent(world, poolsOf(world, request));
  if (request.run === undefined) {
    request.status = "cancelled";
    return;
  }
  request.run.cancelled = true;
  terminate(world, request);
}

/** Makes the change, and takes it back if it breaks a rule more than it was broken before (P7). */
function change(world: World, pool: string, force: boolean | undefined, make: () => void): void {
  const before = breaches(world);
  const saved = structuredClone({ pools: world.pools, policies: world.policies });
  const restore = () => {
    Object.assign(world, saved);
  };
  try {
    make();
    if (world.pools.some(hasGroupBelowFifo)) refuse("invalid_request");
    const after = breaches(world);
    const worse = [...after].find(([rule, excess]) => excess > (before.get(rule) ?? 0));
    if (worse !== undefined && !force) refuse(worse[0].split(" ")[0]!);
  } catch (error) {
    restore();
    throw error;
  }
  newEvent(world, [pool]);
}

/** (9.1) */
function hasGroupBelowFifo({ groups }: Pool): boolean {
  return groups.some(({ parent }) => groups.find(({ name }) => name === parent)?.mode === "fifo");
}

/** By how much each rule of P4 is broken; the first word is the code of the refusal. */
function breaches(world: World): Map<string, number> {
  const found = new Map<string, number>();
  const note = (rule: string, excess: number) => {
    if (excess > 0) found.set(rule, excess);
  };
  for (const pool of world.pools) {
    if (pool.closing) continue;
    const policies = world.policies.filter((policy) => policy.pool === pool.name);
    const owners = [
      ...policies.map((policy) => ({ ...policy, name: `policy ${policy.component}` })),
      ...pool.groups.map((group) => ({ ...group, name: `group ${group.name}` })),
    ];
    for (const owner of owners) {
      for (const key of Object.keys({ ...owner.reserved, ...owner.limit })) {
        note(`unknown_key ${pool.name} ${owner.name} ${key}`, key in pool.capacity ? 0 : 1);
        const limit = owner.limit?.[key] ?? Number.POSITIVE_INFINITY;
        note(`reserved_over_limit ${pool.name} ${owner.name} ${key}`, (owner.reserved?.[key] ?? 0) - limit);
      }
    }
    for (const [key, capacity] of Object.entries(pool.capacity)) {
      const total = policies.reduce((sum, policy) => sum + (policy.reserved[key] ?? 0), 0);
      note(`reserved_over_capacity ${pool.name} ${key}`, total - capacity);
      const guarantee = (group: GroupSpec): number => group.reserved?.[key] ?? members(group);
      const members = (group: GroupSpec): number =>
        policies
          .filter((policy) => policy.group === group.name)
          .reduce((sum, policy) => sum + (policy.reserved[key] ?? 0), 0) +
        pool.groups
          .filter((child) => child.parent === group.name)
          .reduce((sum, child) => sum + guarantee(child), 0);
      const top = pool.groups.filter((group) => group.parent === undefined);
      const atTop = top.reduce((sum, group) => sum + guarantee(group), 0);
      note(`reserved_over_capacity ${pool.name} groups ${key}`, atTop - capacity);
      for (const group of pool.groups) {
        if (group.reserved?.[key] === undefined) continue;
        note(
          `reserved_over_capacity ${pool.name} ${group.name} ${key}`,
          members(group) - group.reserved[key],
        );
      }
    }
  }
  return found;
}

function checkAmounts(spec: Partial<Pick<PolicySpec, "reserved" | "limit">>): void {
  const amounts = [...Object.values(spec.reserved ?? {}), ...Object.values(spec.limit ?? {})];
  if (!amounts.every(isAmount)) refuse("invalid_amount");
}

function checkGroup(pool: Pool, spec: PolicySpec): void {
  if (spec.group !== undefined && !pool.groups.some((group) => group.name === spec.group)) {
    refuse("not_found");
  }
}

export function isAmount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}
