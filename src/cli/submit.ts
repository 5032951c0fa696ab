// berth submit: asks for resources without running anything.

import type { Command } from "commander";
import type { ErrorCode, WireJobSubmission, WireRequest, WireRequestSubmission } from "../protocol/index.ts";
import { errorOfEnding } from "../sdk/index.ts";
import { type CliContext, CliError } from "./context.ts";
import { hintOfRejection } from "./hints.ts";
import { afterOf, type JobOptions, runOf, withJobOptions } from "./jobs/options.ts";
import { jobFromFile, jobSubmissionOf, submitJob } from "./jobs/submitting.ts";
import { type ConnectionOptions, given, withConnection, withIdempotencyKey, withOutput } from "./options.ts";
import { type OutputOptions, printDone } from "./output/print.ts";
import { durationText } from "./output/text.ts";
import { tellWarnings } from "./output/warnings.ts";
import { componentOf, connect, titleOf } from "./session.ts";
import { REQUEST } from "./shapes.ts";
import { type SubmissionOptions, submissionOf, withSubmissionOptions } from "./submission.ts";

interface SubmitOptions extends ConnectionOptions, OutputOptions, SubmissionOptions, JobOptions {
  readonly file?: string;
  readonly wait?: boolean;
  readonly idempotencyKey?: string;
}

const HELP = `
With a command it is a job: Berth starts it on a node of a pool with an executor, and this command returns at once. Its output is
shown by \`berth logs\`. Without a command it is for programs that hold the grant themselves, by the API or the SDK.

Examples:
  berth submit --gpu 1 -- python train.py
  berth submit --gpu 1 --array 0-99%10 -- sh -c 'python train.py --seed $BERTH_ARRAY_INDEX'
  berth submit --after 42 --env DATA=/data -- python evaluate.py
  berth submit -f job.yaml --wait
  berth submit --gpu 2 --name train
  berth submit --gpu 1 --walltime 2h --checkpoint auto --class 7
  berth submit --component vision -r gpu=1,tensorrt_sessions=1 --wait -o json
`;

export function define(command: Command, context: CliContext): void {
  // Options after the command are the command's own, also without `--`.
  command.parent?.enablePositionalOptions();
  command
    .usage("[resources] [options] [--] [COMMAND...]")
    .argument("[command...]", "the command and its arguments; left out: only ask")
    .passThroughOptions();
  withSubmissionOptions(command)
    .option("-f, --file <file>", "a job as YAML or JSON, as the API takes it")
    .option("--checkpoint-signal <signal>", "of a job: ask for a checkpoint with this signal, too")
    .option("--checkpoint-cmd <shell>", "of a job: save its state with this command")
    .option("--on-lost <how>", "of a job whose node reaches no server: suspend, run-on or kill")
    .option(
      "--wait",
      "wait until it is granted or refused; of a job: until it has ended, with its exit code",
    );
  withJobOptions(withIdempotencyKey(withOutput(withConnection(command))));
  command.addHelpText("after", HELP);
  command.action((words: string[], options: SubmitOptions) => submit(words, options, context));
}

async function submit(words: readonly string[], options: SubmitOptions, context: CliContext): Promise<void> {
  const session = connect(options);
  if (options.file !== undefined) {
    const job = await jobFromFile(options.file, context);
    const component = job.component ?? (await componentOf(session));
    return submitJob(session.client, { ...job, component } as WireJobSubmission, options, context);
  }
  const component = await componentOf(session);
  const body: WireRequestSubmission = {
    ...(await submissionOf(options, component)),
    ...(await afterOf(session.client, options.after)),
  };
  if (words.length > 0) {
    const job = { ...jobSubmissionOf(body, options), run: runOf(words, options, session) };
    return submitJob(session.client, job, options, context);
  }
  if (options.array !== undefined) {
    throw new CliError(
      "usage",
      "An array needs a command.",
      "Put it after `--`: berth submit --array 0-9 -- CMD",
    );
  }
  let request = await session.client.requests.submit(body, given({ idempotencyKey: options.idempotencyKey }));
  tellWarnings(request, context);
  if (options.wait === true && request.status === "queued") request = await settled(session, request);
  await printDone(`${titleOf(request)} is ${request.status}.`, request, REQUEST, options, context);
  if (context.screen !== undefined) tellHolding(request, context);
  const ending = request.status === "queued" ? undefined : errorOfEnding(request);
  if (ending === undefined) return;
  if (request.status !== "rejected") throw ending;
  // A key that no pool has is a slip in other calls, but a rejection when a request is judged by it.
  const { EXIT } = await import("./problems.ts");
  const hint = hintOfRejection(request) ?? ending.hint;
  throw new CliError(ending.code as ErrorCode, ending.message, hint, EXIT.rejected);
}

/** At a keyboard: `submit` reads as if it started something, as the like of it does elsewhere. */
function tellHolding({ status, lease_expires_at: ends }: WireRequest, context: CliContext): void {
  const instead = "To have a command started, put it after `--`.";
  if (status === "queued")
    context.tell(`Nothing will be started: a program has to hold the grant. ${instead}\n`);
  if (status !== "allocated" || ends === undefined) return;
  const left = durationText((Date.parse(ends) - Date.now()) / 1000);
  context.tell(`Nothing was started: the grant ends in ${left} unless a program renews it. ${instead}\n`);
}

async function settled({ client }: ReturnType<typeof connect>, request: WireRequest): Promise<WireRequest> {
  let current = request;
  while (current.status === "queued") {
    current = await client.requests.get(request.id, { wait: 30, until: "settled" }, { timeoutMs: 40_000 });
  }
  return current;
}
