// The auditors must be able to fail: true stories pass, and the same stories with one fact changed do not.

import { describe, expect, test } from "vitest";
import {
  type ChosenVictim,
  type Command,
  type ComponentName,
  type Event,
  type NodeName,
  type NodeRecord,
  PLAIN_REQUEST,
  type Placement,
  type PolicyRecord,
  type PoolName,
  type PoolSettings,
  type RequestId,
  type RequestSpec,
} from "../../../src/engine/index.ts";
import { advance, createWorld, send } from "../../../src/simulator/scenario/world.ts";
import { Audit } from "./audit.ts";

const POOL = "pool" as PoolName;
const MINUTE_MS = 60_000;

/** Two small trainings of class 2 stop for an urgent run of class 8; a third one, also of class 2, may go on. */
const URGENT = story([
  { kind: "createPool", name: POOL, capacity: { gpu: 6 }, discipline: "class" },
  ...policies("lab", "desk"),
  submit("first", { component: "lab", resources: { gpu: 2 }, preemptionClass: 2, checkpoint: "auto" }),
  submit("second", { component: "lab", resources: { gpu: 2 }, preemptionClass: 2, checkpoint: "auto" }),
  submit("third", { component: "lab", resources: { gpu: 2 }, preemptionClass: 2, checkpoint: "auto" }),
  10 * MINUTE_MS,
  submit("urgent", { component: "desk", resources: { gpu: 4 }, preemptionClass: 8 }),
]);

/** A gang of two nodes beside a small run; one node is drained, and one is lost with the gang. */
const NODES = story([
  { kind: "createPool", name: POOL, discipline: "class" },
  ...policies("lab", "desk"),
  node("n1", { labels: { disk: "fast" } }),
  node("n2", { labels: { disk: "fast" } }),
  node("n3", {}),
  submit("gang", { component: "lab", resources: { gpu: 2 }, nodes: 2, constraints: { disk: "fast" } }),
  submit("small", { component: "lab", resources: { gpu: 1 }, constraints: { disk: "fast" } }),
  { kind: "drainNode", name: "n3" as NodeName },
  submit("last", { component: "desk", resources: { gpu: 1 } }),
  { kind: "loseNode", name: "n2" as NodeName },
]);

/** On nodes of four GPUs each, both runs of one node stop for one that needs the whole of it. */
const CLEARING = story([
  { kind: "createPool", name: POOL, discipline: "class" },
  ...policies("lab", "desk"),
  node("n1", {}),
  node("n2", {}),
  submit("a", { component: "lab", resources: { gpu: 2 }, preemptionClass: 2, checkpoint: "auto" }),
  submit("b", { component: "lab", resources: { gpu: 2 }, preemptionClass: 2, checkpoint: "auto" }),
  submit("c", { component: "lab", resources: { gpu: 4 }, preemptionClass: 4, checkpoint: "auto" }),
  MINUTE_MS,
  submit("whole", { component: "desk", resources: { gpu: 4 }, preemptionClass: 8 }),
]);

/** The only reserve goes by force while a run of its component stops: class 10 is free on its key then (P8, 10.8). */
const CLOSING = story([
  { kind: "createPool", name: POOL, discipline: "class", capacity: { gpu: 6 } },
  ...policies("lab"),
  { kind: "attachPolicy", policy: { pool: POOL, component: "desk" as ComponentName, reserved: { gpu: 1 } } },
  submit("kept", { component: "desk", resources: { gpu: 1 }, checkpoint: "auto" }),
  { kind: "detachPolicy", pool: POOL, component: "desk" as ComponentName, force: true },
  submit("top", { component: "lab", resources: { gpu: 2 }, preemptionClass: 10 }),
]);

test("true stories pass", () => {
  expect(CLOSING.at(-1)).toMatchObject({ kind: "requestAllocated", requestId: "top" });
  for (const events of [URGENT, NODES, CLEARING, CLOSING]) expect(problemsOf(events)).toEqual([]);
  expect(victimIds(URGENT)).toEqual(["second", "third"]);
  expect(victimIds(CLEARING)).toEqual(["a", "b"]);
});

type Doctor = (events: readonly Event[]) => Event[];

const doctored: Record<string, { events: readonly Event[]; doctor: Doctor; want: RegExp }> = {
  "a victim of the same class (10.1)": {
    events: URGENT,
    doctor: spec("third", { preemptionClass: 8 }),
    want: /third, taken for urgent, may not be taken by class/,
  },
  "a victim of a higher class (10.1)": {
    events: URGENT,
    doctor: spec("third", { preemptionClass: 9 }),
    want: /may not be taken by class/,
  },
  "a victim of the same band (10.1)": {
    events: URGENT,
    doctor: all(settings({ classBands: true }), spec("third", { preemptionClass: 7 })),
    want: /may not be taken by class/,
  },
  "a sensitive victim (10.1)": {
    events: URGENT,
    doctor: spec("third", { sensitive: true }),
    want: /is sensitive/,
  },
  "a victim of a sensitive policy (10.7)": {
    events: URGENT,
    doctor: policy("lab", { kind: "sensitive" }),
    want: /is sensitive/,
  },
  "a victim of class 10 (10.1)": {
    events: URGENT,
    doctor: spec("third", { preemptionClass: 10 }),
    want: /is of class 10/,
  },
  "a victim that is not preemptible (V2)": {
    events: URGENT,
    doctor: spec("third", { preemptible: false }),
    want: /is not preemptible/,
  },
  "a victim that has just started (V2)": {
    events: URGENT,
    doctor: settings({ minRuntimeMs: 11 * MINUTE_MS }),
    want: /has not run long enough/,
  },
  "a victim that is nearly done (10.3)": {
    events: URGENT,
    doctor: spec("third", { walltimeMs: 14 * MINUTE_MS }),
    want: /is near its end/,
  },
  "a victim without a checkpoint at class 7 (10.3)": {
    events: URGENT,
    doctor: spec("third", { preemptionClass: 7, checkpoint: "none" }),
    want: /may not be taken by class/,
  },
  "a victim inside the share of another, by one who must borrow (10.2)": {
    events: URGENT,
    doctor: policy("lab", { reserved: { gpu: 6 } }),
    want: /may not be taken by class/,
  },
  "a victim of a service inside its share (10.3)": {
    events: URGENT,
    doctor: all(
      policy("lab", { kind: "service", reserved: { gpu: 6 } }),
      policy("desk", { reserved: { gpu: 6 } }),
    ),
    want: /may not be taken by class/,
  },
  "a victim that is stopping already (V2)": {
    events: URGENT,
    doctor: (events) => before(events, "preemptionDecided", stopOf(events)),
    want: /is stopping already/,
  },
  "a victim that was preempted too often (V6)": {
    events: URGENT,
    doctor: all((events) =>
      events.map((event) =>
        event.kind === "poolSet"
          ? { ...event, pool: { ...event.pool, settings: { ...event.pool.settings, maxPreemptions: 0 } } }
          : event,
      ),
    ),
    want: /taken for urgent, has been preempted too often/,
  },
  "a victim that runs elsewhere (V2)": {
    events: URGENT,
    doctor: (events) =>
      events.map((event) =>
        event.kind === "requestAllocated" && event.requestId === "third" ? { ...event, pool: null } : event,
      ),
    want: /third, taken for urgent, runs in another pool/,
  },
  "a victim that holds nothing short (V2)": {
    events: URGENT,
    doctor: spec("third", { resources: { step_run: 1 } }),
    want: /third, taken for urgent, holds nothing that is short/,
  },
  "a victim that does not run, and a waiter that does not wait": {
    events: URGENT,
    doctor: (events) => events.filter((event) => event.kind !== "requestSubmitted"),
    want: /takes a request that does not run, or for no waiter; units are promised to urgent, who does not wait/,
  },
  "taken back by one that has no share (8.2)": {
    events: URGENT,
    doctor: decision({}, { reason: "reclaim" }),
    want: /may not be taken by reclaim/,
  },
  "a sensitive claim of one that is not sensitive (10.2)": {
    events: URGENT,
    doctor: decision({}, { reason: "sensitive" }),
    want: /may not be taken by sensitive/,
  },
  "a gap that nobody fills (G4)": {
    events: URGENT,
    doctor: decision({}, { reason: "backfill" }),
    want: /may not be taken by backfill/,
  },
  "more than it is worth (10.5)": {
    events: URGENT,
    doctor: spec("urgent", { walltimeMs: 1000 }),
    want: /costs more than it is worth/,
  },
  "more than max_victims (10.5)": {
    events: URGENT,
    doctor: settings({ maxVictims: 1 }),
    want: /takes 2 victims, more than max_victims/,
  },
  "a victim that could be left out (V4)": {
    events: URGENT,
    doctor: spec("third", { resources: { gpu: 4 } }),
    want: /takes second, who could be left out/,
  },
  "victims that are not enough (V3)": {
    events: URGENT,
    doctor: decision({}, {}, 1),
    want: /victims that are not enough/,
  },
  "a shortage that is not there (V1)": {
    events: URGENT,
    doctor: decision({ shortage: { gpu: 3 } }, {}),
    want: /is said to lack 3 gpu, and lacks 4 to 4/,
  },
  "a wrong cost (10.4)": {
    events: URGENT,
    doctor: decision({}, { cost: 700 }),
    want: /is given another cost than it has/,
  },
  "a wrong value (10.5)": {
    events: URGENT,
    doctor: decision({ value: 1 }, {}),
    want: /is given another value than it has/,
  },
  "victims told one after the other (11.1)": {
    events: URGENT,
    doctor: decision({}, { stop: { ...stopIn(URGENT), toldAtMs: 1 } }),
    want: /is told at another moment/,
  },
  "a run too many for the pool (G2)": {
    events: URGENT,
    doctor: (events) => events.map((event) => (event.kind === "poolSet" ? withCapacity(event, 5) : event)),
    want: /pool pool gives third more than it has/,
  },
  "a run past its limit (G2)": {
    events: URGENT,
    doctor: policy("lab", { limit: { gpu: 5 } }),
    want: /third takes lab past its limit of gpu/,
  },
  "class 10 outside the reserve (10.8)": {
    events: URGENT,
    doctor: all(policy("desk", { reserved: { gpu: 1 } }), spec("first", { preemptionClass: 10 })),
    want: /first may live inside the reserve of lab only/,
  },
  "half a gang (N2)": {
    events: NODES,
    doctor: placement("gang", (places) => places.slice(1)),
    want: /gang is granted 1 nodes of 2/,
  },
  "a gang twice on one node (N2)": {
    events: NODES,
    doctor: placement("gang", ([place]) => [place as Placement, place as Placement]),
    want: /gang has a node twice/,
  },
  "a gang that lives on without one of its nodes (N4)": {
    events: NODES,
    doctor: (events) => events.filter(({ kind }) => kind !== "attemptEnded"),
    want: /gang runs on node n2, which is down/,
  },
  "a device in two allocations (N2)": {
    events: NODES,
    doctor: placement("small", (places) => places.map((place) => ({ ...place, devices: [1] }))),
    want: /device 1 of node n1 is in two allocations/,
  },
  "a device that the node has not (N2)": {
    events: NODES,
    doctor: placement("small", (places) => places.map((place) => ({ ...place, devices: [4] }))),
    want: /node n1 has no device 4/,
  },
  "a GPU without its index (N2)": {
    events: NODES,
    doctor: placement("small", (places) => places.map((place) => ({ ...place, devices: [] }))),
    want: /small has 0 devices of node n1 for 1 GPUs/,
  },
  "more on a node than it has (N2)": {
    events: NODES,
    doctor: nodeRecord("n1", { capacity: { gpu: 2 } }),
    want: /node n1 gives small more than it has/,
  },
  "something new on a draining node (N4)": {
    events: NODES,
    doctor: placement("last", (places) => places.map((place) => ({ ...place, node: "n3" as NodeName }))),
    want: /last is new on node n3, which is drained/,
  },
  "something new on a suspect node (N4)": {
    events: NODES,
    doctor: nodeRecord("n1", { state: "suspect" }),
    want: /gang is new on node n1, which is suspect/,
  },
  "a node without the labels that were asked for (N2)": {
    events: NODES,
    doctor: nodeRecord("n1", { labels: {} }),
    want: /gang has node n1, which has not the labels/,
  },
  "a node of another pool (N2)": {
    events: NODES,
    doctor: nodeRecord("n1", { pool: "other" as PoolName }),
    want: /gang has node n1, which pool pool has not/,
  },
  "a victim on nodes that could be left out (V4)": {
    events: CLEARING,
    doctor: all(spec("whole", { resources: { gpu: 2 } }), decision({ shortage: { gpu: 2 } }, {})),
    want: /whole takes a, who could be left out/,
  },
  "victims that leave no node with room enough (N2)": {
    events: CLEARING,
    doctor: decision({}, {}, 1),
    want: /whole takes victims that are not enough/,
  },
  "a promise on a node that is draining (N4)": {
    events: CLEARING,
    doctor: (events) =>
      before(events, "preemptionDecided", {
        kind: "nodeStateChanged",
        name: "n1" as NodeName,
        state: "draining",
      }),
    want: /whole is new on node n1, which is draining/,
  },
};

describe("noticed is", () => {
  test.each(Object.entries(doctored))("%s", (_, { events, doctor, want }) => {
    expect(problemsOf(doctor(events)).join("; ")).toMatch(want);
  });
});

// --- stories, and how to change them -------------------------------------------------------------------

function story(steps: readonly (Command | number)[]): readonly Event[] {
  const world = createWorld();
  return steps.flatMap((step) => {
    const { events, refusal } = typeof step === "number" ? advance(world, step) : send(world, step);
    if (refusal !== null) throw new Error(refusal.message);
    return events;
  });
}

function problemsOf(events: readonly Event[]): string[] {
  const audit = new Audit(() => undefined);
  return [...events.flatMap((event) => audit.enter(event)), ...audit.atRest()];
}

function policies(...components: string[]): Command[] {
  return components.map((component) => ({
    kind: "attachPolicy",
    policy: { pool: POOL, component: component as ComponentName },
  }));
}

function node(name: string, { labels = {} }: Partial<NodeRecord>): Command {
  return { kind: "putNode", node: { name: name as NodeName, pool: POOL, capacity: { gpu: 4 }, labels } };
}

function submit(id: string, asks: Partial<Omit<RequestSpec, "component">> & { component: string }): Command {
  return {
    kind: "submitRequest",
    spec: {
      ...PLAIN_REQUEST,
      id: id as RequestId,
      resources: {},
      ...asks,
      component: asks.component as ComponentName,
    },
  };
}

function all(...doctors: readonly Doctor[]): Doctor {
  return (events) => doctors.reduce<Event[]>((story, doctor) => doctor(story), [...events]);
}

function spec(id: string, change: Partial<RequestSpec>): Doctor {
  return (events) =>
    events.map((event) =>
      event.kind === "requestSubmitted" && event.spec.id === id
        ? { ...event, spec: { ...event.spec, ...change } }
        : event,
    );
}

function policy(component: string, change: Partial<PolicyRecord>): Doctor {
  return (events) =>
    events.map((event) =>
      event.kind === "policySet" && event.policy.component === component
        ? { ...event, policy: { ...event.policy, ...change } }
        : event,
    );
}

function settings(change: Partial<PoolSettings>): Doctor {
  return (events) =>
    events.map((event) =>
      event.kind === "poolSet"
        ? { ...event, pool: { ...event.pool, settings: { ...event.pool.settings, ...change } } }
        : event,
    );
}

function nodeRecord(name: string, change: Partial<NodeRecord>): Doctor {
  return (events) =>
    events.map((event) =>
      event.kind === "nodeSet" && event.node.name === name
        ? { ...event, node: { ...event.node, ...change } }
        : event,
    );
}

function placement(id: string, change: (places: readonly Placement[]) => Placement[]): Doctor {
  return (events) =>
    events.map((event) =>
      event.kind === "requestAllocated" && event.requestId === id
        ? { ...event, placement: change(event.placement) }
        : event,
    );
}

type Decision = Extract<Event, { kind: "preemptionDecided" }>;

function decision(change: Partial<Decision>, ofVictims: Partial<ChosenVictim>, victimsMax = 9): Doctor {
  return (events) =>
    events.map((event) => {
      if (event.kind !== "preemptionDecided") return event;
      const victims = event.victims.slice(0, victimsMax).map((victim) => ({ ...victim, ...ofVictims }));
      return { ...event, ...change, victims };
    });
}

function decisionIn(events: readonly Event[]): Decision {
  return events.find((event) => event.kind === "preemptionDecided") as Decision;
}

function victimIds(events: readonly Event[]): string[] {
  return decisionIn(events)
    .victims.map(({ requestId }) => requestId)
    .sort();
}

function stopIn(events: readonly Event[]): ChosenVictim["stop"] {
  return (decisionIn(events).victims[0] as ChosenVictim).stop;
}

function stopOf(events: readonly Event[]): Event {
  const { requestId, stop } = decisionIn(events).victims[0] as ChosenVictim;
  return { kind: "stopChanged", requestId, stop, atMs: stop.toldAtMs };
}

function before(events: readonly Event[], kind: Event["kind"], added: Event): Event[] {
  return events.flatMap((event) => (event.kind === kind ? [added, event] : [event]));
}

function withCapacity(event: Extract<Event, { kind: "poolSet" }>, gpu: number): Event {
  return { ...event, pool: { ...event.pool, capacity: { gpu } } };
}
