// Facts about order, nodes, shares and preemption in words, each with its rule.

import type {
  WireBar,
  WireConsidered,
  WireOrderDifference,
  WirePoolExplanation,
  WireRequest,
  WireShareElement,
  WireSpared,
} from "../../protocol/index.ts";
import { amountsText, counted, durationText, listed } from "../../words/index.ts";
import { PERMITTED, titleOf, titleOfParty } from "./titles.ts";
import type { World } from "./world.ts";

const KINDS_NAMED_MAX = 3;

/** The first part of the order on which two differ, with both values. */
export function differenceText(difference: WireOrderDifference): string {
  return `${partText(difference)} (${difference.rule})`;
}

function partText(difference: WireOrderDifference): string {
  switch (difference.part) {
    case "sensitive":
      return "sensitive work comes first";
    case "reserve":
      return "it fits what is reserved for it";
    case "priority":
    case "class":
      return `${difference.part} ${difference.theirs} before ${difference.mine}`;
    case "band":
      return `class band ${difference.theirs} before ${difference.mine}`;
    case "score":
      return `score ${difference.theirs / 1e6} before ${difference.mine / 1e6}`;
    case "submission":
      return "it asked earlier";
    case "satisfaction":
      return `${elementText(difference.theirs)} ${hasText(difference.theirs)}, and ${elementText(difference.mine)} ${hasText(difference.mine)}`;
    case "age":
      return `${elementText(difference.theirs)} ${hasText(difference.theirs)} like ${elementText(difference.mine)}, and has waited longer`;
  }
}

type Compared = Extract<WireOrderDifference, { part: "satisfaction" | "age" }>["theirs"];

function elementText({ kind, element }: Compared): string {
  return element === null ? `another ${kind}` : `${kind} ${element}`;
}

function hasText({ satisfaction }: Compared): string {
  if (satisfaction === null) return "is owed nothing";
  return `has ${Math.round(satisfaction * 1000) / 10}% of what it is owed`;
}

const OBSTACLES: Readonly<Record<keyof NonNullable<WirePoolExplanation["nodes"]>["obstacles"], string>> = {
  labels: "without the labels",
  too_small: "too small even when empty",
  draining: "draining",
  drained: "drained",
  suspect: "suspect",
  down: "down",
  taken: "taken by others",
  promised: "promised to others",
};

/** Why no node will do, or not enough of them. That the only one is taken, the line about what is in use says. */
export function nodesText({ nodes }: WirePoolExplanation): string {
  if (nodes === null) return "";
  const { asked, fitting, total, obstacles } = nodes;
  if (total === 1 && obstacles.taken === 1) return "";
  const rest = Object.entries(OBSTACLES).flatMap(([obstacle, words]) => {
    const count = obstacles[obstacle as keyof typeof obstacles] ?? 0;
    return count === 0 ? [] : [`${count} ${words}`];
  });
  const room = fitting === 0 ? "none" : String(fitting);
  const wanted = asked === 1 ? "" : ` of the ${asked} that it asks for`;
  return `${room} of ${counted(total, "node")} has room${wanted}: ${rest.join(", ")} (N2)`;
}

/** What it is owed and has, in a fair-share pool (9.1, 9.2, 9.10). */
export function shareText(pool: WirePoolExplanation, request: WireRequest, world: World): string {
  const { share } = pool;
  if (share === null) return "";
  const policy = share.above[0];
  const own = request.operation === null ? "this request" : `operation ${request.operation}`;
  const amountsOf = world.amountsOf(pool.pool);
  return [
    ...(policy === undefined ? [] : [standingText(request.component, policy, amountsOf)]),
    standingText(own, share.operation, amountsOf),
    ...(share.gang_without_share
      ? ["a gang is owed all that it asks for or nothing (9.2): a higher weight or reserve would change that"]
      : []),
    ...(share.exceeds_fair_share
      ? [`it asks for more than ${own} is owed: within its fair share it can never start (9.10)`]
      : []),
  ].join("; ");
}

function standingText(
  who: string,
  element: WireShareElement,
  amountsOf: ReturnType<World["amountsOf"]>,
): string {
  const { fair_share, usage_share, demand_share } = element;
  const wanted = Object.keys(demand_share).filter((key) => (demand_share[key] ?? 0) > 0);
  const units = (shares: Readonly<Record<string, number>>) =>
    amountsText(
      Object.fromEntries(
        wanted.map((key) => [key, Math.round((shares[key] ?? 0) * amountsOf(key).capacity * 100) / 100]),
      ),
    );
  return `${who} is owed ${units(fair_share)} and has ${units(usage_share)}`;
}

/** Why nobody is preempted for it (Y4). */
export function preemptionText({ preemption: fact }: WirePoolExplanation, nowMs: number): string {
  const secondsTo = (time: string) => durationText((Date.parse(time) - nowMs) / 1000);
  switch (fact.why) {
    case "own_quota":
    case "promised":
    case "not_short":
      return "";
    case "not_first":
      return "nobody: only the first in line may (V1)";
    case "too_little": {
      const some = fact.keys.filter(({ permitted }) => permitted > 0);
      if (some.length === 0) return "nobody can be stopped for it";
      const sums = fact.keys.map(
        ({ key, lacking, permitted }) =>
          `${permitted} ${key} may be taken, ${lacking} are lacking: ${Math.max(0, lacking - permitted)} short`,
      );
      return `nobody (${sums.join("; ")}, V3)`;
    }
    case "too_few_nodes":
      return `nobody (with all that may be taken, ${fact.fitting} of ${counted(fact.asked, "node")} would have room, N2)`;
    case "too_dear": {
      const { victims, victims_max: max, cost_minutes: cost, value_minutes: value } = fact;
      if (victims > max)
        return `nobody (${counted(victims, "run")} would have to go, and at most ${max} may, 10.5)`;
      return `nobody (the cheapest choice costs ${minutesText(cost)}, and it is worth ${minutesText(value)}, 10.5)`;
    }
    case "not_starving":
      if (fact.starves_at === null) return "nobody: it is not below its fair share (9.4)";
      return `nobody before it starves, in ${secondsTo(fact.starves_at)} if nothing changes (9.4)`;
    case "back_off":
      return `nobody for another ${secondsTo(fact.until)}: something was started by preemption just now (9.7)`;
    case "left_too_poor":
      return `nobody (those who would have to go would have less than it has, 9.8)`;
    case "unsettled":
      return "not decided yet";
  }
}

export function minutesText(minutes: number): string {
  return `${Math.round(minutes * 10) / 10} min`;
}

/** The kinds of running work that hold what is short, each with the one rule about it. */
export function candidatesText(pool: WirePoolExplanation, request: WireRequest, nowMs: number): string {
  const { considered } = pool;
  const shown = considered.slice(0, KINDS_NAMED_MAX).map((kind) => candidateText(kind, pool, request, nowMs));
  if (considered.length > KINDS_NAMED_MAX)
    shown.push(counted(considered.length - KINDS_NAMED_MAX, "further kind"));
  return shown.join("; ");
}

function candidateText(
  kind: WireConsidered,
  pool: WirePoolExplanation,
  request: WireRequest,
  nowMs: number,
): string {
  const { count, component, permit, bar, rule, until } = kind;
  const only = count === 1 && pool.holder_count === 1 ? pool.holders[0] : undefined;
  const who =
    only === undefined || only.number === null
      ? `${counted(count, "run")} of ${component ?? "another team"}`
      : titleOf({ number: only.number, name: only.name ?? "" });
  if (permit !== null) return `${who} could be taken ${PERMITTED[permit]} (${rule})`;
  if (bar === null) return who;
  const rest = until === null ? "" : `, for another ${durationText((Date.parse(until) - nowMs) / 1000)}`;
  return `${who} ${BARRED[bar](kind, pool, request)}${rest} (${rule})`;
}

type Barred = (kind: WireConsidered, pool: WirePoolExplanation, request: WireRequest) => string;

const be = ({ count }: WireConsidered) => (count === 1 ? "is" : "are");
const have = ({ count }: WireConsidered) => (count === 1 ? "has" : "have");

const BARRED: Readonly<Record<WireBar, Barred>> = {
  not_preemptible: (kind) => `${be(kind)} not preemptible`,
  sensitive: (kind) => `${be(kind)} sensitive`,
  too_young: (kind) => `${have(kind)} not run long enough`,
  shielded: (kind) => `${be(kind)} shielded, having been stopped too often lately`,
  guarded: (kind) => `${have(kind)} had to make room for it or through it since the last change of the pool`,
  priority_not_lower: (kind, pool, request) =>
    `${have(kind)} priority ${kind.priority}, which is not lower, and ${reserveText(pool, request)}`,
  uses_own_reserve: (kind) => `${kind.count === 1 ? "uses" : "use"} only what is reserved`,
  top_class: (kind) => `${be(kind)} of class 10`,
  class_not_lower: (kind) => `${be(kind)} of class ${kind.preemption_class}, which is not lower`,
  in_share: (kind) => `${kind.count === 1 ? "uses" : "use"} only what is reserved`,
  no_checkpoint: (kind) => `${be(kind)} of class ${kind.preemption_class} without a checkpoint`,
  service: (kind) => `${be(kind)} a service within its reserve`,
  near_completion: (kind) => `${be(kind)} nearly done`,
  costs_too_much: (kind, { value_minutes: value }) =>
    `${kind.count === 1 ? "costs" : "cost"} ${minutesText(kind.cost_minutes ?? 0)}, and it is worth ${minutesText(value ?? 0)}`,
  same_operation: (kind) => `${be(kind)} of the same operation`,
  starving: (kind) => `${kind.count === 1 ? "belongs" : "belong"} to a starving operation`,
  protected_share: (kind) => `${be(kind)} within the fair share, at least in part`,
  left_too_poor: () => "would leave less than this one has",
};

/** What the waiter could take back (8.2): less than it asks for. */
function reserveText(
  { reserve_left: left }: WirePoolExplanation,
  { component, resources }: WireRequest,
): string {
  const keys = Object.entries(left).filter(([key, amount]) => amount < (resources[key] ?? 0));
  if (keys.length === 0) return `${component} takes nothing back from itself`;
  if (keys.every(([, amount]) => amount === 0)) return `${component} has nothing reserved and unused`;
  return `${component} has only ${listed(keys.map(([key, amount]) => `${amount} ${key}`))} reserved and unused`;
}

const SPARED: Readonly<Record<Extract<WireSpared, { why: "barred" }>["bar"], string>> = {
  not_preemptible: "is not preemptible",
  sensitive: "is sensitive",
  too_young: "had not run long enough",
  top_class: "is of class 10",
};

/** Who went on when the request was chosen as a victim, and why (Y6). */
export function sparedText(spared: WireSpared, { component }: WireRequest): string {
  return `${titleOfParty(spared.request, component)} ${sparingText(spared)} (${spared.rule})`;
}

function sparingText(spared: WireSpared): string {
  switch (spared.why) {
    case "barred":
      return SPARED[spared.bar];
    case "higher_priority":
      return `has priority ${spared.theirs}, this one ${spared.victims}`;
    case "higher_class":
      return `is of class ${spared.theirs}, this one of class ${spared.victims}`;
    case "higher_cost": {
      const [theirs, victims] = [minutesText(spared.theirs), minutesText(spared.victims)];
      return theirs === victims ? "costs more" : `costs ${theirs}, this one ${victims}`;
    }
    case "started_earlier":
      return "started earlier";
  }
}
