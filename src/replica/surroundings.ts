// What every part of a replica is given.

import type { Clock, EventStream, LeaderSettings, Log, Observer } from "../leader/index.ts";
import type { Store } from "../store/index.ts";
import type { ReplicaTimes } from "./interface.ts";

export interface ReplicaSurroundings {
  /** Names this process in the lease, the audit log and the list of members. */
  readonly id: string;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly observer: Observer;
  readonly settings: Partial<LeaderSettings>;
  readonly times: ReplicaTimes;
  /** Outlives every role: its readers see each event once, in order, under every leader. */
  readonly stream: EventStream;
  readonly onFatal: (error: unknown) => void;
}

/** Does the work again and again, with a pause after each time. Returns the way to stop. */
export function repeat(clock: Clock, everyMs: () => number, work: () => Promise<void>): () => void {
  let isStopped = false;
  let cancel = () => {};
  const plan = () => {
    cancel = clock.after(everyMs(), () => {
      void work().finally(() => {
        if (!isStopped) plan();
      });
    });
  };
  plan();
  return () => {
    isStopped = true;
    cancel();
  };
}
