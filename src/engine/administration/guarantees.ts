// What a change must not break: reserved sums, limits, and what runs (P4, P7).

import type { GroupRecord, PoolRecord } from "../records.ts";
import { refuse } from "../refusals.ts";
import { amountOf } from "../resources.ts";
import type { Pool } from "../state.ts";
import type { Transaction } from "../transaction.ts";
import { poolNamed } from "./checks.ts";

/** Makes a change, and refuses it if it breaks P4 more than it was broken before, unless it is forced (P7). */
export function guarded(
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
