// What `berth run` was asked for: its options, checked before anything happens.

import { constants } from "node:os";
import { parseDurationSeconds, type WireRequestSubmission } from "../../protocol/index.ts";
import { CliError } from "../context.ts";
import { parseResources, type ResourceOptions, readOrRefuse } from "./resources.ts";

export interface RunOptions extends ResourceOptions {
  readonly url?: string;
  readonly context?: string;
  readonly component?: string;
  readonly name?: string;
  readonly operation?: string;
  readonly class?: string;
  readonly preempt: boolean;
  readonly checkpoint?: string;
  readonly checkpointSignal?: string;
  readonly checkpointCmd?: string;
  readonly checkpointDir?: string;
  readonly checkpointTime?: string;
  readonly walltime?: string;
  readonly waitTimeout?: string;
  readonly retries?: string;
  readonly retryDelay?: string;
  readonly requeue?: string;
  readonly onLost: string;
  readonly label?: readonly string[];
  readonly note?: string;
  readonly idempotencyKey?: string;
  readonly report?: string;
  readonly quiet?: boolean;
}

type Checkpoint = NonNullable<WireRequestSubmission["checkpoint"]>;

export type OnLost = "suspend" | "run-on" | "kill";

export interface RunPlan {
  readonly command: readonly string[];
  readonly submission: WireRequestSubmission;
  readonly idempotencyKey: string | undefined;
  readonly onLost: OnLost;
  readonly checkpointSignal: NodeJS.Signals | undefined;
  readonly checkpointCommand: readonly string[] | undefined;
  readonly checkpointDir: string | undefined;
  readonly reportFile: string | undefined;
}

export function planRun(command: readonly string[], options: RunOptions, component: string): RunPlan {
  if (command.length === 0) {
    throw new CliError(
      "usage",
      "There is no command to run.",
      "Put it after `--`: berth run --gpu 1 -- python train.py",
    );
  }
  return {
    command,
    submission: toSubmission(options, component),
    idempotencyKey: options.idempotencyKey,
    onLost: oneOf("--on-lost", options.onLost, ["suspend", "run-on", "kill"]),
    checkpointSignal:
      options.checkpointSignal === undefined ? undefined : signalNamed(options.checkpointSignal),
    checkpointCommand:
      options.checkpointCmd === undefined ? undefined : ["/bin/sh", "-c", options.checkpointCmd],
    checkpointDir: options.checkpointDir,
    reportFile: options.report,
  };
}

function toSubmission(options: RunOptions, component: string): WireRequestSubmission {
  const resources = parseResources(options);
  const asksToCheckpoint = options.checkpointSignal !== undefined || options.checkpointCmd !== undefined;
  const checkpoint = options.checkpoint ?? (asksToCheckpoint ? "auto" : "none");
  const wanted: WireRequestSubmission = {
    component,
    // A command that asks for nothing still is one running step.
    resources: Object.keys(resources).length === 0 ? { step_run: 1 } : resources,
    attended: true,
    preemptible: options.preempt,
    checkpoint: oneOf<Checkpoint>("--checkpoint", checkpoint, ["none", "auto", "manual"]),
  };
  if (options.name !== undefined) wanted.name = options.name;
  if (options.note !== undefined) wanted.note = options.note;
  if (options.operation !== undefined) wanted.operation = options.operation;
  if (options.class !== undefined) wanted.preemption_class = wholeNumber("--class", options.class);
  if (options.checkpointTime !== undefined) wanted.checkpoint_seconds = duration(options.checkpointTime);
  if (options.walltime !== undefined) wanted.walltime_seconds = duration(options.walltime);
  if (options.waitTimeout !== undefined) wanted.wait_timeout_seconds = duration(options.waitTimeout);
  if (options.label !== undefined) wanted.labels = Object.fromEntries(options.label.map(labelOf));
  if (options.requeue !== undefined) wanted.requeue = requeueOf(options.requeue);
  if (options.retries !== undefined || options.retryDelay !== undefined) {
    wanted.retries = {
      ...(options.retries !== undefined && { max: wholeNumber("--retries", options.retries) }),
      ...(options.retryDelay !== undefined && { delay: duration(options.retryDelay) }),
    };
  }
  return wanted;
}

function requeueOf(text: string) {
  return oneOf("--requeue", text.replaceAll("-", "_"), ["never", "on_preemption", "on_failure"]);
}

function duration(text: string): number {
  return readOrRefuse(parseDurationSeconds(text));
}

function labelOf(text: string): [string, string] {
  const [key = "", ...value] = text.split("=");
  if (key !== "" && value.length > 0) return [key, value.join("=")];
  throw new CliError("usage", `"${text.slice(0, 60)}" is not a label.`, "Write it like team=vision.");
}

function signalNamed(text: string): NodeJS.Signals {
  const name = `SIG${text.toUpperCase().replace(/^SIG/, "")}`;
  if (name in constants.signals && name !== "SIGKILL" && name !== "SIGSTOP") return name as NodeJS.Signals;
  throw new CliError(
    "usage",
    `"${text.slice(0, 40)}" is not a signal that can be handled.`,
    "Use for example USR1.",
  );
}

function wholeNumber(option: string, text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new CliError("usage", `${option} takes a whole number, not "${text.slice(0, 40)}".`);
}

function oneOf<const Choice extends string>(
  option: string,
  text: string,
  choices: readonly Choice[],
): Choice {
  const choice = choices.find((one) => one === text);
  if (choice !== undefined) return choice;
  throw new CliError("usage", `${option} is one of ${choices.join(", ")}, not "${text.slice(0, 40)}".`);
}
