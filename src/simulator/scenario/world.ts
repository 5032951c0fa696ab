// The engine in virtual time, with holders that behave: they renew their leases and carry out what they are
// told, until they fall silent. All ends that are due at one instant reach the engine in one tick, because
// timers of one instant happen together.

import {
  type Command,
  createState,
  DEFAULT_POOL_SETTINGS,
  decide,
  type EndReport,
  type EngineState,
  type Event,
  nextWakeMs,
  poolsOf,
  type Refusal,
  type RequestId,
  requestOf,
  type Stop,
} from "../../engine/index.ts";

/** An engine whose timers never come to rest must not hang its caller. */
const TICKS_PER_ADVANCE_MAX = 200_000;

/** A self-held run fences itself after one lease; half a lease later its units are safe to give away (L2). */
const LEASES_UNTIL_FREE = 1.5;

export interface World {
  readonly state: EngineState;
  nowMs: number;
  /** Runs that were told to stop. */
  readonly stopping: Map<RequestId, Stop>;
  /** Holders, or clients of waiting requests, that fell silent for good, and when. */
  readonly silentSinceMs: Map<RequestId, number>;
  /** Where fixed points are cut into slices, as small as can be or not at all, and what happens between two of them. */
  readonly slices?: { readonly areCut: boolean; readonly between: (events: readonly Event[]) => void };
}

/** What came of one action: events, and a refusal if the engine said no. */
export interface Outcome {
  readonly events: readonly Event[];
  readonly refusal: Refusal | null;
}

export function createWorld(): World {
  return { state: createState(), nowMs: 0, stopping: new Map(), silentSinceMs: new Map() };
}

export function send(world: World, command: Command): Outcome {
  const { slices, nowMs } = world;
  const decision = decide(world.state, command, nowMs, () => slices?.areCut ?? false);
  if (decision.outcome === "refused") return { events: [], refusal: decision.refusal };
  for (const event of decision.events) noticeByHolders(world, event);
  slices?.between(decision.events);
  if (decision.events.at(-1)?.kind !== "schedulingPaused") return { events: decision.events, refusal: null };
  const rest = send(world, { kind: "tick" });
  return { events: [...decision.events, ...rest.events], refusal: rest.refusal };
}

/** Lets time pass, from instant to instant at which something is due, and looks once more at the end. */
export function advance(world: World, ms: number): Outcome {
  const targetMs = world.nowMs + ms;
  const events: Event[] = [];
  let lookedAtMs = -1;
  for (let ticks = 0; lookedAtMs < targetMs || isDue(world); ticks++) {
    if (ticks === TICKS_PER_ADVANCE_MAX) return { events, refusal: restless(world, ms) };
    world.nowMs = Math.max(world.nowMs, Math.min(nextInstantMs(world) ?? targetMs, targetMs));
    lookedAtMs = world.nowMs;
    const outcome = tick(world);
    for (const event of outcome.events) events.push(event);
    if (outcome.refusal !== null) return { events, refusal: outcome.refusal };
  }
  return { events, refusal: null };
}

/** The holder of a run, or the client of a waiting attended request, is never heard of again. */
export function loseHolder(world: World, requestId: RequestId): Outcome {
  const request = requestOf(world.state, requestId);
  if (request === undefined) return refused("not_found", `There is no request "${requestId}".`);
  const { spec, progress } = request;
  const isHeld = progress.allocation !== null || (progress.status === "queued" && spec.attended);
  if (!isHeld) {
    return refused(
      "invalid_request",
      `Request "${requestId}" is ${progress.status} and has no holder to lose.`,
    );
  }
  if (!world.silentSinceMs.has(requestId)) world.silentSinceMs.set(requestId, world.nowMs);
  return { events: [], refusal: null };
}

function tick(world: World): Outcome {
  const events: Event[] = [];
  const ends: EndReport[] = [];
  for (const requestId of world.silentSinceMs.keys()) {
    if (silenceEndsMs(world, requestId) > world.nowMs) continue;
    if (requestOf(world.state, requestId)?.progress.allocation) ends.push({ requestId, outcome: "lost" });
    else events.push(...send(world, { kind: "loseHolder", requestId }).events);
  }
  for (const requestId of world.stopping.keys()) {
    if (killedAtMs(world, requestId) <= world.nowMs) ends.push({ requestId, outcome: "stopped" });
  }
  const outcome = send(world, ends.length === 0 ? { kind: "tick" } : { kind: "tick", ends });
  return { events: [...events, ...outcome.events], refusal: outcome.refusal };
}

/** Whether something is to happen at this very instant. */
export function isDue(world: World): boolean {
  const nextMs = nextInstantMs(world);
  return nextMs !== null && nextMs <= world.nowMs;
}

function nextInstantMs(world: World): number | null {
  let nextMs = nextWakeMs(world.state) ?? Number.POSITIVE_INFINITY;
  for (const requestId of world.silentSinceMs.keys())
    nextMs = Math.min(nextMs, silenceEndsMs(world, requestId));
  for (const requestId of world.stopping.keys()) nextMs = Math.min(nextMs, killedAtMs(world, requestId));
  return nextMs === Number.POSITIVE_INFINITY ? null : nextMs;
}

/** When a holder that is alive sends SIGKILL and confirms the end (11.2, 11.3). */
function killedAtMs(world: World, requestId: RequestId): number {
  const stop = world.stopping.get(requestId);
  if (stop === undefined || stop.phase === "checkpoint" || world.silentSinceMs.has(requestId)) {
    return Number.POSITIVE_INFINITY;
  }
  return stop.deadlineMs;
}

/** When the lease rules give up on someone silent: the units of a run, or the place of one who waits (L2). */
function silenceEndsMs(world: World, requestId: RequestId): number {
  const sinceMs = world.silentSinceMs.get(requestId) ?? Number.POSITIVE_INFINITY;
  const allocation = requestOf(world.state, requestId)?.progress.allocation;
  const pool = poolsOf(world.state).find(({ name }) => name === allocation?.pool);
  const { leaseMs } = pool?.settings ?? DEFAULT_POOL_SETTINGS;
  return sinceMs + (allocation ? LEASES_UNTIL_FREE * leaseMs : leaseMs);
}

/** What holders learn from an event, and when their part is over. */
function noticeByHolders(world: World, event: Event): void {
  switch (event.kind) {
    case "preemptionDecided":
      for (const { requestId, stop } of event.victims) world.stopping.set(requestId, stop);
      break;
    case "stopChanged":
      world.stopping.set(event.requestId, event.stop);
      break;
    case "attemptEnded":
    case "requestCancelled":
    case "requestExpired":
    case "requestRejected":
    case "requestDeleted":
      world.stopping.delete(event.requestId);
      world.silentSinceMs.delete(event.requestId);
      break;
    default:
  }
}

function restless(world: World, ms: number): Refusal {
  return {
    code: "engine_error",
    message: `More than ${TICKS_PER_ADVANCE_MAX} timers fired within ${ms / 1000} s; the last at ${world.nowMs / 1000} s.`,
    hint: "Advance in smaller steps.",
  };
}

function refused(code: Refusal["code"], message: string): Outcome {
  return {
    events: [],
    refusal: { code, message, hint: "Look at the status of the request before this step." },
  };
}
