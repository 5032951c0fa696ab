// The stopping sequence (11), and what becomes of a request when an attempt ends (Q3).

import {
  admittingPools,
  isStopping,
  type Pool,
  policyOf,
  type Request,
  type Run,
  refusal,
  settingsOf,
  shieldMoments,
  type World,
} from "./world.ts";

const LEASE_SECONDS = 300;

function poolOf(world: World, request: Request): Pool | undefined {
  return world.pools.find((pool) => pool.name === request.run!.pool);
}

/** A run outside all pools (A4) stops by the defaults. */
function timesOf(world: World, request: Request) {
  const pool = poolOf(world, request);
  return pool === undefined
    ? { grace_seconds: 30, checkpoint_timeout_seconds: 600, max_deferral_seconds: 300 }
    : settingsOf(pool);
}

/** The run has become a victim (11.1). */
export function tellToStop(world: World, pool: Pool, request: Request, reason: string): void {
  const run = request.run!;
  run.victim = true;
  run.toldAt = world.now;
  request.status = "preempting";
  request.reason = reason;
  world.preempted.push(request.id);
  if (request.checkpoint === "none") terminate(world, request);
  else run.deadline = world.now + settingsOf(pool).checkpoint_timeout_seconds;
}

/** SIGTERM now, SIGKILL after the grace; never later than before (Q5). */
export function terminate(world: World, request: Request): void {
  const run = request.run!;
  delete run.deadline;
  run.killAt = Math.min(
    run.killAt ?? Number.POSITIVE_INFINITY,
    world.now + timesOf(world, request).grace_seconds,
  );
}

export function checkpointed(world: World, request: Request): void {
  const run = request.run!;
  request.resume = true;
  run.checkpointAt = world.now;
  world.position += 1;
  run.checkpointPosition = world.position;
  if (run.deadline !== undefined) terminate(world, request);
}

export function defer(world: World, request: Request, seconds: number): void {
  const run = request.run!;
  if (run.deadline === undefined) return;
  const granted = Math.min(seconds, timesOf(world, request).max_deferral_seconds - run.deferredSeconds);
  run.deferredSeconds += granted;
  run.deadline += granted;
}

/** Every moment at which time itself changes something for this request. */
export function momentsOf(world: World, request: Request): number[] {
  const run = request.run;
  if (run === undefined) {
    if (request.status !== "queued" || request.isBlocked) return [];
    const expiry = request.waitTimeout === undefined ? [] : [request.queuedAt + request.waitTimeout];
    return request.isDelayed ? [request.queuedAt] : expiry;
  }
  const pool = poolOf(world, request);
  const moments: (number | undefined)[] = [
    ...shieldMoments(request),
    run.deadline,
    run.lostAt === undefined ? run.killAt : run.lostAt + 1.5 * LEASE_SECONDS,
    request.walltime === undefined ? undefined : run.startedAt + request.walltime,
    pool === undefined ? undefined : run.startedAt + settingsOf(pool).min_runtime_seconds,
  ];
  return moments.filter((moment) => moment !== undefined);
}

/** Deadlines, walltimes, kills and lost holders of this instant, until nothing more is due. */
export function passTimers(world: World): void {
  for (const request of world.requests) {
    while (request.run !== undefined && passTimer(world, request));
  }
}

function passTimer(world: World, request: Request): boolean {
  const run = request.run!;
  const isDue = (moment: number | undefined) => moment !== undefined && moment <= world.now;
  if (run.lostAt !== undefined && isDue(run.lostAt + 1.5 * LEASE_SECONDS)) {
    if (!isStopping(request)) newEvent(world, [run.pool]);
    endAttempt(world, request, "lost");
    return true;
  }
  if (run.lostAt === undefined && isDue(run.killAt)) {
    endAttempt(world, request, "stopped");
    return true;
  }
  if (request.walltime !== undefined && isDue(run.startedAt + request.walltime) && run.killAt === undefined) {
    if (!run.victim) run.overtime = true;
    terminate(world, request);
    return true;
  }
  if (isDue(run.deadline)) {
    if (run.progressed && !run.extended) {
      run.extended = true;
      run.deadline! += timesOf(world, request).checkpoint_timeout_seconds / 2;
    } else terminate(world, request);
    return true;
  }
  return false;
}

/** Something new in these pools: whoever displaced whom there before may be displaced again (V6). */
export function newEvent(world: World, pools: (string | undefined)[]): void {
  world.displaced = world.displaced.filter((entry) => !pools.includes(entry.pool));
}

/** The pools in which a request runs, or waits. */
export function poolsOf(world: World, request: Request): (string | undefined)[] {
  return request.run === undefined
    ? admittingPools(world, request).map(({ name }) => name)
    : [request.run.pool];
}

/** What an end means depends on how it ended and on what had been asked of it (Q2, Q3, 11.4). */
export function endAttempt(
  world: World,
  request: Request,
  how: "finished" | "failed" | "stopped" | "lost",
): void {
  const run = request.run!;
  delete request.run;
  if (how === "finished") request.status = "released";
  else if (run.cancelled) request.status = "cancelled";
  else if (how === "lost") again(world, request, "on_preemption", "expired", request.retriesDelay);
  else if (how === "failed" || !run.victim)
    again(world, request, "on_failure", "failed", request.retriesDelay);
  else {
    if (request.reason !== "administration") {
      request.preemptedCount += 1;
      request.preemptedAt.push(world.now);
    }
    again(world, request, "on_preemption", "preempted", 0);
  }
}

/** Whether a run that was told to stop is queued again when it has stopped (Q3). */
export function mayComeBack(request: Request): boolean {
  const { victim, cancelled } = request.run!;
  return !cancelled && isFurtherAllowed(request, victim ? "on_preemption" : "on_failure");
}

function isFurtherAllowed(request: Request, when: "on_preemption" | "on_failure"): boolean {
  const allowed =
    request.requeue === "on_failure" || (request.requeue === "on_preemption" && when === "on_preemption");
  return allowed && request.attempt <= request.retriesMax;
}

function again(
  world: World,
  request: Request,
  when: "on_preemption" | "on_failure",
  otherwise: string,
  delay: number,
): void {
  if (!isFurtherAllowed(request, when)) {
    request.status = otherwise;
    return;
  }
  request.status = "queued";
  request.queuedAt = world.now + delay;
  request.isDelayed = true;
  enterQueues(world);
}

/** A further attempt begins when the request enters the queue again (Q3). */
export function enterQueues(world: World): void {
  for (const request of world.requests) {
    if (request.status !== "queued" || !request.isDelayed || request.queuedAt > world.now) continue;
    request.isDelayed = false;
    request.attempt += 1;
    admit(world, request);
  }
}

/** Queued where some pool admits it, rejected otherwise (A3, P9). */
export function admit(world: World, request: Request): void {
  const isManaged = world.policies.some((policy) => policy.component === request.component);
  if (!isManaged && world.unmanaged === "allow") {
    start(world, request, undefined, false); // (A4)
    return;
  }
  if (admittingPools(world, request).length > 0) {
    request.status = "queued";
    return;
  }
  request.status = "rejected";
  const codes = world.pools
    .filter((pool) => !pool.closing && policyOf(world, pool, request.component) !== undefined)
    .map((pool) => [pool.name, refusal(world, pool, request)!]);
  request.rejected = codes.length === 0 ? "no_policy" : Object.fromEntries(codes);
}

export function start(
  world: World,
  request: Request,
  pool: string | undefined,
  opportunistic: boolean,
): void {
  delete request.hold;
  delete request.heldNodes;
  delete request.preemptedFor;
  request.status = "allocated";
  world.position += 1;
  const run: Run = {
    pool,
    startedAt: world.now,
    position: world.position,
    opportunistic,
    victim: false,
    cancelled: false,
    overtime: false,
    progressed: false,
    extended: false,
    deferredSeconds: 0,
  };
  request.run = run;
}
