// Submitting jobs: one, or an array of them (J7, J9).

import type { WireJobSubmission, WireRequest, WireRequestSubmission, WireRun } from "../../protocol/index.ts";
import type { Client } from "../../sdk/index.ts";
import { type CliContext, CliError } from "../context.ts";
import { given } from "../options.ts";
import { type OutputOptions, printOne, printRows } from "../output/print.ts";
import { printable } from "../output/text.ts";
import { REQUEST } from "../shapes.ts";
import { exitCodeOf, waitForEnd } from "./following.ts";
import { arrayOf, type JobOptions } from "./options.ts";

export interface SubmitJobOptions extends OutputOptions, Pick<JobOptions, "array"> {
  readonly wait?: boolean;
  readonly idempotencyKey?: string;
}

/** A job that can save its work when asked says so by how it is asked. */
export function jobSubmissionOf(
  body: WireRequestSubmission,
  { checkpointSignal, checkpointCmd }: Pick<JobOptions, "checkpointSignal" | "checkpointCmd">,
): WireRequestSubmission {
  const asks = checkpointSignal !== undefined || checkpointCmd !== undefined;
  return asks && (body.checkpoint ?? "none") === "none" ? { ...body, checkpoint: "auto" } : body;
}

export async function submitJob(
  client: Client,
  body: WireRequestSubmission & { run: WireRun },
  options: SubmitJobOptions,
  context: CliContext,
): Promise<void> {
  const call = given({ idempotencyKey: options.idempotencyKey });
  if (options.array !== undefined) {
    const { results } = await client.jobs.submitArray({ job: body, ...arrayOf(options.array) }, call);
    const made = results.filter((result): result is WireRequest => !("problem" in result));
    for (const result of results) {
      if ("problem" in result)
        throw new CliError("invalid_request", result.problem.detail, result.problem.hint);
    }
    await printNumbers(made, options, context);
    if (body.operation === undefined) tellOperation(made, context);
    return;
  }
  const job = await client.jobs.submit(body, call);
  await printNumbers([job], options, context);
  if (job.status === "rejected" || options.wait === true) {
    context.exitCode = await exitCodeOf(await waitForEnd(client, job));
  }
}

/** By this name all of it can be shown and cancelled. */
function tellOperation([first]: readonly WireRequest[], context: CliContext): void {
  if (first?.operation == null) return;
  context.tell(`${printable(`All of them: berth operation show|cancel ${first.operation}`)}\n`);
}

/** `#42`, one line each: short enough to be typed again. */
async function printNumbers(
  requests: readonly WireRequest[],
  options: OutputOptions,
  context: CliContext,
): Promise<void> {
  if (options.output === undefined && !process.env.BERTH_OUTPUT) {
    for (const { number, status, reasons } of requests) {
      context.write(`#${number}\n`);
      const codes = reasons?.map(({ pool, code }) => `${pool ?? "every pool"}: ${code}`).join(", ");
      if (status === "rejected")
        context.tell(`berth: #${number} was rejected (${codes}). berth why ${number}\n`);
    }
    return;
  }
  const [first] = requests;
  if (requests.length === 1 && first !== undefined) await printOne(first, REQUEST, options, context);
  else await printRows(requests, REQUEST, options, context);
}

/** The body of `POST /v1/jobs`, as YAML or JSON. The component may be left out. */
export async function jobFromFile(
  file: string,
  { readStdin }: CliContext,
): Promise<Partial<WireJobSubmission>> {
  const { readFile } = await import("node:fs/promises");
  const { parse } = await import("../yaml.ts");
  const text = file === "-" ? await readStdin?.() : await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined)
    throw new CliError("file_not_found", `There is no file ${file}.`, "Check its name.");
  let job: unknown;
  try {
    job = parse(text);
  } catch (error) {
    throw new CliError("invalid_syntax", `${file}: ${(error as Error).message}`, "Write YAML or JSON.");
  }
  if (typeof job !== "object" || job === null || !("run" in job)) {
    throw new CliError("usage", `${file} does not describe a job.`, "It needs at least run, with a command.");
  }
  return job as Partial<WireJobSubmission>; // The server judges it.
}
