// Watches the lease while another server leads, and tries to lead when the time has come (C3, C4).

import type { Lease } from "../store/index.ts";
import type { HistoryKeeper } from "./history.ts";
import { isAway, type Roles } from "./roles.ts";
import { type ReplicaSurroundings, repeat } from "./surroundings.ts";
import { createLeaseWatch } from "./watch.ts";

export interface Election {
  /** The lease as it was seen last; undefined before the first look. */
  readonly lease: Lease | undefined;
  /** So many changes of leader were seen. */
  readonly changes: number;
  /** One look; tries to lead if this is the moment. */
  look(): Promise<void>;
  /** Of a leadership that was not learnt of by looking: our own. */
  noteEpoch(epoch: number): void;
  start(): void;
  /** Leaves the row that it has just released to the others for so long. */
  standBack(epoch: number, ms: number): void;
  stop(): Promise<void>;
}

/** A connection that broke is made anew after this time. */
const HINT_RETRY_MS = 500;

export function createElection(
  { id, store, clock, times, onFatal }: ReplicaSurroundings,
  roles: Roles,
  history: Pick<HistoryKeeper, "loss">,
): Election {
  const watch = createLeaseWatch(id, times);
  const { hint } = store;
  let changes = 0;
  let lastEpoch: number | undefined;
  let released = { epoch: -1, untilMs: 0 };
  /** The look under way, and the one that waits for it: it has not read the lease yet. */
  let looking: Promise<void> | undefined;
  let waiting: Promise<void> | undefined;
  let isStopped = false;
  let stopLooking = () => {};

  /** One at a time: two of them would try to lead beside each other. */
  function look(): Promise<void> {
    if (looking === undefined) {
      looking = lookOnce().finally(() => {
        looking = undefined;
      });
      return looking;
    }
    waiting ??= looking.then(() => {
      waiting = undefined;
      return look();
    });
    return waiting;
  }

  async function lookOnce(): Promise<void> {
    if (roles.role.kind !== "following") return;
    try {
      const seen = await store.lease();
      noteEpoch(seen.epoch);
      watch.seen(seen, clock.monotonicMs());
    } catch (error) {
      watch.failed();
      if (!isAway(error)) onFatal(error);
      return;
    }
    const observed = mustDeclare() ? watch.lease : watch.toTry(hint?.isHeld === true);
    const isLeftToOthers = observed?.epoch === released.epoch && clock.monotonicMs() < released.untilMs;
    if (observed !== undefined && !isLeftToOthers) await roles.tryToLead(observed);
  }

  /** A server that knows of a loss takes the lead, to declare it; a little later, when the others have said what they know (C14). */
  function mustDeclare(): boolean {
    return history.loss !== undefined && clock.monotonicMs() - history.loss.noticedMs > 2 * times.beatEveryMs;
  }

  function noteEpoch(epoch: number): void {
    if (lastEpoch !== undefined && epoch !== lastEpoch) changes++;
    lastEpoch = epoch;
  }

  /**
   * The hint is sought at all times, and held by the server that leads. A candidate that gets it while the leader
   * lives gives it back: that leader's connection broke for a moment.
   */
  async function seekHint(): Promise<void> {
    while (hint !== undefined && !isStopped) {
      try {
        if (!(await hint.acquire())) return;
        while (hint.isHeld && !isStopped) {
          await pause(2 * times.hintedSilenceMs);
          if (roles.role.kind === "following" && watch.toTry(true) === undefined) await hint.release();
        }
      } catch {
        // Broken, or the database is away: the lease alone decides meanwhile.
      }
      await pause(HINT_RETRY_MS);
    }
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => void clock.after(ms, resolve));
  }

  return {
    get lease() {
      return watch.lease;
    },
    get changes() {
      return changes;
    },
    look,
    noteEpoch,
    start() {
      // Not all candidates at the same moment.
      stopLooking = repeat(clock, () => times.watchEveryMs * (0.8 + 0.4 * Math.random()), look);
      void seekHint();
    },
    standBack(epoch, ms) {
      released = { epoch, untilMs: clock.monotonicMs() + ms };
    },
    async stop() {
      isStopped = true;
      stopLooking();
      await hint?.release();
    },
  };
}
