// Waiting for a job, and its output as it is written.

import { constants } from "node:os";
import type { WireJob, WireRequest } from "../../protocol/index.ts";
import { type Client, errorOfEnding, hasEnded, type LogQuery } from "../../sdk/index.ts";

/** The next time that something has happened to it. */
function changed(client: Client, id: string, signal?: AbortSignal): Promise<WireRequest> {
  const options = { timeoutMs: 40_000, ...(signal && { signal }) };
  return client.requests.get(id, { wait: 30, until: "change" }, options);
}

export async function waitForEnd(
  client: Client,
  request: WireRequest,
  signal?: AbortSignal,
): Promise<WireJob> {
  let current = request;
  while (!hasEnded(current)) current = await changed(client, current.id, signal);
  return client.jobs.get(current.id);
}

/** The code of the command itself, or of what became of its request (J7). */
export async function exitCodeOf(job: WireJob): Promise<number> {
  const { exit } = job;
  const isOwn = job.status === "released" || (job.status === "failed" && exit?.reason === "exited");
  if (isOwn && exit !== null) {
    if (exit.exit_code !== null) return exit.exit_code;
    const number = constants.signals[exit.signal as NodeJS.Signals];
    if (number !== undefined) return 128 + number;
    if (job.status === "released") return 0;
  }
  const { ERRORS, EXIT, isErrorCode } = await import("../problems.ts");
  const code = errorOfEnding(job)?.code ?? "";
  return isErrorCode(code) ? ERRORS[code].exitCode : EXIT.berthFailed;
}

export interface Follow {
  readonly query: LogQuery;
  /** Go on while it runs, over all its attempts. */
  readonly follow: boolean;
  readonly signal?: AbortSignal;
  /** The attempt that begins now. */
  readonly onAttempt?: (request: WireRequest) => void;
}

/** Its output to our own; standard output and standard error each to theirs. Resolves with how many bytes there were. */
export async function followJob(client: Client, request: WireRequest, order: Follow): Promise<number> {
  const { query, follow, signal, onAttempt } = order;
  let current = request;
  let bytes = 0;
  for (let shown = 0; ; ) {
    while (current.status === "queued" && follow) current = await changed(client, current.id, signal);
    const attempt = query.attempt ?? (hasEnded(current) ? current.attempts.at(-1)?.attempt : current.attempt);
    if (attempt === undefined || attempt === shown) return bytes;
    onAttempt?.(current);
    bytes += await copyLog(
      client,
      current.id,
      { ...query, attempt, follow: follow ? "true" : "false" },
      signal,
    );
    shown = attempt;
    if (!follow || query.attempt !== undefined) return bytes;
    // The log of an attempt ends with it; the server may hear of that a moment later.
    current = await client.requests.get(current.id);
    while (!hasEnded(current) && current.status !== "queued" && current.attempt === attempt) {
      current = await changed(client, current.id, signal);
    }
    if (hasEnded(current)) return bytes;
  }
}

async function copyLog(client: Client, id: string, query: LogQuery, signal?: AbortSignal): Promise<number> {
  let bytes = 0;
  for await (const { stream, data } of client.jobs.logs(id, query, signal)) {
    bytes += data.length;
    const target = stream === "stdout" ? process.stdout : process.stderr;
    if (target.write(data)) continue;
    await new Promise((resolve) => target.once("drain", resolve));
  }
  return bytes;
}
