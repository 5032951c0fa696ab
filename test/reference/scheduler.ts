// The reference scheduler: plays a scenario by the rules, slowly and without any state but plain
// records. The engine must agree with it.

import {
  attachPolicy,
  cancel,
  createPool,
  deletePool,
  detachPolicy,
  isAmount,
  nodeAway,
  nodeUp,
  Refused,
  refuse,
  updateGroup,
  updatePolicy,
  updatePool,
} from "./administration.ts";
import { enterBlocked, isImpossible, mustWait } from "./entering.ts";
import {
  allocationGroups,
  fairMoments,
  fairQueue,
  lookAt,
  scheduleFairShare,
  statusOf,
} from "./fair-share.ts";
import { schedule } from "./fixed-point.ts";
import { queueOf } from "./order.ts";
import type { Amounts, Scenario, Step, SubmitSpec } from "./scenario.ts";
import {
  admit,
  checkpointed,
  defer,
  endAttempt,
  enterQueues,
  momentsOf,
  newEvent,
  passTimers,
  poolsOf,
} from "./stopping.ts";
import {
  admittingPools,
  borrowed,
  demandOf,
  isStopping,
  isWaiting,
  type Pool,
  type Request,
  runsIn,
  sum,
  type World,
} from "./world.ts";

export interface Observation {
  status: Record<string, string>;
  pool: Record<string, string>;
  preempted: string[];
  reason: Record<string, string>;
  rejected: Record<string, Record<string, string> | string>;
  usage: Record<string, Amounts>;
  queue: Record<string, string[]>;
  borrowed: Record<string, Amounts>;
  placed: Record<string, string[]>;
  attempt: Record<string, number>;
  preempted_count: Record<string, number>;
  resume: Record<string, boolean>;
  shares: Record<string, Amounts>;
  starvation: Record<string, string>;
  allocation_group: Record<string, string>;
  error?: string;
}

/** Everything that can be seen after each step of the script. */
export function playReference(scenario: Scenario): Observation[] {
  const play = beginReference(scenario);
  return scenario.script.map(play);
}

/** The world of a scenario before its first step, as a function that plays one step. */
export function beginReference(scenario: Omit<Scenario, "script">): (step: Step) => Observation {
  return openReference(scenario).play;
}

/** The same with the records themselves, for those who judge by them. */
export function openReference(scenario: Omit<Scenario, "script">): {
  readonly world: World;
  readonly play: (step: Step) => Observation;
} {
  const world: World = {
    now: 0,
    unmanaged: scenario.settings?.unmanaged ?? "reject",
    pools: [],
    policies: [],
    requests: [],
    position: 0,
    displaced: [],
    preempted: [],
  };
  for (const pool of scenario.pools) {
    const nodes = scenario.nodes?.filter((node) => node.pool === pool.name);
    createPool(world, pool, pool.capacity === undefined ? nodes : undefined);
  }
  for (const policy of scenario.policies) attachPolicy(world, policy);
  return { world, play: (step) => play(world, step) };
}

function play(world: World, step: Step): Observation {
  world.preempted = [];
  let error: string | undefined;
  try {
    act(world, step);
  } catch (thrown) {
    if (!(thrown instanceof Refused)) throw thrown;
    error = thrown.message;
  }
  settle(world);
  const seen = observe(world);
  return error === undefined ? seen : { ...seen, error };
}

function act(world: World, step: Step): void {
  if (step.submit) submit(world, step.submit);
  if (step.advance !== undefined) advance(world, step.advance);
  if (step.finish !== undefined) end(world, find(world, step.finish), "finished");
  if (step.fail !== undefined) end(world, find(world, step.fail), "failed");
  if (step.stopped !== undefined) {
    const request = find(world, step.stopped);
    if (!isStopping(request)) refuse("invalid_request");
    end(world, request, "stopped");
  }
  if (step.cancel !== undefined) {
    const request = find(world, step.cancel);
    if (request.run === undefined && request.status !== "queued") refuse("invalid_request");
    cancel(world, request);
  }
  if (step.checkpointed !== undefined) checkpointed(world, running(world, step.checkpointed));
  if (step.progress !== undefined) {
    const { run } = running(world, step.progress);
    if (run!.deadline !== undefined) run!.progressed = true;
  }
  if (step.defer) defer(world, running(world, step.defer.id), step.defer.seconds);
  if (step.lose_holder !== undefined) {
    const { run } = running(world, step.lose_holder);
    run!.lostAt = world.now;
  }
  administer(world, step);
}

function administer(world: World, step: Step): void {
  if (step.create_pool) createPool(world, step.create_pool);
  if (step.update_pool) updatePool(world, step.update_pool);
  if (step.delete_pool !== undefined) {
    deletePool(world, typeof step.delete_pool === "string" ? { name: step.delete_pool } : step.delete_pool);
  }
  if (step.attach_policy) attachPolicy(world, step.attach_policy);
  if (step.update_policy) updatePolicy(world, step.update_policy);
  if (step.detach_policy) detachPolicy(world, step.detach_policy);
  if (step.node_up) nodeUp(world, step.node_up);
  if (step.node_down !== undefined) nodeAway(world, step.node_down, "down");
  if (step.drain !== undefined) nodeAway(world, step.drain, "draining");
  if (step.update_group) updateGroup(world, step.update_group);
  if (step.delete_request !== undefined) deleteRequest(world, step.delete_request);
  // (P9) What no pool admits any more is rejected.
  for (const request of world.requests) {
    if (isWaiting(request)) admit(world, request);
  }
}

function submit(world: World, spec: SubmitSpec): void {
  const resources = spec.resources ? { ...spec.resources } : resourcesOf(spec.settings ?? {});
  const amounts = Object.values(resources);
  if (!amounts.every((amount) => isAmount(amount) && amount > 0)) refuse("invalid_amount");
  const ownClass = spec.preemption_class ?? 5;
  if (!Number.isInteger(ownClass) || ownClass < 0 || ownClass > 10) refuse("invalid_class");
  if (amounts.length === 0 || world.requests.some((request) => request.id === spec.id)) {
    refuse("invalid_request");
  }
  world.position += 1;
  const request: Request = {
    id: spec.id,
    position: world.position,
    submittedAt: world.now,
    component: spec.component,
    resources: { ...resources, step_run: 1 },
    nodes: spec.nodes ?? 1,
    operation: spec.operation,
    gang: spec.gang ?? false,
    preemptible: spec.preemptible ?? true,
    class: ownClass,
    sensitive: spec.sensitive ?? false,
    checkpoint: spec.checkpoint ?? "none",
    checkpointSeconds: spec.checkpoint_seconds,
    walltime: spec.walltime_seconds,
    retriesMax: spec.retries?.max ?? Number.POSITIVE_INFINITY,
    retriesDelay: spec.retries?.delay ?? 0,
    requeue: spec.requeue ?? (spec.retries?.max === undefined ? "on_preemption" : "on_failure"),
    waitTimeout: spec.wait_timeout_seconds,
    status: "queued",
    attempt: 1,
    preemptedCount: 0,
    preemptedAt: [],
    resume: false,
    queuedAt: world.now,
    isDelayed: false,
    after: (spec.after ?? []).map(({ id, when = "ok" }) => ({ id, when })),
    atOnce: spec.array?.at_once,
    isMember: spec.array !== undefined,
    isBlocked: false,
  };
  newEvent(world, poolsOf(world, request));
  const waitsFirst = mustWait(world, request);
  world.requests.push(request);
  if (isImpossible(world, request)) request.status = "cancelled";
  else if (waitsFirst && isAdmitted(world, request)) request.isBlocked = true;
  else admit(world, request);
}

/** By a pool, or because it runs outside all of them (A4). */
function isAdmitted(world: World, request: Request): boolean {
  const isManaged = world.policies.some(({ component }) => component === request.component);
  return admittingPools(world, request).length > 0 || (!isManaged && world.unmanaged === "allow");
}

const MEMORY_UNITS: Record<string, bigint> = {
  KB: 1000n,
  KiB: 1024n,
  MB: 1000n ** 2n,
  MiB: 1024n ** 2n,
  GB: 1000n ** 3n,
  GiB: 1024n ** 3n,
  TB: 1000n ** 4n,
  TiB: 1024n ** 4n,
  PB: 1000n ** 5n,
  PiB: 1024n ** 5n,
};

/** Settings become amounts (R3). */
function resourcesOf(settings: NonNullable<SubmitSpec["settings"]>): Amounts {
  const resources: Amounts = { ...settings.pool_resources };
  if (settings.gpu_count !== undefined) resources.gpu = settings.gpu_count;
  if (settings.gpu_count === 0) delete resources.gpu;
  if (settings.cpu_count !== undefined) {
    const [whole, part = ""] = String(settings.cpu_count).split(".");
    const digits = BigInt(`${whole}${part.padEnd(3, "0")}`);
    const scale = 10n ** BigInt(Math.max(0, part.length - 3));
    resources.mcpu = Number((digits + scale - 1n) / scale);
  }
  if (settings.memory !== undefined) {
    const [, amount, unit] = /^(\d+)([KMGTP]i?B)$/.exec(settings.memory) ?? refuse("invalid_amount");
    const bytes = BigInt(amount!) * MEMORY_UNITS[unit!]!;
    resources.memory_mb = Number((bytes + 999_999n) / 1_000_000n);
  }
  delete resources.step_run;
  if (Object.keys(resources).length === 0) resources.step_run = 1;
  return resources;
}

function find(world: World, id: string): Request {
  return world.requests.find((request) => request.id === id) ?? refuse("not_found");
}

function running(world: World, id: string): Request {
  const request = find(world, id);
  return request.run === undefined ? refuse("invalid_request") : request;
}

function end(world: World, request: Request, how: "finished" | "failed" | "stopped"): void {
  if (request.run === undefined) refuse("invalid_request");
  if (!isStopping(request)) newEvent(world, poolsOf(world, request)); // (V6) The end of what was asked to stop is nothing new.
  endAttempt(world, request, how);
}

function deleteRequest(world: World, spec: string | { id: string; force?: boolean }): void {
  const { id, force } = typeof spec === "string" ? { id: spec, force: false } : spec;
  const request = find(world, id);
  if (request.run !== undefined || request.status === "queued") {
    if (!force) refuse("in_use");
    cancel(world, request);
    if (request.run !== undefined) {
      request.isDeleted = true; // The record goes once the work has stopped (Q6).
      return;
    }
  }
  enterBlocked(world); // Those who wait for it know how it ended before its record goes.
  world.requests.splice(world.requests.indexOf(request), 1);
}

function advance(world: World, seconds: number): void {
  const until = world.now + seconds;
  for (;;) {
    const moments = [
      ...world.requests.flatMap((request) => momentsOf(world, request)),
      ...fairPools(world).flatMap((pool) => fairMoments(world, pool)),
    ];
    const next = Math.min(...moments.filter((moment) => moment > world.now));
    if (next > until) break;
    world.now = next;
    settle(world);
  }
  world.now = until;
}

/** Ends of runs first, then scheduling, then wait timeouts of what still waits, then scheduling. */
function settle(world: World): void {
  for (;;) {
    passTimers(world);
    enterBlocked(world);
    enterQueues(world);
    if (fairPools(world).length === 0) schedule(world);
    for (const pool of fairPools(world)) scheduleFairShare(world, pool);
    if (isSomethingDue(world)) continue;
    const late = world.requests.filter(
      (request) =>
        isWaiting(request) &&
        request.waitTimeout !== undefined &&
        request.queuedAt + request.waitTimeout <= world.now,
    );
    if (late.length === 0) break;
    for (const request of late) {
      newEvent(world, poolsOf(world, request));
      request.status = "expired";
    }
  }
  world.requests = world.requests.filter(({ isDeleted, run }) => !isDeleted || run !== undefined);
  world.pools = world.pools.filter((pool) => !pool.closing || runsIn(world, pool).length > 0);
}

/** A world has fair-share pools or pools of the other disciplines; the reference does not mix them. */
function fairPools(world: World): Pool[] {
  return world.pools.filter((pool) => pool.discipline === "fair_share" && !pool.closing);
}

function isSomethingDue(world: World): boolean {
  return world.requests.some(
    ({ run }) => run !== undefined && run.lostAt === undefined && (run.killAt ?? world.now + 1) <= world.now,
  );
}

function observe(world: World): Observation {
  const seen: Observation = {
    status: {},
    pool: {},
    preempted: [...new Set(world.preempted)],
    reason: {},
    rejected: {},
    usage: {},
    queue: {},
    borrowed: {},
    placed: {},
    attempt: {},
    preempted_count: {},
    resume: {},
    shares: {},
    starvation: {},
    allocation_group: {},
  };
  for (const request of world.requests) {
    const { id } = request;
    seen.status[id] = request.status;
    seen.attempt[id] = request.attempt;
    seen.preempted_count[id] = request.preemptedCount;
    seen.resume[id] = request.resume;
    if (request.reason !== undefined) seen.reason[id] = request.reason;
    if (request.rejected !== undefined) seen.rejected[id] = request.rejected;
    const pool = world.pools.find((other) => other.name === request.run?.pool);
    if (pool === undefined) continue;
    seen.pool[id] = pool.name;
    if (request.run!.placed !== undefined) seen.placed[id] = request.run!.placed;
    if (pool.closing) continue;
    seen.borrowed[id] = Object.fromEntries(
      demandOf(pool, request).map(([key]) => [key, borrowed(world, pool, request, key)]),
    );
  }
  for (const pool of world.pools) {
    if (pool.closing) continue;
    seen.usage[pool.name] = Object.fromEntries(
      Object.keys(pool.capacity).map((key) => [key, sum(pool, runsIn(world, pool), key)]),
    );
    const queue = pool.discipline === "fair_share" ? fairQueue(world, pool) : queueOf(world, pool);
    seen.queue[pool.name] = queue.map((request) => request.id);
  }
  for (const pool of fairPools(world)) {
    const look = lookAt(world, pool);
    for (const element of look.elements) {
      seen.shares[element.name] = element.share;
      seen.starvation[element.name] = statusOf(look, element);
      for (const [request, group] of allocationGroups(look, element))
        seen.allocation_group[request.id] = group;
    }
  }
  return seen;
}
