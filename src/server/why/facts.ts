// The facts of the engine in the words of the wire, without what the caller may not know (14).

import {
  type Blocker,
  type CandidateKind,
  type Holder,
  type OrderFact,
  type PoolExplanation,
  type PreemptionFact,
  type Protection,
  type RequestId,
  type RunFacts,
  requestOf,
  type Spared,
} from "../../engine/index.ts";
import type { Starts } from "../../foresight/index.ts";
import type { View } from "../../leader/index.ts";
import {
  BAR_RULES,
  PERMIT_RULES,
  type WireConsidered,
  type WireOrderDifference,
  type WireOrderFact,
  type WireParty,
  type WirePoolExplanation,
  type WirePreemptionFact,
  type WireProtection,
  type WireRunFacts,
  type WireSpared,
  type WireStartsFact,
} from "../../protocol/index.ts";
import { toTimestamp } from "../../translation/index.ts";
import { silenceOf } from "../holders.ts";
import { affectedIn } from "../plans.ts";
import { presentCompared, presentShareExplanation } from "../shares.ts";
import type { Sight } from "../sight.ts";

/** Who asks, and what there is to be seen. */
export class Presenter {
  readonly #view: View;
  readonly #sight: Sight;
  readonly #affected: (id: RequestId) => WireParty | undefined;

  constructor(view: View, sight: Sight) {
    this.#view = view;
    this.#sight = sight;
    this.#affected = affectedIn(view, sight);
  }

  party(id: RequestId): WireParty {
    return this.#affected(id) ?? { id: null };
  }

  pool(pool: PoolExplanation): WirePoolExplanation {
    return {
      pool: pool.pool,
      position: pool.position,
      queue_length: pool.queueLength,
      fits_reserve: pool.fitsReserve,
      code: pool.code,
      blocked_by: this.#blocker(pool.blockedBy),
      blockers: [...pool.blockers],
      reserve_left: pool.reserveLeft,
      holders: pool.holders.map((holder) => this.#holder(pool.pool, holder)),
      holder_count: pool.holderCount,
      first: pool.first && this.order(pool.pool, pool.first),
      considered: pool.considered.map((kind) => this.#considered(pool.pool, kind)),
      preemption: this.#preemption(pool.preemption),
      preemption_needs: pool.preemptionNeeds,
      could_start_at: timeOrNull(pool.couldStartAtMs),
      value_minutes: pool.value === null ? null : pool.value / 100,
      nodes: pool.nodes && { ...pool.nodes, obstacles: { ...pool.nodes.obstacles } },
      share: pool.share && presentShareExplanation(pool.share, pool.pool, this.#sight),
    };
  }

  order(pool: string, { requestId, difference }: OrderFact): WireOrderFact {
    return { request: this.party(requestId), difference: this.#difference(pool, difference) };
  }

  #difference(pool: string, difference: OrderFact["difference"]): WireOrderDifference {
    const { rule } = difference;
    switch (difference.part) {
      case "submission": {
        const { part, theirsAtMs, mineAtMs } = difference;
        return { part, rule, theirs_at: toTimestamp(theirsAtMs), mine_at: toTimestamp(mineAtMs) };
      }
      case "satisfaction":
      case "age": {
        const { part, theirs, mine } = difference;
        const compared = (element: typeof theirs) => presentCompared(element, pool, this.#sight);
        return { part, rule, theirs: compared(theirs), mine: compared(mine) };
      }
      default:
        return difference;
    }
  }

  #blocker(blocker: Blocker): WirePoolExplanation["blocked_by"] {
    const sight = this.#sight;
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

  #holder(pool: string, holder: Holder): WirePoolExplanation["holders"][number] {
    const view = this.#view;
    const id = this.#sight.idOrNull(holder.requestId);
    return {
      request_id: id,
      number: id && (view.numberOf(id) ?? 0),
      name: id && (requestOf(view.state, id)?.spec.name ?? ""),
      component: this.#sight.namesComponent(pool, holder.component) ? holder.component : null,
      units: holder.units,
      preemptible: holder.preemptible,
      stopping: holder.isStopping,
      started_at: toTimestamp(holder.startedAtMs),
      ends_at: timeOrNull(holder.endsAtMs),
      ...(silenceOf(view, holder.requestId) ?? NOT_SILENT),
    };
  }

  #considered(pool: string, kind: CandidateKind): WireConsidered {
    const { component, priority, preemptionClass, resources, count, verdict, cost } = kind;
    const { permit, bar, untilMs } = verdict;
    return {
      component: this.#sight.namesComponent(pool, component) ? component : null,
      ...{ priority, preemption_class: preemptionClass, resources, count },
      ...{ permitted: permit === null ? 0 : count, permit, bar },
      rule: permit === null ? BAR_RULES[verdict.bar] : PERMIT_RULES[permit],
      until: timeOrNull(untilMs),
      cost_minutes: cost === null ? null : cost / 100,
    };
  }

  #preemption(fact: PreemptionFact): WirePreemptionFact {
    switch (fact.why) {
      case "not_first":
        return { why: fact.why, rule: "V1", head: this.party(fact.head) };
      case "own_quota":
      case "not_short":
        return { why: fact.why, rule: "V1" };
      case "promised":
        return { why: fact.why, rule: "V5" };
      case "too_little":
        return { why: fact.why, rule: "V3", keys: [...fact.keys] };
      case "too_few_nodes":
        return { ...fact, rule: "N2" };
      case "too_dear": {
        const { why, victims, victimsMax, cost, value } = fact;
        const minutes = { cost_minutes: cost / 100, value_minutes: value / 100 };
        return { why, rule: "10.5", victims, victims_max: victimsMax, ...minutes };
      }
      case "not_starving":
        return { why: fact.why, rule: "9.4", starves_at: timeOrNull(fact.starvesAtMs) };
      case "back_off":
        return { why: fact.why, rule: "9.7", until: toTimestamp(fact.untilMs) };
      case "left_too_poor":
        return { why: fact.why, rule: "9.8" };
      case "unsettled":
        return { why: fact.why, rule: "6" };
    }
  }

  running(facts: RunFacts): WireRunFacts {
    return {
      pool: facts.pool,
      started_at: toTimestamp(facts.startedAtMs),
      ends_at: timeOrNull(facts.endsAtMs),
      units: [...facts.units],
      takers: facts.takers.map(({ requestId, permit }) => ({
        ...{ request: this.party(requestId), permit, rule: PERMIT_RULES[permit] },
      })),
      taker_count: facts.takerCount,
      protection: facts.protection.map(presentProtection),
    };
  }

  spared({ requestId, ...sparing }: Spared): WireSpared {
    const request = this.party(requestId);
    switch (sparing.why) {
      case "barred":
        return { why: sparing.why, rule: BAR_RULES[sparing.bar], request, bar: sparing.bar };
      case "started_earlier": {
        const [theirs_at, victims_at] = [toTimestamp(sparing.theirsAtMs), toTimestamp(sparing.victimsAtMs)];
        return { why: sparing.why, rule: sparing.rule, request, theirs_at, victims_at };
      }
      case "higher_cost": {
        const { why, rule, theirs, victims } = sparing;
        return { why, rule, request, theirs: theirs / 100, victims: victims / 100 };
      }
      default:
        return { ...sparing, request };
    }
  }

  starts(starts: Starts): WireStartsFact {
    switch (starts.basis) {
      case "by_walltimes":
        return { basis: starts.basis, at: toTimestamp(starts.atMs) };
      case "unknown":
        return { basis: starts.basis, without_walltime: starts.withoutWalltime.map((id) => this.party(id)) };
      case "later":
        return { basis: starts.basis, than: toTimestamp(starts.thanMs) };
    }
  }
}

const NOT_SILENT = { silent_since: null, given_up_at: null };

function presentProtection(protection: Protection): WireProtection {
  return {
    by: protection.by,
    until: "untilMs" in protection ? timeOrNull(protection.untilMs) : null,
    group: "group" in protection ? protection.group : null,
  };
}

function timeOrNull(ms: number | null): string | null {
  return ms === null || ms === Number.POSITIVE_INFINITY ? null : toTimestamp(ms);
}
