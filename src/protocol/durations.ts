// Durations as people write them: 90s, 5m, 1h30m, 2d. A number without a unit is refused, since it could be
// seconds or milliseconds or minutes.

import type { Parsed } from "./amounts.ts";
import { SECONDS_MAX } from "./limits.ts";

const SECONDS_PER_UNIT = { d: 86_400, h: 3_600, m: 60, s: 1 } as const;

export function parseDurationSeconds(written: string): Parsed<number> {
  const text = written.trim();
  const match = /^(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,11})s)?$/.exec(text);
  if (text === "" || match === null) {
    const hint = /^\d+$/.test(text)
      ? `Write ${text.slice(0, 12)}s for seconds.`
      : "Write it like 90s, 5m or 1h30m.";
    return { ok: false, message: `"${text.slice(0, 40)}" is not a duration.`, hint };
  }
  const [, d = "0", h = "0", m = "0", s = "0"] = match;
  const seconds =
    Number(d) * SECONDS_PER_UNIT.d +
    Number(h) * SECONDS_PER_UNIT.h +
    Number(m) * SECONDS_PER_UNIT.m +
    Number(s);
  if (seconds > SECONDS_MAX) {
    return { ok: false, message: `"${text}" is too long.`, hint: `The longest is ${SECONDS_MAX}s.` };
  }
  return { ok: true, value: seconds };
}
