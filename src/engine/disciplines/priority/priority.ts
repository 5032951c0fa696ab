// Discipline `priority`: reserved, limit and priority decide (G1, 8).

import type { ConsideredKind } from "../../events.ts";
import { Heap } from "../../heap.ts";
import { memoised } from "../../memoised.ts";
import type { PreemptionReason } from "../../records.ts";
import { type Cover, coverFor, NodeCover, type Sum } from "../../scheduling/cover.ts";
import { countsForReserve } from "../../scheduling/quotas.ts";
import {
  BorrowLines,
  considered,
  countFrom,
  hasDisplaced,
  isEligible,
  isMature,
  isShielded,
  mayBorrow,
  mayBorrowAll,
  namedKinds,
  permittedBy,
  shortKeys,
  spareFrom,
} from "../../scheduling/victims.ts";
import type { Policy, Pool, PoolLine, Run, RunKind } from "../../state.ts";
import { type Discipline, nothingMore, plainStanding, type VictimChoice } from "../discipline.ts";
import { queueDiscipline, type VictimSearch } from "../queue/queue-discipline.ts";
import type { QueueOrder } from "../queue/queue-order.ts";
import { orderParts, protectionOf, sparedBy, verdictsFor } from "./explain.ts";
import { type Rights, reclaimsFrom, rightsFor } from "./rights.ts";

export const priorityDiscipline: Discipline = queueDiscipline({
  rankOf,
  isReserveKey: countsForReserve,
  mayStopAnybody,
  chooseVictims,
  rightsOf,
  mayEverStop,
  orderParts,
  submissionRule: "G1.4",
  verdictsFor,
  protectionOf,
  byVictimOrder: byOrder,
  sparedBy,
  standingOf: plainStanding,
  tellApart: nothingMore,
});

/** Who fits its headroom comes first, then priority, or where any run may be preempted the other way round (G1). */
function rankOf({ pool, policy, preemptionClass }: PoolLine, borrows: boolean): number[] {
  const { priority } = policy.record;
  return pool.record.settings.priorityPreempts === "any"
    ? [-priority, Number(borrows), -preemptionClass]
    : [Number(borrows), -priority, -preemptionClass];
}

/** By priority, if somebody of a higher one waits than one that runs; what is reclaimed is somebody's reserve (8.1, 8.2, G4). */
function mayStopAnybody({ gapKinds, isReserved }: Pool, { policies, ranks }: QueueOrder): boolean {
  if (gapKinds.size > 0 || isReserved.includes(true)) return true;
  for (const { runKinds, record } of policies) {
    if (runKinds.size === 0) continue;
    for (const { example } of ranks) if (example.policy.record.priority > record.priority) return true;
    return false; // The others have no lower priority.
  }
  return false;
}

/** From which token on the runs of a kind may be taken, by which rule. Infinity: by none. */
interface Permission {
  readonly kind: RunKind;
  readonly priority: number;
  readonly byPriorityFrom: number;
  readonly byReclaimFrom: number;
  readonly from: number;
}

/** A prefix of the candidates in the order of 8.3 that covers the shortage, without its redundant members. */
function chooseVictims(search: VictimSearch): VictimChoice | null {
  const short = shortKeys(search.shortage);
  const rights = rightsFor(search, short);
  const policies = policiesToTakeFrom(search, short, rights);
  if (policies.length === 0) return null;
  const judge = memoised(judgeFor(search, short, rights));
  const cover = coverFor(search);
  if (cover instanceof NodeCover) return firstOnNodes(search, cover, policies, judge);
  const permissionsOf = memoised((policy: Policy) => permissionsIn(policy, judge));
  if (!couldCover(search, policies.flatMap(permissionsOf), short)) return null;
  const candidatesOf = (policy: Policy) =>
    permissionsOf(policy).map((permission) => candidatesOfKind(search, permission));
  return firstEnough(
    search,
    cover,
    inOrder(policies, candidatesOf, (run) => cover.isHelpedBy(run)),
  );
}

function firstEnough(search: VictimSearch, cover: Sum, candidates: Iterable<Candidate>): VictimChoice | null {
  const victims: Victim[] = [];
  for (const { run, permission } of candidates) {
    if (hasDisplacedHead(search, run)) continue;
    victims.push({ run, reason: reasonFor(run, permission) });
    cover.take(run);
    if (cover.isEnough) return choiceOf(search, victims, cover);
  }
  return null;
}

/** What the others hold that come before the last one is of no use: it is on other nodes. */
function firstOnNodes(
  search: VictimSearch,
  cover: NodeCover,
  policies: readonly Policy[],
  judge: (kind: RunKind) => Permission | string,
): VictimChoice | null {
  const { pool, nowMs } = search;
  const candidates = inOrder(
    policies,
    (policy) => [candidatesIn(search, policy, judge)],
    () => true,
  );
  const isPermitted = permittedOf(policies, judge);
  const mayGo = (run: Run) =>
    isPermitted(run) && isMature(run, pool, nowMs) && !hasDisplacedHead(search, run);
  const cleared = cover.firstCleared({ inOrder: runsOf(candidates), byOrder, mayGo });
  if (cleared === null) return null;
  const runs = [...new Set(cleared.flat())].sort(byOrder);
  for (const run of runs) cover.take(run);
  const victims = runs.map((run) => ({ run, reason: reasonFor(run, judge(run.kind) as Permission) }));
  return choiceOf(search, victims, cover);
}

function* runsOf(candidates: Iterable<Candidate>): Generator<Run> {
  for (const { run } of candidates) yield run;
}

function hasDisplacedHead({ state, head }: VictimSearch, { request }: Run): boolean {
  return hasDisplaced(state, request.spec.id, head.request.spec.id);
}

interface Victim {
  readonly run: Run;
  readonly reason: PreemptionReason;
}

function choiceOf(search: VictimSearch, taken: readonly Victim[], cover: Cover): VictimChoice {
  const victims = spareFrom(taken, cover);
  return { victims, considered: consider(search, victims), nodes: cover.places() };
}

/** Lower priority first, then the latest (8.3). */
function byOrder(a: Run, b: Run): number {
  return a.poolLine.policy.record.priority - b.poolLine.policy.record.priority || b.token - a.token;
}

/** The components of which something may be permitted, in their order: that the others are left out is certain. */
function policiesToTakeFrom(search: VictimSearch, short: readonly number[], rights: Rights): Policy[] {
  const { pool, head, policies } = search;
  const { priority } = head.poolLine.policy.record;
  const isOnlyFromLower = !rights.fitsReserve && pool.gapKinds.size === 0;
  const found: Policy[] = [];
  for (const policy of policies) {
    const isLower = policy.record.priority < priority;
    if (!isLower && isOnlyFromLower) break; // Nor from those after it: the lowest come first.
    if (policy.runKinds.size === 0) continue;
    const isPermitted =
      (isLower && (rights.any || mayBorrowAll(policy, short))) ||
      (reclaimsFrom(policy, search, rights) && mayBorrow(policy, rights.reservable)) ||
      (pool.gapKinds.size > 0 && [...policy.runKinds].some(({ opportunistic }) => opportunistic));
    if (isPermitted) found.push(policy);
  }
  return found;
}

/** Its priority, and whose it is where it may take back what others borrow (8.2). */
function rightsOf(search: VictimSearch): string {
  const { policy, firm } = search.head.poolLine;
  const { priority, component } = policy.record;
  const { fitsReserve } = rightsFor(search, shortKeys(search.shortage));
  return fitsReserve ? `${priority} ${firm} ${component}` : `${priority}`;
}

/** Shields end with time, and who is too young grows older. */
function mayEverStop(search: VictimSearch): (run: Run) => boolean {
  const ever = { ...search, nowMs: Number.POSITIVE_INFINITY };
  const short = shortKeys(search.shortage);
  const rights = rightsFor(search, short);
  return permittedOf(policiesToTakeFrom(search, short, rights), memoised(judgeFor(ever, short, rights)));
}

/** There are far fewer components than kinds, and of most runs they are enough to say no. */
function permittedOf(
  policies: readonly Policy[],
  judge: (kind: RunKind) => Permission | string,
): (run: Run) => boolean {
  const inQuestion = new Set(policies);
  const isPermitted = permittedBy(judge);
  return (run) => inQuestion.has(run.poolLine.policy) && isPermitted(run);
}

/** Judges kinds of running work: which of them may be taken, or the rule that forbids them all. */
function judgeFor(
  search: VictimSearch,
  short: readonly number[],
  rights: Rights,
): (kind: RunKind) => Permission | string {
  const { head, nowMs } = search;
  const { any, reservable } = rights;
  const lines = new BorrowLines();
  const mayReclaim = memoised((policy: Policy) => reclaimsFrom(policy, search, rights));
  return (kind) => {
    if (!isEligible(kind, short)) return "V2";
    const { policy } = kind.poolLine;
    const { priority } = policy.record;
    const difference = head.poolLine.policy.record.priority - priority;
    const reclaims = mayReclaim(policy);
    const shielded = isShielded(kind, nowMs);
    if (shielded && !reclaims) return "V6";
    if (difference <= 0 && !reclaims && !kind.opportunistic) return "8.2";
    const never = Number.POSITIVE_INFINITY;
    const byPriorityFrom = difference <= 0 || shielded ? never : any ? 0 : lines.borrowsAllFrom(kind, short);
    const byReclaimFrom = reclaims ? lines.borrowsAnyFrom(kind, reservable) : never;
    const from = kind.opportunistic && !shielded ? 0 : Math.min(byPriorityFrom, byReclaimFrom);
    if (from === never) return shielded ? "V6" : "8.1";
    return { kind, priority, byPriorityFrom, byReclaimFrom, from };
  };
}

function reasonFor(run: Run, { byPriorityFrom, byReclaimFrom }: Permission): PreemptionReason {
  if (run.token >= byPriorityFrom) return "priority";
  return run.token >= byReclaimFrom ? "reclaim" : "backfill";
}

/** All or nothing (V3): whether everything permitted together would be enough, by counting. */
function couldCover(
  search: VictimSearch,
  permissions: readonly Permission[],
  short: readonly number[],
): boolean {
  const lacking = short.map((i) => search.shortage[i] as number);
  for (const permission of permissions) {
    const count = countFrom(permission.kind, permission.from, search.nowMs);
    short.forEach((i, at) => {
      lacking[at] = (lacking[at] as number) - count * (permission.kind.poolLine.need[i] as number);
    });
    if (lacking.every((amount) => amount <= 0)) return true;
  }
  return false;
}

interface Candidate {
  readonly run: Run;
  readonly permission: Permission;
}

function permissionsIn({ runKinds }: Policy, judge: (kind: RunKind) => Permission | string): Permission[] {
  return [...runKinds].map(judge).filter((verdict) => typeof verdict !== "string");
}

/** The runs of a kind that may be taken, the latest first: they differ in their start only, so they are judged together. */
function* candidatesOfKind(
  { pool, nowMs }: VictimSearch,
  permission: Permission,
): Generator<Candidate, void> {
  for (const run of permission.kind.runs.backwards((run) => isMature(run, pool, nowMs))) {
    if (run.token < permission.from) return;
    yield { run, permission };
  }
}

/** The runs of a component that may be taken, the latest first: what is not preemptible precedes the others in its share. */
function* candidatesIn(
  { pool, nowMs }: VictimSearch,
  { runs, runKinds }: Policy,
  judge: (kind: RunKind) => Permission | string,
): Generator<Candidate, void> {
  let from: number | undefined; // Asked for when somebody is met who may not be taken: most searches end before.
  for (const run of runs.backwards()) {
    const permission = run.isStopping ? "" : judge(run.kind);
    if (typeof permission !== "string" && run.token >= permission.from) {
      if (isMature(run, pool, nowMs)) yield { run, permission };
      continue;
    }
    from ??= firstPermitted(runKinds, judge);
    if (run.token < from) return;
  }
}

/** From which token on some run may be taken; infinite: none. */
function firstPermitted(kinds: Iterable<RunKind>, judge: (kind: RunKind) => Permission | string): number {
  let first = Number.POSITIVE_INFINITY;
  for (const kind of kinds) {
    const verdict = judge(kind);
    if (typeof verdict !== "string") first = Math.min(first, verdict.from);
  }
  return first;
}

/** Candidates in the order of 8.3: lower priority first, then the latest. Those of no use any more are left out. */
function* inOrder(
  policies: readonly Policy[],
  candidatesOf: (policy: Policy) => Iterator<Candidate, void>[],
  isUseful: (run: Run) => boolean,
): Generator<Candidate> {
  for (let start = 0, end = 0; start < policies.length; start = end) {
    const { priority } = (policies[start] as Policy).record;
    while (policies[end]?.record.priority === priority) end++;
    yield* latestFirst(policies.slice(start, end).flatMap(candidatesOf), isUseful);
  }
}

function* latestFirst(
  all: readonly Iterator<Candidate, void>[],
  isUseful: (run: Run) => boolean,
): Generator<Candidate> {
  interface Source {
    readonly rest: Iterator<Candidate, void>;
    readonly next: Candidate;
  }
  const sources = new Heap<Source>((a, b) => a.next.run.token > b.next.run.token);
  const bring = (rest: Iterator<Candidate, void>) => {
    const next = rest.next().value;
    if (next !== undefined) sources.push({ rest, next });
  };
  for (const candidates of all) bring(candidates);
  for (let source = sources.pop(); source !== undefined; source = sources.pop()) {
    const { rest, next } = source;
    if (!isUseful(next.run)) continue; // Nor are the others of its kind, and that stays so.
    yield next;
    bring(rest);
  }
}

/** What the search looked at, by kind (V7). */
function consider(search: VictimSearch, victims: readonly { readonly run: Run }[]): ConsideredKind[] {
  const { nowMs } = search;
  const short = shortKeys(search.shortage);
  const judge = judgeFor(search, short, rightsFor(search, short));
  const kinds = namedKinds(search.policies, short, victims);
  return kinds.map((kind) => considered(kind, judge(kind), { ruleOf, nowMs }));
}

function ruleOf({ byPriorityFrom, byReclaimFrom }: Permission): string {
  if (byPriorityFrom <= byReclaimFrom && byPriorityFrom < Number.POSITIVE_INFINITY) return "8.1";
  return byReclaimFrom < Number.POSITIVE_INFINITY ? "8.2" : "G4";
}
