// What all disciplines share in the search for victims: who borrows, who is old enough, who is barred (V2, V6).

import type { ConsideredKind } from "../events.ts";
import type { RequestId } from "../records.ts";
import { compareIds } from "../resources.ts";
import {
  byReserveOrder,
  type EngineState,
  kindKeyOf,
  type Policy,
  type Pool,
  type Run,
  type RunKind,
} from "../state.ts";
import type { Cover } from "./cover.ts";

/** Remembers, for one search, from which run on a component borrows a key (G6). */
export class BorrowLines {
  /** Null: none. */
  readonly #firstBorrowers = new Map<Policy, (Run | null | undefined)[]>();

  /** The oldest run of a component that borrows a key, at least in part; later ones that hold the key do too. */
  #firstBorrower(policy: Policy, keyIndex: number): Run | null {
    let known = this.#firstBorrowers.get(policy);
    if (known === undefined) {
      known = [];
      this.#firstBorrowers.set(policy, known);
    }
    let first = known[keyIndex];
    if (first === undefined) {
      const reserved = policy.reserved[keyIndex] as number;
      const isWithin = (policy.usage[keyIndex] as number) <= reserved;
      first = (isWithin ? null : policy.runs.firstWhereSumExceeds(keyIndex, reserved)) ?? null;
      known[keyIndex] = first;
    }
    return first;
  }

  /** Runs of the kind with this token or a later one borrow the key. */
  borrowsFrom({ poolLine, isAway }: RunKind, keyIndex: number): number {
    if (isAway && (poolLine.need[keyIndex] as number) > 0) return 0; // On home nodes of others (N3).
    if ((poolLine.need[keyIndex] as number) === 0) return Number.POSITIVE_INFINITY;
    const first = this.#firstBorrower(poolLine.policy, keyIndex);
    if (first === null) return Number.POSITIVE_INFINITY;
    const difference = poolLine.reserveRank - first.poolLine.reserveRank;
    return difference > 0 ? 0 : difference < 0 ? Number.POSITIVE_INFINITY : first.token;
  }

  /** Runs of the kind with this token or a later one borrow, of these keys, all that they hold. */
  borrowsAllFrom(kind: RunKind, keys: readonly number[]): number {
    let from = Number.NEGATIVE_INFINITY;
    for (const i of keys) {
      if ((kind.poolLine.need[i] as number) === 0) continue;
      from = Math.max(from, this.borrowsFrom(kind, i));
      if (from === Number.POSITIVE_INFINITY) break;
    }
    return from;
  }

  /** Runs of the kind with this token or a later one borrow one of these keys. */
  borrowsAnyFrom(kind: RunKind, keys: readonly number[]): number {
    let from = Number.POSITIVE_INFINITY;
    for (const i of keys) from = Math.min(from, this.borrowsFrom(kind, i));
    return from;
  }

  borrows(run: Run, keyIndex: number): boolean {
    if (run.away !== null && (run.away[keyIndex] as number) > 0) return true;
    if ((run.poolLine.need[keyIndex] as number) === 0) return false;
    const first = this.#firstBorrower(run.poolLine.policy, keyIndex);
    return first !== null && byReserveOrder(first, run) <= 0;
  }
}

/** Whether some run of a component may borrow one of these keys (G6, N3): a no is certain. */
export function mayBorrow({ usage, reserved, pool }: Policy, keys: readonly number[]): boolean {
  if (pool.places.homes.length > 0) return true;
  for (const i of keys) if ((usage[i] as number) > (reserved[i] as number)) return true;
  return false;
}

/** Whether some run of a component may borrow all that it holds of these keys: a no is certain. */
export function mayBorrowAll(
  { usage, reserved, kindsWithout, pool }: Policy,
  keys: readonly number[],
): boolean {
  if (pool.places.homes.length > 0) return true;
  for (const i of keys) {
    if ((usage[i] as number) <= (reserved[i] as number) && kindsWithout[i] === 0) return false;
  }
  return true;
}

/** How many kinds of running work a decision names: of a large pool the first, not all that there are (V7). */
const KINDS_NAMED_MAX = 100;

/** The kinds that hold something short: those of the victims, then by priority, the lowest first, by component and by line. */
export function namedKinds(
  pool: Pool,
  short: readonly number[],
  victims: readonly { readonly run: Run }[],
): RunKind[] {
  const named = new Set(victims.map(({ run }) => run.kind));
  const policies = [...pool.policies.values()].sort(
    (a, b) => a.record.priority - b.record.priority || compareIds(a.record.component, b.record.component),
  );
  for (const { runKinds } of policies) {
    if (named.size >= KINDS_NAMED_MAX) break;
    for (const kind of [...runKinds].filter((kind) => holdsAny(kind, short)).sort(byLine)) {
      if (named.size < KINDS_NAMED_MAX) named.add(kind);
    }
  }
  return [...named];
}

/** A kind with its numbers, for people and for the journal: what may be taken of it, or the rule that forbids that (V7). */
export function considered<Permission extends { readonly from: number }>(
  kind: RunKind,
  verdict: Permission | string,
  { ruleOf, nowMs }: { readonly ruleOf: (permission: Permission) => string; readonly nowMs: number },
): ConsideredKind {
  const { poolLine, runs } = kind;
  const isForbidden = typeof verdict === "string";
  return {
    component: poolLine.policy.record.component,
    priority: poolLine.policy.record.priority,
    preemptionClass: poolLine.preemptionClass,
    resources: poolLine.line.shape.resources,
    count: runs.size,
    permitted: isForbidden ? 0 : countFrom(kind, verdict.from, nowMs),
    rule: isForbidden ? verdict : ruleOf(verdict),
  };
}

/** How many runs of a kind are old enough (V2) and began with this grant or later. */
export function countFrom({ poolLine: { pool }, runs }: RunKind, from: number, nowMs: number): number {
  if (from === Number.POSITIVE_INFINITY) return 0;
  const mature = runs.countWhile((run) => isMature(run, pool, nowMs));
  return Math.max(0, mature - runs.countWhile((run) => run.token < from));
}

function byLine(a: RunKind, b: RunKind): number {
  return compareIds(a.poolLine.line.key, b.poolLine.line.key) || compareIds(kindKeyOf(a), kindKeyOf(b));
}

/** Indices of the keys that are short. */
export function shortKeys(shortage: readonly number[]): number[] {
  const short: number[] = [];
  for (let i = 0; i < shortage.length; i++) if ((shortage[i] as number) > 0) short.push(i);
  return short;
}

/** Whether runs of this kind can be victims at all for a shortage on these keys (V2). */
export function isEligible(kind: RunKind, short: readonly number[]): boolean {
  const { line, sensitive } = kind.poolLine;
  return line.shape.preemptible && !sensitive && holdsAny(kind, short);
}

/** Whether runs of a kind hold something of one of these keys. */
export function holdsAny({ poolLine }: RunKind, keys: readonly number[]): boolean {
  for (const i of keys) if ((poolLine.need[i] as number) > 0) return true;
  return false;
}

/** Preempted so often that priority, class, starvation and backfill leave it alone (V6). */
export function isShielded({ shieldEndsAtMs }: RunKind, nowMs: number): boolean {
  return nowMs < shieldEndsAtMs;
}

/** Whether a run is among those that are permitted, by a judgement of its kind: from which token on, or the rule that forbids all. */
export function permittedBy(
  judge: (kind: RunKind) => { readonly from: number } | string,
): (run: Run) => boolean {
  return ({ kind, token }) => {
    const verdict = judge(kind);
    return typeof verdict !== "string" && token >= verdict.from;
  };
}

/** Whether a run has run long enough to be a victim (V2). */
export function isMature(run: Run, pool: Pool, nowMs: number): boolean {
  return nowMs - run.startedAtMs >= pool.record.settings.minRuntimeMs;
}

/** Whether one, or something it displaced, has displaced the other since the last new event of the pool where it did (V6). */
export function hasDisplaced(state: EngineState, by: RequestId, of: RequestId): boolean {
  if (!hasDisplacedAnybody(state, by)) return false; // As most.
  const seen = new Set<RequestId>([by]);
  for (const each of seen) {
    for (const pool of state.guarded) {
      for (const displaced of pool.displaced.get(each) ?? []) {
        if (displaced === of) return true;
        seen.add(displaced);
      }
    }
  }
  return false;
}

function hasDisplacedAnybody({ guarded }: EngineState, by: RequestId): boolean {
  for (const { displaced } of guarded) if (displaced.has(by)) return true;
  return false;
}

/** Leaves out of the victims that a cover has taken what is not needed, sparing the last in the order first (V4). */
export function spareFrom<Victim extends { readonly run: Run }>(
  victims: readonly Victim[],
  cover: Cover,
): Victim[] {
  const kept: Victim[] = [];
  for (const victim of victims.toReversed()) {
    cover.putBack(victim.run);
    if (cover.isEnough) continue;
    cover.take(victim.run);
    kept.push(victim);
  }
  return kept.reverse();
}
