// Lines: waiting requests that no rule tells apart except by their place share one, so that a decision looks
// at the heads of lines and not at everything that waits. What a line is called, and where its requests would rather go.

import type { RequestSpec } from "./records.ts";
import { compareIds } from "./resources.ts";
import type { Line, PoolLine } from "./state.ts";

/** All that tells the requests of a component apart, but for their operation. */
export function shapeKeyOf(spec: RequestSpec): string {
  let key = `${spec.component}|`;
  for (const resource of Object.keys(spec.resources).sort(compareIds))
    key += `${resource}=${spec.resources[resource]},`;
  key += `|${spec.preemptible ? "" : "np"}|${spec.preemptionClass}|${spec.sensitive ? "s" : ""}`;
  key += `|${spec.checkpoint}|${spec.checkpointMs ?? ""}|${spec.nodes}|${spec.gang ? "g" : ""}|`;
  if (spec.isJob === true) key += "j|";
  if (spec.pools) key += `${JSON.stringify(spec.pools)}|`;
  for (const label of Object.keys(spec.constraints).sort(compareIds)) {
    key += `${JSON.stringify([label, spec.constraints[label]])},`;
  }
  return key;
}

/** Whether two requests of one component have the same key: the same questions, without making it. */
export function isSameShape(a: RequestSpec, b: RequestSpec): boolean {
  return (
    a.preemptible === b.preemptible &&
    a.preemptionClass === b.preemptionClass &&
    a.sensitive === b.sensitive &&
    a.checkpoint === b.checkpoint &&
    a.checkpointMs === b.checkpointMs &&
    a.nodes === b.nodes &&
    a.gang === b.gang &&
    (a.isJob === true) === (b.isJob === true) &&
    !a.pools === !b.pools &&
    (!a.pools || JSON.stringify(a.pools) === JSON.stringify(b.pools)) &&
    areEqual(a.resources, b.resources) &&
    areEqual(a.constraints, b.constraints)
  );
}

function areEqual(a: Readonly<Record<string, unknown>>, b: Readonly<Record<string, unknown>>): boolean {
  if (a === b) return true;
  let more = 0;
  for (const key in a) {
    if (a[key] !== b[key]) return false;
    more++;
  }
  for (const _ in b) more--;
  return more === 0;
}

/** Operations of different components are different ones; without an operation a request is its own (9). */
export function operationKey({ id, component, operation }: RequestSpec): string {
  return operation === null ? `request ${id}` : `operation ${component}/${operation}`;
}

/** The pools that admit the line, in the order in which its requests prefer them (G5). */
export function admittingPools(line: Line): PoolLine[] {
  return line.poolLines.filter((poolLine) => poolLine.verdict === null).sort(byPreference);
}

export function byPreference(a: PoolLine, b: PoolLine): number {
  return (
    b.policy.record.priority - a.policy.record.priority || compareIds(a.pool.record.name, b.pool.record.name)
  );
}
