// berth request update: changes a request that waits, or a little of one that runs (Q9).

import type { Command } from "commander";
import type { WireRequestChange } from "../protocol/index.ts";
import type { CliContext } from "./context.ts";
import {
  type ConnectionOptions,
  collect,
  given,
  type PlanOptions,
  wholeNumber,
  withConnection,
  withIdempotencyKey,
  withOutput,
  withPlan,
} from "./options.ts";
import { type OutputOptions, printDone } from "./output/print.ts";
import { confirm, isHarmful, planLines, printPlan, somethingOf } from "./plans.ts";
import { connect, findRequest, titleOf } from "./session.ts";
import { REQUEST } from "./shapes.ts";
import { type SubmissionOptions, submissionOf } from "./submission.ts";

type UpdateOptions = ConnectionOptions &
  OutputOptions &
  PlanOptions &
  Omit<SubmissionOptions, "preempt"> & {
    readonly preempt?: boolean;
    readonly nodes?: string;
    readonly idempotencyKey?: string;
  };

const HELP = `
What waits keeps its place, unless it asks for more. While it runs, its operator may change walltime, class, requeue and
retries; labels and note can always be changed. Resources are given as a whole.

Examples:
  berth request update 42 --gpu 1 --walltime 2h
  berth request update train --class 7 --dry-run
  berth request update 42 --pool lab --pool cloud
`;

export function define(command: Command, context: CliContext): void {
  command
    .argument("<request>", "number, name or id")
    .option("--gpu <count>", "GPUs")
    .option("--cpu <count>", "CPUs, such as 4 or 0.5")
    .option("--memory <size>", "memory with its unit, such as 16GiB")
    .option("-r, --resource <key=amount>", "any other resource; may be repeated", collect)
    .option("--nodes <count>", "on so many nodes at once; resources are per node")
    .option("--pool <pool>", "only this pool may admit it; may be repeated", collect)
    .option("--class <number>", "preemption class, 0 to 10")
    .option("--preempt", "it may be stopped for others")
    .option("--no-preempt", "never stop it for others; it must fit what is reserved")
    .option("--checkpoint <how>", "none, auto or manual")
    .option("--checkpoint-time <duration>", "how long a checkpoint takes, as an estimate")
    .option("--walltime <duration>", "stop it after this time, such as 1h30m")
    .option("--wait-timeout <duration>", "do not wait longer than this")
    .option("--retries <count>", "further attempts at most")
    .option("--retry-delay <duration>", "pause before another attempt after a failure")
    .option("--requeue <when>", "never, on_preemption or on_failure")
    .option("--label <key=value>", "a label; may be repeated; all are replaced", collect)
    .option("--note <text>", "a note for those who look");
  withPlan(withIdempotencyKey(withOutput(withConnection(command)))).addHelpText("after", HELP);
  command.action((text: string, options: UpdateOptions) => updateRequest(text, options, context));
}

async function updateRequest(text: string, options: UpdateOptions, context: CliContext): Promise<void> {
  const change = somethingOf(await changeOf(options), "for example --walltime, --class or --gpu");
  const { client } = connect(options);
  const request = await findRequest(client, text);
  const plan = await client.requests.update(request.id, change, { dryRun: true });
  const title = titleOf(request);
  if (options.dryRun === true) return printPlan(`${title} would be changed.`, plan, options, context);
  if (isHarmful(plan)) await confirm(`Change ${title}?`, planLines(plan), options, context);
  const { idempotencyKey } = options;
  const changed = await client.requests.update(request.id, change, given({ idempotencyKey }));
  await printDone(`Changed ${title}; it is ${changed.status}.`, changed, REQUEST, options, context);
}

/** Only what was given. */
async function changeOf(options: UpdateOptions): Promise<WireRequestChange> {
  const { preempt, nodes } = options;
  const asked = await submissionOf({ ...options, preempt: preempt ?? true }, "");
  const { gpu, cpu, memory, resource } = options;
  const hasResources = [gpu, cpu, memory, resource].some((given) => given !== undefined);
  const { component: _, preemptible, resources, ...rest } = asked;
  return {
    ...(rest as WireRequestChange),
    ...given({
      resources: hasResources ? resources : undefined,
      preemptible: preempt === undefined ? undefined : preemptible,
      nodes: nodes === undefined ? undefined : wholeNumber("--nodes", nodes),
    }),
  };
}
