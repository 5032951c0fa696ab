// Changes of pools, groups and policies (3): what is refused, and what a change does to those who wait.

import type { Command, GroupChange, PolicyChange } from "./commands.ts";
import { admittingPools } from "./lines.ts";
import type { GroupRecord, PolicyRecord, PoolRecord } from "./records.ts";
import { refuse } from "./refusals.ts";
import { amountOf, compareIds, isResourceKey, type Resources } from "./resources.ts";
import { emit, type Transaction } from "./scheduling/transaction.ts";
import { DEFAULT_POOL_SETTINGS, type GroupSettings, type PoolSettings } from "./settings.ts";
import type { EngineState, Group, Line, Policy, Pool, Request, Run } from "./state.ts";
import { firstStop } from "./stopping.ts";

type CommandOf<Kind extends Command["kind"]> = Extract<Command, { kind: Kind }>;

const NAME_PATTERN = /^[a-z0-9][a-z0-9._-]{0,62}$/;

// --- pools -------------------------------------------------------------------------------------------

export function createPool(transaction: Transaction, command: CommandOf<"createPool">): void {
  const { state } = transaction;
  const { name, capacity, settings = {}, groups = [] } = command;
  checkName("pool", name);
  if (state.pools.has(name)) {
    refuse(
      "name_taken",
      `A pool named "${name}" exists already.`,
      "Choose another name, or update that pool.",
    );
  }
  if (capacity !== undefined) {
    if (Object.keys(capacity).length === 0) refuseEmptyCapacity(name);
    checkAmounts(`capacity of pool "${name}"`, capacity, 1);
  }
  checkSettings(settings);
  emit(transaction, {
    kind: "poolSet",
    pool: {
      name,
      description: command.description ?? "",
      labels: command.labels ?? {},
      discipline: command.discipline ?? "priority",
      capacity: capacity ?? {},
      nodeBacked: capacity === undefined,
      settings: { ...DEFAULT_POOL_SETTINGS, ...settings },
      closing: false,
    },
  });
  guarded(transaction, name, false, () => putGroups(transaction, name, groups));
}

export function updatePool(transaction: Transaction, command: CommandOf<"updatePool">): void {
  const { name, force = false, settings = {} } = command;
  const pool = poolNamed(transaction.state, name);
  checkSettings(settings);
  guarded(transaction, name, force, () => {
    const { record } = pool;
    const next: PoolRecord = {
      ...record,
      description: command.description ?? record.description,
      labels: command.labels ?? record.labels,
      capacity: command.capacity === undefined ? record.capacity : mergeCapacity(record, command.capacity),
      settings: { ...record.settings, ...settings },
    };
    emit(transaction, { kind: "poolSet", pool: next });
    putGroups(transaction, name, command.groups ?? []);
  });
}

/** Merged by key; 0 removes the key (P2). */
function mergeCapacity({ name, capacity, nodeBacked }: PoolRecord, changes: Resources): Resources {
  if (nodeBacked) {
    refuse(
      "invalid_request",
      `Pool "${name}" takes its capacity from its nodes.`,
      "Add, change or drain a node instead.",
    );
  }
  checkAmounts(`capacity of pool "${name}"`, changes, 0);
  const merged = Object.fromEntries(
    Object.entries({ ...capacity, ...changes }).filter(([, amount]) => amount > 0),
  );
  if (Object.keys(merged).length === 0) refuseEmptyCapacity(name);
  return merged;
}

function refuseEmptyCapacity(name: string): never {
  refuse(
    "empty_capacity",
    `Pool "${name}" would have no capacity.`,
    "Give at least one key, for example gpu: 8.",
  );
}

export function deletePool(transaction: Transaction, { name, force = false }: CommandOf<"deletePool">): void {
  const pool = poolNamed(transaction.state, name);
  const policies = [...pool.policies.values()];
  const queued = policies.flatMap((policy) => waitingOf(transaction.state, policy));
  const runs = policies.flatMap((policy) => [...policy.runs]);
  checkUnused(`Pool "${name}"`, queued, runs, force);
  clear(transaction, pool, queued, runs);
  if (runs.length === 0) return emit(transaction, { kind: "poolDeleted", name });
  emit(transaction, { kind: "poolSet", pool: { ...pool.record, closing: true } });
}

// --- groups ------------------------------------------------------------------------------------------

export function createGroup(transaction: Transaction, command: CommandOf<"createGroup">): void {
  const { pool: poolName, group, force = false } = command;
  const pool = poolNamed(transaction.state, poolName);
  if (pool.groups.has(group.name)) {
    refuse(
      "name_taken",
      `Pool "${poolName}" has a group "${group.name}" already.`,
      "Choose another name, or update it.",
    );
  }
  guarded(transaction, poolName, force, () => putGroups(transaction, poolName, [group]));
}

export function updateGroup(transaction: Transaction, command: CommandOf<"updateGroup">): void {
  const { pool: poolName, group, force = false } = command;
  groupNamed(poolNamed(transaction.state, poolName), group.name);
  guarded(transaction, poolName, force, () => putGroups(transaction, poolName, [group]));
}

export function deleteGroup(transaction: Transaction, command: CommandOf<"deleteGroup">): void {
  const pool = poolNamed(transaction.state, command.pool);
  const { record } = groupNamed(pool, command.name);
  const members = [
    ...[...pool.groups.values()]
      .filter((other) => other.record.parent === record.name)
      .map((other) => other.record.name),
    ...[...pool.policies.values()]
      .filter((policy) => policy.record.group === record.name)
      .map((p) => p.record.component),
  ];
  if (members.length > 0) {
    refuse("in_use", `Group "${record.name}" still has ${members.join(", ")} below it.`, "Move them first.");
  }
  emit(transaction, { kind: "groupDeleted", pool: command.pool, name: command.name });
}

/** Adds or changes groups. A parent must be there before its children. */
function putGroups(
  { state, ...transaction }: Transaction,
  poolName: PoolRecord["name"],
  changes: readonly GroupChange[],
): void {
  const pool = poolNamed(state, poolName);
  for (const change of changes) {
    checkName("group", change.name);
    const known = pool.groups.get(change.name)?.record;
    const record: GroupRecord = {
      pool: poolName,
      name: change.name,
      parent: change.parent === undefined ? (known?.parent ?? null) : change.parent,
      weight: change.weight ?? known?.weight ?? 1,
      reserved: change.reserved === undefined ? (known?.reserved ?? null) : change.reserved,
      limit: change.limit ?? known?.limit ?? {},
      mode: change.mode ?? known?.mode ?? "fair_share",
      settings:
        change.settings === undefined ? (known?.settings ?? {}) : { ...known?.settings, ...change.settings },
    };
    checkGroup(pool, record);
    emit({ state, ...transaction }, { kind: "groupSet", group: record });
  }
}

function checkGroup(pool: Pool, record: GroupRecord): void {
  const name = `group "${record.name}"`;
  checkWeight(name, record.weight);
  checkAmounts(`reserved of ${name}`, record.reserved ?? {}, 0);
  checkAmounts(`limit of ${name}`, record.limit, 0);
  checkSettings(record.settings);
  for (let above = record.parent; above !== null; above = groupNamed(pool, above).record.parent) {
    if (above === record.name)
      refuse("invalid_request", `The ${name} would be below itself.`, "Choose another parent.");
  }
}

// --- policies ----------------------------------------------------------------------------------------

export function attachPolicy(
  transaction: Transaction,
  { policy: change, force = false }: CommandOf<"attachPolicy">,
): void {
  const pool = poolNamed(transaction.state, change.pool);
  const known = pool.policies.get(change.component)?.record;
  if (known !== undefined && !known.closing) {
    refuse(
      "policy_exists",
      `Component "${change.component}" has a policy in pool "${change.pool}" already.`,
      "Update that policy instead.",
    );
  }
  checkComponent(change.component);
  const fresh: PolicyRecord = {
    pool: change.pool,
    component: change.component,
    componentType: "",
    priority: 0,
    reserved: {},
    limit: {},
    weight: 1,
    kind: "batch",
    maxClass: 10,
    group: null,
    home: null,
    closing: false,
  };
  putPolicy(transaction, pool, { ...fresh, ...change }, force);
}

export function updatePolicy(
  transaction: Transaction,
  { policy: change, force = false }: CommandOf<"updatePolicy">,
): void {
  const pool = poolNamed(transaction.state, change.pool);
  const { record } = policyNamed(pool, change.component);
  putPolicy(transaction, pool, { ...record, ...withoutUndefined(change) }, force);
}

function putPolicy(transaction: Transaction, pool: Pool, record: PolicyRecord, force: boolean): void {
  const name = `policy of "${record.component}"`;
  if (!Number.isSafeInteger(record.priority) || record.priority < 0) {
    refuse(
      "invalid_request",
      `The ${name} has priority ${record.priority}.`,
      "Use a whole number from 0 on.",
    );
  }
  if (!Number.isInteger(record.maxClass) || record.maxClass < 0 || record.maxClass > 10) {
    refuse(
      "invalid_class",
      `The ${name} has max_class ${record.maxClass}.`,
      "Use a whole number from 0 to 10.",
    );
  }
  checkWeight(name, record.weight);
  checkAmounts(`reserved of the ${name}`, record.reserved, 0);
  checkAmounts(`limit of the ${name}`, record.limit, 0);
  if (record.group !== null) groupNamed(pool, record.group);
  guarded(transaction, pool.record.name, force, () =>
    emit(transaction, { kind: "policySet", policy: record }),
  );
}

export function detachPolicy(transaction: Transaction, command: CommandOf<"detachPolicy">): void {
  const pool = poolNamed(transaction.state, command.pool);
  const policy = policyNamed(pool, command.component);
  const queued = waitingOf(transaction.state, policy);
  const runs = [...policy.runs];
  checkUnused(
    `Component "${command.component}" in pool "${command.pool}"`,
    queued,
    runs,
    command.force ?? false,
  );
  clear(transaction, pool, queued, runs);
  if (runs.length > 0)
    return emit(transaction, { kind: "policySet", policy: { ...policy.record, closing: true } });
  emit(transaction, { kind: "policyDetached", pool: command.pool, component: command.component });
}

// --- what a change does to requests ------------------------------------------------------------------

function checkUnused(what: string, queued: readonly Request[], runs: readonly Run[], force: boolean): void {
  if (queued.length + runs.length === 0 || force) return;
  refuse(
    "in_use",
    `${what} has ${queued.length} queued and ${runs.length} allocated requests.`,
    "Wait for them, cancel them, or pass force to stop them.",
  );
}

/** Cancels what waits here and nowhere else, and stops what runs, NP work included (P8). */
function clear(transaction: Transaction, pool: Pool, queued: readonly Request[], runs: readonly Run[]): void {
  const { nowMs } = transaction;
  for (const { spec, progress, line } of queued) {
    if (admittingPools(line).length === 1) {
      emit(transaction, { kind: "requestCancelled", requestId: spec.id, atMs: nowMs });
    } else if (progress.hold?.pool === pool.record.name) {
      emit(transaction, {
        kind: "holdEnded",
        requestId: spec.id,
        why: "not_admitted",
        by: null,
        atMs: nowMs,
      });
    }
  }
  stopByAdministration(transaction, pool, runs);
}

/** Stops what runs, NP work included; nobody in particular gets the units (P8, N4). */
export function stopByAdministration(transaction: Transaction, pool: Pool, runs: readonly Run[]): void {
  const { nowMs } = transaction;
  const stopped = runs.filter((run) => !run.isStopping);
  if (stopped.length === 0) return;
  emit(transaction, {
    kind: "preemptionDecided",
    pool: pool.record.name,
    waiter: null,
    shortage: {},
    victims: stopped.map(({ request }) => ({
      requestId: request.spec.id,
      reason: "administration",
      stop: firstStop(request, pool, { reason: "administration", forRequest: null, nowMs }),
      shielded: request.progress.shielded,
    })),
    considered: [],
    placement: [],
    atMs: nowMs,
  });
}

/** Requests of a component that wait in the policy's pool. */
function waitingOf(state: EngineState, policy: Policy): Request[] {
  const waiting: Request[] = [];
  const { name } = policy.pool.record;
  for (const line of state.components.get(policy.record.component)?.lines ?? []) {
    if (line.pools.get(name)?.verdict !== null) continue;
    waiting.push(...waitersOf(line));
  }
  return waiting;
}

/** All that wait in a line, holders included, delayed ones not. */
function waitersOf(line: Line): Request[] {
  const holders = [...line.pools.values()].flatMap(({ pool }) =>
    [...pool.holders].filter((request) => request.line === line),
  );
  return [...line.members, ...holders];
}

/** After a change: those whom no pool admits any more are rejected (P9), and what was closing may have gone. */
export function settleAdministration(transaction: Transaction): void {
  const { state } = transaction;
  const isUnadmitted = ({ pools }: Line) => [...pools.values()].every(({ verdict }) => verdict !== null);
  const lines = [...state.lines.values()].filter(isUnadmitted);
  // In an order that does not depend on what was tried and taken back before.
  for (const line of lines.sort((a, b) => compareIds(a.key, b.key))) rejectUnadmitted(transaction, line);
}

/** Rejects everything in a line that no pool admits (A3, P9). */
export function rejectUnadmitted(transaction: Transaction, line: Line): void {
  const verdicts = [...line.pools.values()].map(({ verdict }) => verdict);
  if (verdicts.some((verdict) => verdict === null)) return;
  const reasons = verdicts.filter((verdict) => verdict !== null && verdict.code !== "no_policy");
  const noPolicy = { pool: null, code: "no_policy", key: null, asked: 0, allowed: 0 } as const;
  for (const request of waitersOf(line)) {
    emit(transaction, {
      kind: "requestRejected",
      requestId: request.spec.id,
      reasons: reasons.length === 0 ? [noPolicy] : reasons.map((reason) => reason ?? noPolicy),
      atMs: transaction.nowMs,
    });
  }
}

/** A pool or policy that was removed by force goes with its last run (P8). */
export function removeWhatClosed(transaction: Transaction, pool: Pool): void {
  if (pool.record.closing) {
    if (pool.runCount === 0) emit(transaction, { kind: "poolDeleted", name: pool.record.name });
    return;
  }
  for (const { record, runs } of [...pool.policies.values()]) {
    if (!record.closing || runs.size > 0) continue;
    emit(transaction, { kind: "policyDetached", pool: record.pool, component: record.component });
  }
}

// --- P4 and P7 ---------------------------------------------------------------------------------------

/** Makes a change, and refuses it if it breaks P4 more than it was broken before, unless it is forced (P7). */
function guarded(
  transaction: Transaction,
  name: PoolRecord["name"],
  force: boolean,
  change: () => void,
): void {
  const pool = poolNamed(transaction.state, name);
  const before = new Map(breaches(pool).map((breach) => [breach.rule, breach.excess]));
  change();
  const worse = breaches(pool).find(({ rule, excess }) => excess > (before.get(rule) ?? 0));
  if (worse !== undefined && !force) refuse(worse.code, worse.message, worse.hint);
}

interface Breach {
  readonly rule: string;
  readonly excess: number;
  readonly code: "unknown_key" | "reserved_over_limit" | "reserved_over_capacity";
  readonly message: string;
  readonly hint: string;
}

/** By how much each rule of P4 is broken in a pool. */
function breaches(pool: Pool): Breach[] {
  const found: Breach[] = [];
  // What a pool will have is not known before its first node is there.
  const isUnknown = pool.record.nodeBacked && pool.nodes.size === 0;
  const note = (breach: Breach) => {
    const isAboutCapacity = breach.code !== "reserved_over_limit";
    if (breach.excess > 0 && !(isUnknown && isAboutCapacity)) found.push(breach);
  };
  const policies = [...pool.policies.values()].map(({ record }) => record).filter(({ closing }) => !closing);
  const groups = [...pool.groups.values()].map(({ record }) => record);
  const owners = [
    ...policies.map(({ component, reserved, limit }) => ({
      name: `policy of "${component}"`,
      reserved,
      limit,
    })),
    ...groups.map(({ name, reserved, limit }) => ({
      name: `group "${name}"`,
      reserved: reserved ?? {},
      limit,
    })),
  ];
  for (const { name, reserved, limit } of owners) {
    for (const key of Object.keys({ ...reserved, ...limit })) {
      note({
        rule: `unknown_key ${name} ${key}`,
        excess: pool.keys.includes(key) ? 0 : 1,
        code: "unknown_key",
        message: `The ${name} names "${key}", which pool "${pool.record.name}" does not have.`,
        hint: `Add "${key}" to the pool's capacity, or leave it out.`,
      });
      if (!Object.hasOwn(limit, key)) continue;
      note({
        rule: `reserved_over_limit ${name} ${key}`,
        excess: amountOf(reserved, key) - amountOf(limit, key),
        code: "reserved_over_limit",
        message: `The ${name} would reserve ${amountOf(reserved, key)} ${key} above its limit of ${amountOf(limit, key)}.`,
        hint: "Reserve less, or raise the limit.",
      });
    }
  }
  pool.keys.forEach((key, i) => {
    const capacity = pool.capacity[i] as number;
    const overCapacity = (rule: string, reserved: number, bound: number, whose: string): void =>
      note({
        rule: `reserved_over_capacity ${rule} ${key}`,
        excess: reserved - bound,
        code: "reserved_over_capacity",
        message: `${whose} would reserve ${reserved} ${key} of ${bound}.`,
        hint: "Reserve less, raise the capacity, or pass force to accept the debt.",
      });
    const total = policies.reduce((sum, { reserved }) => sum + amountOf(reserved, key), 0);
    overCapacity("policies", total, capacity, `The policies of pool "${pool.record.name}"`);
    const guarantee = (group: GroupRecord): number =>
      group.reserved !== null && Object.hasOwn(group.reserved, key)
        ? amountOf(group.reserved, key)
        : members(group.name);
    const members = (parent: GroupRecord["name"]): number =>
      policies
        .filter(({ group }) => group === parent)
        .reduce((sum, { reserved }) => sum + amountOf(reserved, key), 0) +
      groups.filter((group) => group.parent === parent).reduce((sum, group) => sum + guarantee(group), 0);
    const atTop = groups
      .filter(({ parent }) => parent === null)
      .reduce((sum, group) => sum + guarantee(group), 0);
    overCapacity("groups", atTop, capacity, `The groups of pool "${pool.record.name}"`);
    for (const { name, reserved } of groups) {
      if (reserved === null || !Object.hasOwn(reserved, key)) continue;
      overCapacity(name, members(name), amountOf(reserved, key), `The members of group "${name}"`);
    }
  });
  return found;
}

// --- looking things up, and checking values ----------------------------------------------------------

export function poolNamed(state: EngineState, name: PoolRecord["name"]): Pool {
  const pool = state.pools.get(name);
  if (pool === undefined || pool.record.closing) {
    return refuse("not_found", `There is no pool "${name}".`, "List the pools to see their names.");
  }
  return pool;
}

function groupNamed(pool: Pool, name: GroupRecord["name"]): Group {
  return (
    pool.groups.get(name) ??
    refuse("not_found", `Pool "${pool.record.name}" has no group "${name}".`, "List the groups of the pool.")
  );
}

function policyNamed(pool: Pool, component: PolicyRecord["component"]): Policy {
  const policy = pool.policies.get(component);
  if (policy === undefined || policy.record.closing) {
    return refuse(
      "not_found",
      `Component "${component}" has no policy in pool "${pool.record.name}".`,
      "List the policies of the pool, or attach one.",
    );
  }
  return policy;
}

function checkName(what: string, name: string): void {
  if (NAME_PATTERN.test(name)) return;
  refuse(
    "invalid_request",
    `"${name}" is not a name for a ${what}.`,
    "Use up to 63 lower-case letters, digits, dots, dashes and underscores, beginning with a letter or digit.",
  );
}

function checkComponent(name: string): void {
  if (name.length > 0 && name.length <= 200) return;
  refuse("invalid_request", `A component's name has ${name.length} characters.`, "Use 1 to 200 characters.");
}

/** Whole numbers from `min` on, under well-formed keys (R1, R2). */
export function checkAmounts(what: string, amounts: Resources, min: 0 | 1): void {
  for (const [key, amount] of Object.entries(amounts)) {
    if (!isResourceKey(key)) {
      refuse(
        "invalid_request",
        `"${key}" in the ${what} is not a resource key.`,
        "Use a lower-case letter, then up to 62 letters, digits, dots, dashes and underscores.",
      );
    }
    if (Number.isSafeInteger(amount) && amount >= min) continue;
    refuse("invalid_amount", `The ${what} has ${amount} of "${key}".`, `Use a whole number from ${min} on.`);
  }
}

function checkWeight(what: string, weight: number): void {
  if (Number.isFinite(weight) && weight > 0) return;
  refuse("invalid_request", `The weight of the ${what} is ${weight}.`, "Use a number above 0.");
}

function checkSettings(settings: Partial<PoolSettings> | GroupSettings): void {
  for (const [name, value] of Object.entries(settings)) {
    if (typeof value !== "number") continue;
    const isWhole = name.endsWith("Ms") || name === "maxPreemptions" || name === "maxVictims";
    if (Number.isFinite(value) && value >= 0 && (!isWhole || Number.isSafeInteger(value))) continue;
    refuse(
      "invalid_request",
      `The setting ${name} is ${value}.`,
      "Use a number from 0 on; times and counts are whole.",
    );
  }
  if (settings.nonPreemptibleUsageThreshold !== undefined) {
    checkAmounts("non-preemptible usage threshold", settings.nonPreemptibleUsageThreshold, 0);
  }
}

function withoutUndefined(change: PolicyChange): PolicyChange {
  return Object.fromEntries(
    Object.entries(change).filter(([, value]) => value !== undefined),
  ) as unknown as PolicyChange;
}
