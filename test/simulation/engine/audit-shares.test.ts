// The auditor of fair shares must be able to fail: a true story passes, and the same with one fact changed does not.

import { expect, test } from "vitest";
import {
  type Command,
  type ComponentName,
  type Event,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
  type RequestSpec,
} from "../../../src/engine/index.ts";
import { advance, createWorld, send } from "../../../src/simulator/scenario/world.ts";
import { Audit } from "./audit.ts";

const POOL = "pool" as PoolName;
const SECOND_MS = 1_000;

/** Four runs of one operation fill the pool. Two others starve, one after the other: the newest three stop for them. */
const STORY = story([
  { kind: "createPool", name: POOL, capacity: { gpu: 4 }, discipline: "fair_share" },
  ...["hog", "prod", "late"].map(
    (component): Command => ({
      kind: "attachPolicy",
      policy: { pool: POOL, component: component as ComponentName },
    }),
  ),
  ...["h0", "h1", "h2", "h3"].flatMap((id) => [submit(id, "hog", { operation: "mass" }), SECOND_MS]),
  submit("p0", "prod", { resources: { gpu: 1 } }),
  10 * SECOND_MS,
  submit("l0", "late", { resources: { gpu: 1 } }),
  40 * SECOND_MS,
]);

test("the story is true", () => {
  expect(problemsOf(STORY)).toEqual([]);
  expect(decisionsIn(STORY).map(({ victims }) => victims.map(({ requestId }) => requestId))).toEqual([
    ["h3"],
    ["h2"],
  ]);
});

const doctored: Record<string, { doctor: (event: Event) => Event | undefined; want: RegExp }> = {
  "who takes does not starve": {
    doctor: (event) => (event.kind === "starvationChanged" ? undefined : event),
    want: /p0 takes units in pool, but does not starve/,
  },
  "who takes aggressively starves only": {
    doctor: decided(({ victims, ...rest }) => ({
      ...rest,
      victims: victims.map((victim) => ({ ...victim, reason: "aggressive" })),
    })),
    want: /p0 takes units in pool, but does not starve/,
  },
  "it is too soon after another": {
    doctor: (event) =>
      event.kind === "poolSet"
        ? {
            ...event,
            pool: { ...event.pool, settings: { ...event.pool.settings, preemptiveBackoffMs: 60_000 } },
          }
        : event,
    want: /l0 takes units in pool {2}too soon after another/,
  },
  "an older one stops": {
    doctor: decided(({ victims, ...rest }) => ({
      ...rest,
      victims: victims.map((victim) => ({ ...victim, requestId: "h0" as RequestId })),
    })),
    want: /h0 stops in pool and h3, which is newer, does not/,
  },
  "one stops without need": {
    doctor: decided(({ victims, ...rest }) => ({
      ...rest,
      victims: [...victims, ...victims.map((victim) => ({ ...victim, requestId: "h1" as RequestId }))],
    })),
    want: /h1 stops in pool without need/,
  },
  "too few stop": {
    doctor: decided((event) => ({ ...event, shortage: { gpu: 2 } })),
    want: /are not enough/,
  },
  "a victim is not preemptible": { doctor: asked("h3", { preemptible: false }), want: /is not preemptible/ },
  "a victim is sensitive": { doctor: asked("h3", { sensitive: true }), want: /is sensitive/ },
  "a victim is of the same operation": {
    doctor: asked("p0", { component: "hog" as ComponentName, operation: "mass" }),
    want: /is of the same operation/,
  },
  "a victim starves itself": {
    doctor: (event) =>
      event.kind === "starvationChanged"
        ? {
            ...event,
            changes: [
              ...event.changes,
              { element: "operation hog/mass", belowSinceMs: 0, status: "starving" },
            ],
          }
        : event,
    want: /is of an operation that starves/,
  },
  "a limit that is enforced is exceeded": {
    doctor: (event) =>
      event.kind === "poolSet"
        ? { ...event, pool: { ...event.pool, settings: { ...event.pool.settings, enforceLimits: true } } }
        : event.kind === "policySet"
          ? { ...event, policy: { ...event.policy, limit: { gpu: 1 } } }
          : event,
    want: /runs on in pool above a limit that is enforced/,
  },
};

for (const [name, { doctor, want }] of Object.entries(doctored)) {
  test(`it is noticed if ${name}`, () => {
    const events = STORY.flatMap((event) => doctor(event) ?? []);
    expect(problemsOf(events).join("\n")).toMatch(want);
  });
}

function story(steps: readonly (Command | number)[]): readonly Event[] {
  const world = createWorld();
  return steps.flatMap((step) =>
    typeof step === "number" ? advance(world, step).events : send(world, step).events,
  );
}

function problemsOf(events: readonly Event[]): string[] {
  const audit = new Audit(() => undefined);
  return [...events.flatMap((event) => audit.enter(event)), ...audit.atRest()];
}

function submit(id: string, component: string, rest: Partial<RequestSpec>): Command {
  const who = { id: id as RequestId, component: component as ComponentName };
  return { kind: "submitRequest", spec: { ...PLAIN_REQUEST, ...who, resources: { gpu: 1 }, ...rest } };
}

function asked(id: string, change: Partial<RequestSpec>): (event: Event) => Event {
  return (event) =>
    event.kind === "requestSubmitted" && event.spec.id === id
      ? { ...event, spec: { ...event.spec, ...change } }
      : event;
}

type Decision = Extract<Event, { kind: "preemptionDecided" }>;

/** Changes the first decision. */
function decided(change: (event: Decision) => Event): (event: Event) => Event {
  return (event) => (event === decisionsIn(STORY)[0] ? change(event as Decision) : event);
}

function decisionsIn(events: readonly Event[]): Decision[] {
  return events.filter((event) => event.kind === "preemptionDecided");
}
