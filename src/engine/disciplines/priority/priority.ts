// Discipline `priority`: reserved, limit and priority decide (G1, 8).

import type { ConsideredKind } from "../../events.ts";
import { Heap } from "../../heap.ts";
import { memoised } from "../../memoised.ts";
import type { PreemptionReason } from "../../records.ts";
import { type Cover, coverFor, NodeCover } from "../../scheduling/cover.ts";
import { countsForReserve } from "../../scheduling/quotas.ts";
import {
  BorrowLines,
  hasDisplaced,
  isEligible,
  isMature,
  isShielded,
  mayBorrow,
  namedKinds,
  permittedBy,
  shortKeys,
  spareFrom,
} from "../../scheduling/victims.ts";
import type { Node, Policy, PoolLine, Run, RunKind } from "../../state.ts";
import { type Discipline, nothingMore, plainStanding, type VictimChoice } from "../discipline.ts";
import { queueDiscipline, type VictimSearch } from "../queue/queue-discipline.ts";
import { orderParts, protectionOf, verdictsFor } from "./explain.ts";
import { type Rights, reclaimsFrom, rightsFor } from "./rights.ts";

export const priorityDiscipline: Discipline = queueDiscipline({
  rankOf,
  isReserveKey: countsForReserve,
  chooseVictims,
  rightsOf: (search) => `${rightsFor(search, shortKeys(search.shortage)).fitsReserve}`,
  mayEverStop,
  orderParts,
  submissionRule: "G1.4",
  verdictsFor,
  protectionOf,
  byVictimOrder: (a, b) => byOrder({ run: a }, { run: b }),
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

/** From which token on the runs of a kind may be taken, by which rule. Infinity: by none. */
interface Permission {
  readonly kind: RunKind;
  readonly priority: number;
  readonly byPriorityFrom: number;
  readonly byReclaimFrom: number;
  readonly from: number;
}

/**
 * A prefix of the candidates in the order of 8.3 that covers the shortage, without its redundant members.
 * Candidates of one kind differ in their start only, so whole kinds are permitted, counted and, once
 * nothing they hold is short any more, passed over; the result is the same as if each had been looked at.
 */
function chooseVictims(search: VictimSearch): VictimChoice | "hopeless" | null {
  const short = shortKeys(search.shortage);
  const cover = coverFor(search);
  if (cover instanceof NodeCover && cover.missing === 1) return chooseOnOneNode(search, short, cover);
  const permissions = permissionsFor(search, short);
  if (!couldCover(search, permissions, short)) return null;

  const victims: Victim[] = [];
  for (const { run, permission } of inOrder(search, permissions, cover)) {
    if (hasDisplaced(search.state, run.request.spec.id, search.head.request.spec.id)) continue;
    victims.push({ run, reason: reasonFor(run, permission) });
    cover.take(run);
    if (cover.isEnough) return choiceOf(search, victims, cover);
  }
  return null;
}

interface Victim {
  readonly run: Run;
  readonly reason: PreemptionReason;
}

function choiceOf(search: VictimSearch, taken: readonly Victim[], cover: Cover): VictimChoice {
  const victims = spareFrom(taken, cover);
  return { victims, considered: consider(search, victims), nodes: cover.places() };
}

/**
 * The same where one more node must get room: the prefix ends where the first node has it, and whoever is not on that
 * node is spared. So each node is asked for itself how much of the order it takes.
 */
function chooseOnOneNode(
  search: VictimSearch,
  short: readonly number[],
  cover: NodeCover,
): VictimChoice | "hopeless" | null {
  const field = new NodeField(search, short, cover);
  const victims = field.firstWithRoom();
  if (victims === null) return field.isComplete ? "hopeless" : null;
  for (const { run } of victims) cover.take(run);
  return choiceOf(search, victims, cover);
}

/** The nodes that could get room, and the candidates on them in the order of 8.3. */
class NodeField {
  /** Whether nobody was left out who could be permitted later. */
  isComplete: boolean;
  readonly #search: VictimSearch;
  readonly #cover: NodeCover;
  readonly #mayPermit: (policy: Policy) => boolean;
  readonly #judge: (kind: RunKind) => Permission | string;

  constructor(search: VictimSearch, short: readonly number[], cover: NodeCover) {
    const rights = rightsFor(search, short);
    this.#search = search;
    this.#cover = cover;
    this.#mayPermit = memoised(mayPermit(search, short, rights));
    this.#judge = memoised(judgeFor(search, short, rights));
    this.isComplete = search.pool.record.settings.minRuntimeMs === 0;
  }

  /** What the first node takes that gets room; null: none does. Kinds are judged only where that can decide. */
  firstWithRoom(): Victim[] | null {
    let first: { last: Victim; victims: Map<Run, Victim> } | null = null;
    const mayGo = ({ poolLine }: Run) => this.#mayPermit(poolLine.policy);
    for (const node of this.#cover.clearable(mayGo)) {
      if (first !== null && !this.#mayEndBy(first.last, node, mayGo)) continue;
      const taken = this.#cover.untilRoom(node, this.#candidatesOn(node));
      if (taken === null) continue;
      const last = taken.at(-1) as Victim;
      const byLast = first === null ? -1 : byOrder(last, first.last);
      if (byLast > 0) continue;
      if (first === null || byLast < 0) first = { last, victims: new Map() };
      for (const victim of taken) first.victims.set(victim.run, victim);
    }
    return first === null ? null : [...first.victims.values()].sort(byOrder);
  }

  /** Whether a node could get room from those that do not come after another in the order. */
  #mayEndBy(last: Victim, node: Node, mayGo: (run: Run) => boolean): boolean {
    const isEarly = (run: Run) => byOrder({ run }, last) <= 0;
    return this.#cover.isClearable(node, (run) => mayGo(run) && isEarly(run));
  }

  #candidatesOn(node: Node): Victim[] {
    const { state, pool, nowMs, head } = this.#search;
    const found: Victim[] = [];
    for (const run of node.runs) {
      if (run.isStopping || !this.#mayPermit(run.poolLine.policy)) continue;
      const permission = this.#judge(run.kind);
      if (permission === "V6") this.isComplete = false;
      if (typeof permission === "string" || run.token < permission.from || !isMature(run, pool, nowMs))
        continue;
      if (hasDisplaced(state, run.request.spec.id, head.request.spec.id)) this.isComplete = false;
      else found.push({ run, reason: reasonFor(run, permission) });
    }
    return found.sort(byOrder);
  }
}

/** Lower priority first, then the latest (8.3). */
function byOrder({ run: a }: { readonly run: Run }, { run: b }: { readonly run: Run }): number {
  return a.poolLine.policy.record.priority - b.poolLine.policy.record.priority || b.token - a.token;
}

/** Only the kinds of components are judged of which something may be permitted. */
function permissionsFor(search: VictimSearch, short: readonly number[]): Permission[] {
  const rights = rightsFor(search, short);
  const judge = judgeFor(search, short, rights);
  const isPermitted = mayPermit(search, short, rights);
  const permissions: Permission[] = [];
  for (const policy of search.pool.policies.values()) {
    if (!isPermitted(policy)) continue;
    for (const kind of policy.runKinds) {
      const verdict = judge(kind);
      if (typeof verdict !== "string") permissions.push(verdict);
    }
  }
  return permissions;
}

/** Whether something of a component may be permitted: a no is certain. */
function mayPermit(
  search: VictimSearch,
  short: readonly number[],
  rights: Rights,
): (policy: Policy) => boolean {
  const { pool, head } = search;
  const { priority } = head.poolLine.policy.record;
  return (policy) => {
    if (policy.runKinds.size === 0) return false;
    const isLower = policy.record.priority < priority;
    if (isLower && rights.any) return true;
    if ((isLower || reclaimsFrom(policy, search, rights)) && mayBorrow(policy, short)) return true;
    return pool.gapKinds.size > 0 && [...policy.runKinds].some(({ opportunistic }) => opportunistic);
  };
}

/** Shields end with time, and who is too young grows older. */
function mayEverStop(search: VictimSearch): (run: Run) => boolean {
  const ever = { ...search, nowMs: Number.POSITIVE_INFINITY };
  const short = shortKeys(search.shortage);
  return permittedBy(judgeFor(ever, short, rightsFor(search, short)));
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
  return (kind) => {
    if (!isEligible(kind, short)) return "V2";
    const { policy, need } = kind.poolLine;
    const { priority } = policy.record;
    const difference = head.poolLine.policy.record.priority - priority;
    const reclaims = reclaimsFrom(policy, search, rights);
    const shielded = isShielded(kind, nowMs);
    if (shielded && !reclaims) return "V6";
    if (difference <= 0 && !reclaims && !kind.opportunistic) return "8.2";
    const borrowsFrom = (keys: readonly number[]) =>
      keys.filter((i) => (need[i] as number) > 0).map((i) => lines.borrowsFrom(kind, i));
    const never = Number.POSITIVE_INFINITY;
    const byPriorityFrom = difference <= 0 || shielded ? never : any ? 0 : Math.max(...borrowsFrom(short));
    const byReclaimFrom = reclaims ? Math.min(...borrowsFrom(reservable)) : never;
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
  if (search.head.poolLine.ask !== null) return true; // What fits together on nodes is not a sum (N2).
  const lacking = short.map((i) => search.shortage[i] as number);
  for (const permission of permissions) {
    const count = countPermitted(search, permission);
    short.forEach((i, at) => {
      lacking[at] = (lacking[at] as number) - count * (permission.kind.poolLine.need[i] as number);
    });
    if (lacking.every((amount) => amount <= 0)) return true;
  }
  return false;
}

function countPermitted({ pool, nowMs }: VictimSearch, { kind, from }: Permission): number {
  const mature = kind.runs.countWhile((run) => isMature(run, pool, nowMs));
  const tooOld = kind.runs.countWhile((run) => run.token < from);
  return Math.max(0, mature - tooOld);
}

/** The runs of a kind that may be taken, the latest first. */
interface Source {
  readonly permission: Permission;
  readonly runs: Iterator<Run>;
  next: Run;
}

/** Candidates in the order of 8.3: lower priority first, then the latest. Those of no use any more are left out. */
function* inOrder(
  search: VictimSearch,
  permissions: readonly Permission[],
  cover: Cover,
): Generator<{ run: Run; permission: Permission }> {
  const byPriority = permissions.toSorted((a, b) => a.priority - b.priority);
  for (let start = 0, end = 0; start < byPriority.length; start = end) {
    const { priority } = byPriority[start] as Permission;
    while (byPriority[end]?.priority === priority) end++;
    yield* latestFirst(search, byPriority.slice(start, end), cover);
  }
}

function* latestFirst(
  { pool, nowMs, head }: VictimSearch,
  permissions: readonly Permission[],
  cover: Cover,
): Generator<{ run: Run; permission: Permission }> {
  const isOnNodes = head.poolLine.ask !== null;
  const sources = new Heap<Source>((a, b) => a.next.token > b.next.token);
  const bring = (permission: Permission, runs: Iterator<Run>) => {
    const next = runs.next().value as Run | undefined;
    if (next !== undefined && next.token >= permission.from) sources.push({ permission, runs, next });
  };
  for (const permission of permissions) {
    bring(
      permission,
      permission.kind.runs.backwards((run) => isMature(run, pool, nowMs)),
    );
  }
  for (let source = sources.pop(); source !== undefined; source = sources.pop()) {
    const { permission, runs, next } = source;
    const isHelp = cover.isHelpedBy(next);
    if (isHelp) yield { run: next, permission };
    // What is of no use stays so; without nodes the runs of a kind help alike, or not at all.
    if (isHelp || isOnNodes) bring(permission, runs);
  }
}

/** What the search looked at, by kind, with the rule that permits some of them or forbids them all (V7). */
function consider(search: VictimSearch, victims?: readonly { readonly run: Run }[]): ConsideredKind[] {
  const short = shortKeys(search.shortage);
  const judge = judgeFor(search, short, rightsFor(search, short));
  return namedKinds(search.policies, short, victims).map((kind) => {
    const { poolLine, runs } = kind;
    const verdict = judge(kind);
    const isForbidden = typeof verdict === "string";
    return {
      component: poolLine.policy.record.component,
      priority: poolLine.policy.record.priority,
      preemptionClass: poolLine.preemptionClass,
      resources: poolLine.line.shape.resources,
      count: runs.size,
      permitted: isForbidden ? 0 : countPermitted(search, verdict),
      rule: isForbidden ? verdict : ruleOf(verdict),
    };
  });
}

function ruleOf({ byPriorityFrom, byReclaimFrom }: Permission): string {
  if (byPriorityFrom <= byReclaimFrom && byPriorityFrom < Number.POSITIVE_INFINITY) return "8.1";
  return byReclaimFrom < Number.POSITIVE_INFINITY ? "8.2" : "G4";
}
