// The forms in which events are written into the journal. Every stored event says which one it has, so that an old one
// can still be read.
//
// Several servers read what one of them writes. So a version that brings a new form can read it, but goes on writing the
// one before until all servers of the last minute can read the new one (C12). Until then the upgrade can be taken back,
// and whatever only the new form can say is refused, or not done (`batch.ts`). A form that was written once stays.

import type { Event } from "../engine/index.ts";
import { type StoredEvent, StoreError } from "../store/index.ts";

interface EventForm {
  write(event: Event): StoredEvent;
  read(stored: StoredEvent): Event;
}

const AS_IT_IS: EventForm = { write: (event) => event, read: (stored) => stored as Event };

/** Oldest first: form 1 is the first of them. Never change one that was released: add another. */
const EVENT_FORMS: readonly EventForm[] = [
  AS_IT_IS,
  AS_IT_IS, // Says more: jobs, dependencies, agents, and a long fixed point that was cut.
];

/** The newest form that this version reads and writes. */
export const NEWEST_FORM = EVENT_FORMS.length;

/** From this form on a fixed point may be cut. */
export const FORM_WITH_SLICES = 2;

type EventOf<Kind extends Event["kind"]> = Extract<Event, { kind: Kind }>;

/** The first form that can say it: of every event of a kind, or of this one. A new kind of events starts with the newest. */
const FIRST_FORMS: {
  readonly [Kind in Event["kind"]]: number | ((event: EventOf<Kind>) => number);
} = {
  poolSet: ({ pool: { settings } }) => ((settings.executor ?? "none") === "none" ? 1 : 2),
  poolDeleted: 1,
  groupSet: 1,
  groupDeleted: 1,
  policySet: 1,
  policyDetached: 1,
  nodeSet: ({ node }) => (node.enrolled === undefined ? 1 : 2),
  nodeStateChanged: 1,
  nodeRemoved: 1,
  serverSettingsChanged: 1,
  requestSubmitted: ({ spec: { isJob, runsOn, after, array }, blocked }) =>
    isJob || runsOn || blocked || (after ?? null) !== null || (array ?? null) !== null ? 2 : 1,
  requestChanged: 1,
  requestRejected: 1,
  requestEntered: 1,
  requestAllocated: 1,
  holdTaken: 1,
  holdEnded: 1,
  preemptionDecided: 1,
  stopChanged: ({ stop: { cause } }) => (cause === "failure" ? 2 : 1),
  phaseChanged: 2,
  checkpointCompleted: 1,
  attemptEnded: 1,
  requestCancelled: ({ because }) => (because === undefined ? 1 : 2),
  requestExpired: 1,
  deletionPlanned: 1,
  requestDeleted: 1,
  endedForgotten: 1,
  starvationChanged: 1,
  overcommitChanged: 1,
  schedulingPaused: 2,
  schedulingSettled: 2,
};

/** The oldest form that can say this. */
export function firstFormOf(event: Event): number {
  const first = FIRST_FORMS[event.kind] as number | ((event: Event) => number);
  return typeof first === "number" ? first : first(event);
}

export function toStored(event: Event, form: number): StoredEvent {
  const { write } = EVENT_FORMS[form - 1] as EventForm;
  if (firstFormOf(event) > form) throw new Error(`Form ${form} of events cannot say ${event.kind}.`);
  return { v: form, ...write(event) } as StoredEvent;
}

export function fromStored(stored: StoredEvent): Event {
  const { v, ...rest } = stored as StoredEvent & { readonly v: number };
  const form = EVENT_FORMS[v - 1];
  if (form !== undefined) return form.read(rest);
  throw new StoreError(
    "newer_version",
    `The journal has events of form ${v}; this version reads forms up to ${NEWEST_FORM}.`,
  );
}
