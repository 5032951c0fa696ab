// The change that a suggestion describes, as a person would make it, and what comes of it on a copy of the state.

import {
  type Command,
  decide,
  type EndReport,
  type EngineState,
  type NodeName,
  type NodeRecord,
  policiesOf,
  type RequestId,
  type RequestSpec,
  requestOf,
  restoreState,
  resume,
  snapshotOf,
} from "../../src/engine/index.ts";
import type { Suggestion } from "../../src/foresight/index.ts";

/** Nothing in common with the original. */
export function copyOf(state: EngineState, nowMs: number): EngineState {
  const copy = restoreState(structuredClone(snapshotOf(state)));
  resume(copy, nowMs);
  return copy;
}

/** `now`: it runs; `after`: it is promised its units. */
export function startsOnCopy(
  state: EngineState,
  id: RequestId,
  suggestion: Suggestion,
  nowMs: number,
): string {
  const copy = copyOf(state, nowMs);
  for (const command of commandsOf(state, id, suggestion)) {
    const decision = decide(copy, command, nowMs);
    if (decision.outcome === "refused") return `refused: ${decision.refusal.message}`;
  }
  const progress = requestOf(copy, id)?.progress;
  if (progress?.allocation?.pool === suggestion.pool) return "now";
  return progress?.hold?.pool === suggestion.pool ? "after" : "waits";
}

function commandsOf(state: EngineState, id: RequestId, suggestion: Suggestion): readonly Command[] {
  if (suggestion.change !== "more_capacity" || suggestion.nodes === null)
    return [commandOf(state, id, suggestion)];
  const { count, like } = suggestion.nodes;
  const { capacity, labels, topology } = (state.nodes.get(like) as { record: NodeRecord }).record;
  const { pool } = suggestion;
  return Array.from({ length: count }, (_, index) => {
    const name = `${like}-more-${index + 1}` as NodeName;
    return { kind: "putNode", node: { name, pool, capacity, labels, topology } };
  });
}

function commandOf(state: EngineState, id: RequestId, suggestion: Suggestion): Command {
  const { pool } = suggestion;
  const { component, resources, pools } = (requestOf(state, id) as { readonly spec: RequestSpec }).spec;
  const policy = policiesOf(state, pool).find((one) => one.component === component);
  const update = (change: object): Command => ({ kind: "updateRequest", requestId: id, change });
  const updatePolicy = (part: object): Command => ({
    kind: "updatePolicy",
    policy: { pool, component, ...part },
  });
  switch (suggestion.change) {
    case "fewer_units":
      return update({ resources: { ...suggestion.resources, step_run: resources.step_run } });
    case "fewer_nodes":
      return update({ nodes: suggestion.nodes });
    case "walltime":
      return update({ walltimeMs: suggestion.walltimeMs });
    case "preemptible":
      return update({ preemptible: true });
    case "higher_class":
      return update({ preemptionClass: suggestion.preemptionClass });
    case "another_pool":
      return policy === undefined
        ? { kind: "attachPolicy", policy: { pool, component } }
        : update({ pools: [...(pools ?? []), pool] });
    case "higher_limit":
      return updatePolicy({ limit: { ...policy?.limit, ...suggestion.limit } });
    case "higher_group_limit": {
      const limit = state.pools.get(pool)?.groups.get(suggestion.group)?.record.limit;
      const group = { name: suggestion.group, limit: { ...limit, ...suggestion.limit } };
      return { kind: "updateGroup", pool, group };
    }
    case "more_reserved":
      return updatePolicy({ reserved: { ...policy?.reserved, ...suggestion.reserved } });
    case "higher_priority":
      return updatePolicy({ priority: suggestion.priority });
    case "more_capacity":
      return { kind: "updatePool", name: pool, capacity: suggestion.capacity };
    case "node_back": {
      const node = state.nodes.get(suggestion.node)?.record;
      const isDrained = node?.state === "draining" || node?.state === "drained";
      return isDrained
        ? { kind: "undrainNode", name: suggestion.node }
        : { kind: "putNode", node: { name: suggestion.node } };
    }
    case "run_ends":
      return { kind: "tick", ends: [endOf(state, suggestion.requestId)] };
    case "ahead_withdrawn":
      return { kind: "cancelRequest", requestId: suggestion.requestId };
  }
}

function endOf(state: EngineState, requestId: RequestId): EndReport {
  const isStopping = requestOf(state, requestId)?.progress.allocation?.stop != null;
  return { requestId, outcome: isStopping ? "stopped" : "succeeded" };
}
