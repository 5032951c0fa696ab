// berth submit: asks for resources without running anything.

import type { Command } from "commander";
import type { ErrorCode, WireRequest, WireRequestSubmission } from "../protocol/index.ts";
import { errorOfEnding } from "../sdk/index.ts";
import { type CliContext, CliError } from "./context.ts";
import { hintOfRejection } from "./hints.ts";
import {
  type ConnectionOptions,
  collect,
  given,
  parseLabels,
  wholeNumber,
  withConnection,
  withIdempotencyKey,
  withOutput,
} from "./options.ts";
import { type OutputOptions, printDone } from "./output/print.ts";
import { tellWarnings } from "./output/warnings.ts";
import { componentOf, connect, titleOf } from "./session.ts";
import { REQUEST } from "./shapes.ts";
import { type SubmissionOptions, submissionOf } from "./submission.ts";

interface SubmitOptions extends ConnectionOptions, OutputOptions, SubmissionOptions {
  readonly gang?: boolean;
  readonly nodes?: string;
  readonly constraint?: readonly string[];
  readonly wait?: boolean;
  readonly idempotencyKey?: string;
}

const HELP = `
For programs that hold the grant themselves, by the API or the SDK. To run a command under a grant, use \`berth run\`.

Examples:
  berth submit --gpu 2 --name train
  berth submit --gpu 1 --walltime 2h --checkpoint auto --class 7
  berth submit --component vision -r gpu=1,tensorrt_sessions=1 --wait -o json
`;

export function define(command: Command, context: CliContext): void {
  command
    .option("--gpu <count>", "GPUs")
    .option("--cpu <count>", "CPUs, such as 4 or 0.5")
    .option("--memory <size>", "memory with its unit, such as 16GiB")
    .option("-r, --resource <key=amount>", "any other resource; may be repeated", collect)
    .option("--component <component>", "who asks; needs a policy in some pool")
    .option("--name <name>", "what to call it")
    .option("--operation <name>", "what it belongs to, such as a pipeline run")
    .option("--class <number>", "preemption class, 0 to 10")
    .option("--no-preempt", "never stop it for others; it must fit what is reserved")
    .option("--sensitive", "sensitive work")
    .option("--checkpoint <how>", "none, auto or manual")
    .option("--checkpoint-time <duration>", "how long a checkpoint takes, as an estimate")
    .option("--walltime <duration>", "stop it after this time, such as 1h30m")
    .option("--wait-timeout <duration>", "do not wait longer than this")
    .option("--retries <count>", "further attempts at most; also after failures")
    .option("--retry-delay <duration>", "pause before another attempt after a failure")
    .option("--requeue <when>", "never, on_preemption or on_failure")
    .option(
      "--gang",
      "fair_share only: the fair share of its operation is all that it asks for, or nothing; its requests still start one by one",
    )
    .option("--nodes <count>", "number of nodes, all granted at once; resources are per node")
    .option("--constraint <key=value>", "a label that its nodes must have; may be repeated", collect)
    .option("--pool <pool>", "only this pool may admit it; may be repeated", collect)
    .option("--label <key=value>", "a label; may be repeated", collect)
    .option("--note <text>", "a note for those who look")
    .option("--wait", "wait until it is granted or refused");
  withIdempotencyKey(withOutput(withConnection(command))).addHelpText("after", HELP);
  command.action((options: SubmitOptions) => submit(options, context));
}

async function submit(options: SubmitOptions, context: CliContext): Promise<void> {
  const session = connect(options);
  const { gang, nodes, constraint } = options;
  const body: WireRequestSubmission = {
    ...(await submissionOf(options, await componentOf(session))),
    ...given({
      gang,
      nodes: nodes === undefined ? undefined : wholeNumber("--nodes", nodes),
      constraints: constraint && parseLabels(constraint),
    }),
  };
  let request = await session.client.requests.submit(body, given({ idempotencyKey: options.idempotencyKey }));
  tellWarnings(request, context);
  if (options.wait === true && request.status === "queued") request = await settled(session, request);
  await printDone(`${titleOf(request)} is ${request.status}.`, request, REQUEST, options, context);
  const ending = request.status === "queued" ? undefined : errorOfEnding(request);
  if (ending === undefined) return;
  if (request.status !== "rejected") throw ending;
  // A key that no pool has is a slip in other calls, but a rejection when a request is judged by it.
  const { EXIT } = await import("./problems.ts");
  const hint = hintOfRejection(request) ?? ending.hint;
  throw new CliError(ending.code as ErrorCode, ending.message, hint, EXIT.rejected);
}

async function settled({ client }: ReturnType<typeof connect>, request: WireRequest): Promise<WireRequest> {
  let current = request;
  while (current.status === "queued") {
    current = await client.requests.get(request.id, { wait: 30, until: "settled" }, { timeoutMs: 40_000 });
  }
  return current;
}
