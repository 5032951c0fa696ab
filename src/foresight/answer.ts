// Answers a question from a state. Everything is tried on a fork and taken back (X5).

import {
  afterStop,
  compareOrder,
  type EngineState,
  type Explanation,
  explain,
  fork,
  requestOf,
} from "../engine/index.ts";
import { createBudget } from "./budget.ts";
import { runForward } from "./forward.ts";
import { planOf } from "./plan.ts";
import type { AnswerTo, Explained, Plan, Question, Starts } from "./questions.ts";
import { suggestionsFor } from "./suggestions.ts";

/** Y12: what is tried for one explanation, and how much of it goes into the forward run. */
const SUGGESTIONS_BUDGET = { cpuMs: 220, decisions: 80 };
const FORWARD_BUDGET = { cpuMs: 70, decisions: 2_000 };
/** X7. */
const AHEAD_MS_MAX = 7 * 86_400_000;
const NAMED_MAX = 3;
const NONE = { all: [], isTruncated: false };

/** What is asked of a state alone; who looks through a queue wants numbers, too. */
type Tried = Exclude<Question, { kind: "queue" }>;

export function answer<Asked extends Tried>(
  state: EngineState,
  question: Asked,
  nowMs: number,
): AnswerTo<Asked>;
export function answer(state: EngineState, question: Tried, nowMs: number): Explained | Plan {
  switch (question.kind) {
    case "explain":
      return explained(state, question, nowMs);
    case "plan":
      return planOf(state, question, nowMs);
  }
}

function explained(
  state: EngineState,
  { requestId, suggestions: isAsked, pools, before }: Extract<Question, { kind: "explain" }>,
  nowMs: number,
): Explained {
  const facts = explain(state, requestId, nowMs);
  const reached = pools && new Set<string>(pools);
  const reaches = (pool: string) => reached === null || reached.has(pool);
  const isTried = facts !== undefined && isAsked;
  const budget = createBudget(SUGGESTIONS_BUDGET);
  return {
    atSeq: state.seq,
    facts,
    suggestions: isTried ? suggestionsFor(state, facts, { nowMs, budget, reaches }) : NONE,
    starts: isTried ? startsOf(state, facts, nowMs) : null,
    next: isTried && facts.victim !== null ? afterStop(state, requestId, nowMs) : null,
    before: before === undefined ? null : compareOrder(state, [requestId, before], nowMs),
  };
}

/** Time passes on a fork until it starts (X6). */
function startsOf(state: EngineState, facts: Explanation, nowMs: number): Starts | null {
  const { requestId } = facts;
  if (facts.status !== "queued") return null;
  const budget = createBudget(FORWARD_BUDGET);
  const untilMs = nowMs + AHEAD_MS_MAX;
  const run = fork(state, () =>
    runForward(state, {
      happened: [],
      fromMs: nowMs,
      untilMs,
      budget,
      isEnough: (starts) => starts.has(requestId),
    }),
  );
  const atMs = run.startsAtMs.get(requestId);
  if (atMs !== undefined) return { basis: "by_walltimes", atMs };
  const named = facts.pools.flatMap(({ holders }) =>
    holders.flatMap(({ requestId: id, endsAtMs, isStopping }) =>
      endsAtMs === null && !isStopping ? [id] : [],
    ),
  );
  const withoutWalltime = [...new Set(named)]
    .filter((id) => requestOf(state, id) !== undefined)
    .slice(0, NAMED_MAX);
  if (withoutWalltime.length > 0 && !run.isCut) return { basis: "unknown", withoutWalltime };
  return { basis: "later", thanMs: run.reachedMs };
}
