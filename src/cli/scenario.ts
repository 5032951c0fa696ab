// berth scenario run FILE_OR_DIR…

import type { Command } from "commander";
import { EXIT, toProblem } from "../protocol/index.ts";
import {
  describeProblem,
  describeResult,
  describeStep,
  describeSummary,
  type InputProblem,
  printable,
  readScenarios,
  runScenario,
  type Scenario,
  type ScenarioResult,
  type StepReport,
  toJsonReport,
} from "../simulator/index.ts";
import type { CliContext } from "./context.ts";
import { styleOf } from "./output/text.ts";

interface RunOptions {
  readonly json?: boolean;
  readonly trace?: boolean;
}

const EXAMPLES = `
A scenario is a list of steps with expectations, in YAML or JSON:

  name: the owner takes back what others borrow
  pools: [{name: lab, capacity: {gpu: 4}}]
  policies:
    - {pool: lab, component: prod, priority: 10, reserved: {gpu: 4}}
    - {pool: lab, component: research, priority: 1}
  script:
    - submit: {id: a, component: research, resources: {gpu: 4}}
      expect: {status: {a: allocated}}
    - submit: {id: b, component: prod, resources: {gpu: 2}}
      expect: {preempted: [a]}

Exit code: 0 all pass, 1 one fails, 2 the input cannot be used.

Examples:
  berth scenario run scenarios/
  berth scenario run --trace story.yaml
  berth scenario run --json scenarios/ | jq .failed
`;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", "\nExamples:\n  berth scenario run scenarios/\n  berth scenario run --help\n");
  command
    .command("run")
    .description("run scenarios on the engine in virtual time, without a server")
    .argument("<file_or_dir...>", "scenario files, or directories that hold some")
    .option("--json", "print the report as JSON")
    .option("--trace", "print what happens in each step")
    .addHelpText("after", EXAMPLES)
    .action((paths: string[], options: RunOptions) => run(paths, options, context));
}

async function run(paths: readonly string[], options: RunOptions, context: CliContext): Promise<void> {
  const loaded = await readScenarios(paths);
  if (!loaded.ok) {
    tellProblems(loaded.problems, options, context);
    context.exitCode = EXIT.usage;
    return;
  }
  const results = loaded.scenarios.map((scenario) => runOne(scenario, options, context));
  context.write(
    options.json ? `${JSON.stringify(toJsonReport(results), null, 2)}\n` : `${describeSummary(results)}\n`,
  );
  if (results.some(({ failures }) => failures.length > 0)) context.exitCode = EXIT.scenarioFailed;
}

/** Runs a scenario and prints about it as it goes. With --json stdout is the report, so the trace is talk. */
function runOne(scenario: Scenario, { json, trace }: RunOptions, context: CliContext): ScenarioResult {
  const style = styleOf(context);
  const follow = json ? context.tell : context.write;
  if (trace) follow(`${printable(scenario.file)}  ${printable(scenario.name)}\n`);
  let lastStep: StepReport | undefined;
  const result = runScenario(scenario, (step) => {
    lastStep = step;
    if (trace) follow(`${describeStep(step, style).join("\n")}\n`);
  });
  if (!json) context.write(`${describeResult(result, lastStep, style).join("\n")}\n`);
  return result;
}

function tellProblems(problems: readonly InputProblem[], { json }: RunOptions, { tell }: CliContext): void {
  if (!json) {
    for (const problem of problems) tell(`berth: ${describeProblem(problem)}\n`);
    return;
  }
  const code = problems[0]?.code ?? "invalid_scenario";
  const detail = problems.map(describeProblem).join("\n");
  tell(`${JSON.stringify({ ...toProblem(code, detail), problems }, null, 2)}\n`);
}
