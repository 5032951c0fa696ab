// Fair shares (9.10) in the words of the wire, without what the caller may not know.

import { type ElementView, type PoolExplanation, shareViewOf } from "../engine/index.ts";
import type { View } from "../leader/index.ts";
import type { WireShareElement, WireShareExplanation, WireShares } from "../protocol/index.ts";
import { toPoolName, toTimestamp } from "../translation/index.ts";
import { type Identity, reachesComponent, requestReach } from "./identity.ts";
import { ownedOf } from "./presentation.ts";

export function presentShares(view: View, pool: string, identity: Identity): WireShares {
  const { elements, allocationGroups, overcommitted } = shareViewOf(view.state, toPoolName(pool));
  const reaches = requestReach(identity, view);
  return {
    pool,
    elements: elements.filter((element) => isReached(element, identity)).map(presentElement),
    allocations: [...allocationGroups]
      .filter(([id]) => {
        const request = view.state.requests.get(id);
        return request !== undefined && reaches(ownedOf(request.spec, request.progress));
      })
      .map(([request_id, group]) => ({ request_id, group })),
    overcommitted: [...overcommitted],
  };
}

/** Groups are everybody's; policies and operations belong to a component. */
function isReached({ kind, name, parent }: ElementView, identity: Identity): boolean {
  if (kind === "group") return true;
  return reachesComponent(identity, kind === "policy" ? name : (parent ?? ""));
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
  identity: Identity,
): WireShareExplanation {
  const compared = (element: ElementView) => ({
    element: isReached(element, identity) ? element.name : null,
    kind: element.kind,
    satisfaction: element.satisfaction,
  });
  return {
    operation: presentElement(share.operation),
    above: share.above.map(presentElement),
    ahead: share.ahead.map(({ theirs, mine }) => ({ theirs: compared(theirs), mine: compared(mine) })),
    ahead_count: share.aheadCount,
    may_preempt: share.mayPreempt,
    backoff_until: timeOrNull(share.backoffUntilMs),
    exceeds_fair_share: share.exceedsFairShare,
  };
}

function timeOrNull(ms: number | null): string | null {
  return ms === null ? null : toTimestamp(ms);
}
