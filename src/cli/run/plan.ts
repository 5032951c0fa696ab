// What `berth run` was asked for: its options, checked before anything happens.

import { constants } from "node:os";
import type { WireRequestSubmission } from "../../protocol/index.ts";
import { CliError } from "../context.ts";
import { given, oneOf, parseLabels, wholeNumber } from "../options.ts";
import type { ResourceOptions } from "./resources.ts";

export interface RunOptions extends ResourceOptions {
  readonly url?: string;
  readonly context?: string;
  readonly component?: string;
  readonly name?: string;
  readonly operation?: string;
  readonly class?: string;
  readonly preempt: boolean;
  readonly sensitive?: boolean;
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

export async function planRun(
  command: readonly string[],
  options: RunOptions,
  component: string,
): Promise<RunPlan> {
  if (command.length === 0) {
    throw new CliError(
      "usage",
      "There is no command to run.",
      "Put it after `--`: berth run --gpu 1 -- python train.py",
    );
  }
  return {
    command,
    submission: await toSubmission(options, component),
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

async function toSubmission(options: RunOptions, component: string): Promise<WireRequestSubmission> {
  const resources = await resourcesOf(options);
  const asksToCheckpoint = options.checkpointSignal !== undefined || options.checkpointCmd !== undefined;
  const checkpoint = options.checkpoint ?? (asksToCheckpoint ? "auto" : "none");
  const retries = given({
    max: options.retries === undefined ? undefined : wholeNumber("--retries", options.retries),
    delay: await seconds(options.retryDelay),
  });
  return {
    component,
    // A command that asks for nothing still is one running step.
    resources: Object.keys(resources).length === 0 ? { step_run: 1 } : resources,
    attended: true,
    preemptible: options.preempt,
    checkpoint: oneOf<Checkpoint>("--checkpoint", checkpoint, ["none", "auto", "manual"]),
    ...(Object.keys(retries).length > 0 && { retries }),
    ...given({
      name: options.name,
      note: options.note,
      operation: options.operation,
      sensitive: options.sensitive,
      preemption_class: options.class === undefined ? undefined : wholeNumber("--class", options.class),
      checkpoint_seconds: await seconds(options.checkpointTime),
      walltime_seconds: await seconds(options.walltime),
      wait_timeout_seconds: await seconds(options.waitTimeout),
      labels: options.label && parseLabels(options.label),
      requeue: options.requeue === undefined ? undefined : requeueOf(options.requeue),
    }),
  };
}

/** Sizes are read by the protocol, which brings all its schemas with it; a count of GPUs can do without. */
async function resourcesOf(options: ResourceOptions): Promise<Record<string, number>> {
  const { gpu, cpu, memory, resource } = options;
  if (cpu === undefined && memory === undefined && resource === undefined) {
    return gpu === undefined ? {} : { gpu: wholeNumber("--gpu", gpu) };
  }
  return (await import("./resources.ts")).parseResources(options);
}

async function seconds(text: string | undefined): Promise<number | undefined> {
  return text === undefined ? undefined : (await import("../parsing.ts")).durationSeconds(text);
}

function requeueOf(text: string) {
  return oneOf("--requeue", text.replaceAll("-", "_"), ["never", "on_preemption", "on_failure"]);
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
