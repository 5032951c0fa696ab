// Decisions (V7) as they were taken, without the names that the caller may not know.

import type { DecisionBody } from "../leader/index.ts";
import type { Sight } from "./sight.ts";

/** Undefined: it was taken in a pool that does not exist for the caller. */
export function presentDecision({ rules, role, decision }: DecisionBody, sight: Sight) {
  const { pool, waiter, victims, considered } = decision;
  if (!sight.seesPool(pool)) return undefined;
  return {
    rules,
    role,
    decision: {
      ...decision,
      waiter: sight.idOrNull(waiter),
      victims: victims.map((victim) => ({
        ...victim,
        requestId: sight.idOrNull(victim.requestId),
        stop: { ...victim.stop, forRequest: sight.idOrNull(victim.stop.forRequest) },
      })),
      considered: considered.map((kind) => ({
        ...kind,
        component: sight.namesComponent(pool, kind.component) ? kind.component : null,
      })),
    },
  };
}
