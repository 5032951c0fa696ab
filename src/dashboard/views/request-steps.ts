// The steps in the life of a request as sentences (view 6): what happened, for whom, what it cost.

import { type AnswerOf, durationText } from "../../sdk/index.ts";
import type { LiveEvent } from "../live.ts";

type Request = AnswerOf<"getRequest">;
type Decision = AnswerOf<"listDecisions">["items"][number];

export type Step = LiveEvent &
  Partial<{
    attempt: number;
    outcome: string;
    reason: string;
    phase: string;
    cause: string;
    exit_code: number;
    signal: string;
    why: string;
    deadline: string;
    for_request: string | null;
    reasons: readonly { code: string }[];
  }>;

export interface Story {
  readonly request: Pick<Request, "submitted_by" | "resources" | "nodes">;
  readonly steps: readonly Step[];
  /** Of others that it was stopped for, by id: `#5 b1 of bob`. */
  readonly titles: ReadonlyMap<string, string>;
}

export function stepText(step: Step, at: number, story: Story): string {
  switch (step.event) {
    case "request.queued":
      if (step.outcome !== undefined)
        return `stopped (${step.outcome})${costText(at, story)}, and back in line`;
      return step.attempt === 1 ? `submitted by ${story.request.submitted_by}` : "in the queue";
    case "request.rejected":
      return `rejected: ${(step.reasons ?? []).map(({ code }) => code).join(", ")}`;
    case "request.allocated":
      return `granted by pool ${step.pool}`;
    case "request.held":
      return `promised what comes free in pool ${step.pool}`;
    case "request.hold_ended":
      return `the promise has ended (${step.why})`;
    case "request.preempting":
      return `chosen to make room${whomText(step, story)} (${step.reason}); asked to ${step.phase === "checkpoint" ? "save first" : "stop"}`;
    case "request.stopping":
      return `asked to stop (${step.cause}, ${step.phase})`;
    case "request.checkpointed":
      return "has saved its state";
    case "request.released":
    case "request.failed":
    case "request.expired":
      return [nameOf(step), endText(step)].filter((part) => part !== "").join(", ");
    case "request.preempted":
      return `preempted${costText(at, story)}`;
    default:
      return nameOf(step);
  }
}

function nameOf({ event }: Step): string {
  return event.slice("request.".length).replaceAll("_", " ");
}

function whomText({ for_request: id }: Step, { titles }: Story): string {
  if (id === null || id === undefined) return "";
  return ` for ${titles.get(id) ?? "another request"}`;
}

function endText({ outcome, exit_code: exitCode, signal, cause }: Step): string {
  const parts = [outcome, exitCode === undefined ? undefined : `exit code ${exitCode}`, signal, cause];
  return parts.filter((part) => part !== undefined).join(", ");
}

/** Since when it was asked to stop, and what it had done since its last checkpoint or its start. */
function costText(at: number, { steps, request }: Story): string {
  const before = steps.slice(0, at);
  const start = before.findLastIndex(({ event }) => event === "request.allocated");
  const end = steps[at];
  if (start < 0 || end === undefined) return "";
  const run = before.slice(start);
  const told = run.find(({ event }) => event === "request.preempting" || event === "request.stopping");
  const saved = run.findLast(({ event }) => event === "request.checkpointed");
  const seconds = (from: Step) => Math.max(0, (Date.parse(end.at) - Date.parse(from.at)) / 1_000);
  const lostSeconds = seconds(saved ?? (run[0] as Step));
  const after = told === undefined ? "" : ` after ${durationText(seconds(told))}`;
  const checkpoint = saved === undefined ? "no checkpoint" : "checkpoint saved";
  return `${after}, ${checkpoint}, ${lostText(lostSeconds, request)}`;
}

function lostText(seconds: number, { resources, nodes }: Story["request"]): string {
  const [first] = Object.entries(resources).filter(([key]) => key !== "step_run");
  if (first === undefined || seconds === 0) return "nothing lost";
  const [key, amount] = first;
  const units = amount * (nodes ?? 1);
  return `lost ${durationText(seconds)} × ${units} ${key} = ${((seconds * units) / 3_600).toFixed(2)} ${key}-h`;
}

interface Considered {
  /** Null: not to be known. */
  readonly component: string | null;
  readonly priority: number;
  readonly count: number;
  readonly permitted: number;
  readonly rule: string;
}

/** Who could have been stopped, by the rule that permits or forbids it (V7). */
export function candidateTexts({ decision }: Decision): string[] {
  const { considered = [] } = (decision.decision ?? {}) as { considered?: readonly Considered[] };
  return considered.map(({ component, priority, count, permitted, rule }) => {
    const who = `${count} of ${component ?? "another team"}, priority ${priority}`;
    if (permitted === 0) return `${who}: not to be stopped (${rule})`;
    return permitted === count
      ? `${who}: may be stopped (${rule})`
      : `${who}: ${permitted} of them may be stopped (${rule})`;
  });
}
