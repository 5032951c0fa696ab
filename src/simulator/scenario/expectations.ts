// Compares what a step expects with what is. Only what is named is compared.

import { isDeepStrictEqual } from "node:util";
import {
  borrowedOf,
  type Event,
  type PreemptionReason,
  poolsOf,
  queueOf,
  type RejectionReason,
  type RequestId,
  requestOf,
  shareViewOf,
  usageOf,
} from "../../engine/index.ts";
import type { ScenarioExpectations } from "../../protocol/index.ts";
import { toPoolName, toRequestId } from "../../translation/index.ts";
import type { World } from "./world.ts";

export interface Mismatch {
  /** Which expectation, such as `status.a` or `usage.p.gpu`. */
  readonly field: string;
  readonly expected: unknown;
  readonly actual: unknown;
}

/** What a step looks at: the world after it, and what happened in it. */
export interface StepView {
  readonly world: World;
  readonly events: readonly Event[];
  /** The latest reason for which each request became a victim, in this step or before. */
  readonly reasons: ReadonlyMap<RequestId, PreemptionReason>;
}

const SHARE_TOLERANCE = 1e-6;

export function compare(view: StepView, expected: ScenarioExpectations): Mismatch[] {
  const { world } = view;
  const { state, nowMs } = world;
  const progressOf = (id: string) => requestOf(state, toRequestId(id))?.progress;
  const allocationOf = (id: string) => progressOf(id)?.allocation;
  const { elementOf, allocationGroupOf } = lookUpShares(world);
  const mismatches: Mismatch[] = [];

  const expectAll = <Value>(
    field: keyof ScenarioExpectations,
    wanted: Readonly<Record<string, Value>> | undefined,
    actualOf: (name: string, wanted: Value) => unknown,
    isSame: (wanted: Value, actual: unknown) => boolean = isDeepStrictEqual,
  ) => {
    for (const [name, value] of Object.entries(wanted ?? {})) {
      const actual = actualOf(name, value) ?? null;
      if (!isSame(value, actual)) mismatches.push({ field: `${field}.${name}`, expected: value, actual });
    }
  };

  expectAll("status", expected.status, (id) => progressOf(id)?.status);
  expectAll("pool", expected.pool, (id) => allocationOf(id)?.pool);
  expectAll("attempt", expected.attempt, (id) => progressOf(id)?.attempt);
  expectAll("preempted_count", expected.preempted_count, (id) => progressOf(id)?.preemptedCount);
  expectAll("resume", expected.resume, (id) => progressOf(id)?.resume);
  expectAll("reason", expected.reason, (id) => view.reasons.get(toRequestId(id)));
  expectAll("rejected", expected.rejected, (id, wanted) => rejectionLike(wanted, progressOf(id)?.rejection));
  expectAll("queue", expected.queue, (pool) =>
    hasPool(world, pool) ? queueOf(state, toPoolName(pool), nowMs) : null,
  );
  expectAll("starvation", expected.starvation, (element) => elementOf(element)?.status);
  expectAll("allocation_group", expected.allocation_group, (id) => allocationGroupOf(id));
  expectAll(
    "placed",
    expected.placed,
    (id) =>
      allocationOf(id)
        ?.placement.map(({ node }) => node)
        .toSorted(),
    (wanted, actual) => isDeepStrictEqual(wanted.toSorted(), actual),
  );
  expectAll("devices", expected.devices, (id) => {
    const placement = allocationOf(id)?.placement;
    return placement && Object.fromEntries(placement.map(({ node, devices }) => [node, devices]));
  });

  for (const [pool, amounts] of Object.entries(expected.usage ?? {})) {
    const usage = hasPool(world, pool) ? usageOf(state, toPoolName(pool)) : undefined;
    expectAmounts("usage", pool, amounts, usage);
  }
  for (const [id, amounts] of Object.entries(expected.borrowed ?? {})) {
    const borrowed = progressOf(id) && borrowedOf(state, toRequestId(id));
    expectAmounts("borrowed", id, amounts, borrowed);
  }
  for (const [element, amounts] of Object.entries(expected.shares ?? {})) {
    expectAmounts("shares", element, amounts, elementOf(element)?.fairShare, SHARE_TOLERANCE);
  }
  if (expected.preempted !== undefined) {
    const preempted = preemptedIn(view.events).toSorted();
    const wanted = expected.preempted.toSorted();
    if (!isDeepStrictEqual(wanted, preempted)) {
      mismatches.push({ field: "preempted", expected: wanted, actual: preempted });
    }
  }
  return mismatches;

  function expectAmounts(
    field: keyof ScenarioExpectations,
    name: string,
    wanted: Readonly<Record<string, number>>,
    actual: Readonly<Record<string, number>> | undefined,
    tolerance = 0,
  ): void {
    for (const [key, amount] of Object.entries(wanted)) {
      const found = actual === undefined ? null : amountAt(actual, key);
      if (found !== null && Math.abs(amount - found) <= tolerance) continue;
      mismatches.push({ field: `${field}.${name}.${key}`, expected: amount, actual: found });
    }
  }
}

/** Who was chosen as a victim by these events, each once. */
export function preemptedIn(events: readonly Event[]): RequestId[] {
  const victims = events.flatMap((event) => (event.kind === "preemptionDecided" ? event.victims : []));
  return [...new Set(victims.map(({ requestId }) => requestId))];
}

/** The rejection in the form in which it is expected: one code for all pools, or a code for each. */
function rejectionLike(
  wanted: string | Readonly<Record<string, string>>,
  reasons: readonly RejectionReason[] | null | undefined,
): unknown {
  if (!reasons) return null;
  const codes = new Set(reasons.map(({ code }) => code));
  if (typeof wanted === "string" && codes.size === 1) return reasons[0]?.code;
  return Object.fromEntries(reasons.map(({ pool, code }) => [pool ?? "", code]));
}

function hasPool(world: World, name: string): boolean {
  return poolsOf(world.state).some((pool) => pool.name === name);
}

/** Elements go by their name alone; should there be several, the first pool counts, and in it groups before policies before operations. */
function lookUpShares(world: World) {
  let found: ReturnType<typeof shareViewOf>[] | undefined;
  const views = () => {
    found ??= poolsOf(world.state).map(({ name }) => shareViewOf(world.state, name));
    return found;
  };
  return {
    elementOf: (name: string) =>
      views()
        .flatMap(({ elements }) => elements)
        .find((element) => element.name === name),
    allocationGroupOf: (id: string) => {
      const requestId = toRequestId(id);
      return views()
        .find(({ allocationGroups }) => allocationGroups.has(requestId))
        ?.allocationGroups.get(requestId);
    },
  };
}

function amountAt(amounts: Readonly<Record<string, number>>, key: string): number {
  return Object.hasOwn(amounts, key) ? (amounts[key] as number) : 0;
}
