// Foresight: what would start a request, and what a change would do, tried on a replica of the state in a thread of
// its own. Other folders import from this file only.

export { type Foresight, ForesightError, startForesight } from "./foresight.ts";
export type {
  AnswerTo,
  Explained,
  Plan,
  PlanStep,
  Question,
  Starts,
  Suggestion,
  Suggestions,
} from "./questions.ts";
export { type FoundInQueue, type QueuePlace, type QueueSearch, searchQueue } from "./queue-search.ts";
