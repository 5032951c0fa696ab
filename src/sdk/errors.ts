// What goes wrong, as callers see it: the problem that a server answered with, or the lack of an answer.

import type { ErrorCode, Problem, WireRequest } from "../protocol/index.ts";

/** A code that is stable, a sentence, and a next step. */
export class BerthError extends Error {
  /** One of the codes of the protocol; servers newer than this client may know others. */
  readonly code: ErrorCode | (string & {});
  readonly hint: string;
  /** Of the answer; 0 if there was none. */
  readonly status: number;
  /** The whole problem, if a server sent one. */
  readonly problem: Problem | undefined;

  constructor(
    code: BerthError["code"],
    message: string,
    extra: { hint?: string; status?: number; problem?: Problem; cause?: unknown } = {},
  ) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause });
    this.name = "BerthError";
    this.code = code;
    this.hint = extra.hint ?? "";
    this.status = extra.status ?? 0;
    this.problem = extra.problem;
  }
}

export function isBerthError(error: unknown, ...codes: BerthError["code"][]): error is BerthError {
  return error instanceof BerthError && (codes.length === 0 || codes.includes(error.code));
}

/** As much of a `Response` as is needed here. */
export type Answer = Pick<Response, "ok" | "status" | "body" | "text"> & {
  readonly headers: Pick<Headers, "get">;
};

/** From an answer that is not a success. Something between us and the server may have written it, too. */
export async function errorOfAnswer(answer: Answer): Promise<BerthError> {
  const { status } = answer;
  const text = await answer.text().catch(() => "");
  const problem = parseProblem(text);
  if (problem === undefined) {
    const code =
      status === 503 || status === 502 ? "unavailable" : status === 504 ? "timeout" : "internal_error";
    return new BerthError(code, `The server answered ${status} without saying why.`, { status });
  }
  const { code, detail, hint } = problem;
  return new BerthError(code, detail, { status, problem, ...(hint !== undefined && { hint }) });
}

function parseProblem(text: string): Problem | undefined {
  try {
    const parsed = JSON.parse(text) as Partial<Problem> | null;
    return typeof parsed?.code === "string" && typeof parsed.detail === "string"
      ? (parsed as Problem)
      : undefined;
  } catch {
    return undefined;
  }
}

const liveStatuses: readonly WireRequest["status"][] = ["queued", "allocated", "preempting"];

/** A request that was queued again may have been granted again in the same moment. */
export function hasEnded({ status }: WireRequest): boolean {
  return !liveStatuses.includes(status);
}

/** Why a request that has ended did not bring what was asked for; undefined if the work ended well. */
export function errorOfEnding(request: WireRequest): BerthError | undefined {
  const which = `Request #${request.number}`;
  switch (request.status) {
    case "rejected":
      return rejection(which, request);
    case "cancelled":
      return new BerthError("cancelled", `${which} was cancelled.`);
    case "preempted":
      return new BerthError("preempted", `${which} was preempted and is not queued again.`, {
        hint: preemptionHint(request),
      });
    case "expired":
      return expiry(which, request);
    case "failed":
      return overtime(which, request);
    default:
      return undefined;
  }
}

/** Its own walltime, or a limit of the cluster on which it ran. */
function overtime(
  which: string,
  { attempts, walltime_seconds: seconds }: WireRequest,
): BerthError | undefined {
  const last = attempts.at(-1);
  if (last?.outcome === "walltime")
    return new BerthError("walltime_over", `${which} reached its walltime of ${seconds} s.`);
  if (last?.cause !== "walltime") return undefined;
  return new BerthError("walltime_over", `${which} ran longer than its cluster permits.`);
}

function preemptionHint({ attempt, retries: { max } }: WireRequest): string {
  if (max === null || attempt <= max) {
    return "Let it wait again with requeue on_preemption, or ask for work that is not preemptible.";
  }
  if (max === 0) return "It was allowed no further attempt; allow some with retries.";
  const used = max === 1 ? "1 further attempt is" : `${max} further attempts are`;
  return `Its ${used} used up; allow more with retries.`;
}

function rejection(which: string, { reasons }: WireRequest): BerthError {
  const told = (reasons ?? []).map(({ pool, code, key, asked, allowed }) => {
    const where = pool === null ? "" : ` in pool "${pool}"`;
    const amounts = key === null ? "" : `: ${asked} ${key} asked, ${allowed} allowed`;
    return `${code}${where}${amounts}`;
  });
  return new BerthError(
    reasons?.[0]?.code ?? "no_policy",
    `${which} can never be granted: ${told.join("; ") || "no pool admits it"}.`,
    { hint: "Ask for less, or have the policy changed." },
  );
}

/** The server says `expired` both when nobody was served in time and when nobody was heard of. */
function expiry(which: string, request: WireRequest): BerthError {
  const { wait_timeout_seconds: timeout, attempts, queued_at, ended_at } = request;
  const waitedMs = Date.parse(ended_at ?? "") - Date.parse(queued_at);
  const isTimeout = timeout !== null && waitedMs >= timeout * 1000 && attempts.at(-1)?.outcome !== "lost";
  return isTimeout
    ? new BerthError("wait_timeout", `${which} was not granted within ${timeout} s.`)
    : new BerthError("holder_lost", `${which} expired, because its holder was not heard of for too long.`);
}
