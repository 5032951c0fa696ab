// What `berth submit` and `berth run` ask for: their options as the body of a call.

import type { Command } from "commander";
import type { WireRequestSubmission } from "../protocol/index.ts";
import { parseResources, type ResourceOptions } from "./amounts.ts";
import { CHOICES } from "./choices.ts";
import { collect, given, oneOf, parseLabels, wholeNumber } from "./options.ts";

export interface SubmissionOptions extends ResourceOptions {
  readonly name?: string;
  readonly operation?: string;
  readonly class?: string;
  readonly preempt: boolean;
  readonly sensitive?: boolean;
  readonly checkpoint?: string;
  readonly checkpointTime?: string;
  readonly walltime?: string;
  readonly waitTimeout?: string;
  readonly retries?: string;
  readonly retryDelay?: string;
  readonly requeue?: string;
  readonly pool?: readonly string[];
  readonly label?: readonly string[];
  readonly note?: string;
  readonly gang?: boolean;
  readonly nodes?: string;
  readonly constraint?: readonly string[];
}

/** What is asked for and how, the same for `berth submit` and `berth run`. */
export function withSubmissionOptions(command: Command): Command {
  return command
    .option("--gpu <count>", "GPUs")
    .option("--cpu <count>", "CPUs, such as 4 or 0.5")
    .option("--memory <size>", "memory with its unit, such as 16GiB")
    .option("-r, --resource <key=amount>", "any other resource; may be repeated", collect)
    .option("--component <component>", "who asks; needs a policy in some pool")
    .option("--name <name>", "what to call it")
    .option("--operation <name>", "what it belongs to, such as a pipeline run")
    .option("--class <0-10>", "preemption class")
    .option("--no-preempt", "never stop it for others; it must then fit into what is reserved")
    .option("--sensitive", "sensitive work")
    .option("--checkpoint <how>", "auto or manual: it can save its state when asked; default: none")
    .option("--checkpoint-time <duration>", "how long a checkpoint takes, as an estimate")
    .option("--walltime <duration>", "stop it after this time, such as 1h30m")
    .option("--wait-timeout <duration>", "do not wait longer than this")
    .option("--retries <count>", "further attempts at most; also after failures")
    .option("--retry-delay <duration>", "pause before another attempt after a failure")
    .option("--requeue <when>", "never, on_preemption or on_failure")
    .option("--pool <pool>", "only this pool may admit it; may be repeated", collect)
    .option("--label <key=value>", "a label; may be repeated", collect)
    .option("--note <text>", "a note for those who look")
    .option(
      "--gang",
      "fair_share only: the fair share of its operation is all that it asks for, or nothing; its requests still start one by one",
    )
    .option("--nodes <count>", "number of nodes, all granted at once; resources are per node")
    .option("--constraint <key=value>", "a label that its nodes must have; may be repeated", collect);
}

export async function submissionOf(
  options: SubmissionOptions,
  component: string,
): Promise<WireRequestSubmission> {
  const resources = await parseResources(options);
  const { class: preemptionClass, checkpoint, retries, requeue, label } = options;
  const attempts = given({
    max: retries === undefined ? undefined : wholeNumber("--retries", retries),
    delay: await seconds(options.retryDelay),
  });
  return {
    component,
    // A request without resources still counts as one `step_run`.
    resources: Object.keys(resources).length === 0 ? { step_run: 1 } : resources,
    preemptible: options.preempt,
    ...given({
      name: options.name,
      note: options.note,
      operation: options.operation,
      sensitive: options.sensitive,
      preemption_class: preemptionClass === undefined ? undefined : wholeNumber("--class", preemptionClass),
      checkpoint:
        checkpoint === undefined ? undefined : oneOf("--checkpoint", checkpoint, CHOICES.checkpoint),
      checkpoint_seconds: await seconds(options.checkpointTime),
      walltime_seconds: await seconds(options.walltime),
      wait_timeout_seconds: await seconds(options.waitTimeout),
      retries: Object.keys(attempts).length === 0 ? undefined : attempts,
      requeue:
        requeue === undefined ? undefined : oneOf("--requeue", requeue.replaceAll("-", "_"), CHOICES.requeue),
      pools: options.pool && [...options.pool],
      labels: label && parseLabels(label),
      gang: options.gang,
      nodes: options.nodes === undefined ? undefined : wholeNumber("--nodes", options.nodes),
      constraints: options.constraint && parseLabels(options.constraint),
    }),
  };
}

/** Read by the protocol, which brings all its schemas with it: most do without. */
async function seconds(text: string | undefined): Promise<number | undefined> {
  return text === undefined ? undefined : (await import("./parsing.ts")).durationSeconds(text);
}
