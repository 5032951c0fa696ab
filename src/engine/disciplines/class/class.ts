// Discipline `class`: higher classes go first and may stop lower ones, if that costs less than it is worth (10).

import type { ConsideredKind } from "../../events.ts";
import type { PolicyRecord, RequestSpec } from "../../records.ts";
import { hasDisplaced, isMature, shortKeys, spareRedundant } from "../../scheduling/victims.ts";
import type { PoolLine, Request, Run, RunKind } from "../../state.ts";
import type { Discipline, LineStanding, RunTraits, VictimChoice } from "../discipline.ts";
import { queueDiscipline, type VictimSearch } from "../queue/queue-discipline.ts";
import { countFrom, judgeOf, kindsConcerned, type Permission, permitOf, ruleOf } from "./candidates.ts";
import { type Bounds, bestSet, byCost, type Candidate, Groups } from "./choice.ts";
import { costOf, leastCostSince, product, worthOf } from "./cost.ts";
import { type Chosen, chooseOnNodes } from "./on-nodes.ts";
import { compareIn, orderHoldsUntil } from "./score.ts";

export const classDiscipline: Discipline = queueDiscipline({
  compareIn,
  orderHoldsUntil,
  chooseVictims,
  worth,
  consider,
  standingOf,
  tellApart,
});

/** Sensitive policies force class 10 and `sensitive` (10.7); who counts as firm, and who comes right after (10.8). */
function standingOf(shape: RequestSpec, policy: PolicyRecord): LineStanding {
  const sensitive = shape.sensitive || policy.kind === "sensitive";
  const preemptionClass = sensitive ? 10 : shape.preemptionClass;
  const firm = !shape.preemptible || preemptionClass === 10;
  const isDear = preemptionClass >= 7 && shape.checkpoint === "none";
  return { preemptionClass, sensitive, firm, reserveRank: firm ? 0 : isDear ? 1 : 2 };
}

/** Costs depend on the walltime, and on whether work was saved (10.4). */
function tellApart({ request, endMs, startedAtMs }: Run): Pick<RunTraits, "hasWalltime" | "hasCheckpoint"> {
  const savedAtMs = request.progress.lastCheckpointAtMs ?? Number.NEGATIVE_INFINITY;
  return {
    hasWalltime: endMs < Number.POSITIVE_INFINITY,
    hasCheckpoint: request.spec.checkpoint === "none" && savedAtMs > startedAtMs,
  };
}

const VICTIMS_MAX = 3;

/** What one search is about. */
interface Field {
  readonly search: VictimSearch;
  readonly permissions: readonly Permission[];
  readonly bounds: Bounds;
}

function chooseVictims(search: VictimSearch): VictimChoice | null {
  const { pool, head, nowMs } = search;
  const short = shortKeys(search.shortage);
  const judged = judgeKinds(search, short);
  const permissions = judged.flatMap(({ verdict }) => (typeof verdict === "string" ? [] : [verdict]));
  const bounds: Bounds = {
    lacking: short.map((i) => search.shortage[i] as number),
    victimsMax: pool.record.settings.maxVictims ?? VICTIMS_MAX,
    value: worthOf(head.poolLine, head.request),
    nowMs,
  };
  const field: Field = { search, permissions, bounds };
  const isOnNodes = head.poolLine.ask !== null;
  const chosen = isOnNodes ? chooseOnNodes(search, permissions, bounds) : chooseBySum(field);
  if (chosen === null) return null;
  return {
    victims: chosen.victims.map(({ run, reason, costMs }) => ({ run, reason, cost: shown(costMs) })),
    considered: judged.map((each) => describe(each, search)),
    value: worth(head.poolLine, head.request),
    nodes: chosen.nodes,
  };
}

function worth(poolLine: PoolLine, request: Request): number {
  return shown(product(worthOf(poolLine, request)));
}

function chooseBySum(field: Field): Chosen | null {
  if (!couldCover(field, ({ from }) => from)) return null;
  const victims = bestSet(cheapest(field), field.bounds) ?? beyondVictimsMax(field);
  return victims === null ? null : { victims, nodes: [] };
}

function consider(search: VictimSearch): ConsideredKind[] {
  return judgeKinds(search, shortKeys(search.shortage)).map((judged) => describe(judged, search));
}

/** A kind of running work, and what may be taken of it or the rule that forbids that. */
interface Judged {
  readonly kind: RunKind;
  readonly verdict: Permission | string;
}

function judgeKinds(search: VictimSearch, short: readonly number[]): Judged[] {
  const judge = judgeOf(search, short);
  return kindsConcerned(search, short).map((kind) => ({ kind, verdict: judge(kind) }));
}

/** All or nothing (V3): whether all that began with a certain grant or later would be enough together, by counting. */
function couldCover(field: Field, from: (permission: Permission) => number): boolean {
  const lacking = [...field.bounds.lacking];
  for (const permission of field.permissions) {
    const count = countFrom(from(permission), permission, field.search);
    permission.held.forEach((amount, key) => {
      lacking[key] = (lacking[key] as number) - count * amount;
    });
  }
  return lacking.every((amount) => amount <= 0);
}

/** The cheapest candidates of every group. Newer runs of a kind rarely cost more, so that few are looked at. */
function cheapest(field: Field): Groups {
  const { nowMs } = field.bounds;
  const groups = new Groups(field.bounds);
  for (const permission of field.permissions) {
    const { boundedFrom, unboundedFrom } = permission;
    const bounded = groups.groupOf(permission, "bounded");
    const unbounded = groups.groupOf(permission, "unbounded");
    const isNeedless = (run: Run) => {
      const leastMs = leastCostSince(run, nowMs);
      return (
        (run.token < boundedFrom || groups.isBeyond(bounded, leastMs, run)) &&
        (run.token < unboundedFrom || groups.isBeyond(unbounded, leastMs, run))
      );
    };
    for (const candidate of candidates(field, permission, isNeedless)) {
      groups.add(candidate.isUnbounded ? unbounded : bounded, candidate);
    }
  }
  return groups;
}

/** What is taken back is not bounded by number: by class, cost and start until it fits (10.5). */
function beyondVictimsMax(field: Field): readonly Candidate[] | null {
  if (!couldCover(field, ({ unboundedFrom }) => unboundedFrom)) return null;
  const { nowMs } = field.bounds;
  const all = field.permissions
    .flatMap((permission) => [...candidates(field, permission, () => false)])
    .filter(({ isUnbounded }) => isUnbounded)
    .sort((a, b) => a.preemptionClass - b.preemptionClass || byCost(a, b, nowMs));
  const lacking = [...field.bounds.lacking];
  for (const [index, { held }] of all.entries()) {
    held.forEach((amount, key) => (lacking[key] = (lacking[key] as number) - amount));
    if (lacking.every((amount) => amount <= 0)) {
      return spareRedundant(all.slice(0, index + 1), field.search.shortage);
    }
  }
  return null;
}

/** The runs of a kind that may be taken, newest first, up to the first from which on none is of use. */
function* candidates(
  { search, bounds }: Field,
  permission: Permission,
  isNeedless: (run: Run) => boolean,
): Generator<Candidate> {
  const { state, pool, head, nowMs } = search;
  const { kind, held } = permission;
  const { preemptionClass } = kind.poolLine;
  for (const run of kind.runs.backwards((each) => isMature(each, pool, nowMs))) {
    if (run.token < permission.from || isNeedless(run)) return;
    const permit = permitOf(run, permission, nowMs);
    if (permit === null || hasDisplaced(state, run.request.spec.id, head.request.spec.id)) continue;
    const { costMs, isExact } = costOf(run, bounds.nowMs);
    const { reason, isUnbounded } = permit;
    yield { run, costMs, isExact, reason, isUnbounded, held, preemptionClass };
  }
}

/** A kind with its numbers, for people and for the journal (V7). */
function describe({ kind: { poolLine, runs }, verdict }: Judged, search: VictimSearch): ConsideredKind {
  const isForbidden = typeof verdict === "string";
  const latest = runs.last();
  return {
    component: poolLine.policy.record.component,
    priority: poolLine.policy.record.priority,
    preemptionClass: poolLine.preemptionClass,
    resources: poolLine.line.shape.resources,
    count: runs.size,
    permitted: isForbidden ? 0 : countFrom(verdict.from, verdict, search),
    rule: isForbidden ? verdict : ruleOf(verdict),
    ...(latest === undefined ? {} : { cost: shown(costOf(latest, search.nowMs).costMs) }),
  };
}

/** Costs and values are shown in hundredths of a minute. */
function shown(ms: number): number {
  return Math.round(ms / 600);
}
