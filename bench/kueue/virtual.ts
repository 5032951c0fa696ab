// Plays a workload on the engine in virtual time: decisions, stops and starts take no time at all.

import {
  type Command,
  type ComponentName,
  createState,
  decide,
  type Event,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
  type RequestSpec,
} from "../../src/engine/index.ts";

export interface KueueWorkload {
  readonly pools: number;
  readonly policiesPerPool: number;
  readonly reservedPerPolicy: number;
  readonly limitPerPolicy: number;
  readonly capacityPerPool: number;
  readonly key: string;
  readonly streams: readonly Stream[];
  readonly totalRequests: number;
  readonly published: { readonly wallMs: number; readonly meanTimeToGrantMs: Record<string, number> };
  readonly limits: {
    readonly capacityBoundMs: number;
    readonly zeroLatencyReferenceMs: number;
    readonly zeroLatencyMeanTimeToGrantMs: Record<string, number>;
    readonly zeroLatencyPreemptions: number;
  };
}

export interface Stream {
  readonly name: string;
  readonly requestsPerPolicy: number;
  readonly intervalMs: number;
  readonly runMs: number;
  readonly preemptionClass: number;
  readonly units: number;
}

export interface Outcome {
  readonly wallMs: number;
  readonly meanTimeToGrantMs: Record<string, number>;
  readonly preemptions: number;
  readonly lostUnitMs: number;
  readonly processorMs: number;
}

export interface Arrival {
  readonly atMs: number;
  readonly id: string;
  readonly component: string;
  readonly stream: Stream;
}

/** Four medium runs make room for a large one; the default of 3 would let it wait. */
export const VICTIMS_MAX = 4;

export function poolName(index: number): string {
  return `pool-${index}`;
}

export function componentName(pool: number, policy: number): string {
  return `team-${pool}-${policy}`;
}

/** Item i of a stream arrives at (i + 1) × interval, in every policy of every pool. */
export function arrivalsOf({ pools, policiesPerPool, streams }: KueueWorkload): Arrival[] {
  const arrivals: Arrival[] = [];
  for (let pool = 0; pool < pools; pool++) {
    for (let policy = 0; policy < policiesPerPool; policy++) {
      for (const stream of streams) {
        for (let i = 0; i < stream.requestsPerPolicy; i++) {
          const id = `${stream.name}-${pool}-${policy}-${i}`;
          arrivals.push({
            atMs: (i + 1) * stream.intervalMs,
            id,
            component: componentName(pool, policy),
            stream,
          });
        }
      }
    }
  }
  return arrivals.sort((a, b) => a.atMs - b.atMs || (a.id < b.id ? -1 : 1));
}

interface Running {
  readonly token: string;
  readonly startedAtMs: number;
}

/** When a run will have run its time, if nobody stops it. */
export interface End {
  readonly atMs: number;
  readonly id: string;
  readonly token: string;
}

export function playInVirtualTime(workload: KueueWorkload): Outcome {
  const state = createState();
  const arrivals = arrivalsOf(workload);
  const streamOf = new Map(arrivals.map(({ id, stream }) => [id, stream]));
  const grantedAtMs = new Map<string, number>();
  const running = new Map<string, Running>();
  const ends: End[] = [];
  let [nowMs, grants, preemptions, lostUnitMs] = [0, 0, 0, 0];

  const send = (command: Command): void => {
    const decision = decide(state, command, nowMs);
    if (decision.outcome === "refused") throw new Error(decision.refusal.message, { cause: decision.bug });
    const stopped: string[] = [];
    for (const event of decision.events) notice(event, stopped);
    for (const id of stopped) send({ kind: "reportEnd", requestId: id as RequestId, outcome: "stopped" });
  };
  const notice = (event: Event, stopped: string[]): void => {
    if (event.kind === "requestAllocated") {
      const stream = streamOf.get(event.requestId) as Stream;
      const token = String(++grants);
      running.set(event.requestId, { token, startedAtMs: nowMs });
      grantedAtMs.set(event.requestId, nowMs);
      pushEnd(ends, { atMs: nowMs + stream.runMs, id: event.requestId, token });
    } else if (event.kind === "preemptionDecided") {
      for (const { requestId } of event.victims) {
        const run = running.get(requestId) as Running;
        preemptions++;
        lostUnitMs += (nowMs - run.startedAtMs) * (streamOf.get(requestId) as Stream).units;
        running.delete(requestId);
        stopped.push(requestId);
      }
    }
  };

  for (let pool = 0; pool < workload.pools; pool++) {
    const name = poolName(pool) as PoolName;
    const capacity = { [workload.key]: workload.capacityPerPool };
    send({ kind: "createPool", name, capacity, discipline: "class", settings: { maxVictims: VICTIMS_MAX } });
    for (let policy = 0; policy < workload.policiesPerPool; policy++) {
      send({
        kind: "attachPolicy",
        policy: {
          pool: name,
          component: componentName(pool, policy) as ComponentName,
          reserved: { [workload.key]: workload.reservedPerPolicy },
          limit: { [workload.key]: workload.limitPerPolicy },
        },
      });
    }
  }
  const before = process.cpuUsage();
  let next = 0;
  while (next < arrivals.length || ends.length > 0) {
    const arrival = arrivals[next];
    const end = ends[0];
    if (end !== undefined && (arrival === undefined || end.atMs <= arrival.atMs)) {
      popEnd(ends);
      if (running.get(end.id)?.token !== end.token) continue; // It was preempted and runs again, or will.
      nowMs = end.atMs;
      running.delete(end.id);
      send({ kind: "reportEnd", requestId: end.id as RequestId, outcome: "succeeded" });
    } else if (arrival !== undefined) {
      next++;
      nowMs = arrival.atMs;
      send({ kind: "submitRequest", spec: specOf(workload, arrival) });
    }
  }
  const { user, system } = process.cpuUsage(before);
  return {
    wallMs: nowMs,
    meanTimeToGrantMs: meanTimeToGrant(workload, grantedAtMs),
    preemptions,
    lostUnitMs,
    processorMs: (user + system) / 1000,
  };
}

/** From the time at which it is due to the last grant, averaged per stream. */
export function meanTimeToGrant(
  workload: KueueWorkload,
  grantedAtMs: ReadonlyMap<string, number>,
): Record<string, number> {
  const waits = new Map<string, number[]>(workload.streams.map(({ name }) => [name, []]));
  for (const { id, atMs, stream } of arrivalsOf(workload)) {
    waits.get(stream.name)?.push((grantedAtMs.get(id) ?? Number.NaN) - atMs);
  }
  const mean = (times: readonly number[]) => Math.round(times.reduce((a, b) => a + b, 0) / times.length);
  return Object.fromEntries([...waits].map(([name, times]) => [name, mean(times)]));
}

function specOf({ key }: KueueWorkload, { id, component, stream }: Arrival): RequestSpec {
  return {
    ...PLAIN_REQUEST,
    id: id as RequestId,
    component: component as ComponentName,
    resources: { [key]: stream.units, step_run: 1 },
    preemptionClass: stream.preemptionClass,
  };
}

// A binary heap by time: ends are many, and the next one is always wanted.

export function pushEnd(heap: End[], end: End): void {
  heap.push(end);
  for (let i = heap.length - 1; i > 0; ) {
    const parent = (i - 1) >> 1;
    if ((heap[parent] as End).atMs <= (heap[i] as End).atMs) return;
    [heap[parent], heap[i]] = [heap[i] as End, heap[parent] as End];
    i = parent;
  }
}

export function popEnd(heap: End[]): void {
  const last = heap.pop() as End;
  if (heap.length === 0) return;
  heap[0] = last;
  for (let i = 0; ; ) {
    const [left, right] = [2 * i + 1, 2 * i + 2];
    let least = i;
    if (left < heap.length && (heap[left] as End).atMs < (heap[least] as End).atMs) least = left;
    if (right < heap.length && (heap[right] as End).atMs < (heap[least] as End).atMs) least = right;
    if (least === i) return;
    [heap[least], heap[i]] = [heap[i] as End, heap[least] as End];
    i = least;
  }
}
