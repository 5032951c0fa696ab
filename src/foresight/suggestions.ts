// What would start a waiting request now (14). Every suggestion is tried on the state before it is made.

import {
  type AskInstead,
  type Command,
  capacityOf,
  type EngineState,
  type Explanation,
  type PoolExplanation,
  type PoolName,
  policiesOf,
  poolsOf,
  preview,
  type RequestId,
  type RequestSpec,
  requestOf,
  usageOf,
} from "../engine/index.ts";
import type { Suggestion } from "./questions.ts";

/** Each costs a decision, so only so many pools are looked at. */
const POOLS_MAX = 3;

interface Trial {
  readonly suggestion: Suggestion;
  readonly change: Command | AskInstead;
}

export function suggestionsFor(
  state: EngineState,
  facts: Explanation,
  {
    nowMs,
    reaches,
  }: {
    readonly nowMs: number;
    /** Pools that the caller may know of. */
    readonly reaches: (pool: string) => boolean;
  },
): Suggestion[] {
  const spec = facts.status === "queued" ? requestOf(state, facts.requestId)?.spec : undefined;
  if (spec === undefined) return [];
  const inPools = facts.pools
    .filter(({ pool }) => reaches(pool))
    .slice(0, POOLS_MAX)
    .flatMap((pool) => trialsIn(pool, spec, state));
  const isTrue = ({ suggestion, change }: Trial) =>
    isGranted(state, facts.requestId, suggestion.pool, change, nowMs);
  // One other pool is an idea, ten are a list of pools.
  const elsewhere = trialsElsewhere(spec, state, reaches).find(isTrue);
  return [...inPools.filter(isTrue), ...(elsewhere === undefined ? [] : [elsewhere])].map(
    ({ suggestion }) => suggestion,
  );
}

function isGranted(
  state: EngineState,
  requestId: RequestId,
  pool: string,
  change: Command | AskInstead,
  nowMs: number,
): boolean {
  const decision = preview(state, change, nowMs);
  return (
    decision.outcome === "accepted" &&
    decision.events.some(
      (event) => event.kind === "requestAllocated" && event.requestId === requestId && event.pool === pool,
    )
  );
}

type Amounts = Readonly<Record<string, number>>;

function trialsIn(
  { pool, blockedBy, nodes }: PoolExplanation,
  spec: RequestSpec,
  state: EngineState,
): Trial[] {
  const { component } = spec;
  switch (blockedBy.rule) {
    case "limit": {
      const { key, used, asked, allowed } = blockedBy;
      const policy = policiesOf(state, pool).find((one) => one.component === component);
      const limit = { ...policy?.limit, [key]: used + asked };
      return [
        ...fewerUnits(spec, pool, { [key]: allowed - used }),
        {
          suggestion: { change: "higher_limit", pool, key, limit: used + asked },
          change: { kind: "updatePolicy", policy: { pool, component, limit } },
        },
      ];
    }
    case "group_limit": {
      const { key, used, asked, allowed, group } = blockedBy;
      if (group === null) return [];
      const limit = { ...state.pools.get(pool)?.groups.get(group)?.record.limit, [key]: used + asked };
      return [
        ...fewerUnits(spec, pool, { [key]: allowed - used }),
        {
          suggestion: { change: "higher_group_limit", pool, group, key, limit: used + asked },
          change: { kind: "updateGroup", pool, group: { name: group, limit } },
        },
      ];
    }
    case "reserved": {
      const { key, used, allowed } = blockedBy;
      return [
        ...fewerUnits(spec, pool, { [key]: allowed - used }),
        instead({ ...spec, preemptible: true }, { change: "preemptible", pool }),
      ];
    }
    case "units": {
      const capacity = state.pools.get(pool)?.record.capacity ?? {};
      const left: Record<string, number> = {};
      const more: Record<string, number> = {};
      for (const { key, asked, free, promised } of blockedBy.short) {
        left[key] = free - promised;
        more[key] = (capacity[key] ?? 0) + asked - (free - promised);
      }
      const fitting = nodes?.fitting ?? 0;
      return [
        ...(fitting > 0 && fitting < spec.nodes
          ? [instead({ ...spec, nodes: fitting }, { change: "fewer_nodes", pool, nodes: fitting })]
          : []),
        ...fewerUnits(spec, pool, left),
        {
          suggestion: { change: "more_capacity", pool, capacity: more },
          change: { kind: "updatePool", name: pool, capacity: more },
        },
      ];
    }
    default:
      return [];
  }
}

/** Pools in which the component has no policy yet, with room for the request. */
function trialsElsewhere(
  { component, resources, pools }: RequestSpec,
  state: EngineState,
  reaches: (pool: string) => boolean,
): Trial[] {
  const known = new Set(
    policiesOf(state).flatMap((policy) => (policy.component === component ? policy.pool : [])),
  );
  return poolsOf(state)
    .filter(({ name, closing }) => !known.has(name) && !closing && reaches(name))
    .filter(({ name }) => (pools?.includes(name) ?? true) && hasRoom(state, name, resources))
    .slice(0, POOLS_MAX)
    .map(({ name: pool }) => ({
      suggestion: { change: "another_pool", pool },
      change: { kind: "attachPolicy", policy: { pool, component } },
    }));
}

function hasRoom(state: EngineState, pool: PoolName, wanted: Amounts): boolean {
  const [capacity, usage] = [capacityOf(state, pool), usageOf(state, pool)];
  // Other keys are not counted there, or not there at all: the trial tells.
  return Object.entries(capacity).every(([key, amount]) => (usage[key] ?? 0) + (wanted[key] ?? 0) <= amount);
}

function fewerUnits(spec: RequestSpec, pool: string, left: Amounts): Trial[] {
  if (Object.values(left).some((amount) => amount <= 0)) return [];
  const resources = { ...spec.resources, ...left };
  const { step_run: _, ...shown } = resources;
  return [instead({ ...spec, resources }, { change: "fewer_units", pool, resources: shown })];
}

function instead(spec: RequestSpec, suggestion: Suggestion): Trial {
  return { suggestion, change: { kind: "askInstead", spec } };
}
