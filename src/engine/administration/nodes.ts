// Commands about nodes (12).

import { assertNever } from "../assert.ts";
import { endDraining, finishAttempt } from "../attempts.ts";
import type { CommandOf, NodeChange } from "../commands.ts";
import type { NodeName, NodeRecord, NodeState } from "../records.ts";
import { refuse } from "../refusals.ts";
import type { EngineState, Node, Run } from "../state.ts";
import type { Transaction } from "../transaction.ts";
import { checkAmounts, poolNamed } from "./checks.ts";
import { stopByAdministration } from "./effects.ts";

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
  transaction.emit({
    kind: "nodeSet",
    node: {
      name: change.name,
      pool: poolName,
      capacity,
      labels: change.labels ?? known?.labels ?? {},
      topology: change.topology ?? known?.topology ?? "",
      state: change.isDown === true && known === undefined ? "down" : "ready",
      drainDeadlineMs: null,
      ...enrolledOf(change, known),
      ...devicesOf(change, known, capacity.gpu ?? 0),
    },
  });
}

/** A list that is too short for a capacity that somebody has set since says nothing any more. */
function devicesOf(
  { name, devices }: NodeChange,
  known: NodeRecord | undefined,
  gpus: number,
): Pick<NodeRecord, "devices"> {
  if (devices === null) return {};
  if (devices === undefined)
    return known?.devices === undefined || known.devices.length < gpus ? {} : { devices: known.devices };
  const isAscending = devices.every((index, place) => place === 0 || index > (devices[place - 1] as number));
  const areIndices = devices.every((index) => Number.isSafeInteger(index) && index >= 0);
  if (!areIndices || !isAscending || devices.length < gpus)
    refuseNode(name, `has no devices ${devices.join(", ")}`, `Name the indices of ${gpus} GPUs, ascending.`);
  return { devices };
}

function enrolledOf(change: NodeChange, known: NodeRecord | undefined): Pick<NodeRecord, "enrolled"> {
  const enrolled = change.enrolled ?? known?.enrolled;
  return enrolled === undefined ? {} : { enrolled };
}

/** No new work; what runs finishes, or is stopped when the deadline has come (N4). */
function drain(transaction: Transaction, { name, deadlineMs }: CommandOf<"drainNode">): void {
  const node = nodeNamed(transaction.state, name);
  if (node.record.state === "down") refuseNode(name, "is down", "There is nothing on it to wait for.");
  if (deadlineMs !== undefined && !Number.isSafeInteger(deadlineMs))
    refuseNode(name, `cannot be drained by ${deadlineMs}`, "Use a time in whole milliseconds.");
  transaction.emit({
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
  transaction.emit({ kind: "nodeStateChanged", name: record.name, state: next });
}

/** Its units leave the capacity, and attempts there end as lost at once, with all that they hold elsewhere (N4). */
function lose(transaction: Transaction, node: Node): void {
  if (node.record.state !== "down")
    transaction.emit({ kind: "nodeStateChanged", name: node.record.name, state: "down" });
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
  // A pool that is being deleted is gone with its last run, and its nodes with it (P8).
  if (transaction.state.nodes.has(name)) transaction.emit({ kind: "nodeRemoved", name });
}

/** Drain deadlines that have come: what still runs there is stopped by section 11 (N4). */
export function fireDrainDeadlines(transaction: Transaction): void {
  for (const node of transaction.state.draining) stopIfOverdue(transaction, node);
}

function stopIfOverdue(transaction: Transaction, node: Node): void {
  const { drainDeadlineMs, state } = node.record;
  if (state !== "draining" || drainDeadlineMs === null || drainDeadlineMs > transaction.nowMs) return;
  stopByAdministration(transaction, node.pool, [...node.runs]);
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
