// Why nodes do not serve a request (14): of each node the first thing that stands in its way. Topology and devices are
// never one of them: groups are a preference, and where there are units there are indices.

import type { NodeState } from "../records.ts";
import type { Node, Pool } from "../state.ts";
import { hasLabels } from "./node-index.ts";
import { covers } from "./node-list.ts";
import type { Ask, Room } from "./room.ts";

/** Too small: even when it is empty. Taken: by what runs there. Promised: free, but to others who come first. */
export type NodeObstacle = "labels" | "too_small" | Exclude<NodeState, "ready"> | "taken" | "promised";

export interface NodesExplanation {
  /** How many nodes the request asks for, and how many there are with room for their part of it. */
  readonly asked: number;
  readonly fitting: number;
  readonly total: number;
  /** How many nodes each obstacle keeps from serving it. */
  readonly obstacles: Readonly<Partial<Record<NodeObstacle, number>>>;
}

export function explainNodes({ nodes }: Pool, ask: Ask, room: Room): NodesExplanation {
  const obstacles: Partial<Record<NodeObstacle, number>> = {};
  let fitting = 0;
  for (const node of nodes.values()) {
    const obstacle = obstacleOf(node, ask, room);
    if (obstacle === null) fitting++;
    else obstacles[obstacle] = (obstacles[obstacle] ?? 0) + 1;
  }
  return { asked: ask.count, fitting, total: nodes.size, obstacles };
}

function obstacleOf(node: Node, { need, wanted }: Ask, room: Room): NodeObstacle | null {
  const { record, capacity, free } = node;
  if (!hasLabels(record, wanted.labels)) return "labels";
  if (!covers(capacity, need)) return "too_small";
  if (record.state !== "ready") return record.state;
  if (!covers(free, need)) return "taken";
  return covers(room.leftOn(node), need) ? null : "promised";
}
