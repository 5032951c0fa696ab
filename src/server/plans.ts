// Plans: what a change would do to requests (P10), read off the events that the engine would emit.

import { type Command, type Event, nodeViewsOf, type RequestId, requestOf } from "../engine/index.ts";
import type { View } from "../leader/index.ts";
import type { WirePlan } from "../protocol/index.ts";
import { toTimestamp } from "../translation/index.ts";
import { type Call, refused, type Services } from "./call.ts";
import { requestReach } from "./identity.ts";
import { ownedOf } from "./presentation.ts";

/** Throws the refusal where the change would be refused. */
export async function planOf(call: Call, services: Services, command: Command): Promise<WirePlan> {
  const decision = await services.leader.preview(command);
  if (decision.outcome === "refused") throw refused(decision.refusal);
  return services.leader.read((view) => {
    const reaches = requestReach(call.identity, view);
    const affected = (id: RequestId) => {
      const request = requestOf(view.state, id);
      if (request === undefined) return { id };
      const { spec, progress } = request;
      // Others' work counts, but its names are not shown.
      if (!reaches(ownedOf(spec, progress))) return { id };
      return { id, ...numberOf(view, id), name: spec.name, component: spec.component };
    };
    const runsOn = (node: NodeName) =>
      nodeViewsOf(view.state, [node]).flatMap(({ runs }) => runs.map(({ requestId }) => requestId));
    return toPlan(decision.events, affected, runsOn);
  });
}

function numberOf(view: View, id: RequestId): { number?: number } {
  const number = view.numberOf(id);
  return number === undefined ? {} : { number };
}

type NodeName = Extract<Event, { kind: "nodeStateChanged" }>["name"];
type Affected = WirePlan["cancelled"][number];

function toPlan(
  events: readonly Event[],
  affected: (id: RequestId) => Affected,
  runsOn: (node: NodeName) => readonly RequestId[],
): WirePlan {
  const plan: WirePlan = {
    dry_run: true,
    granted: [],
    preempted: [],
    rejected: [],
    cancelled: [],
    stopped: [],
    lost: [],
  };
  for (const event of events) {
    switch (event.kind) {
      case "requestAllocated":
        plan.granted.push({ ...affected(event.requestId), pool: event.pool });
        break;
      case "preemptionDecided":
        for (const { requestId, reason } of event.victims) {
          plan.preempted.push({
            ...affected(requestId),
            pool: event.pool,
            reason,
            for_request: event.waiter,
          });
        }
        break;
      case "requestRejected":
        plan.rejected.push({ ...affected(event.requestId), reasons: [...event.reasons] });
        break;
      case "requestCancelled":
        plan.cancelled.push(affected(event.requestId));
        break;
      case "attemptEnded":
        if (event.outcome === "lost") plan.lost.push(affected(event.requestId));
        break;
      case "stopChanged":
        plan.stopped.push(affected(event.requestId));
        break;
      case "nodeStateChanged": {
        const { drainDeadlineMs: deadlineMs = null } = event;
        if (deadlineMs === null) break;
        const at = toTimestamp(deadlineMs);
        plan.stopped.push(...runsOn(event.name).map((id) => ({ ...affected(id), at })));
        break;
      }
    }
  }
  return plan;
}
