// The event stream, which goes on where it was after every interruption.

import { createParser } from "eventsource-parser";
import type { WireEvent } from "../protocol/index.ts";
import { BerthError } from "./errors.ts";
import { anySignal, fullJitter, sleep } from "./timing.ts";
import type { Transport } from "./transport.ts";

export interface EventFilter {
  readonly pool?: string;
  readonly request?: string;
  readonly component?: string;
}

export interface StreamOptions {
  readonly signal?: AbortSignal | undefined;
  /** The id of the last message that was seen, or 0 for all that is kept; what came after it is sent first. */
  readonly after?: string | number;
  /** Told about every interruption; the stream goes on by itself. */
  readonly onInterruption?: (error: BerthError) => void;
}

/** The server says something at least every 15 s; a connection silent for this long is dead. */
const SILENCE_MS_MAX = 45_000;
const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 5_000;
const EVENT_CHARS_MAX = 4 * 1024 * 1024;

/**
 * Events until the signal is aborted. `stream.opened` marks every (re)connection, `stream.reset` that history was
 * lost and the state must be read anew. Throws only what another try would not mend.
 */
export async function* streamEvents(
  transport: Transport,
  filter: EventFilter = {},
  options: StreamOptions = {},
): AsyncGenerator<WireEvent, void> {
  let lastId = options.after;
  const isOver = () => options.signal?.aborted === true;
  for (let failures = 0; !isOver(); ) {
    try {
      for await (const { id, event } of connect(transport, filter, lastId, options.signal)) {
        failures = 0;
        lastId = id ?? lastId;
        yield event;
      }
    } catch (error) {
      if (isOver()) return;
      if (!(error instanceof BerthError) || !isPassing(error)) throw error;
      options.onInterruption?.(error);
    }
    const { random } = transport;
    await sleep(fullJitter(failures++, { minMs: RETRY_MS_MIN, maxMs: RETRY_MS_MAX, random }), options.signal);
  }
}

interface Message {
  readonly id: string | undefined;
  readonly event: WireEvent;
}

/** One connection. Ends when the server ends it. */
async function* connect(
  transport: Transport,
  filter: EventFilter,
  lastId: string | number | undefined,
  signal: AbortSignal | undefined,
): AsyncGenerator<Message, void> {
  const connection = new AbortController();
  const headers: Record<string, string> = { accept: "text/event-stream" };
  if (lastId !== undefined) headers["last-event-id"] = String(lastId);
  let watchdog: ReturnType<typeof setTimeout> | undefined;
  const heard = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => connection.abort(silence()), SILENCE_MS_MAX);
  };
  heard();
  try {
    const query = { ...filter };
    const response = await transport.open(
      "streamEvents",
      { query },
      headers,
      anySignal(connection.signal, signal),
    );
    const received: Message[] = [];
    const parser = createParser({
      onEvent: ({ id, data }) => received.push({ id, event: JSON.parse(data) as WireEvent }),
      maxBufferSize: EVENT_CHARS_MAX,
    });
    const decoder = new TextDecoder();
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      parser.feed(decoder.decode(value, { stream: true }));
      yield* received.splice(0);
    }
  } catch (error) {
    if (signal?.aborted === true || error instanceof BerthError) throw error;
    throw new BerthError("unavailable", "The event stream was interrupted.", { cause: error });
  } finally {
    clearTimeout(watchdog);
    connection.abort(); // Also when the reader has seen enough.
  }
}

function silence(): BerthError {
  return new BerthError("timeout", "The event stream has fallen silent.");
}

function isPassing({ status }: BerthError): boolean {
  return status === 0 || status === 408 || status >= 500;
}
