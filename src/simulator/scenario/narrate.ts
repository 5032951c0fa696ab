// Events in words, for traces and for the report of a failed step.

import type { Event, Placement, RejectionReason, Resources } from "../../engine/index.ts";

const NO_POOL = "outside all pools";

export function narrate(event: Event): string {
  switch (event.kind) {
    case "poolSet":
      return `pool ${event.pool.name} has ${amounts(event.pool.capacity) || "its nodes' capacity"}${event.pool.closing ? " and is closing" : ""}`;
    case "poolDeleted":
      return `pool ${event.name} is gone`;
    case "groupSet":
      return `group ${event.group.name} of pool ${event.group.pool} is set`;
    case "groupDeleted":
      return `group ${event.name} of pool ${event.pool} is gone`;
    case "policySet":
      return `${event.policy.component} has a policy in ${event.policy.pool}: priority ${event.policy.priority}, reserved ${amounts(event.policy.reserved) || "nothing"}, limit ${amounts(event.policy.limit) || "the pool"}${event.policy.closing ? ", closing" : ""}`;
    case "policyDetached":
      return `${event.component} has no policy in ${event.pool} any more`;
    case "nodeSet":
      return `node ${event.node.name} of pool ${event.node.pool} has ${amounts(event.node.capacity)} and is ${event.node.state}`;
    case "nodeStateChanged":
      return `node ${event.name} is ${event.state}`;
    case "nodeRemoved":
      return `node ${event.name} is gone`;
    case "serverSettingsChanged":
      return `requests without a policy: ${event.unmanaged}`;
    case "requestSubmitted":
      return `${event.spec.id} was submitted by ${event.spec.component} for ${amounts(event.spec.resources)}`;
    case "requestChanged":
      return `${event.requestId} was changed${event.asksForMore ? " and asks for more, so its place is a new one" : ""}`;
    case "requestRejected":
      return `${event.requestId} was rejected: ${event.reasons.map(rejection).join("; ")}`;
    case "requestEntered":
      return `${event.requestId} entered the queue after its delay`;
    case "requestAllocated":
      return `${event.requestId} was granted in ${event.pool ?? NO_POOL}${places(event.placement)}${event.opportunistic ? ", filling a gap" : ""}`;
    case "holdTaken":
      return `${event.requestId} holds what is free and what is coming free in ${event.pool}`;
    case "holdEnded":
      return `the hold of ${event.requestId} ended: ${words(event.why)}${event.by === null ? "" : ` by ${event.by}`}`;
    case "preemptionDecided": {
      const victims = event.victims.map(({ requestId, reason }) => `${requestId} (${reason})`).join(", ");
      const waiter = event.waiter === null ? "" : ` for ${event.waiter}, short of ${amounts(event.shortage)}`;
      return `preempted in ${event.pool}${waiter}: ${victims}`;
    }
    case "stopChanged": {
      const { phase, cause, deadlineMs } = event.stop;
      return `${event.requestId} must ${phase} by ${deadlineMs / 1000} s (${cause})`;
    }
    case "phaseChanged":
      return `${event.requestId} is ${event.phase}`;
    case "checkpointCompleted":
      return `${event.requestId} has a complete checkpoint`;
    case "attemptEnded":
      return `the attempt of ${event.requestId} ended: ${event.outcome}; now ${event.status}${event.status === "queued" && event.queuedAtMs !== null && event.queuedAtMs > event.atMs ? ` from ${event.queuedAtMs / 1000} s on` : ""}`;
    case "requestCancelled":
      return `${event.requestId} was cancelled`;
    case "requestExpired":
      return `${event.requestId} expired`;
    case "deletionPlanned":
      return `the record of ${event.requestId} goes with its end`;
    case "requestDeleted":
      return `the record of ${event.requestId} is gone`;
    case "endedForgotten":
      return `the records of ${event.requestIds.length} ended requests are gone`;
    case "starvationChanged":
      return `in ${event.pool}: ${event.changes.map(({ element, status }) => `${element} is ${words(status)}`).join(", ")}`;
    case "overcommitChanged":
      return `in ${event.pool}: ${event.changes.map(({ node, sinceMs }) => `${node} holds ${sinceMs === null ? "no more than" : "more than"} it has`).join(", ")}`;
    case "schedulingPaused":
      return `there is still something to do in ${event.pools.join(", ")}`;
    case "schedulingSettled":
      return "nothing is left to do";
  }
}

export function amounts(resources: Resources): string {
  return Object.entries(resources)
    .map(([key, amount]) => `${key} ${amount}`)
    .join(", ");
}

function rejection({ pool, code, key, asked, allowed }: RejectionReason): string {
  const numbers = key === null ? "" : ` (${key}: asked ${asked}, allowed ${allowed})`;
  return `${pool ?? "no pool"} says ${code}${numbers}`;
}

function places(placement: readonly Placement[]): string {
  if (placement.length === 0) return "";
  return ` on ${placement.map(({ node, devices }) => (devices.length > 0 ? `${node} [${devices.join(" ")}]` : node)).join(", ")}`;
}

function words(code: string): string {
  return code.replaceAll("_", " ");
}
