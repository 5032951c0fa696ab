// How a run stands (Y5): what of it is borrowed, who could take it, what protects it; and what becomes of a victim (Y6).

import { decide, fork } from "./decide.ts";
import type { Victim } from "./disciplines/discipline.ts";
import { disciplineOf } from "./disciplines/disciplines.ts";
import type { PoolName, RequestId } from "./records.ts";
import { type EngineState, type Run, type RunKind, requireRequest, runKindsOf } from "./state.ts";
import { borrowedOf } from "./views.ts";
import type { AfterStop, RunFacts, Spared, Sparing, VictimFacts } from "./why.ts";

const TAKERS_NAMED_MAX = 10;

export function explainRun(state: EngineState, run: Run, nowMs: number): RunFacts {
  const { request, poolLine, startedAtMs, endMs } = run;
  const { pool, need } = poolLine;
  const borrowed = borrowedOf(state, request.spec.id);
  const discipline = disciplineOf(pool);
  const takers = discipline.takers(state, run, nowMs);
  return {
    pool: pool.record.name,
    startedAtMs,
    endsAtMs: endMs === Number.POSITIVE_INFINITY ? null : endMs,
    units: pool.keys.flatMap((key, i) =>
      need[i] === 0 ? [] : [{ key, amount: need[i] as number, borrowed: borrowed[key] ?? 0 }],
    ),
    takers: takers
      .slice(0, TAKERS_NAMED_MAX)
      .map(({ request: taker, permit }) => ({ requestId: taker.spec.id, permit })),
    takerCount: takers.length,
    protection: discipline.protectionOf(state, run, nowMs),
  };
}

export function explainVictim(state: EngineState, run: Run): VictimFacts {
  const { poolLine } = run;
  const { pool } = poolLine;
  const forRequest = stopOf(run)?.forRequest ?? null;
  const all: Run[] = [];
  for (const { runs } of pool.policies.values()) {
    for (const each of runs) {
      const stop = stopOf(each);
      if (each === run || (forRequest !== null && stop?.forRequest === forRequest)) all.push(each);
    }
  }
  all.sort(disciplineOf(pool).byVictimOrder);
  return { place: all.indexOf(run) + 1, count: all.length, spared: sparedBeside(state, run) };
}

const SPARED_NAMED_MAX = 3;
/** Of how many kinds of runs the latest is looked at. */
const KINDS_LOOKED_AT_MAX = 200;

/** Who went on when a victim was chosen, though it has all that the victim gives up for the request. */
function sparedBeside(state: EngineState, run: Run): Spared[] {
  const { pool, need } = run.poolLine;
  const stop = stopOf(run);
  if (stop == null || stop.forRequest === null) return [];
  const asked = state.requests.get(stop.forRequest)?.line.pools.get(pool.record.name)?.need ?? need;
  const keys = pool.keys.flatMap((_, i) => ((need[i] as number) > 0 && (asked[i] as number) > 0 ? [i] : []));
  const victim: Victim = { run, reason: stop.reason, toldAtMs: stop.toldAtMs };
  const found: { readonly run: Run; readonly sparing: Sparing }[] = [];
  let looked = 0;
  for (const kind of runKindsOf(pool)) {
    if (looked++ === KINDS_LOOKED_AT_MAX) break;
    if (keys.every((i) => (kind.poolLine.need[i] as number) > 0)) found.push(...sparedOf(kind, victim));
  }
  found.sort((a, b) => b.run.token - a.run.token);
  const kinds = new Map<string, Spared>();
  for (const { run: spared, sparing } of found) {
    const { id, component } = spared.request.spec;
    const key = `${component} ${sparing.why} ${sparing.why === "barred" ? sparing.bar : ""}`;
    if (!kinds.has(key)) kinds.set(key, { requestId: id, ...sparing });
  }
  return [...kinds.values()].slice(0, SPARED_NAMED_MAX);
}

/** The latest of a kind that ran already, or that started before the victim: the others were spared by the same rule, or none. */
function* sparedOf({ poolLine: { pool }, runs }: RunKind, victim: Victim) {
  const { sparedBy } = disciplineOf(pool);
  const hadBegun = ({ startedAtMs }: Run) => startedAtMs < victim.toldAtMs;
  for (const isBefore of [hadBegun, (run: Run) => hadBegun(run) && run.token < victim.run.token]) {
    const run = runs.backwards(isBefore).next().value;
    const sparing = run === undefined ? null : sparedBy(run, victim);
    if (run !== undefined && sparing !== null) yield { run, sparing };
  }
}

function stopOf({ request }: Run) {
  return request.progress.allocation?.stop;
}

/** What the end of a victim makes of it, found by letting it end on a fork. */
export function afterStop(state: EngineState, id: RequestId, nowMs: number): AfterStop {
  const { spec, progress } = requireRequest(state, id);
  return fork(state, () => {
    decide(state, { kind: "tick", ends: [{ requestId: spec.id, outcome: "stopped" }] }, nowMs);
    const { status, delayed } = progress;
    if (status !== "queued") return { endsAs: status, comesBack: [] };
    if (delayed) return { endsAs: "delayed", comesBack: [] };
    const comesBack: { pool: PoolName; place: number }[] = [];
    for (const { pool, verdict } of state.requests.get(spec.id)?.line.poolLines ?? []) {
      if (verdict !== null) continue;
      let place = 1;
      for (const { spec: other } of disciplineOf(pool).queue(state, pool, nowMs)) {
        if (other.id === spec.id) break;
        place++;
      }
      comesBack.push({ pool: pool.record.name, place });
    }
    return { endsAs: "queued", comesBack };
  });
}
