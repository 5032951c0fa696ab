// Requests as the API shows them: from the live state with lease and token, or from the record of an ended one.

import {
  type RequestId,
  type RequestProgress,
  type RequestSpec,
  requestOf,
  standingOf,
} from "../engine/index.ts";
import type { EndedAttempt, RequestBody, View } from "../leader/index.ts";
import type { WireRequest } from "../protocol/index.ts";
import type { RequestRecord } from "../store/index.ts";
import { presentRequest, toTimestamp } from "../translation/index.ts";
import type { Grants } from "./grants.ts";
import { addSilence, endedAtOf, presentEnd } from "./holders.ts";
import type { Identity } from "./identity.ts";
import { type Owned, ownedOf, ownedOfRecord, type Sight, seesAllOf, sightOf } from "./sight.ts";

interface Caller {
  readonly identity: Identity;
  readonly grants: Grants;
}

/** Undefined when the request is not in memory. */
export function presentLive(
  view: View,
  id: RequestId,
  { identity, grants }: Caller,
): WireRequest | undefined {
  const request = requestOf(view.state, id);
  if (request === undefined) return undefined;
  const { spec, progress } = request;
  const shown = present(spec, progress, view.numberOf(id) ?? 0, view.attemptsOf(id));
  addStanding(shown, view, id);
  const leaseExpiresAtMs = view.leaseExpiresAtMs(id);
  if (leaseExpiresAtMs !== undefined) shown.lease_expires_at = toTimestamp(leaseExpiresAtMs);
  // A caller that sees the token can act as the holder, so only those who may get it; the filter takes it from the others.
  const token = progress.allocation?.token;
  if (token !== undefined && identity.permissions.has("requests.hold")) shown.token = grants.sign(id, token);
  addSilence(shown, view, id);
  if (shown.phase !== null && isOnSilentNode(view, progress)) shown.phase = "silent";
  return seesAllOf(identity, spec)
    ? shown
    : sightOf(identity, view).filter(shown, ownedOf(view, id) as Owned);
}

/** Class and sensitivity as they count now, not as they were asked for (10.7). */
export function addStanding(shown: WireRequest, { state }: View, id: RequestId): void {
  const standing = standingOf(state, id);
  if (standing === undefined) return;
  shown.preemption_class = standing.preemptionClass;
  shown.sensitive = standing.sensitive;
}

/** Nothing is heard of a node of it (J4). */
function isOnSilentNode({ state }: View, { allocation }: Readonly<RequestProgress>): boolean {
  return allocation?.placement.some(({ node }) => state.nodes.get(node)?.record.state === "suspect") ?? false;
}

export function presentRecord(
  record: RequestRecord,
  sight: Sight,
  owned = ownedOfRecord(record),
): WireRequest {
  const { number, spec, progress, attempts } = record.body as RequestBody;
  return sight.filter(present(spec, progress, number, attempts), owned);
}

/** Built once and added to: this is done for every answer. */
function present(
  spec: RequestSpec,
  progress: Readonly<RequestProgress>,
  number: number,
  attempts: readonly EndedAttempt[],
): WireRequest {
  const shown = presentRequest(spec, progress) as unknown as WireRequest;
  shown.number = number;
  shown.attempts = attempts.map(presentAttempt);
  shown.ended_at = endedAtOf(progress.endedAtMs, attempts);
  return shown;
}

function presentAttempt(attempt: EndedAttempt) {
  return {
    attempt: attempt.attempt,
    pool: attempt.pool,
    started_at: toTimestamp(attempt.startedAtMs),
    ended_at: toTimestamp(attempt.endedAtMs),
    outcome: attempt.outcome,
    preempted_for: attempt.preemptedFor,
    reason: attempt.reason,
    ...presentEnd(attempt),
    ...(attempt.nodes !== undefined && { nodes: [...attempt.nodes] }),
  };
}
