// Answers a question from a state. Everything is tried on a fork and taken back (X5).

import { type EngineState, explain } from "../engine/index.ts";
import { createBudget } from "./budget.ts";
import { planOf } from "./plan.ts";
import type { AnswerTo, Explained, Plan, Question } from "./questions.ts";
import { suggestionsFor } from "./suggestions.ts";

/** Y12. */
const SUGGESTIONS_BUDGET = { cpuMs: 300, decisions: 80 };
const NONE = { all: [], isTruncated: false };

export function answer<Asked extends Question>(
  state: EngineState,
  question: Asked,
  nowMs: number,
): AnswerTo<Asked>;
export function answer(state: EngineState, question: Question, nowMs: number): Explained | Plan {
  switch (question.kind) {
    case "explain": {
      const facts = explain(state, question.requestId, nowMs);
      const reached = question.pools && new Set<string>(question.pools);
      const reaches = (pool: string) => reached === null || reached.has(pool);
      const isAsked = facts !== undefined && question.suggestions;
      const budget = createBudget(SUGGESTIONS_BUDGET);
      const suggestions = isAsked ? suggestionsFor(state, facts, { nowMs, budget, reaches }) : NONE;
      return { atSeq: state.seq, facts, suggestions };
    }
    case "plan":
      return planOf(state, question, nowMs);
  }
}
