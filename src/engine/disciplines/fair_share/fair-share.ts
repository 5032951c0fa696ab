// Discipline `fair_share`: operations are served by how far they are below their fair share (9).

import { hasLostNode } from "../../placement/occupancy.ts";
import type { Pool, Request } from "../../state.ts";
import { type Discipline, type LostHold, nothingMore, plainStanding } from "../discipline.ts";
import { shareViolations } from "./checks.ts";
import {
  compareByShares,
  explainByShares,
  protectionByShares,
  sparedByShares,
  takersByShares,
} from "./explain.ts";
import { suspectHolders } from "./holds.ts";
import { lookAtShares } from "./stages.ts";
import { sharedQueueOf } from "./view.ts";

export const fairShareDiscipline: Discipline = {
  look: lookAtShares,
  suspectHolders,
  lostHold,
  queue: sharedQueueOf,
  explain: explainByShares,
  compare: compareByShares,
  takers: takersByShares,
  protectionOf: protectionByShares,
  byVictimOrder: (a, b) => b.token - a.token,
  sparedBy: sparedByShares,
  violations: shareViolations,
  standingOf: plainStanding,
  tellApart: nothingMore,
  hasShares: true,
  preemptionsMax: Number.POSITIVE_INFINITY,
};

/** Nothing ends a hold here but the loss of its node (9.7). */
function lostHold(pool: Pool, suspects: ReadonlySet<Request>): LostHold | undefined {
  let first: Request | undefined;
  for (const request of suspects) {
    if (!hasLostNode(pool, request)) continue;
    if (first === undefined || request.progress.seq < first.progress.seq) first = request;
  }
  return first === undefined ? undefined : { request: first, why: "node_lost" };
}
