// Signs of life of clients that wait for attended requests (L2): whatever they ask for, they are there. A follower keeps no
// leases, so it passes the sign on to the leader, as a renewal in the name of the client.

import { type RequestId, requestOf } from "../engine/index.ts";
import type { Leader } from "../leader/index.ts";
import type { Call } from "./call.ts";
import type { Forwarding } from "./forwarding.ts";
import { clientOf } from "./holders.ts";

/** The submitter of this request has just called. */
export type Hear = (call: Call, requestId: RequestId) => void;

/** Well below the shortest lease: a client that asks again and again is passed on so often. */
const PASS_ON_EVERY_MS = 1_000;
/** Then all are forgotten, and passed on once more. */
const REMEMBERED_MAX = 10_000;

export function createHearing(leader: Leader, forwarding?: Forwarding): Hear {
  const passedOnMs = new Map<RequestId, number>();

  async function passOn({ incoming, address }: Call, requestId: RequestId): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - (passedOnMs.get(requestId) ?? Number.NEGATIVE_INFINITY) < PASS_ON_EVERY_MS) return;
    const isAwaited = await leader.read(({ state }) => {
      const { spec, progress } = requestOf(state, requestId) ?? {};
      return spec?.attended === true && progress?.status === "queued";
    });
    if (!isAwaited) return;
    if (passedOnMs.size >= REMEMBERED_MAX) passedOnMs.clear();
    passedOnMs.set(requestId, nowMs);
    forwarding?.tellLeader(incoming, { address, path: `/v1/resource-requests/${requestId}/renew` });
  }

  return (call, requestId) => {
    if (forwarding?.isNeeded !== true) leader.hear(requestId, clientOf(call));
    // One that cannot be passed on now is like one that was not made: the client calls again.
    else passOn(call, requestId).catch(() => undefined);
  };
}
