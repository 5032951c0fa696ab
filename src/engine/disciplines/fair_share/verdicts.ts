// Who may be taken for a starving operation, and by which rule not (V2, V6, 9.5, 9.7, 9.8); why nobody is (Y4).

import { isReady } from "../../placement/node-index.ts";
import { mayServe } from "../../placement/room.ts";
import { NodeCover, Sum } from "../../scheduling/cover.ts";
import { barred, guardOr, permitted, youth } from "../../scheduling/reasons.ts";
import { isShielded } from "../../scheduling/victims.ts";
import {
  type EngineState,
  freeOf,
  type Node,
  type Pool,
  type PoolLine,
  type Request,
  type Run,
} from "../../state.ts";
import type { PreemptionFact, Verdict } from "../../why.ts";
import { type Allocation, allocationsIn } from "./allocations.ts";
import { promisesOf } from "./holds.ts";
import { mayTake, type Stage } from "./search.ts";
import { NodeSpace, spaceOf } from "./space.ts";
import { ownRight } from "./starvation.ts";
import type { Operation, Peers, PoolTree } from "./tree.ts";
import { leavesTooPoor } from "./victims.ts";

/** Who asks in which stage. */
export interface Asking {
  readonly state: EngineState;
  readonly pool: Pool;
  readonly tree: PoolTree;
  readonly nowMs: number;
  readonly stage: Stage;
  readonly request: Request;
  readonly operation: Operation;
}

export function verdictOn(asking: Asking, { run, operation, group }: Allocation): Verdict {
  const { pool, nowMs, stage, operation: waiter, request, tree, state } = asking;
  const young = youth(run, nowMs);
  if (young !== null) return young;
  if (operation === waiter) return barred("same_operation");
  if (ownRight(pool, operation) > 0) return barred("starving");
  if (!mayTake(stage, operation.peers as Peers, group)) return barred("protected_share");
  if (isShielded(run.kind, nowMs)) return barred("shielded", run.kind.shieldEndsAtMs);
  if (leavesTooPoor(tree, waiter, { run, operation })) return barred("left_too_poor");
  const verdict = permitted(group === "preemptible" ? "beyond_share" : "within_share");
  return guardOr({ state, head: { request } }, run, verdict);
}

/** The verdicts on all runs that hold one of these keys. */
export function* verdictsOnAll(asking: Asking, keys: readonly number[]): Generator<readonly [Run, Verdict]> {
  const { pool, tree } = asking;
  for (const { operations } of tree.running) {
    for (const operation of operations) {
      for (const allocation of allocationsIn(pool, tree, operation).values()) {
        const { need } = allocation.run.poolLine;
        if (keys.some((i) => need[i]! > 0)) yield [allocation.run, verdictOn(asking, allocation)];
      }
    }
  }
}

/** Why a request that has the right to preempt takes nobody, given who may be taken alone. */
export function whyNobody(
  { pool, nowMs }: Pick<Asking, "pool" | "nowMs">,
  poolLine: PoolLine,
  judged: readonly (readonly [Run, Verdict])[],
): PreemptionFact {
  const taken = judged.flatMap(([run, { permit }]) => (permit === null ? [] : [run]));
  const { ask, need } = poolLine;
  if (ask === null) {
    const { claimed } = promisesOf(pool);
    const lacking = need.map((amount, i) =>
      amount === 0 ? 0 : amount - freeOf(pool, i) - pool.stopping[i]! + claimed[i]!,
    );
    const cover = new Sum(lacking);
    for (const run of taken) cover.take(run);
    if (!cover.isEnough) return { why: "too_little", keys: lackingKeys(pool, lacking, taken) };
  } else {
    const cover = new NodeCover(new NodeSpace(pool).soon.copy(), ask);
    for (const run of taken) cover.take(run);
    if (!cover.isEnough) {
      if (taken.length > 0)
        return { why: "too_few_nodes", fitting: ask.count - cover.missing, asked: ask.count };
      return { why: "too_little", keys: lackingKeys(pool, need, taken) };
    }
  }
  const untilMs = backOffUntil(pool, poolLine, nowMs);
  return untilMs === null ? { why: "left_too_poor" } : { why: "back_off", untilMs };
}

function lackingKeys({ keys }: Pool, lacking: readonly number[], taken: readonly Run[]) {
  return lacking.flatMap((amount, i) => {
    if (amount <= 0) return [];
    const sum = taken.reduce((total, { poolLine }) => total + poolLine.need[i]!, 0);
    return [{ key: keys[i] as string, lacking: amount, permitted: sum }];
  });
}

/** When the first place that could serve it may start something again; null: some may now (9.7). */
function backOffUntil(pool: Pool, { ask }: PoolLine, nowMs: number): number | null {
  const { preemptiveBackoffMs } = pool.record.settings;
  const endOf = (node: Node | null) =>
    (pool.preemptiveStartAtMs.get(node?.record.name ?? "") ?? Number.NEGATIVE_INFINITY) + preemptiveBackoffMs;
  const places: (Node | null)[] =
    ask === null ? [null] : [...pool.nodes.values()].filter((node) => isReady(node) && mayServe(node, ask));
  const ends = places.map(endOf).sort((a, b) => a - b);
  const needed = ends[(ask?.count ?? 1) - 1] ?? Number.NEGATIVE_INFINITY;
  return needed > nowMs ? needed : null;
}

/** Whether free units, and those that stop for nobody, cover it. */
export function isCoveredSoon(pool: Pool, poolLine: PoolLine): boolean {
  return spaceOf(pool, promisesOf(pool)).placeSoon(poolLine) !== null;
}
