// An engine that looks only at pools whose order may have moved, beside one that looks at all of them every time.
// A failure names its seed; `SEED=17 npx vitest run src/engine/disciplines/queue/moving-order.test.ts` repeats it.

import { expect, test } from "vitest";
import type { Command } from "../../commands.ts";
import { decide } from "../../decide.ts";
import {
  type ComponentName,
  PLAIN_REQUEST,
  type PolicyKind,
  type PoolName,
  type RequestId,
  type RequestSpec,
} from "../../records.ts";
import { createState, type EngineState } from "../../state.ts";

const { SEED, SEEDS = "120" } = process.env;
const seeds =
  SEED === undefined ? Array.from({ length: Number(SEEDS) }, (_, index) => index + 1) : [Number(SEED)];

test.each(seeds)("seed %i: nothing is missed by not looking", (seed) => {
  const int = diceOf(seed);
  const [sparing, thorough] = [createState(), createState()];
  let nowMs = 0;
  const both = (command: Command, step: number) => {
    for (const pool of thorough.pools.values()) thorough.unsettled.add(pool);
    const expected = decide(thorough, command, nowMs);
    expect(decide(sparing, command, nowMs), `step ${step}, ${command.kind}`).toEqual(expected);
  };
  for (const command of someWorld(int)) both(command, 0);
  for (let step = 1; step <= 150; step++) {
    if (int(0, 1) === 1) nowMs += int(1, 60) * pick(int, [1, 1000, 60_000, 600_000, 3_600_000]);
    both(someCommand(int, sparing, step), step);
  }
});

type Int = (min: number, max: number) => number;

const pick = <T>(int: Int, values: readonly T[]): T => values[int(0, values.length - 1)] as T;

const POOLS = ["a", "b", "c"] as PoolName[];
const COMPONENTS = ["red", "blue", "green", "gold"] as ComponentName[];
const KINDS: PolicyKind[] = ["batch", "training", "service", "interactive"];

function* someWorld(int: Int): Generator<Command> {
  for (const name of POOLS) {
    const settings = {
      backfill: pick(int, ["easy", "none", "opportunistic"] as const),
      classBands: int(0, 3) === 0,
    };
    yield { kind: "createPool", name, capacity: { gpu: int(2, 6) }, discipline: "class", settings };
    for (const component of COMPONENTS) {
      if (int(0, 3) === 0) continue;
      const reserved = int(0, 1) === 0 ? {} : { gpu: int(0, 1) };
      yield { kind: "attachPolicy", policy: { pool: name, component, kind: pick(int, KINDS), reserved } };
    }
  }
}

/** Mostly about one pool, so that time passes in the others without anything else. */
function someCommand(int: Int, { requests }: EngineState, step: number): Command {
  const some = (statuses: string[]) =>
    [...requests.values()].filter(({ progress }) => statuses.includes(progress.status));
  const roll = int(1, 10);
  const running = some(["allocated", "preempting"]);
  if (roll <= 5 || running.length === 0) return { kind: "submitRequest", spec: someRequest(int, step) };
  if (roll <= 7) return { kind: "tick" };
  const { spec, progress } = pick(int, running);
  const outcome = progress.status === "preempting" ? "stopped" : "succeeded";
  return { kind: "reportEnd", requestId: spec.id, outcome };
}

function someRequest(int: Int, step: number): RequestSpec {
  return {
    ...PLAIN_REQUEST,
    id: `r${step}` as RequestId,
    component: pick(int, COMPONENTS),
    resources: { gpu: int(1, 3), step_run: 1 },
    preemptible: int(0, 5) > 0,
    preemptionClass: pick(int, [2, 4, 5, 5, 5, 6]),
    checkpoint: pick(int, ["none", "auto", "manual"] as const),
    checkpointMs: pick(int, [null, 60_000, 600_000]),
    walltimeMs: pick(int, [null, null, 600_000, 7_200_000, 90_000_000]),
  };
}

/** A small generator (mulberry32): the same seed gives the same numbers. */
function diceOf(seed: number): Int {
  let state = seed;
  return (min, max) => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return min + (((value ^ (value >>> 14)) >>> 0) % (max - min + 1));
  };
}
