// Discipline `priority`: reserved, limit and priority decide (G1, 8).

import type { ConsideredKind } from "../../events.ts";
import { coverFor, NodeCover } from "../../scheduling/cover.ts";
import { countsForReserve } from "../../scheduling/quotas.ts";
import { youth } from "../../scheduling/reasons.ts";
import { considered, namedKinds, spareFrom } from "../../scheduling/victims.ts";
import type { Pool, PoolLine, Run } from "../../state.ts";
import { type Discipline, nothingMore, plainStanding, type VictimChoice } from "../discipline.ts";
import { queueDiscipline } from "../queue/queue-discipline.ts";
import type { QueueOrder } from "../queue/queue-order.ts";
import {
  type Candidate,
  candidateOf,
  couldCover,
  type Field,
  inOrder,
  permissionsIn,
  permitsRun,
  take,
} from "../queue/victims.ts";
import { barsFor, orderParts, protectionOf, sparedBy } from "./explain.ts";
import { fieldOf, rightsOf, ruleOf } from "./permissions.ts";

export const priorityDiscipline: Discipline = queueDiscipline({
  rankOf,
  isReserveKey: countsForReserve,
  mayStopAnybody,
  fieldOf,
  chooseVictims,
  rightsOf,
  orderParts,
  submissionRule: "G1.4",
  keptOff: youth,
  barsFor,
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

/** A prefix of the candidates in the order of 8.3 that covers the shortage, without its redundant members. */
function chooseVictims(field: Field): VictimChoice | null {
  const cover = coverFor(field.search);
  const permissions = [...permissionsIn(field)];
  const sources = permissions.map(({ kind: { poolLine, runs }, from }) => {
    return { rank: poolLine.policy.record.priority, runs, from };
  });
  let victims: Candidate[] | null;
  if (cover instanceof NodeCover) {
    victims = takeOnNodes(
      field,
      inOrder(field, sources, () => true),
      cover,
    );
  } else {
    if (!couldCover(field, permissions)) return null;
    victims = take(
      inOrder(field, sources, (run) => cover.isHelpedBy(run)),
      cover,
    );
  }
  if (victims === null) return null;
  return { victims, considered: consider(field, victims), nodes: cover.places() };
}

/** What the others hold that come before the last one is of no use: it is on other nodes. */
function takeOnNodes(field: Field, candidates: Iterable<Candidate>, cover: NodeCover): Candidate[] | null {
  const isPermitted = permitsRun(field);
  const candidate = (run: Run) => candidateOf(field, run, field.judge(run.kind));
  const mayGo = (run: Run) => isPermitted(run) && candidate(run) !== null;
  const cleared = cover.firstCleared({ inOrder: runsOf(candidates), byOrder, mayGo });
  if (cleared === null) return null;
  const runs = [...new Set(cleared.flat())].sort(byOrder);
  for (const run of runs) cover.take(run);
  return spareFrom(
    runs.map((run) => candidate(run) as Candidate),
    cover,
  );
}

function* runsOf(candidates: Iterable<Candidate>): Generator<Run> {
  for (const { run } of candidates) yield run;
}

/** Lower priority first, then the latest (8.3). */
function byOrder(a: Run, b: Run): number {
  return a.poolLine.policy.record.priority - b.poolLine.policy.record.priority || b.token - a.token;
}

/** What the search looked at, by kind (V7). */
function consider({ search, short, judge }: Field, victims: readonly Candidate[]): ConsideredKind[] {
  const kinds = namedKinds(search.pool, short, victims);
  return kinds.map((kind) => considered(kind, judge(kind), { ruleOf, nowMs: search.nowMs }));
}
