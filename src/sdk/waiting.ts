// Waiting for a grant: hears of it at once, and lets the server know that its client still waits (L2).

import type { WireRequest } from "../protocol/index.ts";
import { BerthError, errorOfEnding, isBerthError } from "./errors.ts";
import { reasonOf, type WaitingReason } from "./reason.ts";
import { anySignal, monotonicMs, sleep } from "./timing.ts";
import type { Transport } from "./transport.ts";
import { watchRequest } from "./watch.ts";

export interface WaitOptions {
  readonly signal?: AbortSignal | undefined;
  /** Counted here, and only here: the request goes on waiting. See also `wait_timeout_seconds`. */
  readonly timeoutMs?: number | undefined;
  /** Why it waits, whenever that has changed. */
  readonly onProgress?: ((reason: WaitingReason) => void) | undefined;
}

/** A request that holds units, with the token of its grant. */
export type GrantedRequest = WireRequest & { readonly token: string };

const QUIET_START_MS = 100;
const PROGRESS_MS = 3_000;
const RETRY_KEEP_ALIVE_MS = 2_000;

/** Resolves when the request is granted; throws a `BerthError` when it never will be, or the time is up. */
export async function waitForGrant(
  transport: Transport,
  given: WireRequest,
  options: WaitOptions = {},
): Promise<GrantedRequest> {
  const first = judge(given);
  if (first !== undefined) return first;

  const finished = new AbortController();
  const timeout = options.timeoutMs === undefined ? undefined : deadline(options.timeoutMs, finished.signal);
  const signal = anySignal(finished.signal, options.signal, timeout);
  try {
    return await new Promise<GrantedRequest>((resolve, reject) => {
      const stop = () => reject(timeout?.aborted ? timedOut(given, options) : (signal.reason as Error));
      if (signal.aborted) return stop();
      signal.addEventListener("abort", stop);
      const look = singleFlight(async () => {
        const { body } = await transport.send("getRequest", { params: { id: given.id } }, forEver(signal));
        const granted = judge(body);
        if (granted !== undefined) resolve(granted);
        else await tellProgress(body);
      }, reject);
      const tellProgress = progressTeller(transport, options, signal);

      void watchRequest(transport, given.id, { signal, onChange: () => look(), until: () => "settled" });
      void keepAlive(transport, given.id, signal, look);
      if (options.onProgress !== undefined) void repeatedly(PROGRESS_MS, signal, look);
    });
  } finally {
    finished.abort();
  }
}

/** Undefined while it waits. */
function judge(request: WireRequest): GrantedRequest | undefined {
  if (request.status === "queued") return undefined;
  if (request.token !== undefined) return request as GrantedRequest;
  throw (
    errorOfEnding(request) ??
    new BerthError("forbidden", `Request #${request.number} is ${request.status}, and not ours to hold.`)
  );
}

/** Tells the server that we are there, as often as it wants to hear. */
async function keepAlive(
  transport: Transport,
  id: string,
  signal: AbortSignal,
  look: () => void,
): Promise<void> {
  await sleep(QUIET_START_MS, signal); // The request itself has just been heard of.
  while (!signal.aborted) {
    let pauseMs = RETRY_KEEP_ALIVE_MS;
    try {
      const { body } = await transport.send("renewRequest", { params: { id }, body: {} }, forEver(signal));
      if (body.status !== "queued") look();
      pauseMs = Math.min(body.renew_after_seconds, body.lease_seconds / 3) * 1000;
    } catch (error) {
      if (signal.aborted) return;
      if (isBerthError(error, "stale_token", "not_found")) look();
    }
    await sleep(pauseMs * (0.8 + 0.2 * transport.random()), signal);
  }
}

function progressTeller(transport: Transport, { onProgress }: WaitOptions, signal: AbortSignal) {
  let toldLine: string | undefined;
  return async (request: WireRequest): Promise<void> => {
    if (onProgress === undefined) return;
    const reason = await reasonOf(transport, request, signal);
    if (reason === undefined || reason.line === toldLine || signal.aborted) return;
    toldLine = reason.line;
    onProgress(reason);
  };
}

/** Looks again if it was asked to while it looked, and never twice at once. */
function singleFlight(look: () => Promise<void>, onError: (error: unknown) => void): () => void {
  let isRunning = false;
  let isWanted = false;
  const run = async () => {
    isRunning = true;
    try {
      for (isWanted = true; isWanted; ) {
        isWanted = false;
        await look();
      }
    } catch (error) {
      onError(error);
    } finally {
      isRunning = false;
    }
  };
  return () => {
    isWanted = true;
    if (!isRunning) void run();
  };
}

async function repeatedly(everyMs: number, signal: AbortSignal, act: () => void): Promise<void> {
  for (let pauseMs = everyMs; !signal.aborted; pauseMs = Math.min(pauseMs * 1.5, 10 * everyMs)) {
    await sleep(pauseMs, signal);
    if (!signal.aborted) act();
  }
}

function deadline(ms: number, until: AbortSignal): AbortSignal {
  const controller = new AbortController();
  const endMs = monotonicMs() + ms;
  const wait = async () => {
    while (!until.aborted && monotonicMs() < endMs) await sleep(endMs - monotonicMs(), until);
    if (!until.aborted) controller.abort();
  };
  void wait();
  return controller.signal;
}

function timedOut({ number }: WireRequest, { timeoutMs = 0 }: WaitOptions): BerthError {
  return new BerthError("wait_timeout", `Request #${number} was not granted within ${timeoutMs / 1000} s.`);
}

/** An outage of the server ends nobody's waiting. */
function forEver(signal: AbortSignal) {
  return { signal, retryForMs: Number.POSITIVE_INFINITY };
}
