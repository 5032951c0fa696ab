// What distinguishes the disciplines: the order of the queue, who may be preempted for whom, and the
// preference among victims. Everything else is shared.

import { assertNever } from "../assert.ts";
import type { ConsideredKind } from "../events.ts";
import type { PreemptionReason } from "../records.ts";
import type { QueueWalk, Waiter } from "../scheduling/queue-walk.ts";
import type { EngineState, Node, Pool, PoolLine, Request, Run } from "../state.ts";
import { classDiscipline } from "./class/class.ts";
import { priorityDiscipline } from "./priority/priority.ts";

export interface Discipline {
  /** Order of a pool's queue at a moment; total, ending on the place in the journal. */
  compareIn(pool: Pool, nowMs: number): (a: Waiter, b: Waiter) => number;
  /** Until when time alone cannot put one waiter before another that is ahead of it; left out where time moves nothing. */
  orderHoldsUntil?(ahead: Waiter, behind: Waiter, nowMs: number): number;
  /** Who has to stop for the head of a pool, or null if nobody may or it would not be enough (V3). */
  chooseVictims(search: VictimSearch): VictimChoice | null;
  /** What it is worth to start a request, in hundredths of a minute; left out where nothing is weighed (10.5). */
  worth?(poolLine: PoolLine, request: Request): number;
  /** The kinds of running work that such a search looks at, permitted or not (V7, 14). */
  consider(search: VictimSearch): readonly ConsideredKind[];
}

export interface VictimSearch {
  readonly state: EngineState;
  readonly nowMs: number;
  readonly pool: Pool;
  readonly walk: QueueWalk;
  readonly head: Waiter;
  /** What is lacking per key; not positive where nothing is. */
  readonly shortage: readonly number[];
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

export function disciplineOf(pool: Pool): Discipline {
  switch (pool.record.discipline) {
    case "priority":
      return priorityDiscipline;
    case "class":
      return classDiscipline;
    case "fair_share":
      return priorityDiscipline;
    default:
      return assertNever(pool.record.discipline);
  }
}
