// A leader for tests: on any store, with a clock that only moves when the test moves it.

import {
  type Command,
  type ComponentName,
  type NodeName,
  PLAIN_REQUEST,
  type PoolName,
  type PoolSettings,
  type RequestId,
  type RequestSpec,
} from "../../src/engine/index.ts";
import {
  type Answer,
  type CallContext,
  type Clock,
  type Leader,
  type LeaderOptions,
  startLeader,
} from "../../src/leader/index.ts";
import { openMemoryStore, type Store } from "../../src/store/index.ts";

export interface FakeClock extends Clock {
  /** Lets time pass; every timer on the way fires at its moment, and what it started comes to rest. */
  advance(ms: number): Promise<void>;
  /** Time passes and nobody notices: a frozen process. */
  freeze(ms: number): void;
  jumpWall(ms: number): void;
}

export const START_MS = 1_700_000_000_000;

/** `readingMs` is how long it takes to read it: time that passes while something is decided. */
export function createFakeClock(readingMs = 0): FakeClock {
  let monotonicMs = 0;
  let wallOffsetMs = START_MS;
  const timers = new Set<{ readonly atMs: number; readonly run: () => void }>();
  const soonest = () => [...timers].sort((a, b) => a.atMs - b.atMs)[0];
  return {
    monotonicMs() {
      monotonicMs += readingMs;
      return monotonicMs;
    },
    wallMs: () => monotonicMs + wallOffsetMs,
    after(delayMs, run) {
      const timer = { atMs: monotonicMs + delayMs, run };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    soon: (run) => void setImmediate(run),
    async advance(ms) {
      await settle(); // A turn that has answered its callers may still have a timer to set.
      const targetMs = monotonicMs + ms;
      for (let timer = soonest(); timer !== undefined && timer.atMs <= targetMs; timer = soonest()) {
        monotonicMs = Math.max(monotonicMs, timer.atMs);
        timers.delete(timer);
        timer.run();
        await settle();
      }
      monotonicMs = targetMs;
      await settle();
    },
    freeze(ms) {
      monotonicMs += ms;
    },
    jumpWall(ms) {
      wallOffsetMs += ms;
    },
  };
}

/** Everything that is ready has had its turn. */
export async function settle(): Promise<void> {
  for (let turns = 0; turns < 4; turns++) await new Promise((resolve) => setImmediate(resolve));
}

export interface Rig {
  readonly leader: Leader;
  readonly store: Store;
  readonly clock: FakeClock;
  readonly fatal: unknown[];
  readonly logged: string[];
  do(command: Command, context?: Partial<CallContext>): Promise<Answer>;
}

export async function createRig(
  options: Partial<Omit<LeaderOptions, "clock">> & { readonly clock?: FakeClock } = {},
): Promise<Rig> {
  const { store = await openMemoryStore(), clock = createFakeClock() } = options;
  const fatal: unknown[] = [];
  const logged: string[] = [];
  const say = (_fields: object, message: string) => void logged.push(message);
  const log = { info: () => undefined, warn: say, error: say };
  const leader = await startLeader({ log, onFatal: (error) => fatal.push(error), ...options, store, clock });
  const perform: Rig["do"] = (command, context) => leader.perform(command, { actor: "ann", ...context });
  return { leader, store, clock, fatal, logged, do: perform };
}

/** One pool with two gpus, and policies in it. */
export async function createPool(
  rig: Rig,
  { name = "main", gpu = 2, settings = {} as Partial<PoolSettings>, components = ["team"] } = {},
): Promise<void> {
  await rig.do({ kind: "createPool", name: pool(name), capacity: { gpu }, settings });
  for (const component of components) {
    await rig.do({
      kind: "attachPolicy",
      policy: { pool: pool(name), component: component as ComponentName },
    });
  }
}

export function submit(id: string, changes: Partial<RequestSpec> = {}): Command {
  return { kind: "submitRequest", spec: spec(id, changes) };
}

export function spec(id: string, changes: Partial<RequestSpec> = {}): RequestSpec {
  return {
    ...PLAIN_REQUEST,
    id: request(id),
    component: "team" as ComponentName,
    resources: { gpu: 1 },
    ...changes,
  };
}

export const request = (id: string) => id as RequestId;
export const pool = (name: string) => name as PoolName;
export const node = (name: string) => name as NodeName;
