// Why a request waits, in one line.

import type { WireExplanation, WirePoolAnswer, WireRequest } from "../protocol/index.ts";
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
  const call = { signal, retryForMs: 0, timeoutMs: PATIENCE_MS };
  try {
    const { body: explanation } = await transport.send(
      "explainRequest",
      { params: { id: request.id } },
      call,
    );
    const place = placeOf(explanation);
    if (place === undefined) return { line: "", request, explanation };
    const query = { pool: place.pool, status: "allocated,preempting", limit: HOLDERS_SHOWN_MAX + 1 };
    const [{ body: pool }, { body: running }] = await Promise.all([
      transport.send("getPool", { params: { pool: place.pool } }, call),
      transport.send("listRequests", { query }, call),
    ]);
    const parts = [
      describeNeed(request, pool),
      describeHolders(request, running.items),
      describePlace(place),
    ];
    return { line: parts.filter((part) => part !== "").join(" · "), request, explanation };
  } catch {
    return undefined;
  }
}

interface Place {
  readonly pool: string;
  readonly position: number;
}

/** The pool in whose queue it is foremost. */
function placeOf({ pools, positions }: WireExplanation): Place | undefined {
  const places = [pools, positions].find(Array.isArray) as Place[] | undefined;
  return places?.toSorted((a, b) => a.position - b.position)[0];
}

function describeNeed({ resources }: WireRequest, { capacity, usage }: WirePoolAnswer): string {
  const needs = Object.entries(resources)
    .filter(([key]) => capacity[key] !== undefined)
    .map(([key, amount]) => ({ key, amount, free: Math.max(0, (capacity[key] ?? 0) - (usage[key] ?? 0)) }));
  const short = needs.filter(({ amount, free }) => amount > free);
  const shown = short.length > 0 ? short : needs;
  return shown.map(({ key, amount, free }) => `needs ${key} ${amount}, free ${free}`).join(" and ");
}

function describeHolders(request: WireRequest, running: readonly WireRequest[]): string {
  const holders = running.filter(({ resources }) =>
    Object.keys(request.resources).some((key) => key in resources),
  );
  if (holders.length === 0) return "";
  const names = holders.slice(0, HOLDERS_SHOWN_MAX).map((holder) => {
    const name = holder.name === "" ? "" : ` ${holder.name}`;
    const isOwn = holder.submitted_by === request.submitted_by;
    return `#${holder.number}${name}${isOwn ? " (you)" : ` (${holder.component})`}`;
  });
  const isStopping = holders.some(({ stop }) => stop !== null) ? ", stopping" : "";
  const more = holders.length > HOLDERS_SHOWN_MAX ? " and others" : "";
  return `held by ${names.join(", ")}${more}${isStopping}`;
}

function describePlace({ position }: Place): string {
  return position === 1 ? "first in line" : `place ${position} in line`;
}
