// The machines of a cluster as the nodes of a pool (S1, K4): what must change so that the nodes are as the adapter says.
// Pure. A drain that the cluster ordered is marked by a label, so that only it ends when the cluster says so; one that an
// operator ordered here stays until an operator ends it.

import {
  type Command,
  type EngineState,
  type NodeRecord,
  nodesOf,
  type PoolName,
} from "../../engine/index.ts";
import type { WireReportedNode } from "../../protocol/index.ts";
import { toNodeName } from "../../translation/index.ts";

type NodeCommand = Extract<
  Command,
  { kind: "putNode" | "drainNode" | "undrainNode" | "suspectNode" | "loseNode" | "removeNode" }
>;

/** On a node that the cluster itself drains. */
export const DRAINED_LABEL = "berth.dev/drained-by";
const BY_CLUSTER = "cluster";

export function nodeChanges(
  state: EngineState,
  pool: PoolName,
  reported: readonly WireReportedNode[],
): NodeCommand[] {
  const names = new Set(reported.map(({ name }) => name));
  const gone = nodesOf(state, pool).filter(({ name }) => !names.has(name));
  return [
    ...reported.flatMap((node) => changesOf(state, pool, node)),
    // What still runs there keeps it until its end is reported.
    ...gone.flatMap(({ name, state: known }): NodeCommand[] =>
      isIdle(state, name) ? [{ kind: "removeNode", name }] : suspected(name, known),
    ),
  ];
}

function changesOf(state: EngineState, pool: PoolName, reported: WireReportedNode): NodeCommand[] {
  const name = toNodeName(reported.name);
  const known = state.nodes.get(name)?.record;
  const isReady = reported.state === "ready";
  const labels = {
    ...reported.labels,
    ...(reported.state === "draining" && { [DRAINED_LABEL]: BY_CLUSTER }),
  };
  const node = {
    ...{ name, pool, capacity: reported.capacity, labels },
    ...(reported.topology !== undefined && { topology: reported.topology }),
  };
  if (known === undefined) return [{ kind: "putNode", node: { ...node, isDown: !isReady } }];
  if (known.pool !== pool) return []; // A node of another pool: names must differ.
  const isOther =
    !isSame(known.capacity, reported.capacity) ||
    !isSame(known.labels, labels) ||
    (reported.topology ?? known.topology) !== known.topology;
  switch (reported.state) {
    case "ready":
      return isReadyAgain(known) || (isOther && isUp(known)) ? [{ kind: "putNode", node }] : [];
    case "draining":
      // Registering makes a node ready, so its label comes before the drain, and only while it is ready.
      if (known.state === "ready" || known.state === "suspect")
        return [
          { kind: "putNode", node: { name, labels } },
          { kind: "drainNode", name },
        ];
      return [];
    case "down":
      // Its end is the cluster's to say (J5): until then what ran there keeps its units.
      if (!isIdle(state, name)) return suspected(name, known.state);
      return known.state === "down" ? [] : [{ kind: "loseNode", name }];
  }
}

function isUp({ state }: NodeRecord): boolean {
  return state === "ready" || state === "suspect";
}

function isReadyAgain({ state, labels }: NodeRecord): boolean {
  const isDrained = state === "draining" || state === "drained";
  return state === "down" || state === "suspect" || (isDrained && labels[DRAINED_LABEL] === BY_CLUSTER);
}

function suspected(name: NodeRecord["name"], state: NodeRecord["state"]): NodeCommand[] {
  return state === "ready" ? [{ kind: "suspectNode", name }] : [];
}

function isIdle(state: EngineState, name: NodeRecord["name"]): boolean {
  return (state.nodes.get(name)?.runs.size ?? 0) === 0;
}

export function isSame<Value>(
  a: Readonly<Record<string, Value>>,
  b: Readonly<Record<string, Value>>,
): boolean {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((key) => a[key] === b[key]);
}
