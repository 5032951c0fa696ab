// Lines, with what every pool makes of them (see `lines.ts`).

import { judge } from "../admission.ts";
import { disciplineOf } from "../disciplines/disciplines.ts";
import { shapeKeyOf } from "../lines.ts";
import { askOf } from "../placement/capacity.ts";
import type { RequestSpec } from "../records.ts";
import { toVector } from "../resources.ts";
import { SortedList } from "../sorted-list.ts";
import {
  bySubmission,
  type Component,
  type EngineState,
  type Line,
  type Policy,
  type PoolLine,
  type Request,
} from "../state.ts";

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
    reserveRank: 2,
    runKinds: new Map(),
    stoppingRuns: new Set(),
  };
  return Object.assign(poolLine, describe(poolLine));
}

/** What the pool and the policy make of a line; to be taken anew whenever one of them changes. */
export function describe(
  poolLine: PoolLine,
): Pick<PoolLine, "need" | "ask" | "verdict" | "preemptionClass" | "sensitive" | "firm" | "reserveRank"> {
  const { pool, policy, line } = poolLine;
  const standing = disciplineOf(pool).standingOf(line.shape, policy.record);
  const described = { ...standing, need: needIn(poolLine), ask: askOf(poolLine, standing.reserveRank) };
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

/** Walltime is an order inside the line (it matters to backfill only), so it is not part of the key. */
function lineKeyOf(component: Component, spec: RequestSpec): string {
  const key = shapeKeyOf(spec);
  return isServedByOperation(component) ? `${key}|${spec.operation ?? `#${spec.id}`}` : key;
}

/** Where operations are served one by one, an operation's requests are a line of their own. */
export function isServedByOperation(component: Component): boolean {
  for (const { pool } of component.policies.values()) if (disciplineOf(pool).hasShares) return true;
  return false;
}

function walltimeRank(request: Request): number {
  return request.spec.walltimeMs ?? Number.POSITIVE_INFINITY;
}
