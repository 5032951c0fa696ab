// What a discipline is: all that distinguishes one way of sharing a pool from another. Each is a folder that
// implements this interface; `disciplines.ts` maps the name to the folder, and nothing else compares names.
//
// The scheduler owns the fixed point: which pool is looked at, which of the findings happens, and every event about
// a grant, a promise or a decision. A discipline answers questions about one pool and changes nothing, but for what
// it alone records (statuses of section 9), which it emits while it looks. It may assume that a pool that nothing has
// touched since a look, and whose `untilMs` has not come, would be found the same again.

import type { ConsideredKind, HoldEnd } from "../events.ts";
import type { PoolExplanation } from "../explain.ts";
import type { PolicyRecord, PreemptionReason, RequestSpec } from "../records.ts";
import type { EngineState, Node, Pool, PoolLine, Request, Run, RunKind } from "../state.ts";
import type { Transaction } from "../transaction.ts";
import type { OrderFact, Permit, Protection, Sparing } from "../why.ts";

export interface Discipline {
  /**
   * What a pool would do next, and until when that stands. Null: `isTimeUp` said so before that was known; the next look
   * goes on from there, and takes at least one step.
   */
  look(transaction: Transaction, pool: Pool, isTimeUp: () => boolean): PoolLook | null;
  /** Those to whom a promise may be lost, be it that the pool no longer admits them: that no other is, is certain (V5). */
  suspectHolders(pool: Pool): ReadonlySet<Request>;
  /** The first of these promises that cannot be kept any more, beside those that the pool does not even admit (V5). */
  lostHold(pool: Pool, suspects: ReadonlySet<Request>, nowMs: number): LostHold | undefined;
  /** Everything that waits, in the order of service. */
  queue(state: EngineState, pool: Pool, nowMs: number): Iterable<Request>;
  /** Why a request waits in a pool that admits it, as facts that words can be made from (14). */
  explain(state: EngineState, poolLine: PoolLine, request: Request, nowMs: number): PoolExplanation;
  /** Which of two that wait in a pool comes first, and by which part of the order (Y7). */
  compare(state: EngineState, pool: Pool, pair: readonly [Request, Request], nowMs: number): OrderFact;
  /** Requests that wait and could take a run if they were first in line (Y5). */
  takers(state: EngineState, run: Run, nowMs: number): Taker[];
  /** What protects a run (Y5). */
  protectionOf(state: EngineState, run: Run, nowMs: number): Protection[];
  /** The order in which victims are taken (8.3, 9.8, 10.5), as far as it can be told when they stop. */
  byVictimOrder(a: Run, b: Run): number;
  /**
   * Why a run was spared when the victim was chosen for a request (Y6), as far as the state still shows it; null: it does
   * not, or the run precedes the victim in the order.
   */
  sparedBy(run: Run, victim: Victim): Sparing | null;
  /** What is wrong with the promises and with what the discipline keeps; for checks. */
  violations(state: EngineState, pool: Pool, nowMs: number): string[];
  /** What work of a certain shape counts as under a policy. */
  standingOf(shape: RequestSpec, policy: PolicyRecord): LineStanding;
  /** What tells runs of one line apart here, beside what does everywhere. */
  tellApart(run: Run): RunTraits;
  /** The same for runs that cost the same but for their start and walltime (10.4); left out where costs do not count. */
  priceKeyOf?(kind: Omit<RunKind, "priceKey">): string;
  /**
   * Operations are served one by one and have shares (9): requests of one are lines of their own, demand and usage are
   * followed, preemptive starts back off, victims need not be minimal by sum, and time alone can give a right.
   */
  readonly hasShares: boolean;
  /** How often a request may be preempted within 24 hours where its pool does not say (V6). */
  readonly preemptionsMax: number;
}

/** Who was told to stop for a request, why and when. */
export interface Victim {
  readonly run: Run;
  readonly reason: PreemptionReason | null;
  readonly toldAtMs: number;
}

export interface Taker {
  readonly request: Request;
  readonly permit: Permit;
}

/** At most one of each; they happen in this order, each only when no pool has anything to do of the kinds before it. */
export interface PoolLook {
  /** A request that can be granted now, in its turn or behind the head. */
  readonly grant?: Grant | undefined;
  /** Whom a limit that is enforced, or an overcommitted node, sends away (9.9). */
  readonly enforce?: VictimChoice | undefined;
  /** A request that free units and units coming free cover, so that they are promised to it (V1). */
  readonly promise?: Waiter | undefined;
  /** A request that others may have to stop for (V2–V5). */
  readonly preempt?: Preemption | undefined;
  /** Until when time alone changes nothing of this; infinite: for ever. */
  readonly untilMs: number;
}

/** A waiter at its place: the first free member of a line, or a single request that is promised units. */
export interface Waiter {
  readonly request: Request;
  readonly poolLine: PoolLine;
  /** Where it is promised units. */
  readonly hold: "here" | "elsewhere" | null;
  /** Does not fit its headroom (G1). */
  borrows: boolean;
  /** Its place in the queue but for time and submission: lower numbers first, from left to right. */
  rank: readonly number[];
  /** What discipline `class` orders by, in whole millionths (10.6); NaN until the comparison asks for it. */
  score: number;
  /** Where it would go, as of the last look that found room for it; in a pool without nodes nowhere. */
  nodes?: readonly Node[];
}

export interface Grant {
  readonly waiter: Waiter;
  /** It may delay the head, so any head may preempt it (G4). */
  readonly opportunistic: boolean;
}

export interface Preemption {
  readonly waiter: Waiter;
  readonly shortage: readonly number[];
  readonly choice: VictimChoice;
  /** Whether some of what it lacks is coming free already: such a pool goes before others that name it (G5). */
  readonly isHelped: boolean;
}

export interface LostHold {
  readonly request: Request;
  readonly why: Exclude<HoldEnd, "taken_over">;
}

/** What a discipline makes of a line in a pool. */
export interface LineStanding {
  readonly preemptionClass: number;
  readonly sensitive: boolean;
  /** May use reserved capacity only: NP work, and in discipline `class` class 10 and sensitive work (10.8). */
  readonly firm: boolean;
  /** Where its runs stand when the reserve is filled: 0 firm, 1 class ≥ 7 without checkpoint (10.8), 2 the rest (G6). */
  readonly reserveRank: number;
}

/** Told apart where costs depend on them (10.4). */
export interface RunTraits {
  readonly hasWalltime: boolean;
  readonly hasCheckpoint: boolean;
}

export interface VictimChoice {
  readonly victims: readonly {
    readonly run: Run;
    readonly reason: PreemptionReason;
    readonly cost?: number;
  }[];
  readonly considered: readonly ConsideredKind[];
  readonly value?: number;
  /** Where the head will go; in a pool without nodes nowhere. */
  readonly nodes?: readonly Node[];
}

/** Work is what it says, and class means nothing but a place in the order. */
export function plainStanding({ preemptionClass, sensitive, preemptible }: RequestSpec): LineStanding {
  return { preemptionClass, sensitive, firm: !preemptible, reserveRank: preemptible ? 2 : 0 };
}

export function nothingMore(): RunTraits {
  return { hasWalltime: false, hasCheckpoint: false };
}
