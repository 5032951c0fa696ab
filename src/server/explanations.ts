// Explanations (14): the facts of the engine in the words of the wire, without what the caller may not know.

import {
  type Blocker,
  type ConsideredKind,
  type Explanation,
  explain as explainState,
  type Holder,
  type PoolExplanation,
  type RequestId,
  requestOf,
} from "../engine/index.ts";
import type { View } from "../leader/index.ts";
import type { WireExplanation, WirePoolExplanation } from "../protocol/index.ts";
import { toTimestamp } from "../translation/index.ts";
import type { Call, Services } from "./call.ts";
import { silenceOf } from "./holders.ts";
import { reachesComponent, reachesPool, requestReach } from "./identity.ts";
import type { Located } from "./locate.ts";
import { ownedOf, presentLive, presentRecord } from "./presentation.ts";
import { notFound } from "./problems.ts";
import { presentShareExplanation } from "./shares.ts";
import { suggestionsFor } from "./suggestions.ts";

export async function explain(
  call: Call,
  services: Services,
  { id, record }: Located,
): Promise<WireExplanation> {
  if (record !== undefined) {
    const { number, status, reasons } = presentRecord(record);
    return { ...NOTHING_TO_SAY, request_id: id, number, status, reasons };
  }
  const found = await services.leader.read((view) => {
    const facts = explainState(view.state, id, view.nowMs);
    return facts && { facts, shown: presentExplanation(call, services, view, facts) };
  });
  if (found === undefined) throw notFound("request", id);
  const reaches = (pool: string) => reachesPool(call.identity, pool);
  const suggestions = await suggestionsFor(services.leader, found.facts, reaches);
  return { ...found.shown, suggestions };
}

const NOTHING_TO_SAY = { stop: null, delayed_until: null, pools: [], not_admitted: [], suggestions: [] };

function presentExplanation(call: Call, services: Services, view: View, facts: Explanation): WireExplanation {
  const { identity } = call;
  const { requestId, status, rejection, delayedUntilMs } = facts;
  const stop = presentLive(view, requestId, { identity, grants: services.grants })?.stop ?? null;
  const who = acquaintances(call, view);
  return {
    request_id: requestId,
    number: view.numberOf(requestId) ?? 0,
    status,
    reasons: rejection && [...rejection],
    stop: stop && { ...stop, for_request: who.idOrNull(stop.for_request as RequestId | null) },
    delayed_until: delayedUntilMs === null ? null : toTimestamp(delayedUntilMs),
    pools: facts.pools.map((pool) => ({
      ...presentPoolExplanation(pool, who, view),
      share: pool.share && presentShareExplanation(pool.share, identity),
    })),
    not_admitted: [...facts.notAdmitted],
    suggestions: [],
  };
}

/** What the caller may know about the others in the story. */
interface Acquaintances {
  idOrNull(id: RequestId | null): string | null;
  nameOf(id: RequestId): { number: number; name: string } | undefined;
  componentOrNull(component: string): string | null;
}

function acquaintances({ identity }: Call, view: View): Acquaintances {
  const reaches = requestReach(identity, view);
  const known = (id: RequestId) => {
    const request = requestOf(view.state, id);
    return request !== undefined && reaches(ownedOf(request.spec, request.progress)) ? request : undefined;
  };
  return {
    idOrNull: (id) => (id !== null && known(id) !== undefined ? id : null),
    nameOf(id) {
      const request = known(id);
      return request && { number: view.numberOf(id) ?? 0, name: request.spec.name };
    },
    componentOrNull: (component) => (reachesComponent(identity, component) ? component : null),
  };
}

function presentPoolExplanation(
  pool: PoolExplanation,
  who: Acquaintances,
  view: View,
): Omit<WirePoolExplanation, "share"> {
  return {
    pool: pool.pool,
    position: pool.position,
    queue_length: pool.queueLength,
    fits_reserve: pool.fitsReserve,
    blocked_by: presentBlocker(pool.blockedBy, who),
    holders: pool.holders.map((holder) => presentHolder(holder, who, view)),
    holder_count: pool.holderCount,
    considered: pool.considered.map((kind) => presentConsidered(kind, who)),
    preemption_needs: pool.preemptionNeeds,
    could_start_at: pool.couldStartAtMs === null ? null : toTimestamp(pool.couldStartAtMs),
    value_minutes: pool.value === null ? null : pool.value / 100,
    nodes: pool.nodes && { ...pool.nodes, obstacles: { ...pool.nodes.obstacles } },
  };
}

function presentBlocker(blocker: Blocker, who: Acquaintances): WirePoolExplanation["blocked_by"] {
  switch (blocker.rule) {
    case "holds":
      return { rule: "holds", waits_for: blocker.waitsFor.map(who.idOrNull) };
    case "units":
      return {
        rule: "units",
        short: blocker.short.map(({ comingFree, ...rest }) => ({ ...rest, coming_free: comingFree })),
        head: who.idOrNull(blocker.head),
      };
    case "behind_head":
      return { rule: "behind_head", head: who.idOrNull(blocker.head) };
    default:
      return blocker;
  }
}

function presentHolder(
  holder: Holder,
  who: Acquaintances,
  view: View,
): WirePoolExplanation["holders"][number] {
  const { number = null, name = null } = who.nameOf(holder.requestId) ?? {};
  return {
    request_id: who.idOrNull(holder.requestId),
    number,
    name,
    component: who.componentOrNull(holder.component),
    units: holder.units,
    preemptible: holder.preemptible,
    stopping: holder.isStopping,
    started_at: toTimestamp(holder.startedAtMs),
    ends_at: holder.endsAtMs === null ? null : toTimestamp(holder.endsAtMs),
    ...(silenceOf(view, holder.requestId) ?? NOT_SILENT),
  };
}

const NOT_SILENT = { silent_since: null, given_up_at: null };

function presentConsidered(
  kind: ConsideredKind,
  who: Acquaintances,
): WirePoolExplanation["considered"][number] {
  const { component, priority, preemptionClass, resources, count, permitted, rule, cost } = kind;
  return {
    component: who.componentOrNull(component),
    priority,
    preemption_class: preemptionClass,
    resources,
    count,
    permitted,
    rule,
    cost_minutes: cost === undefined ? null : cost / 100,
  };
}
