// berth logs: the output of a job. Also `berth job logs`.

import type { Command } from "commander";
import { CHOICES } from "./choices.ts";
import type { CliContext } from "./context.ts";
import { followJob } from "./jobs/following.ts";
import { type ConnectionOptions, given, oneOf, wholeNumber, withConnection } from "./options.ts";
import { printable } from "./output/text.ts";
import { connect, findRequest } from "./session.ts";

interface LogsOptions extends ConnectionOptions {
  readonly follow?: boolean;
  readonly attempt?: string;
  readonly rank?: string;
  readonly stream?: string;
  readonly tail?: string;
}

const HELP = `
The output stays on the node where the job runs, and comes from there. When that node does not answer, the last 64 KiB
of an attempt that has ended are shown.

Examples:
  berth logs 42
  berth logs -f train
  berth logs 42 --attempt 1 --stream stderr
`;

export function define(command: Command, context: CliContext): void {
  withConnection(command.argument("<job>", "number, name or id"))
    .option("-f, --follow", "go on while it runs, over all its attempts")
    .option("--attempt <number>", "of this attempt; default: the latest")
    .option("--rank <number>", "of a job on several nodes: of this one, from 0 on")
    .option("--stream <stream>", "stdout or stderr; default: both")
    .option("--tail <bytes>", "only so much of the end")
    .addHelpText("after", HELP)
    .action((text: string, options: LogsOptions) => logs(text, options, context));
}

async function logs(text: string, options: LogsOptions, { signal, tell }: CliContext): Promise<void> {
  const { client } = connect(options);
  const { attempt, rank, stream, tail } = options;
  const request = await findRequest(client, text);
  const query = given({
    attempt: attempt === undefined ? undefined : wholeNumber("--attempt", attempt),
    rank: rank === undefined ? undefined : wholeNumber("--rank", rank),
    stream: stream === undefined ? undefined : oneOf("--stream", stream, CHOICES.stream),
    from: tail === undefined ? undefined : -wholeNumber("--tail", tail),
  });
  const follow = options.follow === true;
  const bytes = await followJob(client, request, { query, follow, ...(signal && { signal }) });
  if (bytes > 0) return;
  const { attempts } = await client.requests.get(request.id);
  const shown = attempts.find((each) => each.attempt === (query.attempt ?? attempts.at(-1)?.attempt));
  if (shown?.cause === "start_failed")
    tell(`${printable(`Attempt ${shown.attempt} could not be started: ${shown.message ?? ""}`)}\n`);
}
