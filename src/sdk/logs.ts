// The output of a job (J6), which goes on where it was after every interruption.

import { BerthError } from "./errors.ts";
import { anySignal, fullJitter, sleep } from "./timing.ts";
import type { QueryOf, Transport } from "./transport.ts";

export interface LogChunk {
  readonly stream: "stdout" | "stderr";
  readonly data: Uint8Array;
}

export type LogQuery = Omit<QueryOf<"getJobLogs">, "format">;

type LogLine =
  | { readonly position: number; readonly stream: LogChunk["stream"]; readonly data: string }
  | { readonly dropped: number }
  | { readonly end: true };

/** The server says something at least every 15 s; a connection silent for this long is dead. */
const SILENCE_MS_MAX = 45_000;
const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 5_000;
const FAILURES_MAX = 20;

/** The output of one attempt, to its end: of what has been written so far, or with `follow` that of the attempt. */
export async function* readLog(
  transport: Transport,
  id: string,
  query: LogQuery = {},
  signal?: AbortSignal,
): AsyncGenerator<LogChunk, void> {
  let from = query.from;
  for (let failures = 0; ; ) {
    try {
      for await (const line of connect(transport, id, { ...query, from, format: "events" }, signal)) {
        failures = 0;
        if ("end" in line) return;
        if ("dropped" in line) {
          const text = `[${line.dropped} bytes are missing]\n`;
          yield { stream: "stderr", data: new TextEncoder().encode(text) };
          continue;
        }
        const data = bytesOf(line.data);
        from = line.position + data.length;
        yield { stream: line.stream, data };
      }
    } catch (error) {
      signal?.throwIfAborted();
      const isPassing = error instanceof BerthError && (error.status === 0 || error.status >= 500);
      if (!isPassing || failures >= FAILURES_MAX) throw error;
    }
    const { random } = transport;
    await sleep(fullJitter(failures++, { minMs: RETRY_MS_MIN, maxMs: RETRY_MS_MAX, random }), signal);
  }
}

function bytesOf(base64: string): Uint8Array {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** One connection, line by line. */
async function* connect(
  transport: Transport,
  id: string,
  query: QueryOf<"getJobLogs">,
  signal: AbortSignal | undefined,
): AsyncGenerator<LogLine, void> {
  const connection = new AbortController();
  let watchdog: ReturnType<typeof setTimeout> | undefined;
  const heard = () => {
    clearTimeout(watchdog);
    const silence = new BerthError("timeout", "The log has fallen silent.");
    watchdog = setTimeout(() => connection.abort(silence), SILENCE_MS_MAX);
  };
  heard();
  try {
    const input = { params: { id }, query };
    const response = await transport.open("getJobLogs", input, {}, anySignal(connection.signal, signal));
    const decoder = new TextDecoder();
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line !== "") yield JSON.parse(line) as LogLine;
    }
  } catch (error) {
    if (signal?.aborted === true || error instanceof BerthError) throw error;
    throw new BerthError("unavailable", "The log was interrupted.", { cause: error });
  } finally {
    clearTimeout(watchdog);
    connection.abort(); // Also when the reader has seen enough.
  }
}
