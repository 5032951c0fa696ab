// Ends everything in an enclosure and says when it is over.
//
// Invariants
//   1. `gone` resolves only when the enclosure is empty; until then the units stay with the job.
//   2. A deadline once set only moves closer: nobody's grace is lengthened by a second call.

import { type Enclosure, type EnclosurePlan, openEnclosure } from "./enclosure.ts";

export type TreeEnd = { kind: "gone" } | { kind: "stuck"; pids: number[] };

/** What an ending takes from the world, so that a test can bring its own time. */
export interface Clock {
  nowMs(): number;
  /** Resolves after the time, or as soon as the signal says so. */
  wait(ms: number, wake: AbortSignal): Promise<void>;
}

export interface Ending {
  /** SIGTERM to everything, SIGKILL after the grace. With no grace, SIGKILL at once. */
  stop(graceMs: number): Promise<TreeEnd>;
  /** Resolves when nothing is left, however long that takes. */
  gone: Promise<void>;
}

const POLL_MS_MIN = 2;
const POLL_MS_MAX = 100;

export const systemClock: Clock = {
  nowMs: () => performance.now(), // Jumps of the wall clock must not cut anyone's grace.
  wait: (ms, wake) =>
    new Promise((resolve) => {
      if (wake.aborted) return resolve();
      const done = () => {
        clearTimeout(timer);
        wake.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      wake.addEventListener("abort", done);
    }),
};

/** `stuckAfterMs` is how long SIGKILL may take before the tree is reported as one that cannot be killed. */
export function prepareEnding(enclosure: Enclosure, stuckAfterMs: number, clock = systemClock): Ending {
  let killAtMs = Number.POSITIVE_INFINITY;
  let watching = false;
  let alarm = new AbortController();
  const stuckListeners = new Set<(end: TreeEnd) => void>();
  let reportGone: () => void;
  const gone = new Promise<void>((resolve) => {
    reportGone = resolve;
  });

  async function watch(): Promise<void> {
    let pollMs = POLL_MS_MIN;
    while (!attempt(enclosure.isEmpty)) {
      const nowMs = clock.nowMs();
      if (nowMs >= killAtMs) attempt(enclosure.kill);
      if (nowMs >= killAtMs + stuckAfterMs) reportStuck();
      const untilKillMs = nowMs < killAtMs ? killAtMs - nowMs : POLL_MS_MAX;
      alarm = new AbortController();
      await clock.wait(Math.min(pollMs, untilKillMs), alarm.signal);
      pollMs = alarm.signal.aborted ? POLL_MS_MIN : Math.min(pollMs * 2, POLL_MS_MAX);
    }
    attempt(enclosure.dispose);
    reportGone();
  }

  function reportStuck(): void {
    const pids = attempt(enclosure.members) ?? [];
    for (const listener of stuckListeners) listener({ kind: "stuck", pids });
    stuckListeners.clear();
  }

  return {
    gone,
    stop: (graceMs) => {
      if (graceMs > 0 && killAtMs === Number.POSITIVE_INFINITY) attempt(() => askToEnd(enclosure));
      killAtMs = Math.min(killAtMs, clock.nowMs() + graceMs);
      alarm.abort(); // Look now rather than at the next turn.
      if (!watching) {
        watching = true;
        void watch();
      }
      const stuck = new Promise<TreeEnd>((resolve) => stuckListeners.add(resolve));
      return Promise.race([gone.then((): TreeEnd => ({ kind: "gone" })), stuck]);
    },
  };
}

/** How long SIGKILL may take before a job counts as stuck. */
export const STUCK_AFTER_MS = 10_000;

/** Ends a job whose wrapper is gone. The job's guardian may be doing the same. */
export function endTree(plan: EnclosurePlan): { end: Promise<TreeEnd>; gone: Promise<void> } {
  const ending = prepareEnding(openEnclosure(plan), STUCK_AFTER_MS);
  return { end: ending.stop(0), gone: ending.gone };
}

function askToEnd(enclosure: Enclosure): void {
  enclosure.signal("SIGTERM");
  // Who was stopped from the keyboard or frozen by us could not act on the notice.
  enclosure.signal("SIGCONT");
  enclosure.thaw();
}

/** What fails now is tried again at the next turn; until it succeeds the enclosure counts as inhabited. */
function attempt<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch {
    return undefined;
  }
}
