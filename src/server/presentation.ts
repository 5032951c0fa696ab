// Requests as the API shows them: from the live state with lease and token, or from the record of an ended one.

import { type RequestId, type RequestProgress, type RequestSpec, requestOf } from "../engine/index.ts";
import type { EndedAttempt, RequestBody, View } from "../leader/index.ts";
import type { WireBulkItem, WireRequest } from "../protocol/index.ts";
import type { RequestRecord } from "../store/index.ts";
import { presentRequest, toTimestamp } from "../translation/index.ts";
import type { Grants } from "./grants.ts";
import { addSilence, endedAtOf, presentEnd } from "./holders.ts";
import type { Identity, Owned } from "./identity.ts";

/** Undefined when the request is not in memory. */
export function presentLive(view: View, id: RequestId, caller: Caller): WireRequest | undefined {
  const request = requestOf(view.state, id);
  if (request === undefined) return undefined;
  const { spec, progress } = request;
  const shown = present(spec, progress, view.numberOf(id) ?? 0, view.attemptsOf(id));
  addGrant(shown, view, id, progress.allocation?.token, caller);
  addSilence(shown, view, id);
  return shown;
}

export function presentRecord(record: RequestRecord): WireRequest {
  const { number, spec, progress, attempts } = record.body as RequestBody;
  return present(spec, progress, number, attempts);
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

/** What an item of a bulk answer tells: enough to go on with, and no more. */
export function presentBriefly(view: View, id: RequestId, caller: Caller): WireBulkItem | undefined {
  const request = requestOf(view.state, id);
  if (request === undefined) return undefined;
  const { status, allocation, rejection, attempt } = request.progress;
  const shown: WireBulkItem = {
    id,
    number: view.numberOf(id) ?? 0,
    status,
    attempt,
    pool: allocation?.pool ?? null,
    reasons: rejection as WireBulkItem["reasons"],
  };
  addGrant(shown, view, id, allocation?.token, caller);
  return shown;
}

interface Caller {
  readonly identity: Identity;
  readonly grants: Grants;
}

function addGrant(
  shown: Pick<WireRequest, "token" | "lease_expires_at">,
  view: View,
  id: RequestId,
  engineToken: number | undefined,
  { identity, grants }: Caller,
): void {
  // Whoever can see the token can act as the holder, so only those who may.
  if (engineToken !== undefined && identity.permissions.has("requests.hold")) {
    shown.token = grants.sign(id, engineToken);
  }
  const leaseExpiresAtMs = view.leaseExpiresAtMs(id);
  if (leaseExpiresAtMs !== undefined) shown.lease_expires_at = toTimestamp(leaseExpiresAtMs);
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
