// What `berth why` says about the order of a queue, and about those who cannot be stopped.

import { describe, expect, test } from "vitest";
import type { WirePoolAnswer, WirePoolExplanation, WireRequest } from "../../protocol/index.ts";
import { type Situation, tellWaiting } from "./words.ts";

interface Party {
  readonly priority?: number;
  readonly reserved?: Readonly<Record<string, number>>;
  readonly preemptionClass?: number;
  readonly sensitive?: boolean;
  readonly submittedAt?: string;
}

function requestOf(number: number, component: string, party: Party): WireRequest {
  const { preemptionClass = 5, sensitive = false, submittedAt = "2026-01-01T00:00:00Z" } = party;
  return {
    id: String(number),
    number,
    name: "",
    component,
    preemption_class: preemptionClass,
    sensitive,
    submitted_at: submittedAt,
  } as WireRequest;
}

/** The pool is full; `ours` waits behind `theirs`, or alone. */
function linesOf(
  discipline: WirePoolAnswer["discipline"],
  ours: Party,
  { theirs, considered = [] }: { theirs?: Party; considered?: WirePoolExplanation["considered"] },
) {
  const short = [{ key: "gpu", asked: 1, free: 0, promised: 0, coming_free: 0 }];
  const facts = {
    position: theirs === undefined ? 1 : 2,
    queue_length: 2,
    blocked_by:
      theirs === undefined ? { rule: "units", short, head: null } : { rule: "behind_head", head: "1", short },
    holders: [
      {
        number: 7,
        name: "train",
        component: "them",
        preemptible: true,
        stopping: false,
        started_at: "2026-01-01T00:00:00Z",
        units: { gpu: 1 },
      },
    ],
    holder_count: 1,
    considered,
    preemption_needs: { gpu: 1 },
    value_minutes: null,
    could_start_at: null,
    nodes: null,
    share: null,
  } as unknown as WirePoolExplanation;
  const policies: Record<string, Party> = { us: ours, them: theirs ?? {} };
  const situation: Situation = {
    request: requestOf(2, "us", ours),
    pool: {
      name: "lab",
      discipline,
      capacity: { gpu: 1 },
      usage: { gpu: 1 },
      settings: {},
    } as unknown as WirePoolAnswer,
    facts,
    suggestions: [],
    head: theirs && requestOf(1, "them", theirs),
    stopping: [],
    policyOf: (component) => ({
      priority: policies[component]?.priority ?? 0,
      reserved: { ...policies[component]?.reserved },
    }),
  };
  return new Map(tellWaiting(situation).lines);
}

describe("who is first, and by which rule", () => {
  const late = "2026-01-01T00:00:09Z";
  const cases: Record<
    string,
    { discipline?: WirePoolAnswer["discipline"]; ours?: Party; theirs?: Party; says: string }
  > = {
    "the higher priority": { ours: { priority: 3 }, theirs: { priority: 7 }, says: "priority 7 before 3" },
    "a lower priority that has its reserve": {
      ours: { priority: 7 },
      theirs: { priority: 3 },
      says: "it fits what is reserved for it",
    },
    "the higher class": {
      discipline: "class",
      ours: { preemptionClass: 2 },
      theirs: { preemptionClass: 8 },
      says: "class 8 before 2",
    },
    "sensitive work": {
      discipline: "class",
      theirs: { sensitive: true },
      says: "sensitive work comes first",
    },
    "the earlier submission": { ours: { submittedAt: late }, says: "it asked earlier" },
  };
  for (const [name, { discipline = "priority", ours = {}, theirs = {}, says }] of Object.entries(cases)) {
    test(name, () =>
      expect(linesOf(discipline, ours, { theirs }).get("first")).toBe(
        `#1 of them: ${says} (discipline ${discipline})`,
      ),
    );
  }
});

describe("who cannot be stopped, and why", () => {
  const kind = (priority: number, count = 1) =>
    [
      {
        component: "them",
        priority,
        preemption_class: 5,
        count,
        permitted: 0,
        rule: "8.2",
        cost_minutes: null,
      },
    ] as unknown as WirePoolExplanation["considered"];
  const cases: Record<string, { ours: Party; priority: number; count?: number; says: string }> = {
    "the same priority": {
      ours: {},
      priority: 0,
      says: "#7 train has the same priority, and us has nothing reserved",
    },
    "a higher priority": {
      ours: { priority: 2 },
      priority: 9,
      count: 3,
      says: "3 runs of them have priority 9, which is not below 2, and us has nothing reserved",
    },
    "more than its reserve": {
      ours: { reserved: { gpu: 1 } },
      priority: 0,
      says: "#7 train has the same priority, and what us asks for is more than its unused reserve",
    },
  };
  for (const [name, { ours, priority, count, says }] of Object.entries(cases)) {
    test(name, () =>
      expect(linesOf("priority", ours, { considered: kind(priority, count) }).get("preempts")).toBe(
        `nobody can be stopped for it: ${says}`,
      ),
    );
  }
});
