// What a change must not break: reserved sums, limits, and what runs (P4, P7).

import type { GroupRecord, PolicyRecord, PoolRecord } from "../records.ts";
import { refuse } from "../refusals.ts";
import { amountOf, type Resources } from "../resources.ts";
import type { Policy, Pool } from "../state.ts";
import type { Transaction } from "../transaction.ts";
import { poolNamed } from "./checks.ts";

/** What a change is about: it can break the rules of nobody else. */
export type Scope =
  | { readonly about: "pool" | "groups" }
  | { readonly about: "policy"; readonly component: PolicyRecord["component"] };

/** Makes a change, and refuses it if it breaks P4 more than it was broken before, unless it is forced (P7). */
export function guarded(
  transaction: Transaction,
  { pool: name, force, ...scope }: Scope & { readonly pool: PoolRecord["name"]; readonly force: boolean },
  change: () => void,
): void {
  const pool = poolNamed(transaction.state, name);
  const before = new Map(breaches(pool, scope).map((breach) => [breach.rule, breach.excess]));
  change();
  const worse = breaches(pool, scope).find(({ rule, excess }) => excess > (before.get(rule) ?? 0));
  if (worse !== undefined && !force) refuse(worse.code, worse.message, worse.hint);
}

interface Breach {
  readonly rule: string;
  readonly excess: number;
  readonly code: "unknown_key" | "reserved_over_limit" | "reserved_over_capacity";
  readonly message: string;
  readonly hint: string;
}

/** By how much each rule of P4 is broken in a pool. Words are made for what is broken only. */
function breaches(pool: Pool, scope: Scope): Breach[] {
  // What a pool will have is not known before it has a node.
  const isUnknown = pool.record.nodeBacked && pool.nodes.size === 0;
  return [...breachesOfOwners(pool, scope, isUnknown), ...(isUnknown ? [] : breachesOfSums(pool))];
}

/** What reserves or limits something: a policy, or a group. */
interface Owner {
  readonly what: string;
  readonly name: string;
  readonly reserved: Resources;
  readonly limit: Resources;
}

function breachesOfOwners(pool: Pool, scope: Scope, isUnknown: boolean): Breach[] {
  const found: Breach[] = [];
  for (const { record } of policiesIn(pool, scope)) {
    const { component: name, reserved, limit } = record;
    if (!record.closing) note({ what: "policy of", name, reserved, limit });
  }
  for (const { record } of scope.about === "policy" ? [] : pool.groups.values()) {
    note({ what: "group", name: record.name, reserved: record.reserved ?? {}, limit: record.limit });
  }
  return found;

  function note({ what, name, reserved, limit }: Owner): void {
    const owner = `${what} "${name}"`;
    for (const key of new Set([...Object.keys(reserved), ...Object.keys(limit)])) {
      if (!isUnknown && !pool.keys.includes(key)) {
        found.push({
          rule: `unknown_key ${owner} ${key}`,
          excess: 1,
          code: "unknown_key",
          message: `The ${owner} names "${key}", which pool "${pool.record.name}" does not have.`,
          hint: `Add "${key}" to the pool's capacity, or leave it out.`,
        });
      }
      const excess = Object.hasOwn(limit, key) ? amountOf(reserved, key) - amountOf(limit, key) : 0;
      if (excess <= 0) continue;
      found.push({
        rule: `reserved_over_limit ${owner} ${key}`,
        excess,
        code: "reserved_over_limit",
        message: `The ${owner} would reserve ${amountOf(reserved, key)} ${key} above its limit of ${amountOf(limit, key)}.`,
        hint: "Reserve less, or raise the limit.",
      });
    }
  }
}

function policiesIn({ policies }: Pool, scope: Scope): Iterable<Policy> {
  if (scope.about === "pool") return policies.values();
  const policy = scope.about === "policy" ? policies.get(scope.component) : undefined;
  return policy === undefined ? [] : [policy];
}

function breachesOfSums(pool: Pool): Breach[] {
  const found: Breach[] = [];
  const policies = [...pool.policies.values()].map(({ record }) => record).filter(({ closing }) => !closing);
  const groups = [...pool.groups.values()].map(({ record }) => record);
  pool.keys.forEach((key, i) => {
    const capacity = pool.capacity[i] as number;
    const overCapacity = (rule: string, reserved: number, bound: number, whose: () => string): void => {
      if (reserved <= bound) return;
      found.push({
        rule: `reserved_over_capacity ${rule} ${key}`,
        excess: reserved - bound,
        code: "reserved_over_capacity",
        message: `${whose()} would reserve ${reserved} ${key} of ${bound}.`,
        hint: "Reserve less, raise the capacity, or pass force to accept the debt.",
      });
    };
    const total = policies.reduce((sum, { reserved }) => sum + amountOf(reserved, key), 0);
    overCapacity("policies", total, capacity, () => `The policies of pool "${pool.record.name}"`);
    if (groups.length === 0) return;
    const { atTop, members } = guaranteesOf(key, policies, groups);
    overCapacity("groups", atTop, capacity, () => `The groups of pool "${pool.record.name}"`);
    for (const { name, reserved } of groups) {
      if (reserved === null || !Object.hasOwn(reserved, key)) continue;
      overCapacity(name, members(name), amountOf(reserved, key), () => `The members of group "${name}"`);
    }
  });
  return found;
}

/** What groups guarantee on a key: what they say, or else what is guaranteed below them. */
function guaranteesOf(key: string, policies: readonly PolicyRecord[], groups: readonly GroupRecord[]) {
  const ofPolicies = new Map<string, number>();
  for (const { group, reserved } of policies) {
    if (group !== null) ofPolicies.set(group, (ofPolicies.get(group) ?? 0) + amountOf(reserved, key));
  }
  const sumOf = (parent: string | null) =>
    groups.reduce((sum, group) => (group.parent === parent ? sum + guarantee(group) : sum), 0);
  const members = (name: string): number => (ofPolicies.get(name) ?? 0) + sumOf(name);
  const guarantee = ({ name, reserved }: GroupRecord): number =>
    reserved !== null && Object.hasOwn(reserved, key) ? amountOf(reserved, key) : members(name);
  return { atTop: sumOf(null), members };
}
