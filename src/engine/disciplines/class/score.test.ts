// Every number of the score (10.6), by the kind of the policy: a weight that is another one gives another score.

import { expect, test } from "vitest";
import type { PolicyKind } from "../../records.ts";
import { DEFAULT_POOL_SETTINGS } from "../../settings.ts";
import type { Waiter } from "../discipline.ts";
import { scoreOf } from "./score.ts";

const HOUR_MS = 3_600_000;

interface Case {
  kind: PolicyKind;
  preemptionClass?: number;
  waitedMs?: number;
  reserved?: number;
  usage?: number;
  checkpoint?: "none" | "auto" | "manual";
  /** In millionths. */
  want: number;
}

/** Class 7, or ln 2 for an hour of waiting, or half of the target, or a checkpoint of 9 minutes: each alone. */
const cases: Record<string, Case> = {
  "w1 of batch": { kind: "batch", preemptionClass: 7, want: 105_000 },
  "w2 of batch": { kind: "batch", waitedMs: HOUR_MS, want: 138_629 },
  "w3 of batch": { kind: "batch", reserved: 4, usage: 2, want: 100_000 },
  "w8 of batch": { kind: "batch", checkpoint: "auto", want: 5_000 },
  "w1 of training": { kind: "training", preemptionClass: 7, want: 70_000 },
  "w2 of training": { kind: "training", waitedMs: HOUR_MS, want: 69_315 },
  "w3 of training": { kind: "training", reserved: 4, usage: 2, want: 50_000 },
  "w8 of training": { kind: "training", checkpoint: "auto", want: 15_000 },
  "w1 of service": { kind: "service", preemptionClass: 7, want: 105_000 },
  "w2 of service": { kind: "service", waitedMs: HOUR_MS, want: 34_657 },
  "w3 of service": { kind: "service", reserved: 4, usage: 2, want: 50_000 },
  "w8 of service": { kind: "service", checkpoint: "auto", want: 10_000 },
  "w1 of sensitive": { kind: "sensitive", preemptionClass: 7, want: 630_000 },
  "w2 of sensitive": { kind: "sensitive", waitedMs: HOUR_MS, want: 0 },
  "w3 of sensitive": { kind: "sensitive", reserved: 4, usage: 2, want: 0 },
  "w8 of sensitive": { kind: "sensitive", checkpoint: "auto", want: 0 },
  "w1 of interactive": { kind: "interactive", preemptionClass: 7, want: 70_000 },
  "w2 of interactive": { kind: "interactive", waitedMs: HOUR_MS, want: 207_944 },
  "w3 of interactive": { kind: "interactive", reserved: 4, usage: 2, want: 50_000 },
  "w8 of interactive": { kind: "interactive", checkpoint: "auto", want: 0 },
  "a second more of waiting": { kind: "batch", waitedMs: HOUR_MS + 1_000, want: 138_657 },
  "usage at the target": { kind: "batch", reserved: 4, usage: 4, want: 0 },
  "usage above the target counts as much": { kind: "batch", reserved: 4, usage: 5, want: 0 },
  "a target of 0": { kind: "batch", reserved: 0, usage: 0, want: 0 },
  "a manual checkpoint takes the timeout of 10 minutes": {
    kind: "batch",
    checkpoint: "manual",
    want: 4_545,
  },
};

for (const [name, given] of Object.entries(cases)) {
  test(name, () => expect(scoreOf(waiter(given), given.waitedMs ?? 0)).toBe(given.want));
}

/** Only what the score looks at. */
function waiter({ kind, preemptionClass = 0, reserved = 0, usage = 0, checkpoint = "none" }: Case): Waiter {
  const poolLine = {
    preemptionClass,
    pool: { keys: ["gpu"], record: { settings: DEFAULT_POOL_SETTINGS } },
    policy: { reserved: [reserved], usage: [usage], record: { kind } },
    line: { shape: { checkpoint, checkpointMs: 9 * 60_000 } },
  };
  const request = { progress: { submittedAtMs: 0 } };
  return { poolLine, request, hold: null, borrows: false, rank: [], score: Number.NaN } as unknown as Waiter;
}
