// The forms in which events are written into the journal. Every stored event says which one it has, so that an old one
// can still be read.
//
// Several servers read what one of them writes. So a version that brings a new form can read it, but goes on writing the
// one before until all servers of the last minute can read the new one (C12). Until then the upgrade can be taken back.

import type { Event } from "../engine/index.ts";
import { type StoredEvent, StoreError } from "../store/index.ts";

interface EventForm {
  write(event: Event): StoredEvent;
  read(stored: StoredEvent): Event;
}

/** Oldest first: form 1 is the first of them. Never change one that was released: add another. */
const EVENT_FORMS: readonly EventForm[] = [{ write: (event) => event, read: (stored) => stored as Event }];

/** The newest form that this version reads and writes. */
export const NEWEST_FORM = EVENT_FORMS.length;

export function toStored(event: Event, form: number): StoredEvent {
  const { write } = EVENT_FORMS[form - 1] as EventForm;
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
