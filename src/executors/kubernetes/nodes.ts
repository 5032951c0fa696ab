// The cluster's nodes as the nodes of a pool (K4): what they can give, less what others' pods have asked for. Pure.

import type { WireReportedNode } from "../../protocol/index.ts";
import type { ClusterNode, Container, Pod, Quantities } from "./objects.ts";
import { parseQuantity, toCount, toMcpu, toMemoryMb } from "./quantities.ts";

/** In billionths, by the cluster's own names. */
type Amounts = ReadonlyMap<string, bigint>;

export interface NodeView {
  readonly nodes: readonly ClusterNode[];
  /** All pods of the cluster that have not ended. */
  readonly pods: readonly Pod[];
  readonly isOwn: (pod: Pod) => boolean;
  /** What the cluster calls a GPU. */
  readonly gpuResource: string;
}

/** What has nothing to give is left out. */
export function reportedNodes({ nodes, pods, isOwn, gpuResource }: NodeView): WireReportedNode[] {
  const foreign = new Map<string, Pod[]>();
  for (const pod of pods) {
    const node = pod.spec?.nodeName;
    if (node === undefined || isOwn(pod)) continue;
    foreign.set(node, [...(foreign.get(node) ?? []), pod]);
  }
  return nodes
    .map((node): WireReportedNode => {
      const name = node.metadata?.name ?? "";
      const taken = (foreign.get(name) ?? []).map(requestsOf);
      return { name, capacity: capacityOf(node, taken, gpuResource), state: stateOf(node) };
    })
    .filter(({ name, capacity }) => name !== "" && Object.keys(capacity).length > 0)
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function capacityOf(
  { status }: ClusterNode,
  taken: readonly Amounts[],
  gpuResource: string,
): Record<string, number> {
  const left = (key: string) =>
    taken.reduce(
      (rest, amounts) => rest - (amounts.get(key) ?? 0n),
      amountsOf(status?.allocatable).get(key) ?? 0n,
    );
  const amounts = {
    gpu: toCount(left(gpuResource)),
    mcpu: toMcpu(left("cpu")),
    memory_mb: toMemoryMb(left("memory")),
  };
  return Object.fromEntries(Object.entries(amounts).filter(([, amount]) => amount > 0));
}

function stateOf({ spec, status }: ClusterNode): WireReportedNode["state"] {
  const isReady = status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True");
  if (isReady !== true) return "down";
  return spec?.unschedulable === true ? "draining" : "ready";
}

/** As the scheduler counts: what runs at the same time is added, and of what runs in turn the largest counts. */
export function requestsOf({ spec = {} }: Pod): Amounts {
  const { containers = [], initContainers = [], overhead, resources } = spec;
  let sidecars: Amounts = new Map();
  let largest: Amounts = new Map();
  for (const container of initContainers) {
    const own = sum(sidecars, amountsIn(container));
    if (container.restartPolicy === "Always") sidecars = own;
    largest = larger(largest, own);
  }
  const together = containers.map(amountsIn).reduce(sum, sidecars);
  const asked = amountsOf(resources?.requests);
  return sum(larger(larger(together, largest), asked), amountsOf(overhead));
}

/** A limit without a request is one. */
function amountsIn({ resources }: Container): Amounts {
  return amountsOf({ ...resources?.limits, ...resources?.requests });
}

function amountsOf(quantities: Quantities = {}): Amounts {
  return new Map(Object.entries(quantities).map(([key, text]) => [key, parseQuantity(text) ?? 0n]));
}

function combine(a: Amounts, b: Amounts, of: (one: bigint, other: bigint) => bigint): Amounts {
  const keys = new Set([...a.keys(), ...b.keys()]);
  return new Map([...keys].map((key) => [key, of(a.get(key) ?? 0n, b.get(key) ?? 0n)]));
}

const sum = (a: Amounts, b: Amounts) => combine(a, b, (one, other) => one + other);
const larger = (a: Amounts, b: Amounts) => combine(a, b, (one, other) => (one > other ? one : other));
