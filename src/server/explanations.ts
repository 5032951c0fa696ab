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
import { type Explained, ForesightError, type Suggestion } from "../foresight/index.ts";
import type { View } from "../leader/index.ts";
import type { WireExplanation, WirePoolExplanation, WireSuggestion } from "../protocol/index.ts";
import { toPoolName, toTimestamp } from "../translation/index.ts";
import type { Call, Services } from "./call.ts";
import type { Grants } from "./grants.ts";
import { silenceOf } from "./holders.ts";
import { type Identity, reachesPool } from "./identity.ts";
import type { Located } from "./locate.ts";
import { type Affected, affectedIn } from "./plans.ts";
import { presentLive, presentRecord } from "./presentation.ts";
import { notFound } from "./problems.ts";
import { presentShareExplanation } from "./shares.ts";
import { type Sight, sightOf } from "./sight.ts";

export async function explain(
  call: Call,
  services: Services,
  { id, record }: Located,
): Promise<WireExplanation> {
  const { leader, grants } = services;
  const { identity } = call;
  const sees = (pool: string) => reachesPool(identity, pool);
  if (record !== undefined) {
    const shown = await leader.read((view) => presentRecord(record, sightOf(identity, view)));
    const { number, status, reasons } = shown;
    return { ...NOTHING_TO_SAY, request_id: id, number, status, reasons };
  }
  const { facts: whole, suggestions } = await foreseen(call, services, id);
  if (whole === undefined) throw notFound("request", id);
  const facts = { ...whole, pools: whole.pools.filter(({ pool }) => sees(pool)) };
  return leader.read((view) => ({
    ...presentExplanation(view, facts, { identity, grants }),
    suggestions: presentSuggestions(view, suggestions.all, sightOf(identity, view)),
    truncated: suggestions.isTruncated,
  }));
}

function presentSuggestions(view: View, all: readonly Suggestion[], sight: Sight): WireSuggestion[] {
  const affected = affectedIn(view, sight);
  const each = (ids: readonly RequestId[]) => ids.flatMap((id) => affected(id) ?? []);
  return all.flatMap((suggestion): WireSuggestion[] => {
    const { pool, by, starts, startsByMs, minimal, effects } = suggestion;
    const common = {
      ...{ pool, by, starts, starts_by: startsByMs === null ? null : toTimestamp(startsByMs), minimal },
      effects: {
        granted: each(effects.granted),
        preempted: each(effects.preempted),
        rejected: each(effects.rejected),
      },
    };
    const change = presentChange(suggestion, affected);
    return change === undefined ? [] : [{ ...common, ...change } as WireSuggestion];
  });
}

/** In the words of the wire; undefined: it is about something that the caller may not know of. */
function presentChange(suggestion: Suggestion, affected: (id: RequestId) => Affected | undefined) {
  const { change } = suggestion;
  switch (change) {
    case "walltime":
      return { change, walltime_seconds: suggestion.walltimeMs / 1000 };
    case "higher_class":
      return { change, preemption_class: suggestion.preemptionClass };
    case "run_ends":
    case "ahead_withdrawn": {
      const request = affected(suggestion.requestId);
      return request && { change, request };
    }
    default: {
      const {
        by: _,
        starts: __,
        startsByMs: ___,
        minimal: ____,
        size: _____,
        effects: ______,
        ...rest
      } = suggestion;
      return rest;
    }
  }
}

/** From the thread, with what it has tried; without it, from the state alone (X4). */
async function foreseen(
  { identity }: Call,
  { leader, foresight }: Services,
  requestId: RequestId,
): Promise<Pick<Explained, "facts" | "suggestions">> {
  const pools = identity.pools === null ? null : [...identity.pools].map(toPoolName);
  try {
    return await foresight.ask({ kind: "explain", requestId, suggestions: true, pools });
  } catch (error) {
    if (!(error instanceof ForesightError)) throw error;
    const facts = await leader.read((view) => explainState(view.state, requestId, view.nowMs));
    return { facts, suggestions: { all: [], isTruncated: true } };
  }
}

const NOTHING_TO_SAY = {
  ...{ stop: null, delayed_until: null, blocked: null },
  ...{ pools: [], not_admitted: [], suggestions: [], truncated: false },
};

function presentExplanation(
  view: View,
  facts: Explanation,
  caller: { identity: Identity; grants: Grants },
): WireExplanation {
  const { requestId, status, rejection, delayedUntilMs, blocked } = facts;
  const sight = sightOf(caller.identity, view);
  return {
    request_id: requestId,
    number: view.numberOf(requestId) ?? 0,
    status,
    reasons: rejection && sight.reasons(rejection),
    stop: presentLive(view, requestId, caller)?.stop ?? null,
    delayed_until: delayedUntilMs === null ? null : toTimestamp(delayedUntilMs),
    blocked: blocked && {
      after: blocked.after.filter((id) => sight.idOrNull(id) !== null),
      at_once: blocked.atOnce,
    },
    pools: facts.pools.map((pool) => ({
      ...presentPoolExplanation(view, pool, sight),
      share: pool.share && presentShareExplanation(pool.share, pool.pool, sight),
    })),
    not_admitted: sight.reasons(facts.notAdmitted),
    suggestions: [],
    truncated: false,
  };
}

function presentPoolExplanation(
  view: View,
  pool: PoolExplanation,
  sight: Sight,
): Omit<WirePoolExplanation, "share"> {
  return {
    pool: pool.pool,
    position: pool.position,
    queue_length: pool.queueLength,
    fits_reserve: pool.fitsReserve,
    blocked_by: presentBlocker(pool.blockedBy, sight),
    holders: pool.holders.map((holder) => presentHolder(view, pool.pool, holder, sight)),
    holder_count: pool.holderCount,
    considered: pool.considered.map((kind) => presentConsidered(pool.pool, kind, sight)),
    preemption_needs: pool.preemptionNeeds,
    could_start_at: pool.couldStartAtMs === null ? null : toTimestamp(pool.couldStartAtMs),
    value_minutes: pool.value === null ? null : pool.value / 100,
    nodes: pool.nodes && { ...pool.nodes, obstacles: { ...pool.nodes.obstacles } },
  };
}

function presentBlocker(blocker: Blocker, sight: Sight): WirePoolExplanation["blocked_by"] {
  switch (blocker.rule) {
    case "holds":
      return { rule: "holds", waits_for: blocker.waitsFor.map((id) => sight.idOrNull(id)) };
    case "holds_elsewhere":
      return { rule: "holds_elsewhere", pool: sight.seesPool(blocker.pool) ? blocker.pool : null };
    case "units":
      return {
        rule: "units",
        short: blocker.short.map(({ comingFree, ...rest }) => ({ ...rest, coming_free: comingFree })),
        head: sight.idOrNull(blocker.head),
      };
    case "behind_head":
      return { rule: "behind_head", head: sight.idOrNull(blocker.head) };
    default:
      return blocker;
  }
}

function presentHolder(
  view: View,
  pool: string,
  holder: Holder,
  sight: Sight,
): WirePoolExplanation["holders"][number] {
  const id = sight.idOrNull(holder.requestId);
  return {
    request_id: id,
    number: id && (view.numberOf(id) ?? 0),
    name: id && (requestOf(view.state, id)?.spec.name ?? ""),
    component: sight.namesComponent(pool, holder.component) ? holder.component : null,
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
  pool: string,
  kind: ConsideredKind,
  sight: Sight,
): WirePoolExplanation["considered"][number] {
  const { component, priority, preemptionClass, resources, count, permitted, rule, cost } = kind;
  return {
    component: sight.namesComponent(pool, component) ? component : null,
    priority,
    preemption_class: preemptionClass,
    resources,
    count,
    permitted,
    rule,
    cost_minutes: cost === undefined ? null : cost / 100,
  };
}
