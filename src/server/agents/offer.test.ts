// What a machine offers (E1), and which of its GPUs may be given out (N1).

import { expect, test } from "vitest";
import type { NodeRecord } from "../../engine/index.ts";
import { isRecorded, offerOf } from "./offer.ts";

const record = {
  name: "n",
  pool: "p",
  capacity: { gpu: 3, mcpu: 8_000 },
  enrolled: { gpu: 3, mcpu: 8_000 },
  labels: {},
  topology: "",
  state: "ready",
  drainDeadlineMs: null,
} as unknown as NodeRecord;
const gpus = (...indices: number[]) => indices.map((index) => ({ index, strangers: 0 }));
const busy = (index: number) => ({ index, strangers: 1 });

const cases: Record<string, { sync: Parameters<typeof offerOf>[1]; avoidBusy?: boolean; want: object }> = {
  "E1: an agent may lower what was enrolled, not raise it": {
    sync: { capacity: { gpu: 8, mcpu: 4_000, licences: 1 } },
    want: { capacity: { gpu: 3, mcpu: 4_000 }, devices: null },
  },
  "indices with gaps are the machine's own": {
    sync: { capacity: { gpu: 3, mcpu: 8_000 }, devices: gpus(0, 5, 2) },
    want: { capacity: { gpu: 3, mcpu: 8_000 }, devices: [0, 2, 5] },
  },
  "a machine that pretends has indices from 0 on": {
    sync: { devices: gpus(4) },
    want: { capacity: { gpu: 3, mcpu: 8_000 }, devices: null },
  },
  "strangers are only shown unless the pool keeps their GPUs out of use": {
    sync: { devices: [...gpus(0, 1), busy(2)] },
    want: { capacity: { gpu: 3, mcpu: 8_000 }, devices: [0, 1, 2] },
  },
  "where the pool says so, a GPU with strangers is out of use": {
    sync: { devices: [...gpus(0), busy(1), ...gpus(2)] },
    avoidBusy: true,
    want: { capacity: { gpu: 2, mcpu: 8_000 }, devices: [0, 2] },
  },
  "strangers everywhere": {
    sync: { devices: [busy(0), busy(1), busy(2)] },
    avoidBusy: true,
    want: { capacity: { mcpu: 8_000 }, devices: [] },
  },
};
for (const [name, { sync, avoidBusy = false, want }] of Object.entries(cases)) {
  test(name, () => expect(offerOf(record, sync, { avoidBusy })).toEqual(want));
}

test("what is recorded is not written again", () => {
  const offer = { capacity: { mcpu: 8_000, gpu: 3 }, devices: null };
  expect(isRecorded(offer, record)).toBe(true);
  expect(isRecorded({ ...offer, devices: [0, 1, 2] }, record)).toBe(false);
  expect(isRecorded({ ...offer, capacity: { gpu: 3 } }, record)).toBe(false);
});
