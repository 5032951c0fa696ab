import { describe, expect, test } from "vitest";
import { csvOf, parseSpan, scaleOf, spanText, ticksOf } from "./timeline-time.ts";

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

describe("idle time is folded", () => {
  const HOUR = 3_600_000;
  const bar = (start: number, end: number) => ({ start: start * HOUR, end: end * HOUR });

  test("a long gap becomes a narrow strip, and the rest gets its room", () => {
    const scale = scaleOf([bar(0, 2), bar(20, 24)], 24 * HOUR);
    expect(scale.folds).toEqual([{ startMs: 2 * HOUR, endMs: 20 * HOUR }]);
    expect(scale.at(0)).toBe(0);
    expect(scale.at(24 * HOUR)).toBe(1);
    expect(scale.at(20 * HOUR) - scale.at(2 * HOUR)).toBeCloseTo(0.03);
    expect(scale.at(2 * HOUR)).toBeCloseTo(0.97 / 3);
  });

  test("what is dragged over is the time that is drawn there", () => {
    const scale = scaleOf([bar(0, 2), bar(20, 24)], 24 * HOUR);
    for (const hours of [0, 1, 2, 10, 20, 22, 24]) {
      expect(scale.momentAt(scale.at(hours * HOUR)) / HOUR).toBeCloseTo(hours);
    }
  });

  test("short gaps stay, overlaps are no gaps, and an empty time is as long as it is", () => {
    expect(scaleOf([bar(0, 10), bar(5, 12), bar(13, 24)], 24 * HOUR).folds).toEqual([]);
    expect(scaleOf([], 24 * HOUR).folds).toEqual([]);
    expect(scaleOf([], 24 * HOUR).at(6 * HOUR)).toBe(0.25);
  });

  test("time before the first and after the last is folded, too", () => {
    const { folds } = scaleOf([bar(10, 12)], 24 * HOUR);
    expect(folds.map(({ startMs, endMs }) => [startMs / HOUR, endMs / HOUR])).toEqual([
      [0, 10],
      [12, 24],
    ]);
  });
});
