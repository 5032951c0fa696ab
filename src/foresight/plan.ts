// What changes would do: decided on a fork, one after the other, and followed forward in time (X2, X6).

import {
  accountsOf,
  type Command,
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
import { type Budget, createBudget } from "./budget.ts";
import { type ForwardRun, runForward } from "./forward.ts";
import type { Later, Plan, PlanStep, Question } from "./questions.ts";

/** What a plan may cost (X7): the changes themselves, and what they leave, by halves, for the two forward runs. */
const PLAN_BUDGET = { cpuMs: 2_000, decisions: 50_000 };

export function planOf(
  state: EngineState,
  { steps, horizonMs }: Extract<Question, { kind: "plan" }>,
  nowMs: number,
  budget = createBudget(PLAN_BUDGET),
): Plan {
  const atSeq = state.seq;
  const forward = (happened: readonly Event[], usedMs: number) =>
    horizonMs === undefined ? null : runAhead(state, happened, { nowMs, untilMs: nowMs + horizonMs, usedMs });
  const changed = fork(state, () => {
    const made = decideAll(state, steps, nowMs, budget);
    if (made.outcome !== "made") return made;
    const { usedMs } = budget;
    const touched = touchedPools(state, made.events);
    const events = made.events.flat();
    const warnings = [...warningsIn(state, touched, nowMs), ...warningsAbout(state, events)];
    const later = forward(events, usedMs);
    return { ...made, after: accountsIn(state, touched), touched, warnings, usedMs, later };
  });
  if (changed.outcome !== "made") return changed;
  const { chosen, events, touched, after } = changed;
  const before = accountsIn(state, touched);
  const accounts = touched.map((pool) => ({
    pool,
    before: before.get(pool) ?? null,
    after: after.get(pool) ?? null,
  }));
  const known = new Set(warningsIn(state, touched, nowMs).map(textOf));
  const warnings = changed.warnings.filter((warning) => !known.has(textOf(warning)));
  const without = forward([], changed.usedMs);
  const later = without && changed.later && differenceOf(without, changed.later);
  return { outcome: "planned", atSeq, chosen, events, accounts, warnings, later };
}

type Made =
  | {
      readonly outcome: "made";
      readonly chosen: readonly number[];
      readonly events: readonly (readonly Event[])[];
    }
  | Exclude<Plan, { outcome: "planned" }>;

/** Each step sees what those before it have made. */
function decideAll(state: EngineState, steps: readonly PlanStep[], nowMs: number, budget: Budget): Made {
  const atSeq = state.seq;
  const chosen: number[] = [];
  const events: (readonly Event[])[] = [];
  for (const [step, { commands }] of steps.entries()) {
    const { index, decision } = firstPossible(commands, (command) =>
      decide(state, command, nowMs, budget.isTimeUp),
    );
    if (decision.outcome === "refused") return { outcome: "refused", atSeq, step, refusal: decision.refusal };
    if (!budget.spend()) return { outcome: "too_large", atSeq, step, steps: steps.length };
    chosen.push(index);
    events.push(decision.events);
  }
  return { outcome: "made", chosen, events };
}

const EXISTENCE: ReadonlySet<string> = new Set(["not_found", "name_taken", "policy_exists"]);

function firstPossible(
  commands: PlanStep["commands"],
  decided: (command: Command) => Decision,
): { readonly index: number; readonly decision: Decision } {
  for (const [index, command] of commands.entries()) {
    const decision = decided(command);
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
  { nowMs, untilMs, usedMs }: { readonly nowMs: number; readonly untilMs: number; readonly usedMs: number },
): ForwardRun {
  const { cpuMs, decisions } = PLAN_BUDGET;
  const budget = createBudget({ cpuMs: (cpuMs - usedMs) / 2, decisions: decisions / 2 });
  return fork(state, () => runForward(state, { happened, fromMs: nowMs, untilMs, budget }));
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
