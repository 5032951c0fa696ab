// Random commands: what people, holders and administrators might send, sense and nonsense. Numbers are small,
// so that shortages, ties and exact fits are common.

import {
  type Command,
  type ComponentName,
  type DisciplineName,
  type EngineState,
  type GroupName,
  type NodeName,
  type NodeRecord,
  nodesOf,
  type PoolName,
  type PoolSettings,
  policiesOf,
  poolsOf,
  type RequestId,
  type RequestSpec,
  type Resources,
  requestIds,
  requestOf,
} from "../../../src/engine/index.ts";
import type { Random } from "./random.ts";

const COMPONENTS = ["red", "blue", "green", "grey", "gold"] as ComponentName[];
const POOLS = ["alpha", "beta", "gamma"] as PoolName[];
const GROUP = "lab" as GroupName;
const NODES = ["n1", "n2", "n3"];
const SECOND_MS = 1000;

/** The pools and policies that a world begins with. */
export function someWorld(random: Random, discipline: DisciplineName, onNodes: boolean): Command[] {
  const pools = POOLS.slice(0, random.pick([1, 1, 2, 2, 3]));
  return pools.flatMap((name) => [
    {
      kind: "createPool" as const,
      name,
      ...(onNodes ? {} : { capacity: someCapacity(random) }),
      discipline,
      settings: someSettings(random),
      ...(random.chance(30) ? { groups: [{ name: GROUP, limit: { gpu: random.int(1, 6) } }] } : {}),
    },
    ...(onNodes ? NODES.map((node) => someNode(random, `${name}-${node}`, name)) : []),
    ...COMPONENTS.filter(() => random.chance(85)).map((component) =>
      somePolicy(random, "attachPolicy", name, component),
    ),
  ]);
}

/** The next thing that happens, from the state as it is. */
export function someCommand(random: Random, state: EngineState, step: number): Command {
  const draw = random.int(1, 100);
  if (draw <= 56) return { kind: "submitRequest", spec: someRequest(random, state, `r${step}` as RequestId) };
  if (draw <= 82) return someReport(random, state);
  if (draw <= 87) return { kind: "cancelRequest", requestId: someRequestId(random, state) };
  if (draw <= 89)
    return { kind: "deleteRequest", requestId: someRequestId(random, state), force: random.chance(50) };
  return someChange(random, state);
}

function someReport(random: Random, state: EngineState): Command {
  const running = idsOf(state).filter((id) => requestOf(state, id)?.progress.allocation != null);
  const requestId =
    running.length === 0 || random.chance(3) ? someRequestId(random, state) : random.pick(running);
  const allocation = requestOf(state, requestId)?.progress.allocation;
  const token =
    allocation == null || random.chance(50) ? {} : { token: allocation.token - (random.chance(5) ? 1 : 0) };
  if (allocation?.phase !== undefined && random.chance(25)) {
    const about = { requestId, token: allocation.token };
    if (random.chance(20)) return { kind: "failPart", ...about };
    return { kind: "reportPhase", ...about, phase: random.pick(["starting", "running"] as const) };
  }
  if (random.chance(30)) {
    const checkpoint = random.pick([
      { report: "done" },
      { report: "progress" },
      { report: "progress" },
      { report: "defer", deferMs: random.int(0, 400) * SECOND_MS },
    ] as const);
    return { kind: "reportCheckpoint", requestId, ...token, checkpoint };
  }
  const isStopping = allocation?.stop != null;
  const outcome = isStopping
    ? random.pick(["stopped", "stopped", "succeeded", "failed"] as const)
    : random.pick(["succeeded", "succeeded", "failed", "stopped"] as const);
  return { kind: "reportEnd", requestId, ...token, outcome };
}

function someNode(random: Random, name: string, pool: PoolName): Command {
  return {
    kind: "putNode",
    node: {
      name: name as NodeName,
      pool,
      capacity: { gpu: random.int(1, 4), ...(random.chance(30) ? { mcpu: random.int(2, 9) * 1000 } : {}) },
      topology: random.pick(["east", "west"]),
      labels: {
        ...(random.chance(30) ? { disk: "fast" } : {}),
        ...(random.chance(30) ? { owner: random.pick(COMPONENTS) } : {}),
      },
    },
  };
}

/** Nodes come, go and are drained. */
function someNodeChange(random: Random, nodes: readonly NodeRecord[]): Command {
  const { name, pool } = random.pick(nodes);
  switch (random.int(1, 7)) {
    case 1:
      return { kind: "loseNode", name };
    case 2:
      return {
        kind: "drainNode",
        name,
        ...(random.chance(50) ? { deadlineMs: random.int(0, 10_000_000) } : {}),
      };
    case 3:
      return { kind: "undrainNode", name };
    case 4:
      return { kind: "suspectNode", name };
    case 5:
      return { kind: "removeNode", name, force: random.chance(50) };
    default:
      return someNode(random, random.chance(70) ? name : `${pool}-${random.pick(NODES)}`, pool);
  }
}

function someChange(random: Random, state: EngineState): Command {
  const nodes = nodesOf(state);
  if (nodes.length > 0 && random.chance(50)) return someNodeChange(random, nodes);
  const pool = random.pick(
    poolsOf(state)
      .map(({ name }) => name)
      .concat(POOLS[0] as PoolName),
  );
  const component = random.pick(COMPONENTS);
  const force = random.chance(50);
  switch (random.int(1, 14)) {
    case 1:
    case 2:
      return { kind: "updatePool", name: pool, capacity: { gpu: random.int(0, 9) }, force };
    case 3:
      return { kind: "updatePool", name: pool, settings: someSettings(random) };
    case 4:
    case 5:
    case 6:
    case 13:
      return { ...somePolicy(random, "updatePolicy", pool, component), force };
    case 7:
    case 14:
      return { ...somePolicy(random, "attachPolicy", pool, component), force };
    case 8:
      return { kind: "detachPolicy", pool, component: somePolicyOf(random, state, pool) ?? component, force };
    case 9:
      return { kind: "updateGroup", pool, group: { name: GROUP, limit: { gpu: random.int(0, 8) } }, force };
    case 10:
      return random.chance(30)
        ? { kind: "deletePool", name: pool, force }
        : {
            kind: "createPool",
            name: random.pick(POOLS),
            capacity: someCapacity(random),
            settings: someSettings(random),
          };
    case 11:
      return { kind: "changeServerSettings", unmanaged: random.pick(["reject", "allow"] as const) };
    default:
      return { kind: "forgetEnded", endedBeforeMs: random.int(0, 10_000_000) };
  }
}

function somePolicyOf(random: Random, state: EngineState, pool: PoolName): ComponentName | undefined {
  if (!poolsOf(state).some(({ name }) => name === pool)) return undefined;
  const policies = policiesOf(state, pool);
  return policies.length === 0 ? undefined : random.pick(policies).component;
}

function somePolicy<Kind extends "attachPolicy" | "updatePolicy">(
  random: Random,
  kind: Kind,
  pool: PoolName,
  component: ComponentName,
) {
  return {
    kind,
    policy: {
      pool,
      component,
      ...(random.chance(80) ? { priority: random.pick([0, 1, 3, 5, 5, 9]) } : {}),
      ...(random.chance(45) ? { reserved: { gpu: random.int(0, 3) } } : {}),
      ...(random.chance(25) ? { limit: { gpu: random.int(0, 8) } } : {}),
      ...(random.chance(15)
        ? { kind: random.pick(["training", "service", "interactive", "sensitive"] as const) }
        : {}),
      ...(random.chance(20) ? { group: GROUP } : {}),
      ...(random.chance(20) ? { home: { owner: component } } : {}),
      ...(random.chance(20) ? { weight: random.int(1, 4) } : {}),
    },
  };
}

function someCapacity(random: Random): Resources {
  return {
    gpu: random.int(1, 9),
    ...(random.chance(30) ? { lic: random.int(1, 3) } : {}),
    ...(random.chance(25) ? { mcpu: random.int(2, 9) * 1000 } : {}),
    ...(random.chance(15) ? { step_run: random.int(2, 6) } : {}),
  };
}

function someSettings(random: Random): Partial<PoolSettings> {
  return {
    ...(random.chance(50) ? { backfill: random.pick(["easy", "none", "opportunistic"] as const) } : {}),
    ...(random.chance(25) ? { priorityPreempts: random.pick(["borrowed", "any"] as const) } : {}),
    ...(random.chance(25) ? { maxPreemptions: random.int(1, 3) } : {}),
    ...(random.chance(20) ? { minRuntimeMs: random.pick([0, 47, 131]) * SECOND_MS } : {}),
    ...(random.chance(20) ? { graceMs: random.pick([1, 10, 60]) * SECOND_MS } : {}),
    ...(random.chance(20) ? { checkpointTimeoutMs: random.pick([60, 120, 300]) * SECOND_MS } : {}),
    ...(random.chance(35) ? { maxVictims: random.pick([1, 1, 2, 3, 4]) } : {}),
    ...(random.chance(15) ? { classBands: random.chance(50) } : {}),
    ...(random.chance(20) ? { enableAggressiveStarvation: random.chance(70) } : {}),
    ...(random.chance(20) ? { enforceLimits: random.chance(50) } : {}),
    ...(random.chance(70) ? { executor: random.pick(["agents", "agents", "agents", "none"] as const) } : {}),
  };
}

function someRequest(random: Random, state: EngineState, id: RequestId): RequestSpec {
  const seconds = (choices: readonly number[]) => random.pick(choices) * SECOND_MS;
  const retriesMax = random.chance(30) ? random.int(0, 2) : null;
  const operation = random.chance(30) ? random.pick(["op-a", "op-b", "op-c"]) : null;
  return {
    id,
    component: random.chance(2) ? ("nobody" as ComponentName) : random.pick(COMPONENTS),
    resources: {
      ...(random.chance(92) ? { gpu: random.pick([1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 6]) } : {}),
      ...(random.chance(15) ? { lic: random.int(1, 2) } : {}),
      ...(random.chance(20) ? { mcpu: random.int(1, 4) * 1000 } : {}),
      step_run: 1,
    },
    preemptible: random.chance(80),
    preemptionClass: random.chance(40) ? 5 : random.int(0, 10),
    sensitive: random.chance(7),
    checkpoint: random.pick(["none", "none", "auto", "manual"] as const),
    checkpointMs: random.chance(20) ? seconds([30, 120, 900]) : null,
    walltimeMs: random.chance(50) ? seconds([33, 60, 122, 600, 3600, 7200]) : null,
    operation,
    gang: random.chance(5),
    nodes: random.chance(12) ? 2 : 1,
    constraints: random.chance(8) ? { disk: "fast" } : {},
    pools: null,
    retriesMax,
    retryDelayMs: random.chance(20) ? seconds([17, 60, 90]) : 0,
    requeue:
      retriesMax === null ? random.pick(["on_preemption", "on_preemption", "never"] as const) : "on_failure",
    waitTimeoutMs: random.chance(20) ? seconds([30, 300, 630]) : null,
    attended: random.chance(10),
    name: "",
    labels: {},
    note: "",
    submittedBy: "simulation",
    isJob: random.chance(25),
    after: random.chance(8) ? someDependencies(random, state) : null,
    array:
      operation !== null && random.chance(40)
        ? { index: random.int(0, 99), atOnce: random.chance(70) ? random.int(1, 3) : null }
        : null,
  };
}

function someDependencies(random: Random, state: EngineState): NonNullable<RequestSpec["after"]> {
  const requestIds = [someRequestId(random, state), someRequestId(random, state)].slice(random.int(0, 1));
  return requestIds.map((requestId) => ({ requestId, when: random.pick(["ok", "ok", "any"] as const) }));
}

function someRequestId(random: Random, state: EngineState): RequestId {
  const ids = idsOf(state);
  return ids.length === 0 || random.chance(2) ? ("nobody" as RequestId) : random.pick(ids);
}

/** In an order that does not depend on what was tried and taken back before. */
function idsOf(state: EngineState): RequestId[] {
  return [...requestIds(state)].sort();
}
