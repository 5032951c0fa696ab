// Requests as the API shows them: from the live state with lease and token, or from the record of an ended one.

import { type RequestId, type RequestProgress, type RequestSpec, requestOf } from "../engine/index.ts";
import type { EndedAttempt, RequestBody, View } from "../leader/index.ts";
import type { WireRequest } from "../protocol/index.ts";
import type { RequestRecord } from "../store/index.ts";
import { presentRequest, toTimestamp } from "../translation/index.ts";
import type { Grants } from "./grants.ts";
import type { Identity, Owned } from "./identity.ts";

/** Undefined when the request is not in memory. */
export function presentLive(
  view: View,
  id: RequestId,
  { identity, grants }: { identity: Identity; grants: Grants },
): WireRequest | undefined {
  const request = requestOf(view.state, id);
  if (request === undefined) return undefined;
  const { spec, progress } = request;
  const shown: WireRequest = present(spec, progress, view.numberOf(id) ?? 0, view.attemptsOf(id));
  const { allocation } = progress;
  // Whoever can see the token can act as the holder, so only those who may.
  if (allocation !== null && identity.permissions.has("requests.hold")) {
    shown.token = grants.sign(id, allocation.token);
  }
  const leaseExpiresAtMs = view.leaseExpiresAtMs(id);
  if (leaseExpiresAtMs !== undefined) shown.lease_expires_at = toTimestamp(leaseExpiresAtMs);
  return shown;
}

export function presentRecord(record: RequestRecord): WireRequest {
  const { number, spec, progress, attempts } = record.body as RequestBody;
  return present(spec, progress, number, attempts);
}

function present(
  spec: RequestSpec,
  progress: Readonly<RequestProgress>,
  number: number,
  attempts: readonly EndedAttempt[],
): WireRequest {
  const shown = presentRequest(spec, progress);
  return {
    ...shown,
    number,
    reasons: shown.reasons === null ? null : [...shown.reasons],
    placement: shown.placement.map(({ node, devices }) => ({ node, devices: [...devices] })),
    attempts: attempts.map(presentAttempt),
  };
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
  };
}

export function ownedOf(spec: RequestSpec, progress: Readonly<RequestProgress>): Owned {
  return {
    component: spec.component,
    pool: progress.allocation?.pool ?? null,
    submittedBy: spec.submittedBy,
  };
}

export function ownedOfRecord(record: RequestRecord): Owned {
  const { spec } = record.body as RequestBody;
  return { component: record.component, pool: record.pool, submittedBy: spec.submittedBy };
}
