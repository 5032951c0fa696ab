// berth wait: until requests have started or ended, by the event stream, with one line per change (H1).

import type { Command } from "commander";
import type { WireRequest } from "../protocol/index.ts";
import { type Client, errorOfEnding, hasEnded } from "../sdk/index.ts";
import { type CliContext, CliError } from "./context.ts";
import { exitCodeOf } from "./jobs/following.ts";
import { type ConnectionOptions, oneOf, withConnection } from "./options.ts";
import { connect, findRequest, titleOf } from "./session.ts";

interface Options extends ConnectionOptions {
  readonly until?: string;
  readonly any?: boolean;
  readonly timeout?: string;
}

const HELP = `
Ends with 0 when all of them (or with --any the first one) have come that far. A request that ends before that decides the exit code:
as \`berth run\`, 69 rejected, 71 cancelled, 73 walltime over, 74 lost, 75 preempted; with --until ended the code of the command
itself where it is known. 124: the time is up.

Examples:
  berth wait 42
  berth wait 42 43 44 --until ended && echo "all done"
  berth wait 42 43 --any --until allocated
  berth wait train --until ended --timeout 2h
`;

const UNTIL = ["allocated", "running", "ended"] as const;
type Until = (typeof UNTIL)[number];

export function define(command: Command, context: CliContext): void {
  command.argument("<request...>", "numbers, ids or names");
  command
    .option("--until <state>", "allocated, running or ended", "ended")
    .option("--any", "the first of them is enough")
    .option("--timeout <time>", "give up after this time, such as 2h");
  withConnection(command).addHelpText("after", HELP);
  command.action((texts: string[], options: Options) => wait(texts, options, context));
}

async function wait(texts: readonly string[], options: Options, context: CliContext): Promise<void> {
  const until = oneOf("--until", options.until ?? "ended", UNTIL);
  const timeoutMs = options.timeout === undefined ? undefined : (await secondsOf(options.timeout)) * 1000;
  const { client } = connect(options);
  const found = new Map<string, WireRequest>();
  for (const text of texts) {
    const request = await findRequest(client, text);
    found.set(request.id, request);
  }
  const timer = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs);
  const signals = [timer, context.signal].filter((signal) => signal !== undefined);
  const signal = AbortSignal.any(signals);
  const watch = createWatch(client, { found, until, isAny: options.any === true, context });
  try {
    context.exitCode = await follow(client, watch, signal);
  } catch (error) {
    if (timer?.aborted !== true) throw error;
    throw new CliError(
      "wait_timeout",
      `After ${options.timeout} ${watch.openText()} not ${until}.`,
      "They go on; wait again for longer.",
    );
  }
}

async function secondsOf(text: string): Promise<number> {
  return (await import("./parsing.ts")).durationSeconds(text);
}

/** The stream first, then the states: whatever happens in between is heard. */
async function follow(client: Client, watch: Watch, signal: AbortSignal): Promise<number> {
  for await (const event of client.events.stream({}, { signal })) {
    const isNew = event.event === "stream.opened" || event.event === "stream.reset";
    const code = isNew ? await watch.lookAtAll() : await watch.lookAt(event.request_id);
    if (code !== undefined) return code;
  }
  throw signal.reason as Error;
}

interface Watch {
  /** The exit code, when it is decided. */
  lookAtAll(): Promise<number | undefined>;
  lookAt(id: string | undefined): Promise<number | undefined>;
  openText(): string;
}

function createWatch(
  client: Client,
  {
    found,
    until,
    isAny,
    context,
  }: { found: Map<string, WireRequest>; until: Until; isAny: boolean; context: CliContext },
): Watch {
  const open = new Map(found);
  const shown = new Map<string, string>();
  let worst = 0;

  async function lookAt(id: string | undefined): Promise<number | undefined> {
    if (id === undefined || !open.has(id)) return undefined;
    const request = await client.requests.get(id);
    const state = stateOf(request);
    if (shown.get(id) !== state) context.tell(`${titleOf(request)} ${state}\n`);
    shown.set(id, state);
    if (!isThere(request, until)) return undefined;
    open.delete(id);
    const code = await codeOf(client, request, until);
    if (worst === 0) worst = code;
    return isAny || open.size === 0 ? (isAny ? code : worst) : undefined;
  }

  return {
    lookAt,
    async lookAtAll() {
      for (const id of [...open.keys()]) {
        const code = await lookAt(id);
        if (code !== undefined) return code;
      }
      return undefined;
    },
    openText() {
      const titles = [...open.values()].map(titleOf);
      return `${titles.join(", ")} ${titles.length === 1 ? "is" : "are"}`;
    },
  };
}

function stateOf({ status, phase, pool }: WireRequest): string {
  const where = pool === null || status === "queued" ? "" : ` in pool ${pool}`;
  return status === "allocated" && phase !== null ? `${status}${where}, ${phase}` : `${status}${where}`;
}

function isThere(request: WireRequest, until: Until): boolean {
  if (hasEnded(request)) return true;
  const holds = request.status === "allocated" || request.status === "preempting";
  if (until === "ended" || !holds) return false;
  return until === "allocated" || request.phase === null || request.phase === "running";
}

async function codeOf(client: Client, request: WireRequest, until: Until): Promise<number> {
  if (!hasEnded(request)) return 0;
  if (request.is_job) return exitCodeOf(await client.jobs.get(request.id));
  if (request.status === "released") return 0;
  if (request.status === "failed" && until === "ended") {
    const code = request.attempts.at(-1)?.exit_code;
    if (code !== null && code !== undefined && code !== 0) return code;
  }
  const { ERRORS, EXIT, isErrorCode } = await import("./problems.ts");
  const code = errorOfEnding(request)?.code ?? "";
  return isErrorCode(code) ? ERRORS[code].exitCode : request.status === "failed" ? 1 : EXIT.berthFailed;
}
