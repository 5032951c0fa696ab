// Every number in the rules has a scenario on each side of it. The tables below say which: a setting without a boundary
// does not compile, a time in the engine without one fails here, and so does a boundary with one side only.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { DEFAULT_POOL_SETTINGS, type PoolSettings } from "../src/engine/index.ts";
import { loadScenarios } from "../src/simulator/index.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const read = (path: string) => readFileSync(join(root, path), "utf8");

/** Settings with a number, which have a default in section 17. */
type Numeric = {
  [Name in keyof PoolSettings]-?: number extends PoolSettings[Name] ? Name : never;
}[keyof PoolSettings];

const settings: Record<Numeric, string> = {
  minRuntimeMs: "V2 min_runtime_seconds",
  maxPreemptions: "V6 max_preemptions",
  checkpointTimeoutMs: "11.2 checkpoint timeout",
  maxDeferralMs: "11.2 max_deferral_seconds",
  graceMs: "11.3 grace_seconds",
  maxVictims: "10.5 max_victims",
  nearCompletionMs: "10.3 near_completion_seconds",
  starvationTimeoutMs: "9.4 starvation timeout",
  aggressiveStarvationTimeoutMs: "9.4 aggressive timeout",
  starvationTolerance: "9.3 tolerance",
  preemptionSatisfactionThreshold: "9.5 threshold",
  aggressivePreemptionSatisfactionThreshold: "9.5 aggressive threshold",
  preemptiveBackoffMs: "9.7 back-off",
  leaseMs: "L2 one and a half leases",
  renewalMs: "", // Advice to holders: no rule compares with it.
  heartbeatMs: "", // Advice to agents.
  nodeLostMs: "", // Judged outside the engine, which gets the command that a node is lost: see below.
};

/** Times and bounds that are written into the engine, by the name of their constant. */
const constants: Record<string, string> = {
  DAY_MS: "V6 24 hours",
  PREEMPTIONS_MAX: "V6 max_preemptions",
  SHARE_EPSILON: "9 comparisons within 1e-9",
  OVERCOMMIT_MS_MAX: "9.9 overcommitted node",
  AUTO_CHECKPOINT_MS: "10.4 checkpoint without an estimate",
  NEARLY_DONE_MS: "10.4 what nearly done costs",
  HARDLY_BEGUN_MS: "10.4 just begun",
  UNKNOWN_WALLTIME_MS: "10.5 value without a walltime",
  VICTIMS_MAX: "10.5 max_victims",
};

/** Constants with such names that are units. */
const units = ["SECOND_MS", "MINUTE_MS", "HOUR_MS"];

/** Numbers and preferences that stand in the text of the rules. */
const others = [
  ...["R1 amounts", "R2 length of a key", "R3 rounding up", "P1 length of a name", "P3 weight"],
  ...["P4 reserved and limit", "P4 reserved in total", "P4 reserved below a group"],
  ...["A2 capacity", "A2 limit", "A2 reserved", "A5 class", "A5 max_class"],
  ...["Q3 retries.max", "Q3 retries.delay", "Q7 walltime", "Q8 wait timeout", "Q8 grant and timeout"],
  ...["G1 headroom", "G2 units", "G2 limit", "G2 reserve", "G3 limit below the capacity"],
  ...["G4 end of a walltime", "G4 what is left for the head"],
  ...["G5 preferred pool", "G5 where preemption happens", "G5 grant before preemption"],
  ...["G6 line of the reserve", "V3 all or nothing"],
  ...["8.1 priority", "8.1 borrowing", "8.2 headroom", "8.3 order of victims"],
  ...["9.2 gangs", "9.3 covered demand", "9.5 usage threshold", "9.6 order of service", "9.7 which node"],
  ...["9.8 nobody is left poorer", "9.9 enforce_limits"],
  ...["10.1 class", "10.1 class_bands", "10.2 class 10", "10.3 short walltimes", "10.3 no checkpoint"],
  ...["10.4 nearly done", "10.4 just begun", "10.4 checkpoint without an estimate", "10.4 manual checkpoint"],
  ...["10.5 value", "10.5 order of candidates", "10.6 scores within 1e-6", "10.6 in share"],
  ...["N2 topology groups", "N2 best fit", "N4 what a node can hold"],
];

/** Numbers that scenarios cannot reach, with the tests on each side of them. */
const elsewhere: Record<string, { readonly file: string; readonly tests: readonly string[] }> = {
  "L2 a grant that is not taken up": {
    file: "src/leader/leases.test.ts",
    tests: ["a grant that nobody takes up is given up after one lease"],
  },
  "L3 at least 5 clients": {
    file: "src/leader/leases.test.ts",
    tests: ["four at once are lost", "five at once put the brake on"],
  },
  "L3 more than 30 %": {
    file: "src/leader/leases.test.ts",
    tests: ["six of twenty are exactly thirty per cent, and not more", "five of sixteen are"],
  },
  "L3 within 60 s": {
    file: "src/leader/leases.test.ts",
    tests: ["five at once put the brake on", "five within more than a minute are lost"],
  },
  "L3 up to 15 minutes": {
    file: "src/leader/leases.test.ts",
    tests: ["the brake lasts a quarter of an hour at most"],
  },
  "L2 one lease of an attended request that waits": {
    file: "src/leader/leader.test.ts",
    tests: ["an attended request that waits expires when its client is silent for a lease"],
  },
  "Q4 24 hours": {
    file: "test/contract/store.contract.ts",
    tests: ["idempotency keys and audit entries go when their time is over"],
  },
  "E3 suspect after 20 s, down after node_lost_seconds": {
    file: "src/leader/nodes.test.ts",
    tests: ["a node is suspect after 20 s of silence, and down after node_lost_seconds"],
  },
};

const sides = sidesByBoundary();

describe("each boundary has a scenario on both sides", () => {
  const wanted = [...Object.values(settings), ...Object.values(constants), ...others].filter(Boolean);
  for (const boundary of wanted) {
    test(boundary, () => expect(sides.get(boundary)?.length ?? 0).toBeGreaterThanOrEqual(2));
  }
  test("and no scenario belongs to a boundary that is not listed", () => {
    expect([...sides.keys()].filter((boundary) => !wanted.includes(boundary))).toEqual([]);
  });
  for (const [boundary, { file, tests }] of Object.entries(elsewhere)) {
    test(`${boundary}, in ${file}`, () => {
      const text = read(file);
      expect(tests.filter((name) => !text.includes(name))).toEqual([]);
    });
  }
});

test("every numeric setting is in the table", () => {
  const numeric = Object.entries(DEFAULT_POOL_SETTINGS).filter(([, value]) => typeof value === "number");
  expect(numeric.map(([name]) => name).filter((name) => !Object.hasOwn(settings, name))).toEqual([]);
});

test("every time that is written into the engine is in the table", () => {
  const known = [...Object.keys(constants), ...units];
  expect(timesOfTheEngine().filter((name) => !known.includes(name))).toEqual([]);
});

function sidesByBoundary(): Map<string, string[]> {
  const loaded = loadScenarios("boundaries.yaml", read("scenarios/boundaries.yaml"));
  if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join("\n"));
  const found = new Map<string, string[]>();
  for (const { name } of loaded.scenarios) {
    const [boundary = "", side = ""] = name.split(/: (.*)/s);
    found.set(boundary, [...(found.get(boundary) ?? []), side]);
  }
  return found;
}

function timesOfTheEngine(): string[] {
  const files = readdirSync(join(root, "src/engine"), { recursive: true, encoding: "utf8" });
  const sources = files.filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"));
  const declaration = /^(?:export )?const ([A-Z][A-Z0-9_]*_MS(?:_M(?:AX|IN))?) =/gm;
  return sources.flatMap((file) =>
    [...read(join("src/engine", file)).matchAll(declaration)].map(([, name]) => name as string),
  );
}
