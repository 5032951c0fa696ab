// Waiting, in Node and in browsers alike.

/** Longer timers fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Resolves after the time, or at once when the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(Math.max(0, ms), TIMER_MS_MAX));
    signal?.addEventListener("abort", done);
  });
}

/** Full jitter: anything up to the delay that doubles with every try, so that nobody comes back in step. */
export function fullJitter(
  tries: number,
  { minMs, maxMs, random }: { minMs: number; maxMs: number; random: () => number },
): number {
  return random() * Math.min(maxMs, minMs * 2 ** Math.min(tries, 30));
}

/** The first signal of all that are given. */
export function anySignal(...signals: (AbortSignal | undefined)[]): AbortSignal {
  return AbortSignal.any(signals.filter((signal) => signal !== undefined));
}

/** Monotonic: jumps of the wall clock must not end anyone's lease. */
export function monotonicMs(): number {
  return performance.now();
}
