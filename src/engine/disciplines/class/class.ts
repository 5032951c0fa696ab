// Discipline `class`: higher classes go first and may stop lower ones, if that costs less than it is worth (10).

import type { ConsideredKind } from "../../events.ts";
import type { PolicyRecord, RequestSpec } from "../../records.ts";
import { considered, namedKinds } from "../../scheduling/victims.ts";
import type { PoolLine, Request, Run } from "../../state.ts";
import type { Discipline, LineStanding, RunTraits, VictimChoice } from "../discipline.ts";
import { queueDiscipline } from "../queue/queue-discipline.ts";
import type { Field } from "../queue/victims.ts";
import { fieldOf, judgeOf, mayStopAnybody, rightsOf, ruleOf } from "./candidates.ts";
import { costMsOf, priceKeyOf, shownCost, worthMsOf } from "./cost.ts";
import {
  barsFor,
  byVictimOrder,
  explainBounds,
  keptOff,
  orderParts,
  protectionOf,
  sparedBy,
} from "./explain.ts";
import { choose } from "./on-nodes.ts";
import { byClass, orderHoldsUntil, rankOf, scoreOf, standingIn } from "./score.ts";

export const classDiscipline: Discipline = queueDiscipline({
  rankOf,
  standing: standingIn,
  scoreOf,
  isReserveKey: ({ isReserved }, i) => isReserved[i] as boolean,
  compareReserve: byClass,
  orderHoldsUntil,
  mayStopAnybody,
  chooseVictims,
  rightsOf,
  fieldOf,
  worth,
  costOf: (run, nowMs) => shownCost(costMsOf(run, nowMs)),
  orderParts,
  submissionRule: "10.6",
  keptOff,
  barsFor,
  protectionOf,
  byVictimOrder,
  sparedBy,
  explainBounds,
  standingOf,
  tellApart,
  priceKeyOf,
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
function tellApart({ request, endMs, startedAtMs }: Run): RunTraits {
  const savedAtMs = request.progress.lastCheckpointAtMs ?? Number.NEGATIVE_INFINITY;
  return {
    hasWalltime: endMs < Number.POSITIVE_INFINITY,
    hasCheckpoint: request.spec.checkpoint === "none" && savedAtMs > startedAtMs,
  };
}

function chooseVictims(field: Field): VictimChoice | null {
  const chosen = choose(field);
  if (chosen === null) return null;
  const { victims, nodes } = chosen;
  return {
    victims: victims.map(({ run, reason, costMs }) => ({ run, reason, cost: shownCost(costMs) })),
    considered: consider(field, victims),
    value: shownCost(field.bounds.costMsMax),
    nodes,
  };
}

function worth(poolLine: PoolLine, request: Request): number {
  return shownCost(worthMsOf(poolLine, request));
}

/** The kinds that hold something short, with what the latest of each costs (V7). */
function consider({ search, short }: Field, victims: readonly { readonly run: Run }[]): ConsideredKind[] {
  const { nowMs } = search;
  const kinds = namedKinds(search.pool, short, victims);
  const judge = judgeOf(search, short);
  return kinds.map((kind) => {
    const latest = kind.runs.last();
    return {
      ...considered(kind, judge(kind), { ruleOf, nowMs }),
      ...(latest === undefined ? {} : { cost: shownCost(costMsOf(latest, nowMs)) }),
    };
  });
}
