// Plans: what a change would do to requests (P10), read off the events that the engine would emit.

import { type Command, type Event, nodeViewsOf, type RequestId, requestOf } from "../engine/index.ts";
import type { View } from "../leader/index.ts";
import type { WirePlan } from "../protocol/index.ts";
import { toTimestamp } from "../translation/index.ts";
import { type Call, refused, type Services } from "./call.ts";
import { ownedOf, type Sight, sightOf } from "./sight.ts";

/** Throws the refusal where the change would be refused. */
export async function planOf(call: Call, services: Services, command: Command): Promise<WirePlan> {
  const commands = [services.leader.completed(command)];
  const plan = await services.foresight.ask({ kind: "plan", steps: [{ commands }] });
  if (plan.outcome === "refused") throw refused(plan.refusal);
  const events = plan.events.flat();
  return services.leader.read((view) => {
    const sight = sightOf(call.identity, view);
    const affected = (id: RequestId): Affected | undefined => {
      const spec = requestOf(view.state, id)?.spec;
      const owned = ownedOf(view, id);
      if (spec === undefined || owned === undefined) return { id };
      switch (sight.degreeOf(owned)) {
        case "none":
          return undefined;
        case "counted":
          return { id: null };
        default:
          return { id, ...numberOf(view, id), name: spec.name, component: spec.component };
      }
    };
    const runsOn = (node: NodeName) =>
      nodeViewsOf(view.state, [node]).flatMap(({ runs }) => runs.map(({ requestId }) => requestId));
    return toPlan(events, affected, sight, runsOn);
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
  affected: (id: RequestId) => Affected | undefined,
  sight: Sight,
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
  /** Pools out of reach, and what only concerns them, do not exist in a plan either. */
  const add = <Item extends Affected>(list: Item[], id: RequestId, rest: Omit<Item, keyof Affected>) => {
    const item = affected(id);
    if (item !== undefined) list.push({ ...item, ...rest } as Item);
  };
  for (const event of events) {
    if ("pool" in event && typeof event.pool === "string" && !sight.seesPool(event.pool)) continue;
    switch (event.kind) {
      case "requestAllocated":
        add(plan.granted, event.requestId, { pool: event.pool });
        break;
      case "preemptionDecided":
        for (const { requestId, reason } of event.victims) {
          add(plan.preempted, requestId, {
            pool: event.pool,
            reason,
            for_request: sight.idOrNull(event.waiter),
          });
        }
        break;
      case "requestRejected":
        add(plan.rejected, event.requestId, { reasons: sight.reasons(event.reasons) });
        break;
      case "requestCancelled":
        add(plan.cancelled, event.requestId, {});
        break;
      case "attemptEnded":
        if (event.outcome === "lost") add(plan.lost, event.requestId, {});
        break;
      case "stopChanged":
        add(plan.stopped, event.requestId, {});
        break;
      case "nodeStateChanged": {
        const { drainDeadlineMs: deadlineMs = null } = event;
        if (deadlineMs === null) break;
        const at = toTimestamp(deadlineMs);
        for (const id of runsOn(event.name)) add(plan.stopped, id, { at });
        break;
      }
    }
  }
  return plan;
}
