// Who may be taken for a waiter of discipline `priority`, and by which rule (8.1, 8.2, and V2, V6 and G4 as far as they
// concern kinds).

import { memoised } from "../../memoised.ts";
import { countsForReserve } from "../../scheduling/quotas.ts";
import {
  BorrowLines,
  isEligible,
  isShielded,
  mayBorrow,
  mayBorrowAll,
  shortKeys,
} from "../../scheduling/victims.ts";
import type { Policy } from "../../state.ts";
import type { VictimSearch } from "../queue/queue-discipline.ts";
import { type Field, NO_BOUNDS, NO_PRICES, type Permission, permission } from "../queue/victims.ts";

const NEVER = Number.POSITIVE_INFINITY;

/** What the head may do, whoever it is about (8). */
interface Rights {
  readonly any: boolean;
  /** The short keys that can be anybody's own: what nobody reserves is neither that nor borrowed (8.2). */
  readonly reservable: readonly number[];
  /** It fits its headroom on all of them. */
  readonly fitsReserve: boolean;
}

function rightsFor({ pool, head: { poolLine }, walk }: VictimSearch, short: readonly number[]): Rights {
  const reservable = short.filter((i) => countsForReserve(pool, i));
  const fits = (i: number) => (poolLine.need[i] as number) <= walk.headroom(poolLine, i);
  const fitsReserve = reservable.length > 0 && reservable.every(fits);
  return { any: pool.record.settings.priorityPreempts === "any", reservable, fitsReserve };
}

/** Whether it may take back from a component what that one borrows (8.2). */
function reclaimsFrom(policy: Policy, { head }: VictimSearch, { any, fitsReserve }: Rights): boolean {
  const waiter = head.poolLine;
  const isOther = policy !== waiter.policy || waiter.firm;
  return fitsReserve && isOther && !(any && waiter.policy.record.priority < policy.record.priority);
}

export function fieldOf(search: VictimSearch): Field {
  const short = shortKeys(search.shortage);
  const rights = rightsFor(search, short);
  const mayPermit = memoised((policy: Policy) => mayPermitIn(policy, search, short, rights));
  const judge = memoised(judgeFor(search, short, rights));
  return { search, short, judge, mayPermit, prices: NO_PRICES, bounds: NO_BOUNDS };
}

function mayPermitIn(
  policy: Policy,
  search: VictimSearch,
  short: readonly number[],
  rights: Rights,
): boolean {
  const isLower = policy.record.priority < search.head.poolLine.policy.record.priority;
  return (
    policy.runKinds.size > 0 &&
    (search.pool.gapKinds.size > 0 ||
      (isLower && (rights.any || mayBorrowAll(policy, short))) ||
      (reclaimsFrom(policy, search, rights) && mayBorrow(policy, rights.reservable)))
  );
}

/** Judges kinds of running work: which of them may be taken, or the rule that forbids them all. */
function judgeFor(search: VictimSearch, short: readonly number[], rights: Rights): Field["judge"] {
  const { head, nowMs } = search;
  const lines = new BorrowLines();
  const mayReclaim = memoised((policy: Policy) => reclaimsFrom(policy, search, rights));
  return (kind) => {
    if (!isEligible(kind, short)) return "V2";
    const { policy } = kind.poolLine;
    const isLower = policy.record.priority < head.poolLine.policy.record.priority;
    const reclaims = mayReclaim(policy);
    const shielded = isShielded(kind, nowMs);
    if (shielded && !reclaims) return "V6";
    if (!isLower && !reclaims && !kind.opportunistic) return "8.2";
    const borrowsAllFrom = () => (rights.any ? 0 : lines.borrowsAllFrom(kind, short));
    const permitted = permission(kind, [
      { reason: "priority", from: isLower && !shielded ? borrowsAllFrom() : NEVER },
      { reason: "reclaim", from: reclaims ? lines.borrowsAnyFrom(kind, rights.reservable) : NEVER },
      { reason: "backfill", from: kind.opportunistic && !shielded ? 0 : NEVER },
    ]);
    return permitted ?? (shielded ? "V6" : "8.1");
  };
}

/** Its priority, and whose it is where it may take back what others borrow (8.2). */
export function rightsOf(search: VictimSearch): string {
  const { policy, firm } = search.head.poolLine;
  const { priority, component } = policy.record;
  const { fitsReserve } = rightsFor(search, shortKeys(search.shortage));
  return fitsReserve ? `${priority} ${firm} ${component}` : `${priority}`;
}

/** The rule that a decision names for a kind (V7). */
export function ruleOf({ rules }: Permission): string {
  const [byPriority = NEVER, byReclaim = NEVER] = rules.map(({ from }) => from);
  if (byPriority <= byReclaim && byPriority < NEVER) return "8.1";
  return byReclaim < NEVER ? "8.2" : "G4";
}
