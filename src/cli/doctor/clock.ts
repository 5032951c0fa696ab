// The clock of a cluster beside that of this machine: the times of ends come from the cluster.

import type { Finding } from "../doctor.ts";

export const SKEW_MS_MAX = 5_000;

/** `timeMs` undefined: the cluster does not tell its time. */
export function aboutClock(cluster: string, timeMs: number | undefined): Finding[] {
  const skewMs = timeMs === undefined ? 0 : Math.abs(Date.now() - timeMs);
  if (skewMs <= SKEW_MS_MAX) return [];
  const seconds = Math.round(skewMs / 1000);
  const text = `the clock of ${cluster} differs from this machine's by ${seconds} s: the times at which jobs ended are shown wrong`;
  return [{ what: "clock", state: "note", text }];
}
