// What changes would do: decided on a fork, one after the other, and followed forward in time (X2, X6).

import {
  accountsOf,
  compareIds,
  type Decision,
  decide,
  type EngineState,
  type Event,
  fork,
  gangWarnings,
  type PoolName,
  poolAlerts,
  poolsConcerned,
  type RequestId,
  unreservedIn,
  type Warning,
} from "../engine/index.ts";
import { createBudget } from "./budget.ts";
import { type ForwardRun, runForward } from "./forward.ts";
import type { Later, Plan, PlanStep, Question } from "./questions.ts";

/** Each of the two forward runs of a plan gets half of what a plan may cost (X7). */
const FORWARD_BUDGET = { cpuMs: 1_000, decisions: 25_000 };

export function planOf(
  state: EngineState,
  { steps, horizonMs }: Extract<Question, { kind: "plan" }>,
  nowMs: number,
): Plan {
  const atSeq = state.seq;
  const forward = (happened: readonly Event[]) =>
    horizonMs === undefined ? null : runAhead(state, happened, nowMs, nowMs + horizonMs);
  const changed = fork(state, () => {
    const made = decideAll(state, steps, nowMs);
    if ("refusal" in made) return made;
    const touched = touchedPools(state, made.events);
    const events = made.events.flat();
    const warnings = [...warningsIn(state, touched, nowMs), ...warningsAbout(state, events)];
    return { ...made, after: accountsIn(state, touched), touched, warnings, forward: forward(events) };
  });
  if ("refusal" in changed) return { outcome: "refused", atSeq, ...changed };
  const { chosen, events, touched, after } = changed;
  const before = accountsIn(state, touched);
  const accounts = touched.map((pool) => ({
    pool,
    before: before.get(pool) ?? null,
    after: after.get(pool) ?? null,
  }));
  const known = new Set(warningsIn(state, touched, nowMs).map(textOf));
  const warnings = changed.warnings.filter((warning) => !known.has(textOf(warning)));
  const without = forward([]);
  const later = without && changed.forward && differenceOf(without, changed.forward);
  return { outcome: "planned", atSeq, chosen, events, accounts, warnings, later };
}

type Made =
  | { readonly chosen: readonly number[]; readonly events: readonly (readonly Event[])[] }
  | { readonly step: number; readonly refusal: Extract<Decision, { outcome: "refused" }>["refusal"] };

/** Each step sees what those before it have made. */
function decideAll(state: EngineState, steps: readonly PlanStep[], nowMs: number): Made {
  const chosen: number[] = [];
  const events: (readonly Event[])[] = [];
  for (const [step, { commands }] of steps.entries()) {
    const { index, decision } = firstPossible(state, commands, nowMs);
    if (decision.outcome === "refused") return { step, refusal: decision.refusal };
    chosen.push(index);
    events.push(decision.events);
  }
  return { chosen, events };
}

const EXISTENCE: ReadonlySet<string> = new Set(["not_found", "name_taken", "policy_exists"]);

function firstPossible(
  state: EngineState,
  commands: PlanStep["commands"],
  nowMs: number,
): { readonly index: number; readonly decision: Decision } {
  for (const [index, command] of commands.entries()) {
    const decision = decide(state, command, nowMs);
    const isFinal = decision.outcome === "accepted" || !EXISTENCE.has(decision.refusal.code);
    if (isFinal || index === commands.length - 1) return { index, decision };
  }
  throw new Error("a step of a plan has no command");
}

function touchedPools(state: EngineState, events: readonly (readonly Event[])[]): PoolName[] {
  return [...new Set(events.flat().flatMap((event) => poolsConcerned(state, event)))].sort(compareIds);
}

function accountsIn(state: EngineState, pools: readonly PoolName[]) {
  return new Map(
    pools.flatMap((pool) => (state.pools.has(pool) ? [[pool, accountsOf(state, pool)] as const] : [])),
  );
}

function warningsIn(state: EngineState, pools: readonly PoolName[], nowMs: number): Warning[] {
  return pools
    .filter((pool) => state.pools.has(pool))
    .flatMap((pool) => [...poolAlerts(state, pool, nowMs), ...unreservedIn(state, pool)]);
}

/** About what is submitted. */
function warningsAbout(state: EngineState, events: readonly Event[]): Warning[] {
  return events.flatMap((event) =>
    event.kind === "requestSubmitted" ? gangWarnings(state, event.spec) : [],
  );
}

function textOf(warning: Warning): string {
  return JSON.stringify(warning);
}

function runAhead(
  state: EngineState,
  happened: readonly Event[],
  fromMs: number,
  untilMs: number,
): ForwardRun {
  return fork(state, () =>
    runForward(state, { happened, fromMs, untilMs, budget: createBudget(FORWARD_BUDGET) }),
  );
}

/** Compared as far as both runs got. */
function differenceOf(before: ForwardRun, after: ForwardRun): Later {
  const reachedMs = Math.min(before.reachedMs, after.reachedMs);
  const startOf = ({ startsAtMs }: ForwardRun, id: RequestId) => {
    const startMs = startsAtMs.get(id);
    return startMs === undefined || startMs > reachedMs ? null : startMs;
  };
  const ids = [...new Set([...before.startsAtMs.keys(), ...after.startsAtMs.keys()])].sort(compareIds);
  return {
    moved: ids
      .map((requestId) => ({
        requestId,
        beforeMs: startOf(before, requestId),
        afterMs: startOf(after, requestId),
      }))
      .filter(({ beforeMs, afterMs }) => beforeMs !== afterMs),
    lost: { before: before.lostUnitSeconds, after: after.lostUnitSeconds },
    reachedMs,
    isCut: before.isCut || after.isCut,
  };
}
