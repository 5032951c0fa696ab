// Notices that something has happened to one request: by the event stream, or by long polls where there is none.

import type { WireEvent, WireRequest } from "../protocol/index.ts";
import { BerthError } from "./errors.ts";
import { streamEvents } from "./events.ts";
import { fullJitter, sleep } from "./timing.ts";
import type { QueryOf, Transport } from "./transport.ts";

export interface Watch {
  readonly signal: AbortSignal;
  /** Something may have changed: look. Called once at the beginning, after the ears are open; with what was heard. */
  readonly onChange: (event?: WireEvent) => void;
  /** What a long poll waits for now. */
  readonly until: () => NonNullable<QueryOf<"getRequest">["until"]>;
}

const POLL_SECONDS = 25;
const ANSWER_MS = 10_000;
const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 5_000;

/** Runs until the signal is aborted; never throws. */
export async function watchRequest(transport: Transport, id: string, watch: Watch): Promise<void> {
  const { signal, onChange } = watch;
  try {
    for await (const event of streamEvents(transport, { request: id }, { signal })) onChange(event);
  } catch {
    // A token has a few streams only, and may not be allowed any: then we ask again and again.
    await pollRequest(transport, id, watch);
  }
}

async function pollRequest(
  transport: Transport,
  id: string,
  { signal, onChange, until }: Watch,
): Promise<void> {
  const { random } = transport;
  const call = { signal, timeoutMs: POLL_SECONDS * 1000 + ANSWER_MS, retryForMs: Number.POSITIVE_INFINITY };
  let seen: WireRequest | undefined;
  for (let idle = 0; !signal.aborted; ) {
    try {
      const query = { wait: POLL_SECONDS, until: until() };
      const { body } = await transport.send("getRequest", { params: { id }, query }, call);
      const isNews = seen === undefined || fingerprint(body) !== fingerprint(seen);
      seen = body;
      if (isNews) {
        idle = 0;
        onChange();
      }
    } catch (error) {
      if (signal.aborted) return;
      // Gone, or no longer ours to see: the next call reports it.
      if (error instanceof BerthError) onChange();
    }
    // What was waited for may be there already, and then answers come at once.
    await sleep(fullJitter(idle++, { minMs: RETRY_MS_MIN, maxMs: RETRY_MS_MAX, random }), signal);
  }
}

function fingerprint({ status, attempt, stop }: WireRequest): string {
  return `${status} ${attempt} ${stop?.cause} ${stop?.phase} ${stop?.deadline}`;
}
