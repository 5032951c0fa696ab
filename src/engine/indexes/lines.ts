// Lines, with what every pool makes of them (see `lines.ts`).

import { judge } from "../admission.ts";
import { disciplineOf } from "../disciplines/disciplines.ts";
import { isSameShape, shapeKeyOf } from "../lines.ts";
import { askOf } from "../placement/capacity.ts";
import type { RequestSpec } from "../records.ts";
import { toVector } from "../resources.ts";
import { SortedList, type Summaries } from "../sorted-list.ts";
import {
  bySubmission,
  type Component,
  type EngineState,
  type Line,
  NO_KINDS,
  NO_RUNS,
  type Policy,
  type Pool,
  type PoolLine,
  PoolsOfLine,
  type Request,
  submissionOf,
} from "../state.ts";

/** The line that a request belongs to, made if it is the first of its kind. */
export function joinLine(state: EngineState, component: Component, spec: RequestSpec): Line {
  const last = component.joinedLast;
  // Many requests in a row are alike: then the key of their shape need not be made.
  const alike = last !== null && isSameShape(last.shape, spec) ? last : null;
  let line = alike !== null && isOfLine(alike, spec) ? alike : undefined;
  if (line === undefined) {
    const shapeKey = alike?.shapeKey ?? shapeKeyOf(spec);
    line = lineOf(state, component, spec, shapeKey);
  }
  state.undo.remember(line, "liveCount", line.liveCount);
  line.liveCount++;
  component.joinedLast = line;
  return line;
}

/** Whether a request of the same shape belongs to a line, too. */
function isOfLine({ component, shape, liveCount }: Line, { operation }: RequestSpec): boolean {
  return liveCount > 0 && (operation === shape.operation || !component.isServedByOperation);
}

/** Walltime is an order inside the line (it matters to backfill only), so it is not part of the key. */
function lineOf(state: EngineState, component: Component, spec: RequestSpec, shapeKey: string): Line {
  const hasOwn = spec.operation !== null && component.isServedByOperation;
  const key = hasOwn ? `${shapeKey}|${spec.operation}` : shapeKey;
  const known = state.lines.get(key);
  if (known !== undefined) return known;
  const line = createLine({ key, component, shape: spec, shapeKey });
  state.undo.put(state.lines, key, line);
  state.undo.addTo(component.lines, line);
  return line;
}

/** A line with no live request left is forgotten, and with the last one a component that nobody else speaks of. */
export function leaveLine(state: EngineState, line: Line): void {
  state.undo.remember(line, "liveCount", line.liveCount);
  line.liveCount--;
  if (line.liveCount > 0) return;
  state.undo.drop(state.lines, line.key);
  state.undo.removeFrom(line.component.lines, line);
  releaseComponent(state, line.component);
}

/** A component without policies and requests is forgotten. */
export function releaseComponent(state: EngineState, component: Component): void {
  if (component.policies.size > 0 || component.lines.size > 0) return;
  state.undo.drop(state.components, component.name);
}

function createLine({
  key,
  component,
  shape,
  shapeKey,
}: Pick<Line, "key" | "component" | "shape" | "shapeKey">): Line {
  const line = {
    key,
    component,
    shape,
    shapeKey,
    members: new SortedList<Request>(bySubmission, MEMBERS),
    poolLines: NO_POOL_LINES,
    pools: undefined as unknown as PoolsOfLine, // Refers to the line itself.
    liveCount: 0,
  };
  line.pools = new PoolsOfLine(line);
  line.poolLines = Array.from(component.policies.values(), (policy) => createPoolLine(line, policy));
  return line;
}

export function createPoolLine(line: Line, policy: Policy): PoolLine {
  const { pool, record } = policy;
  const { preemptionClass, sensitive, firm, reserveRank } = disciplineOf(pool).standingOf(line.shape, record);
  const poolLine: PoolLine = {
    line,
    policy,
    pool,
    need: needIn(line, pool),
    ask: null,
    verdict: null,
    preemptionClass,
    sensitive,
    firm,
    reserveRank,
    runKinds: NO_KINDS,
    share: null,
    stoppingRuns: NO_RUNS,
  };
  poolLine.ask = askOf(poolLine, reserveRank);
  poolLine.verdict = judge(poolLine);
  return poolLine;
}

/** Resources are per node, while `step_run` stays 1 (N2). */
function needIn(line: Line, pool: Pool): number[] {
  const { resources, nodes } = line.shape;
  const need = toVector(resources, pool.keys);
  return nodes === 1
    ? need
    : need.map((amount, i) => (pool.keys[i] === "step_run" ? amount : amount * nodes));
}

const NO_POOL_LINES: readonly PoolLine[] = [];

const MEMBERS: Summaries<Request> = { key: submissionOf, rank: walltimeRank };

function walltimeRank(request: Request): number {
  return request.spec.walltimeMs ?? Number.POSITIVE_INFINITY;
}
