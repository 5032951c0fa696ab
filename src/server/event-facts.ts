// What is known about the requests of events, from memory or from the store, and remembered for those that are deleted.

import { type Event, type RequestId, requestOf } from "../engine/index.ts";
import type { CommittedEvent, Leader, RequestBody, View } from "../leader/index.ts";
import type { WireEvent } from "../protocol/index.ts";
import type { Store } from "../store/index.ts";
import { ownedOf, ownedOfRecord, type World } from "./sight.ts";
import { type RequestFacts, toWireEvents } from "./wire-events.ts";

export interface Facts {
  /** The same for every reader of the same piece of the journal, so it is worked out once. */
  tell(events: readonly CommittedEvent[]): Promise<Told>;
  close(): void;
}

export interface Told {
  readonly events: readonly WireEvent[];
  /** As it was when the events were sent. */
  readonly world: Omit<World, "request"> & { request(id: string): RequestFacts | undefined };
}

const FACTS_MAX = 10_000;

/** What is there beside the requests: the same until an event changes it, or another state takes its place. */
interface Setting {
  readonly state: View["state"];
  readonly pools: ReadonlyMap<string, ReadonlySet<string>>;
  readonly hiding: ReadonlySet<string>;
}

const CHANGES_THE_SETTING: ReadonlySet<Event["kind"]> = new Set([
  "poolSet",
  "poolDeleted",
  "policySet",
  "policyDetached",
  "nodeSet",
]);

export function createFacts(leader: Leader, store: Store): Facts {
  const told = new WeakMap<readonly CommittedEvent[], Promise<Told>>();
  // In two halves, of which the older goes as a whole: the first key of a map from which keys are taken one by one is
  // found behind the places of all that went before.
  let remembered = new Map<string, RequestFacts>();
  let older = remembered;
  /** Also of nodes that are gone: those who may not know of their pool must not hear of their end. */
  const nodePools = new Map<string, string>();
  let setting: Setting | undefined;
  const stopListening = leader.onCommit(({ events }) => {
    if (events.some(({ event }) => CHANGES_THE_SETTING.has(event.kind))) setting = undefined;
  });
  const settingOf = (view: View): Setting => {
    if (setting?.state === view.state) return setting;
    for (const { record } of view.state.nodes.values()) nodePools.set(record.name, record.pool);
    setting = { state: view.state, pools: poolsByComponent(view), hiding: hidingPools(view) };
    return setting;
  };
  const remember = (id: string, facts: RequestFacts) => {
    remembered.set(id, facts);
    if (remembered.size < FACTS_MAX / 2) return;
    older = remembered;
    remembered = new Map();
  };

  const ofRecord = async (id: string): Promise<RequestFacts | undefined> => {
    const record = await store.getRequest(id);
    if (record === undefined) return remembered.get(id) ?? older.get(id);
    const { spec, number } = record.body as RequestBody;
    return Object.assign({ number, name: spec.name, labels: spec.labels }, ownedOfRecord(record));
  };

  const work = async (events: readonly CommittedEvent[]): Promise<Told> => {
    const known = new Map<string, RequestFacts | undefined>();
    const { pools, hiding } = await leader.read((view) => {
      for (const id of events.flatMap(requestIdsOf)) if (!known.has(id)) known.set(id, ofState(view, id));
      return settingOf(view);
    });
    for (const [id, ofMemory] of known) {
      const facts = ofMemory ?? (await ofRecord(id));
      known.set(id, facts);
      if (facts !== undefined) remember(id, facts);
    }
    for (const { event } of events) {
      if (event.kind === "nodeSet") nodePools.set(event.node.name, event.node.pool);
    }
    return {
      events: events.flatMap((committed) =>
        toWireEvents(committed, { factsOf: (id) => known.get(id), nodePools }),
      ),
      world: {
        poolsOf: (component) => pools.get(component) ?? [],
        membersOf: (pool) => [...pools].flatMap(([component, of]) => (of.has(pool) ? component : [])),
        hidesOthers: (pool) => hiding.has(pool),
        hidesAny: hiding.size > 0,
        request: (id) => known.get(id),
      },
    };
  };

  return {
    tell(events) {
      const known = told.get(events) ?? work(events);
      told.set(events, known);
      return known;
    },
    close: stopListening,
  };
}

function poolsByComponent(view: View): ReadonlyMap<string, ReadonlySet<string>> {
  const pools = new Map<string, Set<string>>();
  for (const [pool, { policies }] of view.state.pools) {
    for (const component of policies.keys()) {
      pools.set(component, (pools.get(component) ?? new Set()).add(pool));
    }
  }
  return pools;
}

function hidingPools(view: View): ReadonlySet<string> {
  const hiding = [...view.state.pools.values()].filter(({ record }) => record.settings.visibility === "own");
  return new Set(hiding.map(({ record }) => record.name));
}

function ofState(view: View, id: RequestId): RequestFacts | undefined {
  const owned = ownedOf(view, id);
  if (owned === undefined) return undefined;
  const { name = "", labels = {} } = requestOf(view.state, id)?.spec ?? {};
  const { component, submittedBy, pool, queues } = owned;
  return { number: view.numberOf(id) ?? 0, name, labels, component, submittedBy, pool, queues };
}

function requestIdsOf({ event }: CommittedEvent): RequestId[] {
  if (event.kind === "requestSubmitted") return [event.spec.id];
  if (event.kind === "preemptionDecided") {
    const ids = event.victims.map(({ requestId }) => requestId);
    return event.waiter === null ? ids : [...ids, event.waiter];
  }
  // Who took a promise over is part of the story.
  if (event.kind === "holdEnded") return event.by === null ? [event.requestId] : [event.requestId, event.by];
  return "requestId" in event ? [event.requestId] : [];
}
