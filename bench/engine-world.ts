// A world for the benchmarks of the engine: pools that are always full, with a queue of any depth behind them.

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
  type RequestSpec,
} from "../src/engine/index.ts";

export type { DisciplineName } from "../src/engine/index.ts";

export interface BenchWorldOptions {
  readonly discipline: DisciplineName;
  readonly pools: number;
  /** Kinds of waiting work, spread over the pools. */
  readonly lines: number;
  readonly walltimes: "equal" | "random";
  readonly runsPerPool?: number;
  /**
   * Every second pool is made of nodes with four GPUs, every second team has a reserve, priorities differ, and every
   * tenth cycle brings an urgent request that preempts: its promise stands until the victims have stopped, a cycle later.
   */
  readonly isRich?: boolean;
}

export interface BenchWorld {
  /** Lets so many more requests wait. */
  fill(count: number): void;
  /** So many times: a run ends, the next in line is granted, and another request joins the queue. */
  cycle(count: number): void;
  /** Fills the pool with so many running allocations and times decisions that stop one of them, in microseconds. */
  preempt(running: number, decisions: number): number[];
}

const URGENT = { gpu: 2, step_run: 1 };

/** Decisions that are not timed, so that the code under test is compiled by then. */
const WARM_UP = 2_000;

export function createBenchWorld(options: BenchWorldOptions): BenchWorld {
  const { pools, lines, discipline, runsPerPool = 8, isRich = false } = options;
  const state = createState();
  const perPool = lines / pools;
  let nowMs = 1_700_000_000_000;
  let nextId = 0;
  let random = 1;
  const running: RequestId[][] = Array.from({ length: pools }, () => []);
  const names = Array.from({ length: lines }, (_, i) => `team-${i}` as ComponentName);

  const send = (command: Command): readonly Event[] => {
    const decision = decide(state, command, nowMs);
    if (decision.outcome === "refused") throw new Error(decision.refusal.message, { cause: decision.bug });
    return decision.events;
  };
  const stopping: RequestId[] = [];
  const note = (events: readonly Event[]) => {
    for (const event of events) {
      if (event.kind === "requestAllocated") {
        running[Number((event.pool as string).slice(1))]?.push(event.requestId);
      } else if (event.kind === "preemptionDecided") {
        for (const { requestId } of event.victims) askToStop(Number(event.pool.slice(1)), requestId);
      }
    }
  };
  const askToStop = (pool: number, victim: RequestId) => {
    const runs = running[pool] as RequestId[];
    runs.splice(runs.indexOf(victim), 1);
    stopping.push(victim);
  };
  const stopAll = () => {
    for (let id = stopping.shift(); id !== undefined; id = stopping.shift()) {
      note(send({ kind: "reportEnd", requestId: id, outcome: "stopped" }));
    }
  };
  const submit = (line: number, rest: Partial<RequestSpec> = {}) =>
    note(send({ kind: "submitRequest", spec: specOf(line, rest) }));

  function specOf(line: number, rest: Partial<RequestSpec>): RequestSpec {
    random = (random * 1_103_515_245 + 12_345) & 0x7fffffff;
    const id = `r${nextId++}` as RequestId;
    return {
      ...PLAIN_REQUEST,
      id,
      component: names[line] as ComponentName,
      resources: { gpu: 1, step_run: 1 },
      walltimeMs: options.walltimes === "equal" ? 3_600_000 : 60_000 + (random % 7_200_000),
      ...rest,
    };
  }

  for (let pool = 0; pool < pools; pool++) {
    const name = `p${pool}` as PoolName;
    const hasNodes = isRich && pool % 2 === 0;
    send({
      kind: "createPool",
      name,
      ...(hasNodes ? {} : { capacity: { gpu: runsPerPool } }),
      discipline,
    });
    for (let i = 0; hasNodes && i < runsPerPool / 4; i++) {
      send({
        kind: "putNode",
        node: { name: `${name}-n${i}` as NodeName, pool: name, capacity: { gpu: 4 } },
      });
    }
    for (let i = 0; i < perPool; i++) {
      const component = names[pool * perPool + i] as ComponentName;
      const reserved =
        isRich && i % 2 === 0 ? { reserved: { gpu: Math.floor(runsPerPool / perPool / 2) } } : {};
      send({
        kind: "attachPolicy",
        policy: { pool: name, component, priority: isRich ? i % 10 : 5, ...reserved },
      });
    }
    if (isRich)
      send({ kind: "attachPolicy", policy: { pool: name, component: urgentOf(pool), priority: 100 } });
    for (let i = 0; i < runsPerPool; i++) submit(pool * perPool + (i % perPool));
  }

  function urgentOf(pool: number): ComponentName {
    return `urgent-${pool}` as ComponentName;
  }

  let filled = 0;
  let cycled = 0;
  return {
    fill(count) {
      for (let i = 0; i < count; i++, filled++)
        submit((filled * perPool + Math.floor(filled / pools)) % lines);
    },
    cycle(count) {
      for (let i = 0; i < count; i++, cycled++) {
        nowMs += 1;
        const pool = cycled % pools;
        if (isRich) stopAll();
        const requestId = running[pool]?.shift();
        if (requestId !== undefined) note(send({ kind: "reportEnd", requestId, outcome: "succeeded" }));
        const rest = isRich && cycled % 10 === 0 ? { component: urgentOf(pool), resources: URGENT } : {};
        submit(pool * perPool + (Math.floor(cycled / pools) % perPool), rest);
        if (cycled % 1000 === 999) send({ kind: "forgetEnded", endedBeforeMs: nowMs });
      }
    },
    preempt(count, decisions) {
      const pool = "p0" as PoolName;
      send({ kind: "updatePool", name: pool, capacity: { gpu: count } });
      const urgent = "urgent" as ComponentName;
      send({ kind: "attachPolicy", policy: { pool, component: urgent, priority: 100 } });
      for (let i = runsPerPool; i < count; i++) submit(i % lines);
      const times: number[] = [];
      for (let i = -WARM_UP; i < decisions; i++) {
        nowMs += 1;
        const spec = specOf(0, { component: urgent });
        const command: Command = { kind: "submitRequest", spec };
        const startedAt = performance.now();
        const events = send(command);
        if (i >= 0) times.push((performance.now() - startedAt) * 1000);
        const decided = events.find((event) => event.kind === "preemptionDecided");
        const victim = decided?.kind === "preemptionDecided" ? decided.victims[0]?.requestId : undefined;
        if (victim === undefined) throw new Error("nobody was preempted");
        send({ kind: "reportEnd", requestId: victim, outcome: "stopped" });
        send({ kind: "cancelRequest", requestId: victim });
        send({ kind: "reportEnd", requestId: spec.id, outcome: "succeeded" });
        submit((i + WARM_UP) % lines); // As many run as before.
      }
      return times;
    },
  };
}
