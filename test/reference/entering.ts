// Requests that are not in the queue yet: they wait for others to end, or for their turn in an array (J9).

import { admit } from "./stopping.ts";
import type { Request, World } from "./world.ts";

const LIVE = new Set(["queued", "allocated", "preempting"]);

/** Whether it can not enter the queue yet; it is not among the requests of the world then. */
export function mustWait(world: World, request: Request): boolean {
  return !areMet(world, request) || !hasTurn(world, request);
}

/** Something that it waits for has ended as it must not. */
export function isImpossible(world: World, { after }: Request): boolean {
  return after.some(({ id, when }) => {
    const status = world.requests.find((other) => other.id === id)?.status ?? "released";
    return when === "ok" && !LIVE.has(status) && status !== "released";
  });
}

/** One that nobody knows has ended long ago, as it had to. */
function areMet(world: World, { after }: Request): boolean {
  return after.every(({ id }) => !world.requests.some((other) => other.id === id && LIVE.has(other.status)));
}

function hasTurn(world: World, { isMember, atOnce, component, operation, id }: Request): boolean {
  if (!isMember || atOnce === undefined) return true;
  const active = world.requests.filter(
    (other) =>
      other.isMember &&
      other.component === component &&
      (other.operation ?? other.id) === (operation ?? id) &&
      LIVE.has(other.status) &&
      !other.isBlocked,
  );
  return active.length < atOnce;
}

/** Whoever may enters, in the order of submission; whoever never can is cancelled, which others may wait for. */
export function enterBlocked(world: World): void {
  for (;;) {
    const blocked = world.requests.filter(({ status, isBlocked }) => status === "queued" && isBlocked);
    const doomed = blocked.find((request) => isImpossible(world, request));
    const next = doomed ?? blocked.find((request) => !mustWait(world, request));
    if (next === undefined) return;
    next.isBlocked = false;
    if (next === doomed) next.status = "cancelled";
    else {
      next.queuedAt = world.now;
      admit(world, next);
    }
  }
}
