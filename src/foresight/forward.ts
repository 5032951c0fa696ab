// A forward run (X6): virtual time passes on a fork. Nothing new is submitted; runs end well at their walltime, and those
// without one go on; victims stop by section 11, in the time that they estimate for their checkpoint.

import {
  decide,
  type EndReport,
  type EngineState,
  type Event,
  Heap,
  nextWakeMs,
  type RequestId,
  requestIds,
  requestOf,
} from "../engine/index.ts";
import type { Budget } from "./budget.ts";

export interface ForwardRun {
  /** When each request that waited at the beginning was first allocated. */
  readonly startsAtMs: ReadonlyMap<RequestId, number>;
  /** Unit-seconds of work that preemptions throw away, per key. */
  readonly lostUnitSeconds: Readonly<Record<string, number>>;
  /** How far it got; less than was asked for where the budget was spent, or time ran out of events. */
  readonly reachedMs: number;
  readonly isCut: boolean;
}

/** To be called on a fork. */
export function runForward(
  state: EngineState,
  {
    happened,
    fromMs,
    untilMs,
    budget,
    isEnough = () => false,
  }: {
    /** By the change itself, before time passes. */
    readonly happened: readonly Event[];
    readonly fromMs: number;
    readonly untilMs: number;
    readonly budget: Budget;
    /** Whether what is to be known is known already. */
    readonly isEnough?: (startsAtMs: ReadonlyMap<RequestId, number>) => boolean;
  },
): ForwardRun {
  const holders = new Holders(state, fromMs);
  const startsAtMs = new Map<RequestId, number>();
  const lost = new Map<string, number>();
  let nowMs = fromMs;
  for (const event of happened) note(event);
  for (;;) {
    if (isEnough(startsAtMs))
      return { startsAtMs, lostUnitSeconds: Object.fromEntries(lost), reachedMs: nowMs, isCut: false };
    const nextMs = Math.max(nowMs, Math.min(nextWakeMs(state) ?? Number.POSITIVE_INFINITY, holders.nextMs()));
    if (nextMs > untilMs)
      return { startsAtMs, lostUnitSeconds: Object.fromEntries(lost), reachedMs: untilMs, isCut: false };
    if (!budget.spend())
      return { startsAtMs, lostUnitSeconds: Object.fromEntries(lost), reachedMs: nowMs, isCut: true };
    nowMs = nextMs;
    for (const event of holders.act(nowMs, budget.isTimeUp)) note(event);
  }

  function note(event: Event): void {
    if (event.kind === "requestAllocated" && !startsAtMs.has(event.requestId)) {
      startsAtMs.set(event.requestId, event.atMs);
    }
    if (event.kind === "preemptionDecided") {
      for (const { requestId } of event.victims) addLostWork(state, requestId, nowMs, lost);
    }
  }
}

/** What a victim without a checkpoint has done since its start, or since it last saved. */
function addLostWork(state: EngineState, id: RequestId, nowMs: number, lost: Map<string, number>): void {
  const request = requestOf(state, id);
  const allocation = request?.progress.allocation;
  if (request === undefined || !allocation || request.spec.checkpoint !== "none") return;
  const savedAtMs = Math.max(allocation.startedAtMs, request.progress.lastCheckpointAtMs ?? 0);
  const seconds = Math.max(0, nowMs - savedAtMs) / 1000;
  for (const [key, amount] of Object.entries(request.spec.resources)) {
    const units = key === "step_run" ? amount : amount * request.spec.nodes;
    lost.set(key, (lost.get(key) ?? 0) + units * seconds);
  }
}

const AUTO_CHECKPOINT_MS = 300_000;

/** The holders of everything that runs: when they will report which end. */
class Holders {
  readonly #state: EngineState;
  /** The end of each run that is to end. */
  readonly #endsAtMs = new Map<RequestId, number>();
  /** The soonest first; those that the map does not confirm are over. */
  readonly #soonest = new Heap<{ readonly id: RequestId; readonly endMs: number }>(
    (a, b) => a.endMs < b.endMs,
  );

  constructor(state: EngineState, nowMs: number) {
    this.#state = state;
    for (const id of requestIds(state)) this.#plan(id, nowMs);
  }

  nextMs(): number {
    for (let next = this.#soonest.first(); next !== undefined; next = this.#soonest.first()) {
      if (this.#endsAtMs.get(next.id) === next.endMs) return next.endMs;
      this.#soonest.pop();
    }
    return Number.POSITIVE_INFINITY;
  }

  /** All that is due at this instant reaches the engine in one tick, ends first. */
  act(nowMs: number, isTimeUp: () => boolean): readonly Event[] {
    const ends: EndReport[] = [];
    const saved: Event[] = [];
    while (this.nextMs() <= nowMs) {
      const requestId = (this.#soonest.pop() as { id: RequestId }).id;
      this.#endsAtMs.delete(requestId);
      const stop = requestOf(this.#state, requestId)?.progress.allocation?.stop ?? null;
      if (stop?.phase === "checkpoint") saved.push(...this.#save(requestId, nowMs));
      ends.push({ requestId, outcome: stop === null ? "succeeded" : "stopped" });
    }
    const decision = decide(this.#state, { kind: "tick", ends }, nowMs, isTimeUp);
    const events = [...saved, ...(decision.outcome === "accepted" ? decision.events : [])];
    for (const event of events) this.#notice(event, nowMs);
    return events;
  }

  #save(requestId: RequestId, nowMs: number): readonly Event[] {
    const token = requestOf(this.#state, requestId)?.progress.allocation?.token as number;
    const decision = decide(
      this.#state,
      { kind: "reportCheckpoint", requestId, token, checkpoint: { report: "done" } },
      nowMs,
    );
    return decision.outcome === "accepted" ? decision.events : [];
  }

  #notice(event: Event, nowMs: number): void {
    switch (event.kind) {
      case "requestAllocated":
      case "stopChanged":
        return this.#plan(event.requestId, nowMs);
      case "preemptionDecided":
        for (const { requestId } of event.victims) this.#plan(requestId, nowMs);
        return;
      case "attemptEnded":
        this.#endsAtMs.delete(event.requestId);
    }
  }

  #plan(id: RequestId, nowMs: number): void {
    const request = requestOf(this.#state, id);
    const allocation = request?.progress.allocation;
    this.#endsAtMs.delete(id);
    if (request === undefined || !allocation) return;
    const { stop, startedAtMs } = allocation;
    const { walltimeMs, checkpoint, checkpointMs } = request.spec;
    if (stop === null) {
      if (walltimeMs !== null) this.#expect(id, Math.max(nowMs, startedAtMs + walltimeMs));
    } else if (stop.phase === "checkpoint") {
      // What is saved by hand takes as long as it may.
      const takesMs = checkpoint === "auto" ? (checkpointMs ?? AUTO_CHECKPOINT_MS) : Number.POSITIVE_INFINITY;
      this.#expect(id, Math.max(nowMs, Math.min(stop.toldAtMs + takesMs, stop.deadlineMs - 1)));
    } else this.#expect(id, nowMs);
  }

  #expect(id: RequestId, endMs: number): void {
    this.#endsAtMs.set(id, endMs);
    this.#soonest.push({ id, endMs });
  }
}
