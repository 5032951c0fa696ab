// Seconds outside, milliseconds inside; and fields that were left out stay left out.

export function toMs(seconds: number): number {
  return Math.round(seconds * 1000);
}

export function toSeconds(ms: number): number {
  return ms / 1000;
}

export function toMsOrNull(seconds: number | undefined): number | null {
  return seconds === undefined ? null : toMs(seconds);
}

export function toSecondsOrNull(ms: number | null): number | null {
  return ms === null ? null : toSeconds(ms);
}

/** Of the times that were written lately, each in a place of its own. */
const TIMES_KEPT = 64;
const keptAtMs = new Float64Array(TIMES_KEPT).fill(Number.NaN);
const keptTimestamps = new Array<string>(TIMES_KEPT).fill("");

/** RFC 3339 in UTC. Objects are full of equal times, and writing one costs more than comparing two. */
export function toTimestamp(atMs: number): string {
  const place = atMs & (TIMES_KEPT - 1);
  if (keptAtMs[place] !== atMs) {
    keptTimestamps[place] = new Date(atMs).toISOString();
    keptAtMs[place] = atMs;
  }
  return keptTimestamps[place] as string;
}

export type Given<Fields> = {
  [Key in keyof Fields as undefined extends Fields[Key] ? never : Key]: Fields[Key];
} & {
  [Key in keyof Fields as undefined extends Fields[Key] ? Key : never]?: Exclude<Fields[Key], undefined>;
};

/** The fields that have a value: for the engine a field is either there or not, never there and undefined. */
export function given<Fields extends object>(fields: Fields): Given<Fields> {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as Given<Fields>;
}
