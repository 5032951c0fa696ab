// Why a request waits, in one line.

import type { WireExplanation, WirePoolExplanation, WireRequest } from "../protocol/index.ts";
import type { Transport } from "./transport.ts";

export interface WaitingReason {
  /** Such as `needs gpu 1, free 0 · held by #1 train (you) · first in line`. */
  readonly line: string;
  readonly request: WireRequest;
  readonly explanation: WireExplanation;
}

const HOLDERS_SHOWN_MAX = 3;
const PATIENCE_MS = 5_000;

/** Undefined if nobody can say now: the reason is a courtesy, and never worth an error. */
export async function reasonOf(
  transport: Transport,
  request: WireRequest,
  signal?: AbortSignal,
): Promise<WaitingReason | undefined> {
  const options = { signal, retryForMs: 0, timeoutMs: PATIENCE_MS };
  try {
    const { body } = await transport.send("explainRequest", { params: { id: request.id } }, options);
    return { line: describeWaiting(request, body), request, explanation: body };
  } catch {
    return undefined;
  }
}

export function describeWaiting(request: WireRequest, explanation: WireExplanation): string {
  if (explanation.delayed_until !== null)
    return `tried again at ${explanation.delayed_until.slice(11, 19)} UTC`;
  if (explanation.blocked != null) {
    return explanation.blocked.after.length > 0
      ? "waits for others to end"
      : "waits for its turn in its array";
  }
  // The pool in whose queue it is foremost.
  const pool = explanation.pools.toSorted((a, b) => a.position - b.position)[0];
  if (pool === undefined) return "";
  const parts = [describeBlocker(request, pool), describeHolders(request, pool), describePlace(pool)];
  return parts.filter((part) => part !== "").join(" · ");
}

function describeBlocker({ resources }: WireRequest, { blocked_by: blocker }: WirePoolExplanation): string {
  switch (blocker.rule) {
    case "units":
      return blocker.short.map(({ key, asked, free }) => `needs ${key} ${asked}, free ${free}`).join(" and ");
    case "behind_head": {
      const asked = Object.entries(resources).filter(([key]) => key !== "step_run");
      return `needs ${asked.map(([key, amount]) => `${key} ${amount}`).join(", ") || "a turn"}`;
    }
    case "limit":
      return `at its limit, ${blocker.key} ${blocker.used} of ${blocker.allowed}`;
    case "group_limit":
      return `${blocker.group ?? "its group"} is at its limit, ${blocker.key} ${blocker.used} of ${blocker.allowed}`;
    case "reserved":
      return `its reserve is in use, ${blocker.key} ${blocker.used} of ${blocker.allowed}`;
    case "holds":
      return "its units are coming free";
    case "holds_elsewhere":
      return `its units are coming free in pool ${blocker.pool}`;
    default:
      return ""; // A newer server may know more rules.
  }
}

function describeHolders({ component }: WireRequest, pool: WirePoolExplanation): string {
  if (pool.holders.length === 0) return "";
  const names = pool.holders.slice(0, HOLDERS_SHOWN_MAX).map((holder) => {
    const who = holder.component === component ? "you" : (holder.component ?? "others");
    if (holder.number === null) return who;
    return `#${holder.number}${holder.name ? ` ${holder.name}` : ""} (${who})`;
  });
  const more = pool.holder_count - names.length;
  const stopping = pool.holders.some((holder) => holder.stopping) ? ", stopping" : "";
  return `held by ${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}${stopping}`;
}

function describePlace({ position }: WirePoolExplanation): string {
  return position === 1 ? "first in line" : `place ${position} in line`;
}
