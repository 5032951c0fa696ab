// How much of a long fixed point is decided at once. The engine cuts by a number of looks, which says little about
// time: a look at a small pool takes microseconds, at a large cluster milliseconds. So the number follows what the
// last slices took.

export interface Pace {
  /** How many looks the next decision may take. */
  readonly looksMax: number;
  /** What a decision took, and whether it was cut. */
  note(ms: number, isCut: boolean): void;
}

/** How long a slice should hold the loop up. */
const SLICE_MS = 20;
const LOOKS_AT_FIRST = 64;
const LOOKS_MIN = 4;
const LOOKS_MAX = 4_096;

export function createPace(): Pace {
  let looksMax = LOOKS_AT_FIRST;
  return {
    get looksMax() {
      return looksMax;
    },
    note(ms, isCut) {
      if (!isCut && ms <= SLICE_MS) return;
      const wanted = Math.round((looksMax * SLICE_MS) / Math.max(ms, 1));
      // Never by more than a factor of two: one slice may have met a pause of the machine.
      const within = Math.min(Math.max(wanted, looksMax / 2), looksMax * 2);
      looksMax = Math.min(Math.max(Math.round(within), LOOKS_MIN), LOOKS_MAX);
    },
  };
}
