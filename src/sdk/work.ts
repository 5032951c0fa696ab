// Work under a grant: submit, wait, run, renew, release, and again after a preemption.

import type { WireRelease, WireRequest, WireRequestSubmission } from "../protocol/index.ts";
import { errorOfEnding, hasEnded, isBerthError } from "./errors.ts";
import { type Grant, holdGrant } from "./grant.ts";
import { anySignal } from "./timing.ts";
import type { Transport } from "./transport.ts";
import { type WaitOptions, waitForGrant } from "./waiting.ts";

export type WorkSettings = Omit<WireRequestSubmission, "attended" | "retries"> &
  WaitOptions & {
    /** How many further attempts there may be, or that and the seconds between them. */
    readonly retries?: number | WireRequestSubmission["retries"];
    readonly idempotencyKey?: string;
    /** Each grant, before the work begins. */
    readonly onGrant?: (grant: Grant) => void;
  };

const MESSAGE_CHARS_MAX = 1_000;
/** Who has lost touch tries once more to give the units back, and does not wait for it. */
const LOST_RELEASE_FOR_MS = 5_000;
const WITHDRAW_FOR_MS = 5_000;

/**
 * Runs the work once it is granted, and again for as long as the server queues it again. Work that throws because
 * `grant.signal` was aborted counts as stopped; for any other reason, as failed. What it returns counts, unless it was
 * asked to stop or has saved what it was asked to save; work that is really finished says `grant.checkpoint.finished()`
 * before it returns (11.4).
 */
export async function withGrant<Result>(
  transport: Transport,
  settings: WorkSettings,
  work: (grant: Grant) => Promise<Result> | Result,
): Promise<Result> {
  const { signal, timeoutMs, onProgress, idempotencyKey, onGrant, retries, ...wanted } = settings;
  const body: WireRequestSubmission = { ...wanted, attended: true };
  if (retries !== undefined) body.retries = typeof retries === "number" ? { max: retries } : retries;

  signal?.throwIfAborted();
  let request = (await transport.send("submitRequest", { body }, { idempotencyKey })).body;
  for (;;) {
    const grant = await nextGrant(transport, request, { signal, timeoutMs, onProgress });
    const run = (held: Grant) => {
      onGrant?.(held); // What fails here gives the grant back like the work itself.
      return work(held);
    };
    const attempt = await runOnce(transport, grant, run, signal);
    if (attempt.kind === "succeeded") return attempt.result;
    if (hasEnded(attempt.request)) throw errorOfEnding(attempt.request) ?? attempt.error;
    request = attempt.request;
  }
}

/** A request that nobody waits for any more is cancelled, rather than left to expire. */
async function nextGrant(transport: Transport, request: WireRequest, options: WaitOptions): Promise<Grant> {
  try {
    return holdGrant(transport, await waitForGrant(transport, request, options));
  } catch (error) {
    if (options.signal?.aborted || isBerthError(error, "wait_timeout")) {
      await withdraw(transport, request.id).catch(() => undefined);
    }
    throw error;
  }
}

/** Cancels a request that does not run here. If it was granted in the same moment, the grant is given back. */
export async function withdraw(
  transport: Transport,
  id: string,
  details: Pick<WireRelease, "cause" | "message"> = {},
): Promise<WireRequest> {
  const retryForMs = WITHDRAW_FOR_MS;
  const { body } = await transport.send("cancelRequest", { params: { id } }, { retryForMs });
  const request = body as WireRequest;
  if (request.token === undefined) return request;
  const release = { ...details, token: request.token, outcome: "stopped" as const };
  return (await transport.send("releaseRequest", { params: { id }, body: release }, { retryForMs })).body;
}

type Attempt<Result> =
  | { readonly kind: "succeeded"; readonly result: Result }
  | { readonly kind: "ended"; readonly request: WireRequest; readonly error: unknown };

async function runOnce<Result>(
  transport: Transport,
  grant: Grant,
  work: (grant: Grant) => Promise<Result> | Result,
  signal: AbortSignal | undefined,
): Promise<Attempt<Result>> {
  const told = anySignal(grant.signal, signal);
  try {
    const result = await work({ ...grant, signal: told });
    if (grant.wasStopped()) {
      const request = await grant.release("stopped");
      return { kind: "ended", request, error: grant.signal.reason as unknown };
    }
    await grant.release("succeeded");
    return { kind: "succeeded", result };
  } catch (error) {
    if (isBerthError(error, "stale_token")) throw error;
    const cancelled = signal?.aborted === true && (await isCancelled(transport, grant.id));
    // Only what the server has asked to stop can be reported as stopped; who has lost touch has failed.
    const isLost = isBerthError(grant.signal.reason, "holder_lost");
    const outcome = cancelled || (grant.signal.aborted && !isLost) ? "stopped" : "failed";
    const message = String(error instanceof Error ? error.message : error).slice(0, MESSAGE_CHARS_MAX);
    const reason = told.aborted ? (told.reason as unknown) : error;
    try {
      const request = await grant.release(outcome, {
        message,
        ...(isLost && { retryForMs: LOST_RELEASE_FOR_MS }),
      });
      return { kind: "ended", request, error: reason };
    } catch {
      throw reason; // The end could not be reported; why the work ended matters more.
    }
  } finally {
    grant.abandon();
  }
}

async function isCancelled(transport: Transport, id: string): Promise<boolean> {
  const cancelling = transport.send("cancelRequest", { params: { id } }, { retryForMs: LOST_RELEASE_FOR_MS });
  return await cancelling.then(
    () => true,
    () => false,
  );
}
