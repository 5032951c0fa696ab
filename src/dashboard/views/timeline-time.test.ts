import { expect, test } from "vitest";
import { csvOf, parseSpan, spanText, ticksOf } from "./timeline-time.ts";

const NOW = Date.parse("2026-11-01T12:00:00Z");
const HOUR = 3_600_000;

test.each([
  ["-6h", undefined, 6 * HOUR],
  ["-90m", undefined, 1.5 * HOUR],
  ["nonsense", undefined, 6 * HOUR],
  ["-400d", undefined, 31 * 24 * HOUR],
  ["2026-11-01T10:00:00Z", "2026-11-01T11:00:00Z", HOUR],
  ["2026-11-01T11:00:00Z", "2026-11-01T10:00:00Z", 6 * HOUR],
])("from %s to %s", (from, to, want) => {
  const { fromMs, toMs } = parseSpan(from, to, NOW);
  expect(toMs - fromMs).toBe(want);
});

test("zooming keeps the end at now, or the middle in its place", () => {
  const span = { fromMs: NOW - 2 * HOUR, toMs: NOW };
  expect(spanText(span, 0.5, true)).toEqual({ from: "-60m", to: undefined });
  expect(spanText(span, 0.5, false)).toEqual({
    from: "2026-11-01T10:30:00.000Z",
    to: "2026-11-01T11:30:00.000Z",
  });
});

test("there are a few ticks, whatever the length", () => {
  for (const hours of [0.1, 1, 6, 24, 168, 700]) {
    const count = ticksOf(NOW, hours * HOUR).length;
    expect(count).toBeGreaterThan(1);
    expect(count).toBeLessThan(12);
  }
});

test("names in a CSV file are text, not formulas", () => {
  const bar = {
    ...{
      lane: 0,
      start: 0,
      end: 60_000,
      count: 1,
      number: 7,
      name: '=cmd("x"),1',
      component: "alice",
      units: { gpu: 2 },
    },
    ...{ attempt: 1, outcome: null, preempted_for: null, reason: null, told: null },
  } as const;
  const text = csvOf({
    ...{ seq: 1, time: "", from: "2026-11-01T12:00:00Z", to: "", lanes_by: "node", waiting: [], cut: false },
    lanes: [{ name: "gpu-1" }],
    bars: [{ ...bar, units: { ...bar.units } }],
  });
  expect(text.split("\n")[1]).toBe(`gpu-1,7,"'=cmd(""x""),1",alice,1,gpu 2,2026-11-01T12:00:00.000Z,,,`);
});
