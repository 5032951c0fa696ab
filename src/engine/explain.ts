// Explanations (14): why a request waits, told from the state alone. Facts only; words are made at the edges.

import { disciplineOf } from "./disciplines/disciplines.ts";
import type { ShareExplanation } from "./disciplines/fair_share/explain.ts";
import { explainRun, explainVictim } from "./explain-runs.ts";
import { byPreference } from "./lines.ts";
import type { NodesExplanation } from "./placement/verdicts.ts";
import type {
  ComponentName,
  GroupName,
  PoolName,
  RejectionReason,
  RequestId,
  RequestStatus,
  Stop,
} from "./records.ts";
import type { Resources } from "./resources.ts";
import type { EngineState, Request } from "./state.ts";
import type { CandidateKind, OrderFact, PreemptionFact, RunFacts, VictimFacts, WaitCode } from "./why.ts";
import type { WhyCode } from "./why-codes.ts";

export interface Explanation {
  readonly requestId: RequestId;
  readonly status: RequestStatus;
  /** Why no pool admits it (A3). */
  readonly rejection: readonly RejectionReason[] | null;
  /** Why it is being stopped, and for whom. */
  readonly stop: Stop | null;
  /** Out of the queue until then (Q3). */
  readonly delayedUntilMs: number | null;
  /** Not in the queue yet: those whose end it waits for, or none of them and its turn in an array (J9). */
  readonly blocked: { readonly after: readonly RequestId[]; readonly atOnce: number | null } | null;
  /** What it meets in each pool that admits it, in the order in which it prefers them (G5). */
  readonly pools: readonly PoolExplanation[];
  /** Pools that do not admit it, and why. */
  readonly notAdmitted: readonly RejectionReason[];
  /** Why it waits, as short as a table needs it; null: it does not wait. */
  readonly code: WaitCode | null;
  /** How it runs (Y5); null: it does not. */
  readonly running: RunFacts | null;
  /** What becomes of it when it has stopped (Y6); null: nobody has asked it to. */
  readonly victim: VictimFacts | null;
}

export interface PoolExplanation {
  readonly pool: PoolName;
  /** Place in the queue, from 1. */
  readonly position: number;
  readonly queueLength: number;
  /** Fits what is left of its component's reserve, so that it comes before those who must borrow (G1). */
  readonly fitsReserve: boolean;
  readonly code: WhyCode;
  readonly blockedBy: Blocker;
  /** All that stands in its way at once, `code` first (Y12). */
  readonly blockers: readonly WhyCode[];
  /** What is left of its component's reserve on the keys that are short (8.2). */
  readonly reserveLeft: Resources;
  /** Runs that hold what it, or the first in line, lacks, or that fill its quota; the latest first. */
  readonly holders: readonly Holder[];
  readonly holderCount: number;
  /** Whose turn comes first, and by which part of the order; null: nobody's (Y7). */
  readonly first: OrderFact | null;
  /** Which kinds of running work hold what is short, and the one rule by which each may or may not be taken (V2). */
  readonly considered: readonly CandidateKind[];
  /** Why nobody is preempted for it (Y4). */
  readonly preemption: PreemptionFact;
  /** What preemption would have to free; null where it is not the head, which alone may preempt (V1). */
  readonly preemptionNeeds: Resources | null;
  /** When it could start if every run ends at its walltime; null: walltimes do not tell (G4). */
  readonly couldStartAtMs: number | null;
  /** What it would be worth to start it, in hundredths of a minute; null where nothing is weighed (10.5). */
  readonly value: number | null;
  /** Why too few nodes serve it; null in a pool without nodes, or where enough of them do. */
  readonly nodes: NodesExplanation | null;
  /** How its operation stands in a fair-share pool; null in the others. */
  readonly share: ShareExplanation | null;
}

export type Blocker =
  /** Its own quota: skipped, and nobody waits behind it for that (G3). */
  | {
      readonly rule: "limit" | "group_limit" | "reserved";
      readonly key: string;
      readonly asked: number;
      readonly used: number;
      readonly allowed: number;
      readonly group: GroupName | null;
    }
  /** Units are promised to it and come free when its victims have stopped (V5). */
  | { readonly rule: "holds"; readonly waitsFor: readonly RequestId[] }
  /** It holds units in another pool (G5). */
  | { readonly rule: "holds_elsewhere"; readonly pool: PoolName }
  /** Units are short (G2). It is the head if nobody before it waits for units too (G4). */
  | { readonly rule: "units"; readonly short: readonly Shortage[]; readonly head: RequestId }
  /** There would be units for it, but somebody before it waits for them (G4). */
  | { readonly rule: "behind_head"; readonly head: RequestId };

export interface Shortage {
  readonly key: string;
  readonly asked: number;
  readonly free: number;
  /** Promised to requests before it. */
  readonly promised: number;
  readonly comingFree: number;
}

export interface Holder {
  readonly requestId: RequestId;
  readonly component: ComponentName;
  readonly units: Resources;
  readonly preemptible: boolean;
  readonly isStopping: boolean;
  readonly startedAtMs: number;
  readonly endsAtMs: number | null;
}

export function explain(state: EngineState, id: RequestId, nowMs: number): Explanation | undefined {
  const request = state.requests.get(id);
  if (request === undefined) return undefined;
  const { progress, line, run } = request;
  const isWaiting = progress.status === "queued" && !progress.delayed;
  const standings = isWaiting ? [...line.poolLines].sort(byPreference) : [];
  const pools = standings
    .filter(({ verdict }) => verdict === null)
    .map((poolLine) => disciplineOf(poolLine.pool).explain(state, poolLine, request, nowMs));
  return {
    requestId: id,
    status: progress.status,
    rejection: progress.rejection,
    stop: progress.allocation?.stop ?? null,
    delayedUntilMs: progress.delayed && progress.blocked !== true ? progress.queuedAtMs : null,
    blocked: progress.blocked === true ? blockedOf(state, request) : null,
    pools,
    notAdmitted: standings.flatMap(({ verdict }) => verdict ?? []),
    code: codeOf(state, request, pools),
    running: run === null || run.isStopping ? null : explainRun(state, run, nowMs),
    victim: run?.isStopping ? explainVictim(state, run) : null,
  };
}

/** Of several pools that in which it is foremost. */
function codeOf(state: EngineState, request: Request, pools: readonly PoolExplanation[]): WaitCode | null {
  const { status, delayed, blocked } = request.progress;
  if (status !== "queued") return null;
  if (blocked === true) return blockedOf(state, request).after.length > 0 ? "after" : "array";
  if (delayed) return "delayed";
  const foremost = pools.toSorted((a, b) => a.position - b.position)[0];
  return foremost?.code ?? null;
}

/** Which of two requests comes first in each pool in which both wait, and by which part of the order (Y7). */
export function compareOrder(
  state: EngineState,
  pair: readonly [RequestId, RequestId],
  nowMs: number,
): { readonly pool: PoolName; readonly order: OrderFact }[] {
  const [a, b] = pair.map((id) => state.requests.get(id)) as [Request?, Request?];
  if (a === undefined || b === undefined || a === b) return [];
  return [...a.line.poolLines].sort(byPreference).flatMap(({ pool }) => {
    const { name } = pool.record;
    if (!waitsIn(a, name) || !waitsIn(b, name)) return [];
    return [{ pool: name, order: disciplineOf(pool).compare(state, pool, [a, b], nowMs) }];
  });
}

function waitsIn({ progress, line }: Request, pool: PoolName): boolean {
  return progress.status === "queued" && !progress.delayed && line.pools.get(pool)?.verdict === null;
}

function blockedOf({ requests }: EngineState, { spec }: Request): NonNullable<Explanation["blocked"]> {
  const isOpen = (id: RequestId) => requests.get(id)?.progress.endedAtMs === null;
  const after = (spec.after ?? []).map(({ requestId }) => requestId).filter(isOpen);
  return { after, atOnce: spec.array?.atOnce ?? null };
}
