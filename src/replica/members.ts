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
  /** The newest form of events that every server of the last minute can read. */
  eventForm(): number;
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
  const allOfLately = () => store.members(MEMBER_WITHIN_MS);

  return {
    async beat() {
      try {
        await store.beat({ id, url: url(), version, eventForm: NEWEST_FORM, seq: seq() });
        known = await allOfLately();
      } catch (error) {
        if (!isAway(error)) log.error({ err: error }, "this server could not announce itself");
      }
    },
    urlOf: (memberId) => known.find((member) => member.id === memberId)?.url ?? undefined,
    list: async () => (await allOfLately()).filter(({ hasLeft }) => !hasLeft),
    // One that has just left may come back: the upgrade that it is part of can be taken back for a minute.
    eventForm: () => Math.min(NEWEST_FORM, ...known.map((member) => member.eventForm)),
    leave: () =>
      store.leave(id).catch((error: unknown) => {
        if (!isAway(error)) log.error({ err: error }, "this server could not take its leave");
      }),
  };
}
