// Lines: waiting requests that no rule tells apart except by their place share one, so that a decision looks
// at the heads of lines and not at everything that waits.

import { judge } from "./admission.ts";
import { askOf } from "./placement/capacity.ts";
import type { RequestSpec } from "./records.ts";
import { compareIds, toVector } from "./resources.ts";
import { SortedList } from "./sorted-list.ts";
import {
  bySubmission,
  type Component,
  type EngineState,
  type Line,
  type Policy,
  type PoolLine,
  type Request,
} from "./state.ts";

/** Walltime is an order inside the line (it matters to backfill only), so it is not part of the key. */
export function lineKeyOf(component: Component, spec: RequestSpec): string {
  const key = shapeKeyOf(spec);
  return usesFairShare(component) ? `${key}|${spec.operation ?? `#${spec.id}`}` : key;
}

/** All that tells the requests of a component apart, but for their operation. */
export function shapeKeyOf(spec: RequestSpec): string {
  let key = `${spec.component}|`;
  for (const resource of Object.keys(spec.resources).sort(compareIds))
    key += `${resource}=${spec.resources[resource]},`;
  key += `|${spec.preemptible ? "" : "np"}|${spec.preemptionClass}|${spec.sensitive ? "s" : ""}`;
  key += `|${spec.checkpoint}|${spec.checkpointMs ?? ""}|${spec.nodes}|${spec.gang ? "g" : ""}|`;
  for (const label of Object.keys(spec.constraints).sort(compareIds)) {
    key += `${JSON.stringify([label, spec.constraints[label]])},`;
  }
  return key;
}

/** Operations of different components are different ones; without an operation a request is its own (9). */
export function operationKey({ id, component, operation }: RequestSpec): string {
  return operation === null ? `request ${id}` : `operation ${component}/${operation}`;
}

/** Fair share serves operations one by one, so there an operation's requests are a line of their own. */
export function usesFairShare(component: Component): boolean {
  for (const policy of component.policies.values()) {
    if (policy.pool.record.discipline === "fair_share") return true;
  }
  return false;
}

/** The line that a request belongs to, made if it is the first of its kind. */
export function joinLine(state: EngineState, component: Component, spec: RequestSpec): Line {
  const key = lineKeyOf(component, spec);
  let line = state.lines.get(key);
  if (line === undefined) {
    line = createLine(key, component, spec);
    const created = line;
    state.undo.run(
      () => {
        state.lines.set(key, created);
        component.lines.add(created);
      },
      () => {
        state.lines.delete(key);
        component.lines.delete(created);
      },
    );
  }
  state.undo.set(line, "liveCount", line.liveCount + 1);
  return line;
}

/** A line with no live request left is forgotten. */
export function leaveLine(state: EngineState, line: Line): void {
  state.undo.set(line, "liveCount", line.liveCount - 1);
  if (line.liveCount > 0) return;
  state.undo.run(
    () => {
      state.lines.delete(line.key);
      line.component.lines.delete(line);
    },
    () => {
      state.lines.set(line.key, line);
      line.component.lines.add(line);
    },
  );
}

function createLine(key: string, component: Component, shape: RequestSpec): Line {
  const line: Line = {
    key,
    component,
    shape,
    members: new SortedList<Request>(bySubmission, { rank: walltimeRank }),
    pools: new Map(),
    liveCount: 0,
  };
  for (const policy of component.policies.values())
    line.pools.set(policy.pool.record.name, createPoolLine(line, policy));
  return line;
}

export function createPoolLine(line: Line, policy: Policy): PoolLine {
  const poolLine: PoolLine = {
    line,
    policy,
    pool: policy.pool,
    need: [],
    ask: null,
    verdict: null,
    preemptionClass: 0,
    sensitive: false,
    firm: false,
    shareRank: 2,
    runKinds: new Map(),
    stoppingRuns: new Set(),
  };
  return Object.assign(poolLine, describe(poolLine));
}

/** What the pool and the policy make of a line; to be taken anew whenever one of them changes. */
export function describe(
  poolLine: PoolLine,
): Pick<PoolLine, "need" | "ask" | "verdict" | "preemptionClass" | "sensitive" | "firm" | "shareRank"> {
  const { line, policy, pool } = poolLine;
  const { shape } = line;
  const isClass = pool.record.discipline === "class";
  const sensitive = shape.sensitive || (isClass && policy.record.kind === "sensitive");
  const preemptionClass = isClass && sensitive ? 10 : shape.preemptionClass;
  const firm = !shape.preemptible || (isClass && preemptionClass === 10);
  const isDear = isClass && preemptionClass >= 7 && shape.checkpoint === "none";
  const shareRank = firm ? 0 : isDear ? 1 : 2;
  const described = {
    need: needIn(poolLine),
    ask: askOf(poolLine, shareRank),
    preemptionClass,
    sensitive,
    firm,
    shareRank,
  };
  return { ...described, verdict: judge({ ...poolLine, ...described }) };
}

/** Resources are per node, while `step_run` stays 1 (N2). */
function needIn({ line, pool }: PoolLine): number[] {
  const { resources, nodes } = line.shape;
  const need = toVector(resources, pool.keys);
  return nodes === 1
    ? need
    : need.map((amount, i) => (pool.keys[i] === "step_run" ? amount : amount * nodes));
}

function walltimeRank(request: Request): number {
  return request.spec.walltimeMs ?? Number.POSITIVE_INFINITY;
}

/** The pools that admit the line, in the order in which its requests prefer them (G5). */
export function admittingPools(line: Line): PoolLine[] {
  return [...line.pools.values()].filter((poolLine) => poolLine.verdict === null).sort(byPreference);
}

export function byPreference(a: PoolLine, b: PoolLine): number {
  return (
    b.policy.record.priority - a.policy.record.priority || compareIds(a.pool.record.name, b.pool.record.name)
  );
}
