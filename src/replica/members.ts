// Who shares the store: every server says so once a second, and knows the others by what they say (C12).

import { NEWEST_FORM } from "../leader/index.ts";
import type { Member } from "../store/index.ts";
import type { ReplicaOptions } from "./interface.ts";
import { isAway } from "./roles.ts";
import type { ReplicaSurroundings } from "./surroundings.ts";

export interface Membership {
  beat(): Promise<void>;
  /** As of the last beat. */
  urlOf(memberId: string | null | undefined): string | undefined;
  list(): Promise<readonly Member[]>;
  /** The form in which events are written: every server of the last minute could read it when it was chosen. */
  eventForm(): number;
  /** All servers of the last minute have the same. */
  isOneVersion(): boolean;
  /** A server that is not known to the others does not lead: they could not tell it what they can read. */
  announced(): Promise<void>;
  /** This server ends in order: nobody has to wait until it is forgotten. */
  leave(): Promise<void>;
}

/** A server that was silent for longer is no member any more. */
const MEMBER_WITHIN_MS = 60_000;

export function createMembership(
  { id, store, log }: ReplicaSurroundings,
  parts: Pick<ReplicaOptions, "url" | "version"> & {
    /** The last event that this server knows of. */
    readonly seq: () => number;
  },
): Membership {
  const { url, version, seq } = parts;
  let known: readonly Member[] = [];
  let eventForm: number | undefined;
  const allOfLately = () => store.members(MEMBER_WITHIN_MS);

  async function announce(): Promise<void> {
    await store.beat({ id, url: url(), version, eventForm: NEWEST_FORM, seq: seq() });
    known = await allOfLately();
    // One that has just left may come back: the upgrade that it is part of can be taken back for a minute.
    if ((eventForm ?? 0) < NEWEST_FORM) eventForm = await store.raiseEventForm(NEWEST_FORM, MEMBER_WITHIN_MS);
  }

  return {
    async beat() {
      try {
        await announce();
      } catch (error) {
        if (!isAway(error)) log.error({ err: error }, "this server could not announce itself");
      }
    },
    urlOf: (memberId) => known.find((member) => member.id === memberId)?.url ?? undefined,
    list: async () => (await allOfLately()).filter(({ hasLeft }) => !hasLeft),
    eventForm: () => eventForm ?? 1,
    isOneVersion: () => known.every((member) => member.version === version),
    async announced() {
      if (eventForm === undefined) await announce();
    },
    leave: () =>
      store.leave(id).catch((error: unknown) => {
        if (!isAway(error)) log.error({ err: error }, "this server could not take its leave");
      }),
  };
}
