// Nodes (12): what is asked of them, and what an event about a node means for its pool.

import { checkAmounts, poolNamed } from "./administration/checks.ts";
import { stopByAdministration } from "./administration/effects.ts";
import { assertNever } from "./assert.ts";
import { endDraining, finishAttempt } from "./attempts.ts";
import type { CommandOf, NodeChange } from "./commands.ts";
import type { Event } from "./events.ts";
import { rebuildPool, refreshPool } from "./indexes/pools.ts";
import { forgetShares } from "./indexes/shares.ts";
import { nodeVector, poolCapacity } from "./placement/capacity.ts";
import type { NodeName, NodeRecord, NodeState } from "./records.ts";
import { refuse } from "./refusals.ts";
import { emit, type Transaction } from "./scheduling/transaction.ts";
import { type EngineState, type Node, type Run, requirePool } from "./state.ts";

type NodeEvent = Extract<Event, { kind: "nodeSet" | "nodeStateChanged" | "nodeRemoved" }>;
type NodeCommand = CommandOf<
  "putNode" | "drainNode" | "undrainNode" | "suspectNode" | "loseNode" | "removeNode"
>;

const NAME_LENGTH_MAX = 253;

export function decideNode(transaction: Transaction, command: NodeCommand): void {
  switch (command.kind) {
    case "putNode":
      return putNode(transaction, command.node);
    case "drainNode":
      return drain(transaction, command);
    case "undrainNode":
      return changeState(transaction, nodeNamed(transaction.state, command.name), "ready");
    case "suspectNode":
      return changeState(transaction, nodeNamed(transaction.state, command.name), "suspect");
    case "loseNode":
      return lose(transaction, nodeNamed(transaction.state, command.name));
    case "removeNode":
      return remove(transaction, command);
    default:
      return assertNever(command);
  }
}

/** Registers a node, or replaces what is given of a known one; either way it is ready then. */
function putNode(transaction: Transaction, change: NodeChange): void {
  const { state } = transaction;
  const known = state.nodes.get(change.name)?.record;
  const poolName = change.pool ?? known?.pool;
  if (poolName === undefined) refuseNode(change.name, "has no pool", "Say which pool it belongs to.");
  const pool = poolNamed(state, poolName);
  if (!pool.record.nodeBacked) {
    refuse(
      "invalid_request",
      `Pool "${poolName}" has a capacity of its own.`,
      "Create a pool without a capacity for nodes.",
    );
  }
  if (known !== undefined && known.pool !== poolName)
    refuseNode(change.name, `belongs to pool "${known.pool}"`, "Remove it there first.");
  if (change.name.length === 0 || change.name.length > NAME_LENGTH_MAX)
    refuseNode(
      change.name,
      "has a name that is empty or too long",
      `Use up to ${NAME_LENGTH_MAX} characters.`,
    );
  const capacity = change.capacity ?? known?.capacity ?? {};
  if (Object.keys(capacity).length === 0) {
    refuse(
      "empty_capacity",
      `Node "${change.name}" has nothing.`,
      "Give at least one key, for example gpu: 8.",
    );
  }
  checkAmounts(`capacity of node "${change.name}"`, capacity, 1);
  emit(transaction, {
    kind: "nodeSet",
    node: {
      name: change.name,
      pool: poolName,
      capacity,
      labels: change.labels ?? known?.labels ?? {},
      topology: change.topology ?? known?.topology ?? "",
      state: "ready",
      drainDeadlineMs: null,
    },
  });
}

/** No new work; what runs finishes, or is stopped when the deadline has come (N4). */
function drain(transaction: Transaction, { name, deadlineMs }: CommandOf<"drainNode">): void {
  const node = nodeNamed(transaction.state, name);
  if (node.record.state === "down") refuseNode(name, "is down", "There is nothing on it to wait for.");
  if (deadlineMs !== undefined && !Number.isSafeInteger(deadlineMs))
    refuseNode(name, `cannot be drained by ${deadlineMs}`, "Use a time in whole milliseconds.");
  emit(transaction, {
    kind: "nodeStateChanged",
    name,
    state: "draining",
    drainDeadlineMs: deadlineMs ?? null,
  });
  stopIfOverdue(transaction, node);
  endDraining(transaction, [node]);
}

function changeState(transaction: Transaction, { record }: Node, next: NodeState): void {
  if (record.state === next) return;
  if (record.state === "down") refuseNode(record.name, "is down", "Register it again when it is back.");
  emit(transaction, { kind: "nodeStateChanged", name: record.name, state: next });
}

/** Its units leave the capacity, and attempts there end as lost at once, with all that they hold elsewhere (N4). */
function lose(transaction: Transaction, node: Node): void {
  if (node.record.state !== "down")
    emit(transaction, { kind: "nodeStateChanged", name: node.record.name, state: "down" });
  for (const { request } of byGrant(node)) finishAttempt(transaction, request, "lost");
}

function remove(transaction: Transaction, { name, force = false }: CommandOf<"removeNode">): void {
  const node = nodeNamed(transaction.state, name);
  if (node.runs.size > 0 && !force) {
    refuse(
      "in_use",
      `Node "${name}" has ${node.runs.size} allocated requests.`,
      "Drain it first, or pass force to give them up as lost.",
    );
  }
  lose(transaction, node);
  emit(transaction, { kind: "nodeRemoved", name });
}

/** Drain deadlines that have come: what still runs there is stopped by section 11 (N4). */
export function fireDrainDeadlines(transaction: Transaction): void {
  for (const node of transaction.state.draining) stopIfOverdue(transaction, node);
}

function stopIfOverdue(transaction: Transaction, node: Node): void {
  const { drainDeadlineMs, state } = node.record;
  if (state !== "draining" || drainDeadlineMs === null || drainDeadlineMs > transaction.nowMs) return;
  stopByAdministration(transaction, node.pool, byGrant(node));
}

/** When a drain deadline next has something to stop; infinite: never. */
export function drainWakeMs({ draining }: EngineState): number {
  let wakeAtMs = Number.POSITIVE_INFINITY;
  for (const { record, runs } of draining) {
    const isDone = [...runs].every((run) => run.isStopping);
    if (!isDone) wakeAtMs = Math.min(wakeAtMs, record.drainDeadlineMs as number);
  }
  return wakeAtMs;
}

function byGrant({ runs }: Node): Run[] {
  return [...runs].sort((a, b) => a.token - b.token);
}

function nodeNamed(state: EngineState, name: NodeName): Node {
  return (
    state.nodes.get(name) ??
    refuse("not_found", `There is no node "${name}".`, "List the nodes to see their names.")
  );
}

function refuseNode(name: NodeName, problem: string, hint: string): never {
  return refuse("invalid_request", `Node "${name}" ${problem}.`, hint);
}

// --- what an event means -----------------------------------------------------------------------------

export function evolveNode(state: EngineState, event: NodeEvent): void {
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
    runs: new Set(),
    devices: new Set(),
  };
  state.undo.run(
    () => enter(state, node),
    () => leave(state, node),
  );
  refreshPool(state, pool);
}

/** A node goes from the indexes; what it means for its pool is looked at by the caller. */
export function dropNode(state: EngineState, node: Node): void {
  state.undo.run(
    () => leave(state, node),
    () => enter(state, node),
  );
}

function enter(state: EngineState, node: Node): void {
  const { record, pool } = node;
  state.nodes.set(record.name, node);
  pool.nodes.set(record.name, node);
  pool.places.enter(node);
  if (record.drainDeadlineMs !== null) state.draining.add(node);
}

function leave(state: EngineState, node: Node): void {
  const { record, pool } = node;
  state.nodes.delete(record.name);
  pool.nodes.delete(record.name);
  pool.places.leave(node);
  state.draining.delete(node);
}

function replaceNode(state: EngineState, node: Node, record: NodeRecord): void {
  const { pool } = node;
  const sameLabels = JSON.stringify(node.record.labels) === JSON.stringify(record.labels);
  const capacity = nodeVector(record.capacity, pool.keys);
  const free = capacity.map((amount, i) => amount - (node.usage[i] as number));
  const before = { record: node.record, capacity: node.capacity, free: node.free };
  const become = (next: typeof before) => () => {
    leave(state, node);
    Object.assign(node, next);
    enter(state, node);
  };
  state.undo.run(become({ record, capacity, free }), become(before));
  // Who is away from home follows from labels (N3).
  if (sameLabels || pool.places.homes.length === 0) refreshPool(state, pool);
  else rebuildPool(state, pool);
}

/** A state that changes leaves what the nodes could hold as it is, and with it what is admitted (N4). */
function setRecord(state: EngineState, node: Node, record: NodeRecord): void {
  const { pool } = node;
  const before = node.record;
  const become = (next: NodeRecord) => () => {
    leave(state, node);
    node.record = next;
    enter(state, node);
  };
  state.undo.run(become(record), become(before));
  state.undo.set(pool, "capacity", poolCapacity(pool).capacity);
  forgetShares(state, pool);
  state.unsettled.add(pool);
}
