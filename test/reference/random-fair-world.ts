// Random worlds of discipline `fair_share` with their whole course, as the reference sees it. One pool, with or
// without nodes; small numbers, so that shortages, ties and exact fits are common.

import { type Dice, diceOf, expectationOf, seededRandom, someOrder } from "./random-world.ts";
import type {
  Amounts,
  GroupSpec,
  NodeSpec,
  PolicySpec,
  PoolSettings,
  PoolSpec,
  Scenario,
  Step,
  SubmitSpec,
} from "./scenario.ts";
import { beginReference, type Observation } from "./scheduler.ts";

export function randomFairWorld(seed: number, kind: "quota" | "nodes"): Scenario {
  const dice = diceOf(seededRandom(seed));
  const nodes = kind === "nodes" ? someNodes(dice) : [];
  const capacity = kind === "nodes" ? sumOf(nodes) : someCapacity(dice);
  const groups = someGroups(dice, capacity);
  const settings = someSettings(dice, capacity);
  const pool: PoolSpec = { name: "p", capacity, discipline: "fair_share", settings, groups };
  const policies = somePolicies(dice, pool);
  const { capacity: _, ...backed } = pool;
  const scenario = {
    name: `random fair_share world ${seed}${kind === "nodes" ? " on nodes" : ""}`,
    pools: [kind === "nodes" ? backed : pool],
    ...(kind === "nodes" && { nodes }),
    policies,
  };
  const play = beginReference(scenario);
  const course: Course = {
    dice,
    pool,
    policies,
    nodes,
    away: new Set(),
    seen: play({ advance: 0 }),
    submitted: 0,
    lost: new Map(),
  };
  const script = Array.from({ length: dice.int(15, 40) }, () => {
    const action = someAction(course);
    course.seen = play(action);
    return { ...action, expect: expectationOf(course.seen) };
  });
  return { ...scenario, script };
}

interface Course {
  dice: Dice;
  pool: PoolSpec;
  policies: PolicySpec[];
  nodes: NodeSpec[];
  /** Names of the nodes that are down or draining. */
  away: Set<string>;
  seen: Observation;
  submitted: number;
  /** Holders that fell silent say nothing more: id → the attempt that they held. */
  lost: Map<string, number>;
}

function someCapacity(dice: Dice): Amounts {
  const capacity: Amounts = { gpu: dice.int(2, 12) };
  if (dice.chance(40)) capacity.memory_mb = dice.int(2, 10) * 10;
  if (dice.chance(15)) capacity.mcpu = dice.int(2, 8) * 1000;
  if (dice.chance(15)) capacity.licence = dice.int(1, 3);
  return capacity;
}

function someNodes(dice: Dice): NodeSpec[] {
  const hasMemory = dice.chance(30);
  const hasLicences = dice.chance(20);
  return ["n0", "n1", "n2", "n3"].slice(0, dice.int(2, 4)).map((name) => ({
    name,
    pool: "p",
    capacity: {
      gpu: dice.int(2, 6),
      ...(hasMemory && { memory_mb: dice.int(2, 6) * 10 }),
      ...(hasLicences && { licence: dice.int(1, 2) }),
    },
  }));
}

function sumOf(nodes: NodeSpec[]): Amounts {
  const total: Amounts = {};
  for (const { capacity } of nodes) {
    for (const [key, amount] of Object.entries(capacity)) total[key] = (total[key] ?? 0) + amount;
  }
  return total;
}

function overrides(dice: Dice, often: number): Partial<PoolSettings> {
  return dice.some<Partial<PoolSettings>>({
    fair_share_starvation_timeout: [often, () => dice.pick([0, 10, 20, 45])],
    fair_share_aggressive_starvation_timeout: [often, () => dice.pick([50, 60, 90])],
    fair_share_starvation_tolerance: [often, () => dice.pick([0.5, 0.7, 0.9, 1])],
    preemption_satisfaction_threshold: [often, () => dice.pick([0.5, 0.85, 1.15])],
    aggressive_preemption_satisfaction_threshold: [often, () => dice.pick([0, 0.1, 0.35, 0.5])],
    non_preemptible_resource_usage_threshold: [
      often / 2,
      () => (dice.chance(20) ? {} : { gpu: dice.int(1, 4) }),
    ],
    enable_aggressive_starvation: [often, () => dice.chance(75)],
    allow_aggressive_preemption: [often, () => dice.chance(50)],
  });
}

function someSettings(dice: Dice, capacity: Amounts): PoolSettings {
  return {
    ...overrides(dice, 25),
    ...dice.some<PoolSettings>({
      enable_aggressive_starvation: [50, () => true],
      preemptive_scheduling_backoff: [30, () => dice.pick([0, 2, 8, 30])],
      enforce_limits: [45, () => true],
      grace_seconds: [50, () => dice.pick([1, 5, 12])],
      min_runtime_seconds: [10, () => dice.pick([13, 47])],
      max_preemptions: [15, () => dice.int(1, 2)],
      main_key: [10, () => dice.pick(Object.keys(capacity))],
      share_keys: [15, () => someKeys(dice, capacity)],
    }),
  };
}

function someKeys(dice: Dice, capacity: Amounts): string[] {
  const keys = Object.keys(capacity);
  const some = keys.filter(() => dice.chance(60));
  return some.length > 0 ? some : [dice.pick(keys)];
}

/** Of some keys that there are, seldom more than a part of them. */
function someReserved(dice: Dice, left: Amounts): Amounts {
  const reserved: Amounts = { gpu: dice.int(0, Math.floor(left.gpu! / 2)) };
  for (const key of Object.keys(left)) {
    if (key !== "gpu" && dice.chance(25)) reserved[key] = dice.int(0, Math.floor(left[key]! / 2));
  }
  for (const [key, amount] of Object.entries(reserved)) left[key]! -= amount;
  return reserved;
}

function someGroups(dice: Dice, capacity: Amounts): GroupSpec[] {
  const groups: GroupSpec[] = [];
  for (const name of ["g0", "g1", "g2"].slice(0, dice.pick([0, 0, 1, 2, 3]))) {
    const parents = groups.filter(({ mode }) => mode !== "fifo").map((group) => group.name);
    const settings = overrides(dice, 12);
    const parent = parents.length > 0 && dice.chance(35) ? dice.pick(parents) : undefined;
    groups.push({
      name,
      ...(parent !== undefined && { parent }),
      ...(dice.chance(50) && { weight: dice.pick([0.5, 1.5, 2, 3]) }),
      ...(dice.chance(20) && { limit: { gpu: dice.int(Math.floor(capacity.gpu! / 3), capacity.gpu!) } }),
      ...(parent === undefined &&
        dice.chance(20) && { reserved: { gpu: dice.int(0, Math.floor(capacity.gpu! / 3)) } }),
      ...(dice.chance(20) && { mode: "fifo" as const }),
      ...(Object.keys(settings).length > 0 && { settings: settings as Record<string, unknown> }),
    });
  }
  return groups;
}

const COMPONENTS = ["a", "b", "c", "d"];

function somePolicies(dice: Dice, { capacity, groups }: PoolSpec): PolicySpec[] {
  const left = { ...capacity! };
  for (const { reserved } of groups!) left.gpu! -= reserved?.gpu ?? 0;
  return COMPONENTS.slice(0, dice.int(2, 4)).map((component) => {
    const group = groups!.length > 0 && dice.chance(60) ? dice.pick(groups!).name : undefined;
    const reserved = dice.chance(40) ? someReserved(dice, left) : undefined;
    return {
      pool: "p",
      component,
      ...(dice.chance(50) && { weight: dice.pick([0.5, 1.5, 2, 3, 4]) }),
      ...(reserved !== undefined && !isBelowReserve(groups!, group) && { reserved }),
      ...(dice.chance(20) && { limit: { gpu: Math.max(reserved?.gpu ?? 0, dice.int(1, capacity!.gpu!)) } }),
      ...(group !== undefined && { group }),
    };
  });
}

/** Whether what it reserves would have to fit what a group above it does (P4). */
function isBelowReserve(groups: GroupSpec[], name: string | undefined): boolean {
  const group = groups.find((each) => each.name === name);
  return group !== undefined && (group.reserved !== undefined || isBelowReserve(groups, group.parent));
}

function someAction(course: Course): Step {
  const { dice, seen } = course;
  const runs = Object.keys(seen.pool).filter((id) => course.lost.get(id) !== seen.attempt[id]);
  const victims = runs.filter((id) => seen.status[id] === "preempting");
  const open = Object.keys(seen.status).filter((id) =>
    ["queued", "allocated", "preempting"].includes(seen.status[id]!),
  );
  const roll = dice.int(1, 100);
  if (roll <= 48 || open.length === 0) return { submit: someRequest(course) };
  if (roll <= 74)
    return { advance: dice.pick([1, 3, 5, 7, 11, 15, 16, 20, 29, 30, 31, 40, 60, 90, 120, 600]) };
  if (roll <= 79 && victims.length > 0) return { stopped: dice.pick(victims) };
  if (roll <= 83 && runs.length > 0) return { finish: dice.pick(runs) };
  if (roll <= 85 && runs.length > 0) return { fail: dice.pick(runs) };
  if (roll <= 88) return { cancel: dice.pick(open) };
  if (roll <= 90 && runs.length > 0) return { checkpointed: dice.pick(runs) };
  if (roll <= 91 && runs.length > 0) {
    const run = dice.pick(runs);
    course.lost.set(run, seen.attempt[run]!);
    return { lose_holder: run };
  }
  return someChange(course);
}

function someRequest(course: Course): SubmitSpec {
  const { dice, pool, policies } = course;
  const id = `r${course.submitted++}`;
  const policy = dice.pick(policies);
  const { component } = policy;
  const resources: Amounts = { gpu: dice.pick([1, 1, 1, 1, 2, 2, 2, 3, 4, 6]) };
  for (const key of Object.keys(pool.capacity!)) {
    if (key === "gpu" || !dice.chance(40)) continue;
    const unit = key === "mcpu" ? 1000 : key === "memory_mb" ? 10 : 1;
    resources[key] = dice.int(1, key === "licence" ? 1 : 3) * unit;
  }
  const isOwn = Object.entries(resources).every(([key, amount]) => amount <= (policy.reserved?.[key] ?? 0));
  return {
    id,
    component,
    resources,
    ...(dice.chance(80) && { operation: `${component}${dice.int(1, 2)}` }),
    ...someOrder(course, component),
    ...((isOwn ? dice.chance(30) : dice.chance(1)) && { preemptible: false }),
    ...dice.some<Omit<SubmitSpec, "id" | "component">>({
      gang: [6, () => true],
      sensitive: [3, () => true],
      checkpoint: [15, () => dice.pick(["auto", "manual"] as const)],
      walltime_seconds: [6, () => dice.pick([33, 83, 122])],
      retries: [
        9,
        () =>
          dice.some<{ max: number; delay: number }>({
            max: [80, () => dice.int(0, 2)],
            delay: [30, () => dice.pick([17, 60])],
          }),
      ],
      requeue: [18, () => dice.pick(["never", "on_preemption", "on_failure"] as const)],
      wait_timeout_seconds: [6, () => dice.pick([37, 66])],
    }),
  };
}

function someChange({ dice, pool, policies, nodes, away }: Course): Step {
  const { component } = dice.pick(policies);
  const most = pool.capacity!.gpu!;
  const roll = dice.int(1, 100);
  if (roll <= 25) return { update_policy: { pool: "p", component, weight: dice.pick([0.5, 1, 2, 4]) } };
  if (roll <= 50)
    return { update_policy: { pool: "p", component, limit: { gpu: dice.int(1, most) }, force: true } };
  if (roll <= 60 && pool.groups!.length > 0) {
    const { name } = dice.pick(pool.groups!);
    const change = dice.pick<Partial<GroupSpec>>([
      { limit: { gpu: dice.int(1, most) } },
      { weight: dice.pick([0.5, 2, 3]) },
      { reserved: { gpu: dice.int(0, most) } },
      { settings: overrides(dice, 30) as Record<string, unknown> },
    ]);
    return { update_group: { pool: "p", name, ...change, force: true } };
  }
  if (roll <= 70) {
    const settings = { ...overrides(dice, 15), ...(dice.chance(30) && { enforce_limits: dice.chance(50) }) };
    return { update_pool: { name: "p", settings } };
  }
  if (nodes.length === 0)
    return { update_pool: { name: "p", capacity: { gpu: dice.int(1, 12) }, force: true } };
  const node = dice.pick(nodes);
  if (roll <= 83 && !away.has(node.name)) {
    away.add(node.name);
    return roll <= 78 ? { node_down: node.name } : { drain: node.name };
  }
  away.delete(node.name);
  return { node_up: { ...node, capacity: { ...node.capacity, gpu: dice.int(1, 6) } } };
}
