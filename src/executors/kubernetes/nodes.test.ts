import { expect, test } from "vitest";
import { reportedNodes, requestsOf } from "./nodes.ts";
import type { ClusterNode, Pod } from "./objects.ts";

const node = (name: string, more: Partial<ClusterNode["spec"]> = {}, ready = "True"): ClusterNode => ({
  metadata: { name },
  spec: more,
  status: {
    allocatable: { cpu: "3920m", memory: "15924Mi", "nvidia.com/gpu": "4", pods: "110" },
    conditions: [
      { type: "MemoryPressure", status: "False" },
      { type: "Ready", status: ready },
    ],
  },
});
const pod = (nodeName: string, requests: Record<string, string>, own = false): Pod => ({
  metadata: { labels: own ? { own: "1" } : {} },
  spec: { nodeName, containers: [{ resources: { requests } }] },
});
const look = (nodes: ClusterNode[], pods: Pod[] = [], gpuResource = "nvidia.com/gpu") =>
  reportedNodes({ nodes, pods, gpuResource, isOwn: ({ metadata }) => metadata?.labels?.own === "1" });

test("K4: a node gives what is allocatable, less what others' pods there have asked for", () => {
  const pods = [
    pod("a", { cpu: "250m", memory: "1Gi", "nvidia.com/gpu": "1" }),
    pod("a", { cpu: "0.5", memory: "512Ki" }),
    pod("a", { cpu: "2", "nvidia.com/gpu": "2" }, true),
    pod("b", { cpu: "1" }),
  ];
  expect(look([node("b"), node("a")], pods)).toEqual([
    { name: "a", state: "ready", capacity: { gpu: 3, mcpu: 3_170, memory_mb: 14_899 } },
    { name: "b", state: "ready", capacity: { gpu: 4, mcpu: 2_920, memory_mb: 15_924 } },
  ]);
});

test("K4: cordoned is draining, not ready is down, and what has nothing to give is left out", () => {
  const full = pod("d", { cpu: "8", memory: "64Gi", "nvidia.com/gpu": "9" });
  const nodes = [
    node("a", { unschedulable: true }),
    node("b", {}, "Unknown"),
    node("c", { unschedulable: true }, "False"),
  ];
  expect(look([...nodes, node("d")], [full]).map(({ name, state }) => `${name} ${state}`)).toEqual([
    ...["a draining", "b down", "c down"],
  ]);
});

test("K3: another kind of GPU counts where it is named", () => {
  const amd = { ...node("a"), status: { ...node("a").status, allocatable: { "amd.com/gpu": "8" } } };
  expect(look([amd], [], "amd.com/gpu")[0]?.capacity).toEqual({ gpu: 8 });
});

test("K4: what a pod asks for is counted as the scheduler does it", () => {
  const cpu = (text: string) => ({ resources: { requests: { cpu: text } } });
  const spec = {
    containers: [cpu("1"), { resources: { limits: { cpu: "500m" } } }],
    initContainers: [cpu("1"), { ...cpu("250m"), restartPolicy: "Always" }, cpu("3")],
    overhead: { cpu: "100m" },
  };
  expect(requestsOf({ spec }).get("cpu")).toBe(3_350_000_000n);
  expect(requestsOf({ spec: { ...spec, initContainers: [] } }).get("cpu")).toBe(1_600_000_000n);
  expect(requestsOf({ spec: { ...spec, resources: { requests: { cpu: "9" } } } }).get("cpu")).toBe(
    9_100_000_000n,
  );
});
