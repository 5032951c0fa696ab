// Random worlds with their whole course, as the reference sees it: scenarios against which the engine
// is compared. Numbers are small, so that shortages, ties and exact fits are common.

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

export interface Random {
  /** A whole number from `min` to `max`, both included. */
  int(min: number, max: number): number;
}

type Discipline = "priority" | "class";

/** The same seed gives the same world. In a mixed one every pool has a discipline of its own. */
export function randomWorld(seed: number, kind: Discipline | "mixed"): Scenario {
  const dice = diceOf(seededRandom(seed));
  const names = ["alpha", "beta", "gamma"];
  const discipline = kind === "mixed" ? "class" : kind;
  const pools = names
    .slice(0, kind === "mixed" ? dice.int(2, 3) : dice.pick([1, 1, 1, 2, 2, 3]))
    .map((name) => somePool(dice, name, kind === "mixed" ? dice.pick(["priority", "class"]) : kind));
  const policies = pools.flatMap((pool) => somePolicies(dice, pool, pool.discipline ?? "priority"));
  const scenario = { name: `random ${kind} world ${seed}`, pools, policies };
  return { ...scenario, script: someScript(dice, { ...scenario, nodes: [] }, discipline) };
}

/**
 * A world of one pool with nodes that are alike. Where work takes whole nodes, it is their number that
 * matters; in pieces, where each run lies matters too.
 */
export function randomNodeWorld(
  seed: number,
  discipline: Discipline,
  work: "whole" | "pieces" = "whole",
): Scenario {
  const dice = diceOf(seededRandom(seed));
  const one: Amounts = dice.pick([
    { gpu: work === "whole" ? 1 : 8 },
    { gpu: 2 },
    { gpu: 4, mcpu: 8000 },
    { mcpu: 1000 },
  ]);
  const hasTopology = dice.chance(40);
  const nodes = ["n1", "n2", "n3", "n4"].slice(0, dice.int(2, 4)).map((name) => ({
    name,
    pool: "alpha",
    capacity: one,
    ...(hasTopology && { topology: dice.pick(["r1", "r2"]) }),
  }));
  const capacity = Object.fromEntries(
    Object.entries(one).map(([key, amount]) => [key, amount * nodes.length]),
  );
  const pool = { ...somePool(dice, "alpha", discipline), capacity };
  delete pool.groups;
  const policies = somePolicies(dice, pool, discipline);
  const { capacity: _, ...backed } = pool;
  const scenario = { name: `random ${discipline} world ${seed} on nodes`, pools: [backed], nodes, policies };
  const known = { ...scenario, pools: [pool], takesPieces: work === "pieces" };
  return { ...scenario, script: someScript(dice, known, discipline, scenario) };
}

/** A small generator (mulberry32) whose whole state is one number. */
export function seededRandom(seed: number): Random {
  let state = seed;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
  return { int: (min, max) => min + Math.floor(next() * (max - min + 1)) };
}

export type Dice = ReturnType<typeof diceOf>;

export function diceOf(random: Random) {
  const chance = (percent: number) => random.int(1, 100) <= percent;
  const pick = <T>(values: readonly T[]): T => values[random.int(0, values.length - 1)]!;
  /** The fields of `all`, each with its own chance in percent. */
  const some = <T extends object>(all: { [K in keyof T]: [number, () => T[K]] }): Partial<T> => {
    const chosen: Partial<T> = {};
    for (const field of Object.keys(all) as (keyof T)[]) {
      const [percent, make] = all[field];
      if (chance(percent)) chosen[field] = make();
    }
    return chosen;
  };
  return { ...random, chance, pick, some };
}

function somePool(dice: Dice, name: string, discipline: Discipline): PoolSpec {
  const capacity: Amounts = dice.chance(90) ? { gpu: dice.int(1, 8) } : { slot: dice.int(1, 5) };
  if (dice.chance(35)) capacity.lic = dice.int(1, 4);
  if (dice.chance(25)) capacity.mcpu = dice.int(3, 9) * 1000;
  if (dice.chance(25)) capacity.step_run = dice.int(2, 6);
  const settings = someSettings(dice, discipline);
  const groups = someGroups(dice, capacity);
  return {
    name,
    capacity,
    ...(discipline === "class" && { discipline }),
    ...(Object.keys(settings).length > 0 && { settings }),
    ...(groups.length > 0 && { groups }),
  };
}

function someSettings(dice: Dice, discipline: Discipline): PoolSettings {
  const common = dice.some<PoolSettings>({
    backfill: [35, () => dice.pick(["none", "opportunistic", "opportunistic"] as const)],
    min_runtime_seconds: [12, () => dice.pick([47, 131])],
    max_preemptions: [25, () => dice.int(1, 2)],
    checkpoint_timeout_seconds: [15, () => dice.pick([60, 120, 300])],
    max_deferral_seconds: [20, () => dice.pick([0, 60, 600])],
    grace_seconds: [20, () => dice.pick([1, 10, 60])],
  });
  const own =
    discipline === "priority"
      ? dice.some<PoolSettings>({ priority_preempts: [30, () => "any" as const] })
      : dice.some<PoolSettings>({
          max_victims: [35, () => dice.int(1, 4)],
          near_completion_seconds: [30, () => dice.pick([60, 600])],
          class_bands: [15, () => true],
        });
  return { ...common, ...own };
}

function someGroups(dice: Dice, capacity: Amounts): GroupSpec[] {
  if (!dice.chance(30)) return [];
  const limit = () =>
    Object.fromEntries(
      Object.entries(capacity)
        .slice(0, 1)
        .map(([key, most]) => [key, dice.int(1, most + 1)]),
    );
  const lab = { name: "lab", limit: limit() };
  return dice.chance(40)
    ? [lab, { name: "team", parent: "lab", ...(dice.chance(50) && { limit: limit() }) }]
    : [lab];
}

const COMPONENTS = ["red", "blue", "green", "grey", "gold"];
const KINDS = ["batch", "batch", "training", "service", "sensitive", "interactive"];

function somePolicies(dice: Dice, pool: PoolSpec, discipline: PoolSpec["discipline"]): PolicySpec[] {
  const left = { ...pool.capacity };
  return COMPONENTS.filter(() => dice.chance(70)).map((component) => {
    const reserved: Amounts = {};
    const limit: Amounts = {};
    for (const [key, capacity] of Object.entries(pool.capacity!)) {
      const unit = key === "mcpu" ? 1000 : 1;
      if (dice.chance(50)) reserved[key] = dice.int(0, left[key]! / unit / 2) * unit;
      left[key]! -= reserved[key] ?? 0;
      if (dice.chance(15)) limit[key] = Math.max(reserved[key] ?? 0, dice.int(1, capacity / unit + 1) * unit);
    }
    return {
      pool: pool.name,
      component,
      priority: discipline === "priority" ? dice.pick([0, 1, 3, 5, 5, 9]) : dice.int(0, 2),
      ...(Object.keys(reserved).length > 0 && { reserved }),
      ...(Object.keys(limit).length > 0 && { limit }),
      ...(discipline === "class" && dice.chance(50) && { kind: dice.pick(KINDS) }),
      ...(pool.groups && dice.chance(50) && { group: dice.pick(pool.groups).name }),
    };
  });
}

/** What the generator needs to know to ask for things that make sense. */
interface Course {
  dice: Dice;
  discipline: Discipline;
  pools: PoolSpec[];
  policies: PolicySpec[];
  nodes: NodeSpec[];
  takesPieces?: boolean;
  /** Names of the nodes that are down or draining. */
  away: Set<string>;
  seen: Observation;
  submitted: number;
  /** Holders that fell silent say nothing more: id → the attempt that they held. */
  lost: Map<string, number>;
}

function someScript(
  dice: Dice,
  known: Pick<Course, "pools" | "policies" | "nodes" | "takesPieces">,
  discipline: Discipline,
  scenario: Omit<Scenario, "script"> = { name: "", pools: known.pools, policies: known.policies },
): Step[] {
  const play = beginReference(scenario);
  const course: Course = {
    ...structuredClone(known),
    dice,
    discipline,
    away: new Set(),
    seen: play({ advance: 0 }),
    submitted: 0,
    lost: new Map(),
  };
  return Array.from({ length: dice.int(10, 40) }, () => {
    const action = someAction(course);
    course.seen = play(action);
    return { ...action, expect: expectationOf(course.seen) };
  });
}

function someAction(course: Course): Step {
  const { dice, seen } = course;
  const runs = Object.keys(seen.pool).filter((id) => course.lost.get(id) !== seen.attempt[id]);
  const run = runs.length === 0 ? undefined : dice.pick(runs);
  const victims = runs.filter((id) => seen.status[id] === "preempting");
  const anyone = Object.keys(seen.status);
  const roll = dice.int(1, 100);
  if (roll <= 50 || anyone.length === 0) return { submit: someRequest(course) };
  if (roll <= 59) return { advance: dice.pick(MOMENTS) };
  if (roll <= 67) return victims.length > 0 ? { stopped: dice.pick(victims) } : { advance: dice.int(1, 100) };
  if (roll <= 71 && run !== undefined) return { finish: run };
  if (roll <= 75 && run !== undefined) return { fail: run };
  if (roll <= 80) return cancelSomeone(course, anyone);
  if (roll <= 83 && run !== undefined) return { checkpointed: run };
  if (roll <= 85 && run !== undefined) return { progress: run };
  if (roll <= 87 && run !== undefined) return { defer: { id: run, seconds: dice.pick([10, 40, 200]) } };
  if (roll <= 89 && run !== undefined) {
    course.lost.set(run, seen.attempt[run]!);
    return { lose_holder: run };
  }
  if (roll <= 90)
    return { finish: dice.pick([...anyone.filter((id) => seen.status[id] === "queued"), "nobody"]) };
  return course.nodes.length > 0 ? someNodeChange(course) : someChange(course);
}

/** Seconds at which something often happens, and their neighbours. */
const MOMENTS = [1, 7, 17, 29, 30, 31, 47, 60, 90, 120, 300, 450, 600, 630, 3600];

const OPEN = new Set(["queued", "allocated", "preempting"]);

function cancelSomeone({ dice, seen }: Course, anyone: string[]): Step {
  const open = anyone.filter((id) => OPEN.has(seen.status[id]!));
  return open.length > 0 ? { cancel: dice.pick(open) } : { advance: 5 };
}

function someRequest(course: Course): SubmitSpec {
  const { dice, pools, policies, nodes, discipline } = course;
  course.submitted += 1;
  const policy = policies.length > 0 && dice.chance(96) ? dice.pick(policies) : undefined;
  const pool = pools.find((other) => other.name === policy?.pool) ?? dice.pick(pools);
  const share = policy?.reserved ?? {};
  const bound = dice.chance(25);
  const resources: Amounts = {};
  for (const [key, capacity] of Object.entries(pool.capacity!)) {
    if (key === "step_run" || !dice.chance(key === "gpu" ? 95 : 40)) continue;
    const unit = key === "mcpu" ? 1000 : 1;
    // Often just what the reserve covers: those who own something are the ones who take it back.
    const most = (dice.chance(50) && share[key]) || Math.min(capacity, policy?.limit?.[key] ?? capacity);
    resources[key] = Math.max(1, Math.min(most / unit, dice.pick([1, 1, 1, 2, 2, 3, 4, 6]))) * unit;
  }
  if (Object.keys(resources).length === 0) resources[dice.pick(["gpu", "mcpu"])] = dice.int(1, 3);
  const isOwn = Object.entries(resources).every(([key, amount]) => amount <= (share[key] ?? 0));
  const component = policy?.component ?? dice.pick(COMPONENTS);
  return {
    id: `r${course.submitted}`,
    component,
    resources: nodes[0] === undefined ? resources : someOfNode(course, nodes[0]),
    ...(nodes.length > 0 && { nodes: dice.int(1, dice.chance(95) ? nodes.length : 5) }),
    ...(bound && (isOwn || dice.chance(15)) && { preemptible: false }),
    ...someOrder(course, component),
    ...dice.some<Omit<SubmitSpec, "id" | "component">>({
      preemption_class: [
        discipline === "class" ? 95 : 20,
        () => dice.pick([0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10]),
      ],
      sensitive: [4, () => true],
      checkpoint: [45, () => dice.pick(["auto", "manual"] as const)],
      checkpoint_seconds: [discipline === "class" ? 20 : 0, () => dice.pick([60, 120, 600])],
      walltime_seconds: [42, () => dice.pick([33, 60, 60, 122, 159, 300, 600, 601, 3600, 7200])],
      retries: [
        25,
        () =>
          dice.some<{ max: number; delay: number }>({
            max: [80, () => dice.int(0, 2)],
            delay: [40, () => dice.pick([17, 60, 90])],
          }),
      ],
      requeue: [18, () => dice.pick(["never", "on_preemption", "on_failure"] as const)],
      wait_timeout_seconds: [12, () => dice.pick([30, 66, 90, 300, 630])],
    }),
  };
}

/** After others, or as a member of an array (J9). */
export function someOrder(
  { dice, seen }: Pick<Course, "dice" | "seen">,
  component: string,
): Pick<SubmitSpec, "after" | "array" | "operation"> {
  const others = Object.keys(seen.status);
  if (dice.chance(8) && others.length > 0) {
    const after = Array.from({ length: dice.int(1, 2) }, () => ({
      id: dice.pick(others),
      when: dice.pick(["ok", "any"] as const),
    }));
    return { after };
  }
  if (!dice.chance(8)) return {};
  return { operation: `${component} sweep`, array: { index: dice.int(0, 9), at_once: dice.int(1, 3) } };
}

function someOfNode({ dice, takesPieces }: Course, { capacity }: NodeSpec): Amounts {
  if (!takesPieces) return capacity;
  const pieces = Object.entries(capacity).map(
    ([key, amount]) => [key, (amount * dice.int(1, 4)) / 4] as const,
  );
  return Object.fromEntries(pieces.map(([key, amount]) => [key, Math.max(1, Math.floor(amount))]));
}

function someNodeChange({ dice, nodes, away, policies }: Course): Step {
  const node = dice.pick(nodes);
  const { pool, component } = policies.length > 0 ? dice.pick(policies) : { pool: "alpha", component: "red" };
  if (dice.chance(20)) return { update_policy: { pool, component, priority: dice.int(0, 9) } };
  if (away.has(node.name)) {
    away.delete(node.name);
    return { node_up: node };
  }
  away.add(node.name);
  return dice.chance(70) ? { node_down: node.name } : { drain: node.name };
}

/** Administration, mostly sensible, sometimes refused. */
function someChange({ dice, pools, policies, seen, discipline }: Course): Step {
  const pool = dice.pick(pools);
  const policy = policies.length === 0 ? undefined : dice.pick(policies);
  const force = dice.chance(40) && { force: true };
  const key = dice.pick(Object.keys(pool.capacity!));
  const amount = (most: number) => dice.int(0, most) * (key === "mcpu" ? 1000 : 1);
  const ended = Object.keys(seen.status).filter((id) => !OPEN.has(seen.status[id]!));
  const open = Object.keys(seen.status).filter((id) => OPEN.has(seen.status[id]!));
  const roll = dice.int(1, 100);
  if (roll <= 25) return { update_pool: { name: pool.name, capacity: { [key]: amount(9) || 1 }, ...force } };
  if (roll <= 33) return { update_pool: { name: pool.name, settings: someSettings(dice, discipline) } };
  if (roll <= 60 && policy !== undefined) {
    const change = dice.pick<Partial<PolicySpec>>([
      { priority: dice.pick([0, 1, 3, 5, 9]) },
      { limit: { [key]: amount(6) } },
      { reserved: { [key]: amount(3) } },
    ]);
    return { update_policy: { pool: policy.pool, component: policy.component, ...change, ...force } };
  }
  if (roll <= 72)
    return {
      attach_policy: {
        pool: pool.name,
        component: dice.pick(COMPONENTS),
        priority: dice.pick([1, 5]),
        ...force,
      },
    };
  if (roll <= 82 && policy !== undefined)
    return { detach_policy: { pool: policy.pool, component: policy.component, ...force } };
  if (roll <= 86) return { delete_pool: { name: pool.name, ...force } };
  if (roll <= 92 && pool.groups)
    return {
      update_group: {
        pool: pool.name,
        name: dice.pick(pool.groups).name,
        limit: { [key]: amount(6) },
        ...force,
      },
    };
  if (open.length > 0 && dice.chance(50)) return { delete_request: { id: dice.pick(open), ...force } };
  return { delete_request: ended.length > 0 ? dice.pick(ended) : "nobody" };
}

/** Everything that was seen, in the form of an expectation; reasons of this step only. */
export function expectationOf({ error, reason, ...seen }: Observation): NonNullable<Step["expect"]> {
  const reasons = Object.fromEntries(seen.preempted.map((id) => [id, reason[id]!]));
  return { ...seen, reason: reasons, ...(error !== undefined && { error }) };
}
