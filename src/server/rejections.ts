// Requests that were rejected lately: those who have submitted them may not have noticed that they can never start (A3).
// Noted as it happens, since ended requests leave the memory soon; a server that has just started knows of none.

import type { RequestId } from "../engine/index.ts";
import type { Leader, View } from "../leader/index.ts";
import type { Identity } from "./identity.ts";
import { type Owned, ownedOf, sightOf } from "./sight.ts";

export interface Rejections {
  /** Small numbers of those that the caller may know of, the latest first. */
  lately(view: View, identity: Identity): readonly number[];
  close(): void;
}

const LATELY_MS = 3_600_000;
const KEPT_MAX = 1_000;

interface Rejection {
  readonly number: number;
  readonly owned: Owned;
  readonly atMs: number;
}

function rejectionOf(
  view: View,
  { requestId, atMs }: { readonly requestId: RequestId; readonly atMs: number },
): Rejection | undefined {
  const owned = ownedOf(view, requestId);
  return owned && { owned, atMs, number: view.numberOf(requestId) ?? 0 };
}

export function watchRejections(leader: Leader): Rejections {
  let kept: readonly Rejection[] = [];
  const stop = leader.onCommit(({ events }) => {
    const rejected = events.flatMap(({ event }) => (event.kind === "requestRejected" ? [event] : []));
    if (rejected.length === 0) return;
    leader
      .read((view) => rejected.slice(-KEPT_MAX).flatMap((event) => rejectionOf(view, event) ?? []))
      .then(
        (further) => {
          kept = [...kept, ...further].slice(-KEPT_MAX);
        },
        () => undefined, // The server is about to end.
      );
  });
  return {
    lately(view, identity) {
      const sight = sightOf(identity, view);
      return kept
        .filter(({ atMs, owned }) => atMs > view.nowMs - LATELY_MS && sight.sees(owned))
        .map(({ number }) => number)
        .toReversed();
    },
    close: stop,
  };
}
