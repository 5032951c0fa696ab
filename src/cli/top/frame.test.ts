import { expect, test } from "vitest";
import type { WireOverview, WireQueueRow } from "../../protocol/index.ts";
import { pictureText } from "./frame.ts";

const overview: WireOverview = {
  seq: 1,
  time: "2026-11-17T12:00:00.000Z",
  pools: [
    {
      ...{ name: "lab", discipline: "priority", running: 0, waiting: 1, preempted_24h: 3, used_24h: [] },
      oldest_wait_since: "2026-11-17T11:48:00Z",
      keys: [{ key: "gpu", capacity: 8, own: 3, borrowed: 3, held: 0, reserved_idle: 1, free: 1 }],
    },
  ],
  problems: [],
};
const waiting: WireQueueRow[] = [
  {
    ...{ number: 7, name: "c2", component: "carol", wants: { gpu: 6 }, place: 1, why: "units" },
    since: "2026-11-17T11:48:00Z",
  },
];
const look = {
  ...{ columns: 120, rows: 30, nowMs: Date.parse(overview.time), hasColor: false, isAscii: true, chosen: 0 },
  ...{ state: "live", note: "" },
};

test("a picture has bars with a sign and a number for each kind of use, and a reason for each that waits (H5)", () => {
  const text = pictureText({ overview, running: [], waiting, waitingTotal: 1 }, look);
  expect(text).toContain("waiting 1, oldest 12m   preempted 3 in 24 h");
  expect(text).toMatch(/\[#+own 3#+\|%+borrowed 3%+\|.*reserved idle 1.*\|.*free 1.*\] of 8/);
  expect(text).toMatch(/^> #7 c2 +carol +gpu 6 +12m +units$/m);
  expect(text).toContain("q quit");
});

test("it fits the screen, however small", () => {
  const many = Array.from({ length: 500 }, (_, i) => ({ ...waiting[0]!, number: i }));
  const small = { ...look, columns: 40, rows: 12 };
  const lines = pictureText({ overview, running: [], waiting: many, waitingTotal: 500 }, small).split("\n");
  expect(lines.length).toBeLessThanOrEqual(12);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(40);
});
