// What an event about a node means for its pool (12).

import type { Event } from "../events.ts";
import { nodeVector, poolCapacity } from "../placement/capacity.ts";
import { judgePromises } from "../placement/occupancy.ts";
import type { NodeRecord } from "../records.ts";
import { type EngineState, type Node, type Pool, requirePool } from "../state.ts";
import { growPool, rebuildPool, refreshPool } from "./pools.ts";
import { forgetShares } from "./shares.ts";

type NodeEvent = Extract<Event, { kind: "nodeSet" | "nodeStateChanged" | "nodeRemoved" }>;

/** `renew` is what news of the pool from outside means; that the last run of a node has ended is none (V6). */
export function evolveNode(state: EngineState, event: NodeEvent, renew: (pool: Pool) => void): void {
  const pool =
    event.kind === "nodeSet"
      ? requirePool(state, event.node.pool)
      : (state.nodes.get(event.name) as Node).pool;
  if (event.kind !== "nodeStateChanged" || event.state !== "drained") renew(pool);
  switch (event.kind) {
    case "nodeSet": {
      const known = state.nodes.get(event.node.name);
      if (known === undefined) addNode(state, event.node);
      else replaceNode(state, known, event.node);
      return;
    }
    case "nodeStateChanged": {
      const node = state.nodes.get(event.name) as Node;
      const drainDeadlineMs = event.drainDeadlineMs ?? null;
      return setRecord(state, node, { ...node.record, state: event.state, drainDeadlineMs });
    }
    case "nodeRemoved": {
      const node = state.nodes.get(event.name) as Node;
      dropNode(state, node);
      return refreshPool(state, node.pool);
    }
  }
}

function addNode(state: EngineState, record: NodeRecord): void {
  const pool = requirePool(state, record.pool);
  const capacity = nodeVector(record.capacity, pool.keys);
  const node: Node = {
    record,
    pool,
    capacity,
    usage: pool.keys.map(() => 0),
    stopping: pool.keys.map(() => 0),
    free: [...capacity],
    promised: pool.keys.map(() => 0),
    left: [...capacity],
    runs: new Set(),
    holders: new Set(),
    devices: new Set(),
  };
  enter(state, node);
  state.undo.done(leave, state, node);
  growPool(state, pool);
}

/** A node goes from the indexes; what it means for its pool is looked at by the caller. */
export function dropNode(state: EngineState, node: Node): void {
  leave(state, node);
  state.undo.done(enter, state, node);
}

function enter(state: EngineState, node: Node): void {
  const { record, pool } = node;
  state.nodes.set(record.name, node);
  pool.nodes.set(record.name, node);
  pool.places.enter(node);
  judgePromises(node);
  if (record.drainDeadlineMs !== null) state.draining.add(node);
}

function leave(state: EngineState, node: Node): void {
  const { record, pool } = node;
  state.nodes.delete(record.name);
  pool.nodes.delete(record.name);
  pool.places.leave(node);
  pool.places.strained.delete(node);
  pool.places.servable.delete(node);
  state.draining.delete(node);
}

function replaceNode(state: EngineState, node: Node, record: NodeRecord): void {
  const { pool } = node;
  const isSame = (field: "labels" | "capacity" | "topology") =>
    JSON.stringify(node.record[field]) === JSON.stringify(record[field]);
  const sameLabels = isSame("labels");
  if (sameLabels && isSame("capacity") && isSame("topology")) return setRecord(state, node, record);
  const capacity = nodeVector(record.capacity, pool.keys);
  const free = capacity.map((amount, i) => amount - (node.usage[i] as number));
  const left = free.map((amount, i) => amount - (node.promised[i] as number));
  change(state, node, { record, capacity, free, left });
  // Who is away from home follows from labels (N3).
  if (sameLabels || pool.places.homes.length === 0) refreshPool(state, pool);
  else rebuildPool(state, pool);
}

/** A node leaves the indexes before it changes, now or when that is taken back. */
function change(state: EngineState, node: Node, fields: Partial<Node>): void {
  const { record, capacity, free, left } = node;
  const become = (next: Partial<Node>) => {
    leave(state, node);
    Object.assign(node, next);
    enter(state, node);
  };
  become(fields);
  state.undo.done(become, { record, capacity, free, left }, null);
}

/** A state that changes leaves what the nodes could hold as it is, and with it what is admitted (N4). */
function setRecord(state: EngineState, node: Node, record: NodeRecord): void {
  const { pool } = node;
  change(state, node, { record });
  state.undo.set(pool, "capacity", poolCapacity(pool).capacity);
  forgetShares(state, pool);
  state.unsettled.add(pool);
}
