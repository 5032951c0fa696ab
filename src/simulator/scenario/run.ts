// Runs one scenario of any kind. Whatever goes wrong becomes a failure that can be read, never an exception.

import type { AllocationGroupsScenario, SharesScenario, StoryScenario } from "../../protocol/index.ts";
import { judgeAllocationGroups, judgeShares } from "./snapshots.ts";
import { type Failure, type MalformedSteps, playStory, type StepReport } from "./story.ts";

export interface Scenario {
  readonly file: string;
  readonly name: string;
  readonly content: StoryScenario | SharesScenario | AllocationGroupsScenario;
  readonly malformed: MalformedSteps;
  /** Line of a step in the file, counted from 1, where it is known. */
  readonly lineOfStep: (step: number) => number | null;
}

export interface ScenarioResult {
  readonly scenario: Scenario;
  readonly failures: readonly Failure[];
}

export function runScenario(scenario: Scenario, onStep?: (report: StepReport) => void): ScenarioResult {
  try {
    return { scenario, failures: judge(scenario, onStep) };
  } catch (error) {
    const message = `The engine failed: ${error instanceof Error ? error.message : String(error)}`;
    const failure = {
      step: null,
      action: "",
      atSeconds: 0,
      field: "engine",
      expected: null,
      actual: null,
      message,
    };
    return { scenario, failures: [failure] };
  }
}

function judge(
  { content, malformed }: Scenario,
  onStep: ((report: StepReport) => void) | undefined,
): Failure[] {
  switch (content.kind) {
    case "shares":
      return judgeShares(content);
    case "allocation_groups":
      return judgeAllocationGroups(content);
    default:
      return playStory(content, onStep === undefined ? { malformed } : { malformed, onStep });
  }
}
