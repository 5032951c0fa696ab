// What people and programs read about scenarios: a line for each, the difference where one fails, a trace of
// every step, and the same as JSON.

import type { Event } from "../../engine/index.ts";
import type { InputProblem } from "./load.ts";
import { narrate } from "./narrate.ts";
import type { ScenarioResult } from "./run.ts";
import type { Failure, StepReport } from "./story.ts";

/** Events shown with a failed step; a trace shows them all. */
const EVENTS_SHOWN_MAX = 12;
const PATH_LENGTH_MAX = 120;

/** How parts of a line are set off, if the reader's terminal can; by default not at all. */
export interface Style {
  readonly good: (text: string) => string;
  readonly bad: (text: string) => string;
  readonly faint: (text: string) => string;
}

export const PLAIN: Style = { good: (text) => text, bad: (text) => text, faint: (text) => text };

/** One line, and below it what was expected and what happened if that is not the same. */
export function describeResult(
  result: ScenarioResult,
  lastStep: StepReport | undefined,
  style = PLAIN,
): string[] {
  const { scenario, failures } = result;
  const isOk = failures.length === 0;
  const title = `${printable(scenario.file)}  ${printable(scenario.name)}`;
  const lines = [`${isOk ? style.good("ok  ") : style.bad("FAIL")}  ${title}`];
  const [first] = failures;
  if (first === undefined) return lines;

  lines.push(`      ${placeOf(first, scenario.lineOfStep)}`);
  for (const failure of failures)
    lines.push(...describeFailure(failure, style).map((line) => `        ${line}`));
  const events = lastStep?.step === first.step ? (lastStep?.events ?? []) : [];
  if (events.length > 0) {
    lines.push("        what happened");
    lines.push(...describeEvents(events, EVENTS_SHOWN_MAX).map((line) => `          ${line}`));
  }
  return lines;
}

export function describeStep(
  { step, action, atSeconds, events, refusal }: StepReport,
  style = PLAIN,
): string[] {
  const number = step === null ? "set-up" : `step ${step}`;
  const lines = [`  ${style.faint(`${atSeconds} s`.padStart(9))}  ${number.padEnd(9)} ${printable(action)}`];
  if (refusal !== null)
    lines.push(`${" ".repeat(23)}refused: ${refusal.code}: ${printable(refusal.message)}`);
  lines.push(...describeEvents(events).map((line) => `${" ".repeat(23)}${line}`));
  return lines;
}

export function describeSummary(results: readonly ScenarioResult[]): string {
  const failed = countFailed(results);
  return `${results.length - failed} passed, ${failed} failed`;
}

/** `file:line: scenario "…", step 3, submit.resources.gpu: expected number, received string [invalid_scenario]` */
export function describeProblem({ file, line, scenario, step, field, message, code }: InputProblem): string {
  const where = [
    scenario === null ? "" : `scenario "${scenario}"`,
    step === null ? "" : `step ${step}`,
    shorten(field ?? ""),
  ].filter((part) => part !== "");
  const place = `${file}${line === null ? "" : `:${line}`}`;
  return printable(
    `${[place, where.join(", "), message].filter((part) => part !== "").join(": ")} [${code}]`,
  );
}

export function toJsonReport(results: readonly ScenarioResult[]) {
  const failed = countFailed(results);
  return {
    passed: results.length - failed,
    failed,
    scenarios: results.map(({ scenario, failures }) => ({
      file: scenario.file,
      name: scenario.name,
      ok: failures.length === 0,
      failures: failures.map(({ step, action, atSeconds, field, expected, actual, message }) => ({
        step,
        line: step === null ? null : scenario.lineOfStep(step),
        action,
        at_seconds: atSeconds,
        field,
        expected,
        actual,
        message,
      })),
    })),
  };
}

function countFailed(results: readonly ScenarioResult[]): number {
  return results.filter(({ failures }) => failures.length > 0).length;
}

function placeOf({ step, action, atSeconds }: Failure, lineOfStep: (step: number) => number | null): string {
  if (step === null) return printable(action) || "the whole";
  const line = lineOfStep(step);
  return `step ${step}, ${printable(action)}, at ${atSeconds} s${line === null ? "" : `, line ${line}`}`;
}

function describeFailure({ field, expected, actual, message }: Failure, style: Style): string[] {
  return [
    printable(field),
    `  expected  ${style.good(show(expected, field))}`,
    `  actual    ${style.bad(show(actual, field))}`,
    ...(message === "" ? [] : [`  ${printable(message)}`]),
  ];
}

function describeEvents(events: readonly Event[], max = Number.POSITIVE_INFINITY): string[] {
  const lines = events.slice(0, max).map((event) => printable(narrate(event)));
  return events.length > max ? [...lines, `… and ${events.length - max} more`] : lines;
}

function show(value: unknown, field: string): string {
  if (value === null) return field === "error" ? "no error" : "nothing";
  if (typeof value === "string") return printable(value);
  if (Array.isArray(value)) return printable(`[${value.join(", ")}]`);
  return printable(JSON.stringify(value));
}

/** The middle of a very long path says nothing that its ends do not. */
function shorten(path: string): string {
  return path.length <= PATH_LENGTH_MAX ? path : `${path.slice(0, 40)}…${path.slice(-40)}`;
}

/** Names come from files of unknown authors: they must not be able to steer a terminal. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones to be taken out.
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, "�");
}
