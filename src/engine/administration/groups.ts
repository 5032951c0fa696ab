// Changes of groups (3).

import type { CommandOf, GroupChange } from "../commands.ts";
import type { GroupRecord, PoolRecord } from "../records.ts";
import { refuse } from "../refusals.ts";
import type { Pool } from "../state.ts";
import type { Transaction } from "../transaction.ts";
import { checkAmounts, checkName, checkSettings, checkWeight, groupNamed, poolNamed } from "./checks.ts";
import { checkContradictions } from "./contradictions.ts";
import { guarded } from "./guarantees.ts";

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
  guarded(transaction, { about: "groups", pool: poolName, force }, () =>
    putGroups(transaction, poolName, [group]),
  );
  if (group.settings !== undefined) checkContradictions(pool);
}

export function updateGroup(transaction: Transaction, command: CommandOf<"updateGroup">): void {
  const { pool: poolName, group, force = false } = command;
  const pool = poolNamed(transaction.state, poolName);
  groupNamed(pool, group.name);
  guarded(transaction, { about: "groups", pool: poolName, force }, () =>
    putGroups(transaction, poolName, [group]),
  );
  if (group.settings !== undefined || group.parent !== undefined) checkContradictions(pool);
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
  transaction.emit({ kind: "groupDeleted", pool: command.pool, name: command.name });
}

/** Adds or changes groups. A parent must be there before its children. */
export function putGroups(
  transaction: Transaction,
  poolName: PoolRecord["name"],
  changes: readonly GroupChange[],
): void {
  const pool = poolNamed(transaction.state, poolName);
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
    transaction.emit({ kind: "groupSet", group: record });
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
  checkNesting(pool, record);
}

/** A FIFO group contains no groups (9.1). */
function checkNesting({ groups }: Pool, { name, parent, mode }: GroupRecord): void {
  if (parent !== null && groups.get(parent)?.record.mode === "fifo") {
    refuse(
      "invalid_request",
      `Group "${parent}" serves its operations in one line (mode fifo), so no group can be below it.`,
      "Attach the policies to it directly, or choose another parent.",
    );
  }
  if (mode !== "fifo") return;
  for (const { record } of groups.values()) {
    if (record.parent !== name) continue;
    refuse(
      "invalid_request",
      `Group "${name}" has group "${record.name}" below it, so it cannot take mode fifo.`,
      "Move the groups below it first.",
    );
  }
}
