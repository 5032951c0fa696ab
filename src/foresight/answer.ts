// Answers a question from a state. Everything is tried on a fork and taken back (X5).

import { type EngineState, explain } from "../engine/index.ts";
import { planOf } from "./plan.ts";
import type { AnswerTo, Explained, Plan, Question } from "./questions.ts";
import { suggestionsFor } from "./suggestions.ts";

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
      const suggestions = isAsked ? suggestionsFor(state, facts, { nowMs, reaches }) : [];
      return { atSeq: state.seq, facts, suggestions };
    }
    case "plan":
      return planOf(state, question, nowMs);
  }
}
