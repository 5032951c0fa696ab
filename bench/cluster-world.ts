// One pool of a real cluster's size, scaled by k: at k = 1 it has 5 000 nodes of 8 GPUs in ten zones, 20 000 runs,
// 100 000 waiting requests of 5 000 shapes and 500 teams. Every second team has a reserve; priorities are 0 to 9.
// The command stream is the same for every engine and discipline: it depends on k and the seed alone.

import {
  type Command,
  type ComponentName,
  createState,
  type DisciplineName,
  decide,
  type Event,
  type NodeName,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
} from "../src/engine/index.ts";
import { SLICE_MS } from "../src/leader/slices.ts";
import { threadMs } from "./processor-time.ts";

/** Processor time of every step of one kind, in milliseconds. */
export type Timings = Map<string, number[]>;

export interface ClusterWorld {
  readonly timings: Timings;
  /** The longest single call of the engine: whatever else waits is answered after it at the latest. */
  longestSliceMs(): number;
  registerNodes(): void;
  attachPolicies(): void;
  /** Submits until the pool is full. */
  fill(): void;
  /** Submits until as many wait as the scale says; victims stop at once. */
  queue(): void;
  /** An hour passes: walltimes end, starvation and scores move. */
  passAnHour(): void;
  submit(count: number): void;
  release(count: number): void;
  counts(): { readonly running: number; readonly waiting: number; readonly shapes: number };
}

interface Shape {
  readonly component: ComponentName;
  readonly resources: Record<string, number>;
  readonly constraints: Record<string, string>;
}

const POOL = "main" as PoolName;
const GPUS_PER_NODE = 8;
/** Two GPUs on average, so that 20 000 runs fill 40 000 GPUs. */
const GPUS_OF_SHAPES = [1, 1, 1, 2, 1, 1, 1, 8];
const HOUR_MS = 3_600_000;

/** A single call of the engine, and what came of it. */
export interface Slice {
  readonly step: string;
  readonly command: Command;
  readonly events: readonly Event[];
  readonly tookMs: number;
}

export function createClusterWorld({
  discipline,
  k,
  onSlice = () => {},
}: {
  discipline: DisciplineName;
  k: number;
  onSlice?: (slice: Slice) => void;
}): ClusterWorld {
  const nodes = Math.round(5_000 * k);
  const teams = Math.max(2, Math.round(500 * k));
  const runsWanted = Math.round(20_000 * k);
  const waitingWanted = Math.round(100_000 * k);
  const shapes = shapesOf(Math.round(5_000 * k), teams);

  const state = createState();
  const timings: Timings = new Map();
  const running = new RandomBag();
  const waiting = new Set<string>();
  const stopping: RequestId[] = [];
  const random = randomFrom(1);
  const watch = new Stopwatch();
  let nowMs = 1_700_000_000_000;
  let longestSliceMs = 0;
  let nextId = 0;

  /** Sends a command and goes on with it as a leader does, slice by slice; the time of a step is the sum of them. */
  function send(step: string, command: Command): void {
    let total = 0;
    let next: Command | undefined = command;
    while (next !== undefined) {
      const startedMs = watch.start();
      const decision = decide(state, next, nowMs, () => performance.now() - startedMs > SLICE_MS);
      const tookMs = watch.stop();
      const isCut = decision.outcome === "accepted" && decision.events.at(-1)?.kind === "schedulingPaused";
      total += tookMs;
      longestSliceMs = Math.max(longestSliceMs, tookMs);
      if (decision.outcome === "refused") {
        throw new Error(`${next.kind}: ${decision.refusal.message}`, { cause: decision.bug });
      }
      onSlice({ step, command: next, events: decision.events, tookMs });
      for (const event of decision.events) note(event);
      next = isCut ? { kind: "tick" } : undefined;
    }
    const of = timings.get(step);
    if (of === undefined) timings.set(step, [total]);
    else of.push(total);
  }

  function note(event: Event): void {
    if (event.kind === "requestAllocated") {
      running.add(event.requestId);
      waiting.delete(event.requestId);
    } else if (event.kind === "preemptionDecided") {
      for (const { requestId } of event.victims) askToStop(requestId);
    } else if (event.kind === "stopChanged") askToStop(event.requestId);
    else if (event.kind === "attemptEnded" && event.status === "queued") waiting.add(event.requestId);
    else if (event.kind === "requestSubmitted") waiting.add(event.spec.id);
  }

  function askToStop(requestId: RequestId): void {
    if (running.remove(requestId)) stopping.push(requestId);
  }

  /** Whatever was asked to stop stops at once. */
  function settle(): void {
    for (let id = stopping.pop(); id !== undefined; id = stopping.pop()) {
      send("stop", { kind: "reportEnd", requestId: id, outcome: "stopped" });
    }
  }

  function submitOne(step: string): void {
    nowMs += 1;
    const at = random(shapes.length);
    const operation = discipline === "fair_share" ? `operation-${at}` : null;
    const walltimeMs = random(3) === 0 ? null : 600_000 + random(24 * HOUR_MS);
    const id = `r${nextId++}` as RequestId;
    send(step, {
      kind: "submitRequest",
      spec: { ...PLAIN_REQUEST, id, ...(shapes[at] as Shape), operation, walltimeMs },
    } as Command);
    settle();
  }

  send("create pool", { kind: "createPool", name: POOL, discipline });
  return {
    timings,
    longestSliceMs: () => longestSliceMs,
    registerNodes() {
      for (let i = 0; i < nodes; i++) {
        const capacity = { gpu: GPUS_PER_NODE, mcpu: 128_000, memory_mb: 1_000_000 };
        const labels = { zone: `z${i % 10}` };
        send("register node", {
          kind: "putNode",
          node: { name: `n${i}` as NodeName, pool: POOL, capacity, labels },
        });
      }
    },
    attachPolicies() {
      const reserve = Math.floor((nodes * GPUS_PER_NODE) / teams / 2);
      for (let i = 0; i < teams; i++) {
        const reserved = i % 2 === 0 ? { reserved: { gpu: reserve } } : {};
        send("attach policy", {
          kind: "attachPolicy",
          policy: { pool: POOL, component: teamOf(i), priority: Math.floor(i / 2) % 10, ...reserved },
        });
      }
    },
    fill() {
      for (let i = 0; i < runsWanted * 1.2 && running.size < runsWanted; i++) submitOne("fill");
    },
    queue() {
      while (waiting.size < waitingWanted) submitOne("queue");
    },
    passAnHour() {
      nowMs += HOUR_MS;
      send("hour", { kind: "tick" });
      settle();
    },
    submit(count) {
      for (let i = 0; i < count; i++) submitOne("submit");
    },
    release(count) {
      for (let i = 0; i < count; i++) {
        nowMs += 1_000;
        send("tick", { kind: "tick" }); // A leader wakes up for what is due, so that no release pays for it.
        settle();
        const requestId = running.take(random) as RequestId | undefined;
        if (requestId === undefined) return;
        send("release", { kind: "reportEnd", requestId, outcome: "succeeded" });
        settle();
      }
    },
    counts: () => ({ running: running.size, waiting: waiting.size, shapes: shapes.length }),
  };
}

function shapesOf(count: number, teams: number): Shape[] {
  return Array.from({ length: count }, (_, i) => ({
    component: teamOf(i % teams),
    resources: {
      gpu: GPUS_OF_SHAPES[i % GPUS_OF_SHAPES.length] as number,
      mcpu: 1_000 * (1 + (i % 13)),
      memory_mb: 1_000 * (1 + (Math.floor(i / teams) % 50)),
      step_run: 1,
    },
    constraints: (i % 5 === 0 ? { zone: `z${i % 10}` } : {}) as Record<string, string>,
  }));
}

function teamOf(index: number): ComponentName {
  return `team-${index}` as ComponentName;
}

/** A repeatable stream of whole numbers below a bound. */
function randomFrom(seed: number): (below: number) => number {
  let last = seed;
  return (below) => {
    last = (Math.imul(last, 1_103_515_245) + 12_345) & 0x7fffffff;
    return (last >>> 8) % below;
  };
}

/** Members can be drawn at random, and removed, without a search. */
class RandomBag {
  readonly #items: RequestId[] = [];
  readonly #places = new Map<RequestId, number>();

  get size(): number {
    return this.#items.length;
  }

  add(item: RequestId): void {
    this.#places.set(item, this.#items.length);
    this.#items.push(item);
  }

  remove(item: RequestId): boolean {
    const place = this.#places.get(item);
    if (place === undefined) return false;
    const last = this.#items.pop() as RequestId;
    this.#places.delete(item);
    if (last !== item) {
      this.#items[place] = last;
      this.#places.set(last, place);
    }
    return true;
  }

  take(random: (below: number) => number): RequestId | undefined {
    const item = this.#items[random(this.#items.length)];
    if (item !== undefined) this.remove(item);
    return item;
  }
}

/** Short calls are timed by the clock, so that asking for processor time every time does not cost more than they do. */
const SHORT_MS = 0.5;
const CALLS_PER_READING = 16;

/**
 * The processor time of calls, never too little. The clock is an upper bound, and on a busy machine a bad one: a call
 * that took longer counts with the processor time since the last reading, a few short calls before it included.
 */
class Stopwatch {
  #readingMs = threadMs();
  #callsSince = 0;
  #startedMs = 0;

  /** Answers the clock. */
  start(): number {
    if (++this.#callsSince >= CALLS_PER_READING) this.#read();
    this.#startedMs = performance.now();
    return this.#startedMs;
  }

  stop(): number {
    const clockMs = performance.now() - this.#startedMs;
    return clockMs <= SHORT_MS ? clockMs : Math.min(clockMs, this.#read());
  }

  /** The processor time since the last reading. */
  #read(): number {
    const before = this.#readingMs;
    this.#readingMs = threadMs();
    this.#callsSince = 0;
    return this.#readingMs - before;
  }
}
