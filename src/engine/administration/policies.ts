// Changes of policies (3).

import type { CommandOf } from "../commands.ts";
import type { PolicyRecord } from "../records.ts";
import { refuse } from "../refusals.ts";
import type { Pool } from "../state.ts";
import type { Transaction } from "../transaction.ts";
import {
  checkAmounts,
  checkComponent,
  checkWeight,
  groupNamed,
  policyNamed,
  poolNamed,
  withoutUndefined,
} from "./checks.ts";
import { checkUnused, clear, waitingOf } from "./effects.ts";
import { guarded } from "./guarantees.ts";
import { created, updated } from "./lifetime.ts";

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
    ...created(transaction),
  };
  putPolicy(transaction, pool, { ...fresh, ...change }, force);
}

export function updatePolicy(
  transaction: Transaction,
  { policy: change, force = false }: CommandOf<"updatePolicy">,
): void {
  const pool = poolNamed(transaction.state, change.pool);
  const { record } = policyNamed(pool, change.component);
  putPolicy(transaction, pool, { ...record, ...withoutUndefined(change), ...updated(transaction) }, force);
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
  guarded(transaction, { about: "policy", component: record.component, pool: pool.record.name, force }, () =>
    transaction.emit({ kind: "policySet", policy: record }),
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
  if (runs.length > 0) {
    const closing = { ...policy.record, closing: true, ...updated(transaction) };
    return transaction.emit({ kind: "policySet", policy: closing });
  }
  transaction.emit({ kind: "policyDetached", pool: command.pool, component: command.component });
}
