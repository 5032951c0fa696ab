// Explanations (14): the facts of the engine in the words of the wire, without what the caller may not know.

import {
  compareOrder,
  type Explanation,
  explain as explainState,
  type RequestId,
  requestOf,
} from "../engine/index.ts";
import { type Explained, ForesightError, type Suggestion } from "../foresight/index.ts";
import type { RequestBody, View } from "../leader/index.ts";
import type { WireExplanation, WireParty, WireRequest, WireSuggestion } from "../protocol/index.ts";
import type { RequestRecord } from "../store/index.ts";
import { toPoolName, toRequestId, toTimestamp } from "../translation/index.ts";
import type { Agents } from "./agents/agents.ts";
import { reportersOf } from "./agents/reporters.ts";
import type { Call, Services } from "./call.ts";
import type { Grants } from "./grants.ts";
import { type Identity, reachesPool } from "./identity.ts";
import { type Located, locate } from "./locate.ts";
import { affectedIn } from "./plans.ts";
import { presentLive, presentRecord } from "./presentation.ts";
import { notFound } from "./problems.ts";
import { ownedOfRecord, type Sight, sightOf } from "./sight.ts";
import { changeText } from "./why/changes.ts";
import { Presenter } from "./why/facts.ts";
import { tell } from "./why/words.ts";
import type { World } from "./why/world.ts";

export async function explain(
  call: Call,
  services: Services,
  { id, record, owned }: Located,
  asked: { readonly suggestions: boolean; readonly before: RequestId | undefined },
): Promise<WireExplanation> {
  const { suggestions: isAsked, before } = asked;
  const { leader, grants } = services;
  const { identity } = call;
  const sees = (pool: string) => reachesPool(identity, pool);
  const failed = await failedBefore(services, { id, record });
  if (record !== undefined) {
    return leader.read((view) => {
      const sight = sightOf(identity, view);
      const shown = presentRecord(record, sight);
      const { number, status, reasons } = shown;
      const facts = { ...NOTHING_TO_SAY, request_id: id, number, status, reasons };
      return { ...facts, text: tell(facts, shown, worldOf(view, { sight, failed })) };
    });
  }
  const whole = await foreseen(call, services, { requestId: id, suggestions: isAsked, before });
  if (whole.facts === undefined) throw notFound("request", id);
  const facts = { ...whole.facts, pools: whole.facts.pools.filter(({ pool }) => sees(pool)) };
  const explained = await leader.read((view) => {
    // What is said about a job is for those who may see all of it.
    const isWhole = sightOf(identity, view).degreeOf(owned) === "whole";
    const said = isWhole ? saidOf(view, services.agents, id) : [];
    const caller = { identity, grants, said, failed };
    const request = presentLive(view, id, caller);
    return request && presentExplanation(view, request, { ...whole, facts }, caller);
  });
  // Deleted or forgotten while the answer was worked out: then the store knows, or nobody does.
  return explained ?? explain(call, services, await locate(call, services, id), asked);
}

/** From the state alone: nothing is tried, and nothing waited for. The request must be in memory. */
export function explainNow(
  view: View,
  id: RequestId,
  caller: { readonly identity: Identity; readonly grants: Grants; readonly said: readonly string[] },
): { request: WireRequest; explanation: WireExplanation } {
  const facts = explainState(view.state, id, view.nowMs) as Explanation;
  const seen = { ...facts, pools: facts.pools.filter(({ pool }) => reachesPool(caller.identity, pool)) };
  const untried = { suggestions: { all: [], isTruncated: false }, starts: null, next: null, before: null };
  const request = presentLive(view, id, caller) as WireRequest;
  return { request, explanation: presentExplanation(view, request, { facts: seen, ...untried }, caller) };
}

/** What those who are to start a job say about it: Slurm's or Kubernetes' own reason (S3, K3). */
function saidOf({ state }: View, agents: Agents, id: RequestId): readonly string[] {
  const parts = reportersOf(state, id).map((key) =>
    agents.reportOf(key)?.jobs.find(({ request_id }) => request_id === id),
  );
  return [...new Set(parts.flatMap((part) => (part?.phase === "starting" ? (part.progress ?? []) : [])))];
}

/** The request without whose success this one was cancelled (J9); it may be in the store alone. */
async function failedBefore(
  { leader, store }: Services,
  { id, record }: { readonly id: RequestId; readonly record: RequestRecord | undefined },
): Promise<RequestRecord | undefined> {
  const failedId =
    record === undefined
      ? await leader.read(({ state }) => requestOf(state, id)?.progress.cancelledBecause)
      : (record.body as RequestBody).progress.cancelledBecause;
  return failedId == null ? undefined : store.getRequest(failedId);
}

/** What words need to know beside the facts. */
function worldOf(
  view: View,
  {
    sight,
    said = [],
    failed,
  }: {
    readonly sight: Sight;
    readonly said?: readonly string[];
    readonly failed?: RequestRecord | undefined;
  },
): World {
  const { state, nowMs } = view;
  const affected = affectedIn(view, sight);
  return {
    nowMs,
    said,
    partyOf(id) {
      if (failed?.id !== id) return affected(toRequestId(id)) ?? { id: null };
      if (!sight.sees(ownedOfRecord(failed))) return { id: null };
      const { number, component } = failed;
      return { id, number, component, name: (failed.body as RequestBody).spec.name };
    },
    amountsOf(name) {
      const pool = state.pools.get(toPoolName(name));
      const at = (amounts: readonly number[] | undefined, key: string) =>
        amounts?.[pool?.keys.indexOf(key) ?? -1] ?? 0;
      return (key) => ({ capacity: at(pool?.capacity, key), usage: at(pool?.usage, key) });
    },
  };
}

function presentSuggestions(
  view: View,
  all: readonly Suggestion[],
  sight: Sight,
  request: WireRequest,
): WireSuggestion[] {
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
    if (change === undefined) return [];
    const untold = { ...common, ...change, text: "" } as WireSuggestion;
    return [{ ...untold, text: changeText(untold, request) }];
  });
}

/** In the words of the wire; undefined: it is about something that the caller may not know of. */
function presentChange(suggestion: Suggestion, affected: (id: RequestId) => WireParty | undefined) {
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

type Foreseen = Omit<Explained, "atSeq">;

/** From the thread, with what it has tried; without it, from the state alone (X4). */
async function foreseen(
  { identity }: Call,
  { leader, foresight }: Services,
  asked: {
    readonly requestId: RequestId;
    readonly suggestions: boolean;
    readonly before: RequestId | undefined;
  },
): Promise<Foreseen> {
  const { requestId, suggestions, before } = asked;
  const pools = identity.pools === null ? null : [...identity.pools].map(toPoolName);
  const question = { kind: "explain", requestId, suggestions, pools } as const;
  try {
    return await foresight.ask(before === undefined ? question : { ...question, before });
  } catch (error) {
    if (!(error instanceof ForesightError)) throw error;
    return leader.read((view) => ({
      facts: explainState(view.state, requestId, view.nowMs),
      suggestions: { all: [], isTruncated: suggestions },
      ...{ starts: null, next: null },
      before: before === undefined ? null : compareOrder(view.state, [requestId, before], view.nowMs),
    }));
  }
}

const NOTHING_TO_SAY = {
  ...{ stop: null, delayed_until: null, blocked: null, code: null },
  ...{ pools: [], not_admitted: [], suggestions: [], truncated: false },
  ...{ running: null, victim: null, starts: null, before: null },
};

function presentExplanation(
  view: View,
  request: WireRequest,
  { facts, suggestions, starts, next, before }: Foreseen & { readonly facts: Explanation },
  caller: {
    readonly identity: Identity;
    readonly grants: Grants;
    readonly said: readonly string[];
    readonly failed?: RequestRecord | undefined;
  },
): WireExplanation {
  const { requestId, status, rejection, delayedUntilMs, blocked, victim, stop } = facts;
  const sight = sightOf(caller.identity, view);
  const presenter = new Presenter(view, sight);
  const explained = {
    request_id: requestId,
    number: view.numberOf(requestId) ?? 0,
    status,
    reasons: rejection && sight.reasons(rejection),
    stop: request?.stop ?? null,
    delayed_until: delayedUntilMs === null ? null : toTimestamp(delayedUntilMs),
    blocked: blocked && {
      after: blocked.after.filter((id) => sight.idOrNull(id) !== null),
      at_once: blocked.atOnce,
    },
    pools: facts.pools.map((pool) => presenter.pool(pool)),
    not_admitted: sight.reasons(facts.notAdmitted),
    code: facts.code,
    running: facts.running && presenter.running(facts.running),
    victim: victim && {
      for: stop?.forRequest == null ? null : presenter.party(stop.forRequest),
      ...victim,
      spared: victim.spared.map((one) => presenter.spared(one)),
      ends_as: next?.endsAs ?? null,
      comes_back: (next?.comesBack ?? []).filter(({ pool }) => sight.seesPool(pool)),
    },
    starts: starts && presenter.starts(starts),
    before:
      before
        ?.filter(({ pool }) => sight.seesPool(pool))
        .map(({ pool, order }) => ({ pool, order: presenter.order(pool, order) })) ?? null,
    suggestions: presentSuggestions(view, suggestions.all, sight, request),
    truncated: suggestions.isTruncated,
  };
  return { ...explained, text: tell(explained, request, worldOf(view, { ...caller, sight })) };
}
