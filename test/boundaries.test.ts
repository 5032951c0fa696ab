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
  ...["R1 amounts", "R1 largest amount", "R1 limit", "R2 length of a key", "R3 rounding up", "R3 gpu_count"],
  ...["P1 length of a name", "P1 keys of a capacity", "P2 a key of a capacity", "P3 weight"],
  ...["P3 default weight", "P3 priority", "P3 max_class", "P4 reserved and limit", "P4 reserved in total"],
  ...["P4 reserved below a group", "P4 reserved by the groups at the top", "P4 a group below a group"],
  ...["P5 limit above the capacity", "P6 limits of groups", "P7 a breach that was forced", "P7 debt"],
  ...["P8 requests in a pool", "P8 force"],
  ...["A5 class", "A5 max_class", "A5 max_class of several policies"],
  ...["Q1 default class"],
  ...["A2 capacity", "A2 limit", "A2 reserved", "A3 first rule that refuses", "A5 size of a request"],
  ...["Q3 retries.max", "Q3 retries.delay", "Q3 who comes back", "Q3 whom the delay concerns", "Q7 walltime"],
  ...["Q5 cancelling", "Q7 walltime of a victim", "Q8 wait timeout", "Q8 grant and timeout"],
  ...["Q8 latest entry", "Q9 asking for more"],
  ...["G1 headroom", "G1 priority and class", "G1 priority_preempts any", "G1 processors", "G2 units"],
  ...["G2 limit", "G2 reserve", "G3 limit below the capacity"],
  ...["G3 group limit and reserve below the capacity", "G4 end of a walltime"],
  ...["G4 what is left for the head", "G4 when the head fits", "G4 beside a hold", "G4 opportunistic"],
  ...["G5 preferred pool", "G5 where preemption happens", "G5 grant before preemption"],
  ...["G5 order of the pools", "G6 line of the reserve", "G6 who fills the reserve"],
  ...["V3 all or nothing", "V4 who is spared", "V6 max_preemptions of a pool", "V6 shield in a gap"],
  ...["8.1 priority", "8.1 borrowing", "8.1 several short keys", "8.1 reclaim with priority_preempts any"],
  ...["8.2 headroom", "8.2 reason", "8.3 order of victims", "8.3 order of victims on nodes"],
  ...["9.2 gangs", "9.2 who gives up", "9.2 nodes of a request", "9.3 covered demand"],
  ...["9.3 covered demand within 1e-9", "9.4 enable_aggressive_starvation", "9.5 usage threshold"],
  ...["9.5 several keys", "9.5 who is protected first", "9.6 order of service", "9.11 age of an element"],
  ...["9.7 which node", "9.7 which node of one victim", "9.8 nobody is left poorer", "9.8 all keys together"],
  ...["9.8 each key", "9.8 who is spared", "9.9 enforce_limits", "9.9 who stays"],
  ...["9.9 groups above their limits", "9.9 two overcommitted nodes"],
  ...["10.1 class", "10.1 class_bands", "10.2 class 10", "10.2 class 10 on a key that nobody reserves"],
  ...["10.3 short walltimes", "10.3 no checkpoint", "10.4 nearly done", "10.4 just begun"],
  ...["10.4 checkpoint without an estimate", "10.4 manual checkpoint", "10.4 lost work"],
  ...["10.4 gpus of a run", "10.5 value", "10.5 order of candidates", "10.5 who costs as much as the value"],
  ...["10.5 value of all victims", "10.5 the largest first", "10.5 which node"],
  ...["10.5 bounds of a node", "10.5 the largest first on nodes"],
  ...["10.5 which node of one victim", "10.6 scores within 1e-6", "10.6 in share", "10.6 sensitive claims"],
  ...["10.8 no checkpoint"],
  ...["N2 topology groups", "N2 equal topology groups", "N2 best fit", "N2 best fit on several keys"],
  ...["N4 what a node can hold", "N4 drain deadline"],
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
  "9.3 every key with unmet demand": {
    file: "src/engine/disciplines/fair_share/satisfaction.test.ts",
    tests: ["one key with unmet demand that has enough is enough", "keys without unmet demand do not count"],
  },
  "9.5 covered demand": {
    file: "src/engine/disciplines/fair_share/allocation-groups.test.ts",
    tests: [
      "none is preemptible if the fair share covers the demand",
      "nor is any then above a lower threshold",
      "one key below its line is enough",
    ],
  },
  "9.6 ratio of several keys": {
    file: "src/engine/disciplines/fair_share/satisfaction.test.ts",
    tests: [
      "the largest of these, though another one has less",
      "the smallest",
      "infinite without a fair share",
    ],
  },
  "10.6 weights of the score": {
    file: "src/engine/disciplines/class/score.test.ts",
    tests: ["w1 of batch", "w8 of interactive", "usage at the target", "usage above the target"],
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
