import { expect, test } from "vitest";
import type { WireWantedPart } from "../protocol/index.ts";
import { type KnownPart, reconcile } from "./reconcile.ts";

const wanted = (token: string, more: Partial<WireWantedPart> = {}) =>
  ({ token, request_id: token, run: { command: ["true"] }, ...more }) as WireWantedPart;
const running = (token: string): KnownPart => ({ token, state: "running", listed: "running" });
const ended = (token: string): KnownPart => ({ token, state: "ended", listed: "ended" });

interface Case {
  readonly known: KnownPart[];
  readonly wanted: WireWantedPart[];
  readonly epoch?: number;
  readonly want: string[];
}

const cases: Record<string, Case> = {
  "wanted, running: go on": { known: [running("a")], wanted: [wanted("a")], want: ["instruct a"] },
  "wanted, unknown: start": { known: [], wanted: [wanted("a")], want: ["start a"] },
  "wanted, unknown, but not said what to run: the next answer says it": {
    known: [],
    wanted: [wanted("a", { run: undefined })],
    want: [],
  },
  "running, token over: kill": { known: [running("a")], wanted: [], want: ["kill a"] },
  "another attempt of the same request: one is killed, one started": {
    known: [running("a1")],
    wanted: [wanted("a2", { request_id: "a1" })],
    want: ["start a2", "kill a1"],
  },
  "wanted, ended: report": { known: [ended("a")], wanted: [wanted("a")], want: ["report a"] },
  "wanted, ended and acknowledged: reported, never started again": {
    known: [{ token: "a", state: "archived", listed: "no" }],
    wanted: [wanted("a")],
    want: ["report a"],
  },
  "ended and no longer wanted: acknowledged": { known: [ended("a")], wanted: [], want: ["acknowledge a"] },
  "ended since the sync was sent: not acknowledged yet": {
    known: [{ token: "a", state: "ended", listed: "running" }],
    wanted: [],
    want: [],
  },
  "an answer of an older epoch: nothing": {
    known: [running("a"), ended("b")],
    wanted: [wanted("c")],
    epoch: 4,
    want: [],
  },
};

for (const [name, { known, wanted: jobs, epoch = 5, want }] of Object.entries(cases)) {
  test(`E4 ${name}`, () => {
    const steps = reconcile(known, { jobs, epoch }, 5);
    expect(steps.map((step) => `${step.kind} ${"part" in step ? step.part.token : step.token}`)).toEqual(
      want,
    );
  });
}
