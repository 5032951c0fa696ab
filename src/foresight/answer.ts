// Answers a question from a state. Everything is tried on a fork and taken back (X5).

import { type Decision, decide, type EngineState, type Event, explain, fork } from "../engine/index.ts";
import type { AnswerTo, Explained, Plan, PlanStep, Question } from "./questions.ts";
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
      return fork(state, () => planOf(state, question.steps, nowMs));
  }
}

/** The steps are decided one after the other: each sees what those before it have made. */
function planOf(state: EngineState, steps: readonly PlanStep[], nowMs: number): Plan {
  const atSeq = state.seq;
  const events: (readonly Event[])[] = [];
  for (const [step, { commands }] of steps.entries()) {
    const decision = firstPossible(state, commands, nowMs);
    if (decision.outcome === "refused") {
      return { outcome: "refused", atSeq, step, refusal: decision.refusal };
    }
    events.push(decision.events);
  }
  return { outcome: "planned", atSeq, events };
}

const EXISTENCE: ReadonlySet<string> = new Set(["not_found", "name_taken", "policy_exists"]);

function firstPossible(state: EngineState, commands: PlanStep["commands"], nowMs: number): Decision {
  let decision: Decision | undefined;
  for (const command of commands) {
    decision = decide(state, command, nowMs);
    if (decision.outcome === "accepted" || !EXISTENCE.has(decision.refusal.code)) return decision;
  }
  if (decision === undefined) throw new Error("a step of a plan has no command");
  return decision;
}
