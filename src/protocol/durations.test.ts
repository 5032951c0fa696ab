import { describe, expect, test } from "vitest";
import { parseDurationSeconds } from "./durations.ts";

describe("durations that are read", () => {
  const cases: Record<string, number> = {
    "90s": 90,
    "5m": 300,
    "1h30m": 5_400,
    "2d": 172_800,
    "1d1h1m1s": 90_061,
    "0s": 0,
  };
  for (const [written, want] of Object.entries(cases)) {
    test(`${written} → ${want} s`, () =>
      expect(parseDurationSeconds(written)).toEqual({ ok: true, value: want }));
  }
});

describe("durations that are refused", () => {
  for (const written of ["", "30", "1.5h", "5 m", "m", "30m1h", "-5s", "10ms", "999999999d"]) {
    test(JSON.stringify(written), () => expect(parseDurationSeconds(written)).toMatchObject({ ok: false }));
  }
  test("the hint for a bare number repeats it with a unit", () => {
    expect(parseDurationSeconds("30")).toMatchObject({ hint: "Write 30s for seconds." });
  });
});
