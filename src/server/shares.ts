// Fair shares (9.10) in the words of the wire, without what the caller may not know.

import {
  type ComparedElement,
  type ElementView,
  type PoolExplanation,
  shareViewOf,
} from "../engine/index.ts";
import type { View } from "../leader/index.ts";
import type { WireShareElement, WireShareExplanation, WireShares } from "../protocol/index.ts";
import { toPoolName, toTimestamp } from "../translation/index.ts";
import type { Identity } from "./identity.ts";
import { type Sight, sightOf } from "./sight.ts";

export function presentShares(view: View, pool: string, identity: Identity): WireShares {
  const { elements, allocationGroups, overcommitted } = shareViewOf(view.state, toPoolName(pool));
  const sight = sightOf(identity, view);
  return {
    pool,
    elements: elements.filter((element) => isSeen(element, pool, sight)).map(presentElement),
    allocations: [...allocationGroups]
      .filter(([id]) => sight.idOrNull(id) !== null)
      .map(([request_id, group]) => ({ request_id, group })),
    overcommitted: [...overcommitted],
  };
}

/** Groups are everybody's; policies and operations belong to a component. */
function isSeen({ kind, name, parent }: ComparedElement, pool: string, sight: Sight): boolean {
  return kind === "group" || sight.namesComponent(pool, kind === "policy" ? name : (parent ?? ""));
}

function presentElement(element: ElementView): WireShareElement {
  const { loans, status, starvesAtMs } = element;
  const isStarving = status === "starving" || status === "aggressively_starving";
  return {
    element: element.name,
    kind: element.kind,
    parent: element.parent,
    fair_share: element.fairShare,
    usage_share: element.usageShare,
    demand_share: element.demandShare,
    guarantee: loans?.guarantee ?? null,
    borrowed: loans?.borrowed ?? null,
    lent: loans?.lent ?? null,
    satisfaction: element.satisfaction,
    status,
    below_since: timeOrNull(element.belowSinceMs),
    starves_at: isStarving ? null : timeOrNull(starvesAtMs),
    starving_since: isStarving ? timeOrNull(starvesAtMs) : null,
    waiting: element.waitingCount,
    exceeds_fair_share: element.exceedsFairShare,
  };
}

export function presentShareExplanation(
  share: NonNullable<PoolExplanation["share"]>,
  pool: string,
  sight: Sight,
): WireShareExplanation {
  const compared = (element: ElementView) => presentCompared(element, pool, sight);
  return {
    operation: presentElement(share.operation),
    above: share.above.map(presentElement),
    ahead: share.ahead.map(({ theirs, mine }) => ({ theirs: compared(theirs), mine: compared(mine) })),
    ahead_count: share.aheadCount,
    may_preempt: share.mayPreempt,
    backoff_until: timeOrNull(share.backoffUntilMs),
    exceeds_fair_share: share.exceedsFairShare,
    gang_without_share: share.isGangWithoutShare,
  };
}

export function presentCompared(element: ComparedElement, pool: string, sight: Sight) {
  const { kind, name, satisfaction } = element;
  return { element: isSeen(element, pool, sight) ? name : null, kind, satisfaction };
}

/** The part of the key of which it is the most. */
export function largest(shares: Readonly<Record<string, number>> = {}): number {
  return Math.max(0, ...Object.values(shares));
}

function timeOrNull(ms: number | null): string | null {
  return ms === null ? null : toTimestamp(ms);
}
