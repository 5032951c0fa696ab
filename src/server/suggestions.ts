// What would start a waiting request now (14). Every suggestion is tried on the state before it is made.

import {
  type Command,
  type Explanation,
  type PoolExplanation,
  policiesOf,
  type RequestId,
  type RequestSpec,
  requestOf,
} from "../engine/index.ts";
import type { Leader } from "../leader/index.ts";
import type { WireSuggestion } from "../protocol/index.ts";
import { toRequestId } from "../translation/index.ts";
import { newRequestId } from "./ids.ts";

/** Each costs a decision, so only so many pools are looked at. */
const POOLS_MAX = 3;

interface Trial {
  readonly suggestion: WireSuggestion;
  readonly command: Command;
  /** Who must be granted for the suggestion to be true. */
  readonly granted: RequestId;
}

export async function suggestionsFor(leader: Leader, facts: Explanation): Promise<WireSuggestion[]> {
  if (facts.status !== "queued") return [];
  const trials = await leader.read((view) => {
    const spec = requestOf(view.state, facts.requestId)?.spec;
    const policies = policiesOf(view.state).filter(({ component }) => component === spec?.component);
    return spec === undefined
      ? []
      : facts.pools.slice(0, POOLS_MAX).flatMap((pool) => {
          const limit = policies.find((policy) => policy.pool === pool.pool)?.limit ?? {};
          const group = pool.blockedBy.rule === "group_limit" ? pool.blockedBy.group : null;
          const groupLimit =
            group === null ? {} : view.state.pools.get(pool.pool)?.groups.get(group)?.record.limit;
          const capacity = view.state.pools.get(pool.pool)?.record.capacity ?? {};
          return trialsIn(pool, { spec, limit, groupLimit: groupLimit ?? {}, capacity });
        });
  });
  const suggestions: WireSuggestion[] = [];
  for (const { suggestion, command, granted } of trials) {
    const decision = await leader.preview(command);
    const isTrue =
      decision.outcome === "accepted" &&
      decision.events.some((event) => event.kind === "requestAllocated" && event.requestId === granted);
    if (isTrue) suggestions.push(suggestion);
  }
  return suggestions;
}

type Amounts = Readonly<Record<string, number>>;

function trialsIn(
  { pool, blockedBy }: PoolExplanation,
  {
    spec,
    limit,
    groupLimit,
    capacity,
  }: { spec: RequestSpec; limit: Amounts; groupLimit: Amounts; capacity: Amounts },
): Trial[] {
  const { id, component } = spec;
  switch (blockedBy.rule) {
    case "limit": {
      const { key, used, asked } = blockedBy;
      const raised = { ...limit, [key]: used + asked };
      return [
        {
          suggestion: { change: "higher_limit", pool, key, limit: used + asked },
          command: { kind: "updatePolicy", policy: { pool, component, limit: raised } },
          granted: id,
        },
      ];
    }
    case "group_limit": {
      const { key, used, asked, group } = blockedBy;
      if (group === null) return [];
      const raised = { ...groupLimit, [key]: used + asked };
      return [
        {
          suggestion: { change: "higher_group_limit", pool, group, key, limit: used + asked },
          command: { kind: "updateGroup", pool, group: { name: group, limit: raised } },
          granted: id,
        },
      ];
    }
    case "reserved":
      return [variant({ ...spec, preemptible: true }, { change: "preemptible", pool })];
    case "units": {
      const fewer = { ...spec.resources };
      const more: Record<string, number> = {};
      for (const { key, asked, free, promised } of blockedBy.short) {
        fewer[key] = free - promised;
        more[key] = (capacity[key] ?? 0) + asked - (free - promised);
      }
      const isSomethingLeft = Object.values(fewer).every((amount) => amount > 0);
      const resources = Object.fromEntries(Object.entries(fewer).filter(([key]) => key !== "step_run"));
      return [
        ...(isSomethingLeft
          ? [variant({ ...spec, resources: fewer }, { change: "fewer_units", pool, resources })]
          : []),
        {
          suggestion: { change: "more_capacity", pool, capacity: more },
          command: { kind: "updatePool", name: pool, capacity: more },
          granted: id,
        },
      ];
    }
    default:
      return [];
  }
}

/** One like it, submitted now: if even that starts, behind everybody, the request itself would have. */
function variant(spec: RequestSpec, suggestion: WireSuggestion): Trial {
  const id = toRequestId(newRequestId());
  return { suggestion, command: { kind: "submitRequest", spec: { ...spec, id } }, granted: id };
}
