// Changes of pools (3).

import type { CommandOf } from "../commands.ts";
import type { PoolRecord } from "../records.ts";
import { refuse } from "../refusals.ts";
import type { Resources } from "../resources.ts";
import { DEFAULT_POOL_SETTINGS } from "../settings.ts";
import type { Transaction } from "../transaction.ts";
import { checkAmounts, checkName, checkSettings, poolNamed } from "./checks.ts";
import { checkContradictions } from "./contradictions.ts";
import { checkUnused, clear, waitingOf } from "./effects.ts";
import { putGroups } from "./groups.ts";
import { guarded } from "./guarantees.ts";
import { created, updated } from "./lifetime.ts";

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
  transaction.emit({
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
      ...created(transaction),
    },
  });
  guarded(transaction, { about: "pool", pool: name, force: false }, () =>
    putGroups(transaction, name, groups),
  );
  checkContradictions(poolNamed(state, name));
}

export function updatePool(transaction: Transaction, command: CommandOf<"updatePool">): void {
  const { name, force = false, settings = {} } = command;
  const pool = poolNamed(transaction.state, name);
  checkSettings(settings);
  guarded(transaction, { about: "pool", pool: name, force }, () => {
    const { record } = pool;
    const next: PoolRecord = {
      ...record,
      description: command.description ?? record.description,
      labels: command.labels ?? record.labels,
      capacity: command.capacity === undefined ? record.capacity : mergeCapacity(record, command.capacity),
      settings: { ...record.settings, ...settings },
      ...updated(transaction),
    };
    transaction.emit({ kind: "poolSet", pool: next });
    putGroups(transaction, name, command.groups ?? []);
  });
  if (command.settings ?? command.capacity ?? command.groups) checkContradictions(pool);
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
  if (runs.length === 0) return transaction.emit({ kind: "poolDeleted", name });
  transaction.emit({ kind: "poolSet", pool: { ...pool.record, closing: true, ...updated(transaction) } });
}
