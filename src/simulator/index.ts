// Virtual time: scenario files played on the engine, without a server. Other folders import from this file only.

export { readScenarios } from "./scenario/files.ts";
export { type InputProblem, type Loaded, loadScenarios } from "./scenario/load.ts";
export {
  describeProblem,
  describeResult,
  describeStep,
  describeSummary,
  PLAIN,
  printable,
  type Style,
  toJsonReport,
} from "./scenario/report.ts";
export { runScenario, type Scenario, type ScenarioResult } from "./scenario/run.ts";
export type { Failure, StepReport } from "./scenario/story.ts";
