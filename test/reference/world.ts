// The records of the reference scheduler, and every number that the rules speak of, computed from
// them anew each time it is asked for. Nothing is kept but what happened.

import type { Clocks } from "./fair-share.ts";
import type { Amounts, GroupSpec, NodeSpec, PolicySpec, PoolSettings } from "./scenario.ts";

export interface Node extends NodeSpec {
  state: "ready" | "draining" | "down";
}

export interface Pool {
  name: string;
  /** In a node-backed pool the sum of its ready nodes (P2). */
  capacity: Amounts;
  nodes?: Node[];
  discipline: "priority" | "fair_share" | "class";
  settings: PoolSettings;
  groups: GroupSpec[];
  /** Deleted by force: takes nothing new and vanishes with its last run (P8). */
  closing: boolean;
}

export interface Policy extends PolicySpec {
  priority: number;
  reserved: Amounts;
  limit: Amounts;
  kind: string;
}

/** One attempt that holds units. */
export interface Run {
  pool: string | undefined;
  /** Names of its nodes, in a node-backed pool. */
  placed?: string[];
  startedAt: number;
  /** Position of the grant in the history: later grants have higher numbers. */
  position: number;
  /** Started in the gap before a head that did not mind (G4). */
  opportunistic: boolean;
  /** Last completed checkpoint of this attempt. */
  checkpointAt?: number;
  /** Position of that checkpoint in the history. */
  checkpointPosition?: number;
  victim: boolean;
  /** When it became one. */
  toldAt?: number;
  cancelled: boolean;
  overtime: boolean;
  /** While it is asked to checkpoint: when that time is up. */
  deadline?: number;
  progressed: boolean;
  extended: boolean;
  deferredSeconds: number;
  killAt?: number;
  lostAt?: number;
}

export interface Request {
  id: string;
  /** Position of the submission in the history. */
  position: number;
  submittedAt: number;
  component: string;
  resources: Amounts;
  nodes: number;
  preemptible: boolean;
  class: number;
  sensitive: boolean;
  checkpoint: "none" | "auto" | "manual";
  checkpointSeconds: number | undefined;
  walltime: number | undefined;
  retriesMax: number;
  retriesDelay: number;
  requeue: "never" | "on_preemption" | "on_failure";
  waitTimeout: number | undefined;
  status: string;
  attempt: number;
  preemptedCount: number;
  /** When its attempts ended by preemption. */
  preemptedAt: number[];
  resume: boolean;
  /** Deleted by force while it ran: its record goes with its end (Q6). */
  isDeleted?: boolean;
  reason?: string;
  rejected?: Record<string, string> | string;
  /** Latest entry into the queue; in the future while `retries.delay` keeps it out (Q3). */
  queuedAt: number;
  isDelayed: boolean;
  /** What must have ended before it enters the queue, and how many of its operation may be there at once (J9). */
  after: { id: string; when: "ok" | "any" }[];
  atOnce?: number | undefined;
  isMember: boolean;
  isBlocked: boolean;
  run?: Run;
  operation?: string | undefined;
  gang?: boolean;
  /** The pool in which it holds (V5). */
  hold?: string;
  /** Where it holds in a pool with nodes, and in a fair-share pool the position of the decision (V5, 9.7). */
  heldNodes?: string[];
  heldAt?: number;
  /** For whom its last attempt was stopped. */
  preemptedFor?: string;
}

export interface World {
  now: number;
  unmanaged: "allow" | "reject";
  pools: Pool[];
  policies: Policy[];
  requests: Request[];
  /** Counts submissions and grants, so that equal times never make a tie. */
  position: number;
  /** Who displaced whom since the last new event of a pool (V6). */
  displaced: { pool: string; by: string; of: string }[];
  /** Who entered `preempting` in this step. */
  preempted: string[];
  /** Of fair-share pools, by name. */
  clocks?: Map<string, Clocks>;
}

const DAY_SECONDS = 86_400;

/** Preempted as often within a day as the pool where it runs allows (V6). */
export function isShielded(world: World, pool: Pool, run: Request): boolean {
  const recent = run.preemptedAt.filter((time) => time > world.now - DAY_SECONDS);
  return recent.length >= settingsOf(pool).max_preemptions;
}

/** When one more of its preemptions is a day old. */
export function shieldMoments(request: Request): number[] {
  return request.preemptedAt.map((time) => time + DAY_SECONDS);
}

/** Whether one, or something it displaced, has displaced the other, each since the last new event of the pool where it did (V6). */
export function hasDisplaced(world: World, by: string, of: string): boolean {
  const reached = new Set([by]);
  for (const one of reached) {
    for (const entry of world.displaced) {
      if (entry.by === one) reached.add(entry.of);
    }
  }
  return by !== of && reached.has(of);
}

export const UNMETERED = new Set(["mcpu", "memory_mb", "step_run"]);

export function settingsOf(pool: Pool) {
  return {
    backfill: "easy",
    priority_preempts: "borrowed",
    min_runtime_seconds: 0,
    max_preemptions: pool.discipline === "fair_share" ? Number.POSITIVE_INFINITY : 5,
    checkpoint_timeout_seconds: 600,
    max_deferral_seconds: 300,
    grace_seconds: 30,
    max_victims: pool.discipline === "class" ? 3 : Number.POSITIVE_INFINITY,
    near_completion_seconds: 300,
    class_bands: false,
    ...pool.settings,
  };
}

export function policyOf(world: World, pool: Pool, component: string): Policy | undefined {
  return world.policies.find((policy) => policy.pool === pool.name && policy.component === component);
}

export function priorityOf(world: World, pool: Pool, request: Request): number {
  return policyOf(world, pool, request.component)?.priority ?? 0;
}

export function isSensitive(world: World, pool: Pool, request: Request): boolean {
  if (pool.discipline !== "class") return request.sensitive;
  return request.sensitive || policyOf(world, pool, request.component)?.kind === "sensitive"; // (10.7)
}

export function classOf(world: World, pool: Pool, request: Request): number {
  return pool.discipline === "class" && isSensitive(world, pool, request) ? 10 : request.class;
}

/** The amounts that count in this pool (R4). With several nodes the amounts are per node (N2). */
export function demandOf(pool: Pool, request: Request): [key: string, amount: number][] {
  return Object.entries(request.resources)
    .filter(([key]) => key in pool.capacity)
    .map(([key, amount]) => [key, key === "step_run" ? amount : amount * request.nodes]);
}

export function amountOf(pool: Pool, request: Request, key: string): number {
  return demandOf(pool, request).find(([name]) => name === key)?.[1] ?? 0;
}

export function runsIn(world: World, pool: Pool): Request[] {
  return world.requests
    .filter((request) => request.run?.pool === pool.name)
    .sort((a, b) => a.run!.position - b.run!.position);
}

export function isStopping(request: Request): boolean {
  const run = request.run;
  return run !== undefined && (run.victim || run.cancelled || run.overtime);
}

export function sum(pool: Pool, requests: Request[], key: string): number {
  return requests.reduce((total, request) => total + amountOf(pool, request, key), 0);
}

export function someoneReserves(world: World, pool: Pool, key: string): boolean {
  return world.policies.some((policy) => policy.pool === pool.name && (policy.reserved[key] ?? 0) > 0);
}

/** Whether the request may use this key inside the reserve only: NP work, and in discipline `class` the top class (10.8). */
export function isBound(world: World, pool: Pool, request: Request, key: string): boolean {
  if (!request.preemptible) return true;
  if (pool.discipline !== "class") return false;
  const top = classOf(world, pool, request) === 10 || isSensitive(world, pool, request);
  return top && someoneReserves(world, pool, key);
}

export function reservedOf(world: World, pool: Pool, component: string, key: string): number {
  return policyOf(world, pool, component)?.reserved[key] ?? 0;
}

/** Reserved minus usage; requests in `holders` count as if they ran (V1), those in `gone` as if they did not. */
export function headroom(
  world: World,
  pool: Pool,
  request: Request,
  key: string,
  holders: Request[],
  gone: Request[] = [],
): number {
  const bound = isBound(world, pool, request, key);
  const own = [...runsIn(world, pool), ...holders].filter(
    (other) =>
      other !== request &&
      !gone.includes(other) &&
      other.component === request.component &&
      (!bound || isBound(world, pool, other, key)),
  );
  return reservedOf(world, pool, request.component, key) - sum(pool, own, key);
}

/** The groups above a component, nearest first. */
export function groupsAbove(world: World, pool: Pool, component: string): GroupSpec[] {
  const chain: GroupSpec[] = [];
  let name = policyOf(world, pool, component)?.group;
  while (name !== undefined) {
    const group = pool.groups.find((candidate) => candidate.name === name);
    if (group === undefined || chain.includes(group)) break;
    chain.push(group);
    name = group.parent;
  }
  return chain;
}

/**
 * Whether a limit or the reserve, of its component or of a group above it, is what blocks the request.
 * Where it lacks units, a bound that is not below the capacity is not to blame (G3).
 */
export function isBlockedByQuota(
  world: World,
  pool: Pool,
  request: Request,
  holders: Request[],
  lacksUnits: boolean,
): boolean {
  const present = [...runsIn(world, pool), ...holders].filter((other) => other !== request);
  const own = present.filter((other) => other.component === request.component);
  return demandOf(pool, request).some(([key, amount]) => {
    const exceeds = (bound: number | undefined, members: Request[]) =>
      bound !== undefined &&
      (bound < pool.capacity[key]! || !lacksUnits) &&
      sum(pool, members, key) + amount > bound;
    const policy = policyOf(world, pool, request.component)!;
    if (exceeds(policy.limit[key], own)) return true;
    for (const group of groupsAbove(world, pool, request.component)) {
      const members = present.filter((other) =>
        groupsAbove(world, pool, other.component).some((above) => above.name === group.name),
      );
      if (exceeds(group.limit?.[key], members)) return true;
    }
    if (!isBound(world, pool, request, key)) return false;
    const bound = own.filter((other) => isBound(world, pool, other, key));
    return exceeds(policy.reserved[key] ?? 0, bound);
  });
}

/** The borrowed part of a run on one key (G6). */
export function borrowed(world: World, pool: Pool, request: Request, key: string): number {
  const own = runsIn(world, pool).filter((other) => other.component === request.component);
  const rank = (other: Request) => {
    if (isBound(world, pool, other, key)) return 0;
    const hard =
      pool.discipline === "class" && classOf(world, pool, other) >= 7 && other.checkpoint === "none";
    return hard ? 1 : 2; // (10.8)
  };
  own.sort((a, b) => rank(a) - rank(b) || a.run!.position - b.run!.position);
  const before = sum(pool, own.slice(0, own.indexOf(request)), key);
  const amount = amountOf(pool, request, key);
  const inShare = Math.max(0, Math.min(amount, reservedOf(world, pool, request.component, key) - before));
  return amount - inShare;
}

/** Why a policy refuses the request, or nothing if it admits it (A2, A3). */
export function refusal(world: World, pool: Pool, request: Request): string | undefined {
  const policy = policyOf(world, pool, request.component)!;
  const missing = Object.keys(request.resources).some(
    (key) => !(key in pool.capacity) && !UNMETERED.has(key),
  );
  if (missing) return "unknown_key";
  const demand = demandOf(pool, request);
  if (isTooLarge(pool, request)) return "over_capacity";
  const limits = [policy.limit, ...groupsAbove(world, pool, request.component).map((group) => group.limit)];
  const overLimit = ([key, amount]: [string, number]) =>
    limits.some((limit) => amount > (limit?.[key] ?? Number.POSITIVE_INFINITY));
  if (demand.some(overLimit)) return "over_limit";
  const overReserved = ([key, amount]: [string, number]) =>
    isBound(world, pool, request, key) && amount > (policy.reserved[key] ?? 0);
  return demand.some(overReserved) ? "over_reserved" : undefined;
}

/** Nodes count here whatever their state, so that a lost one rejects nobody (N4). */
function isTooLarge(pool: Pool, request: Request): boolean {
  if (pool.nodes === undefined) {
    return demandOf(pool, request).some(([key, amount]) => amount > pool.capacity[key]!);
  }
  const holds = ({ capacity }: Node) =>
    Object.entries(request.resources).every(
      ([key, amount]) => (UNMETERED.has(key) && !(key in capacity)) || amount <= (capacity[key] ?? 0),
    );
  return pool.nodes.filter(holds).length < request.nodes;
}

/** The pools that admit the request, the preferred one first (G5). */
export function admittingPools(world: World, request: Request): Pool[] {
  return world.pools
    .filter(
      (pool) =>
        !pool.closing &&
        policyOf(world, pool, request.component) !== undefined &&
        refusal(world, pool, request) === undefined,
    )
    .sort((a, b) => priorityOf(world, b, request) - priorityOf(world, a, request) || compare(a.name, b.name));
}

export function isWaiting(request: Request): boolean {
  return request.status === "queued" && !request.isDelayed && !request.isBlocked;
}

export function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function mainKey(pool: Pool): string {
  const keys = Object.keys(pool.capacity).sort(compare);
  return pool.settings.main_key ?? ["gpu", "mcpu"].find((key) => keys.includes(key)) ?? keys[0] ?? "gpu";
}
