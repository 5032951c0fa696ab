// Who shares the store: every server says so once a second, and knows the others by what they say (C12).

import { EVENT_VERSION } from "../leader/index.ts";
import type { Member } from "../store/index.ts";
import type { ReplicaOptions } from "./interface.ts";
import { isAway } from "./roles.ts";
import type { ReplicaSurroundings } from "./surroundings.ts";

export interface Membership {
  beat(): Promise<void>;
  /** As of the last beat. */
  urlOf(memberId: string | null | undefined): string | undefined;
  list(): Promise<readonly Member[]>;
  /** This server ends in order: nobody has to wait until it is forgotten. */
  leave(): Promise<void>;
}

/** A server that was silent for longer is no member any more. */
const MEMBER_WITHIN_MS = 60_000;

export function createMembership(
  { id, store, stream, log }: ReplicaSurroundings,
  { url, version }: Pick<ReplicaOptions, "url" | "version">,
): Membership {
  let known: readonly Member[] = [];
  const list = () => store.members(MEMBER_WITHIN_MS);

  return {
    async beat() {
      try {
        await store.beat({ id, url: url(), version, eventForm: EVENT_VERSION, seq: stream.seq });
        known = await list();
      } catch (error) {
        if (!isAway(error)) log.error({ err: error }, "this server could not announce itself");
      }
    },
    urlOf: (memberId) => known.find((member) => member.id === memberId)?.url ?? undefined,
    list,
    leave: () =>
      store.leave(id).catch((error: unknown) => {
        if (!isAway(error)) log.error({ err: error }, "this server could not take its leave");
      }),
  };
}
