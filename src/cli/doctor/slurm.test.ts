// `berth doctor --slurm`: what works for and against Berth.

import { expect, test } from "vitest";
import { type Slurm, SlurmFailure } from "../../executors/index.ts";
import { aboutSlurm } from "./slurm.ts";

const SETTINGS: Record<string, string> = {
  AccountingStorageType: "accounting_storage/slurmdbd",
  PreemptType: "preempt/none",
};
const slurm = (more: Partial<Slurm> = {}, settings: Record<string, string> = {}): Slurm =>
  ({
    version: async () => "22.05.8",
    queue: async () => [],
    setting: async (name: string) => ({ ...SETTINGS, ...settings })[name],
    partition: async () => ({ PreemptMode: "OFF", State: "UP" }),
    time: async () => Date.now(),
    ...more,
  }) as Slurm;
const bad = async (...args: Parameters<typeof slurm>) =>
  (await aboutSlurm(slurm(...args), "gpu")).filter(({ state }) => state === "bad").map(({ text }) => text);

test("a Slurm as it should be", async () => {
  expect(await bad()).toEqual([]);
});

const cases: Record<string, { given: Parameters<typeof slurm>; want: RegExp }> = {
  "S1 a version before 22.05": { given: [{ version: async () => "21.08.8" }], want: /needs 22.05/ },
  "S1 no accounting": {
    given: [{}, { AccountingStorageType: "accounting_storage/none" }],
    want: /no slurmdbd/,
  },
  "W6 native preemption in the partition": {
    given: [{ partition: async () => ({ PreemptMode: "REQUEUE" }) }, { PreemptType: "preempt/qos" }],
    want: /Slurm itself preempts in partition gpu/,
  },
  "no such partition": { given: [{ partition: async () => undefined }], want: /no partition gpu/ },
  "a controller that does not answer": {
    given: [
      { queue: () => Promise.reject(new SlurmFailure("squeue failed: Unable to contact slurm controller")) },
    ],
    want: /Unable to contact/,
  },
};
for (const [name, { given, want }] of Object.entries(cases)) {
  test(name, async () => expect(await bad(...given)).toEqual([expect.stringMatching(want)]));
}

test("memory without a default is noted: one job would fill a node", async () => {
  const partition = async () => ({ DefMemPerNode: "UNLIMITED" });
  const found = await aboutSlurm(slurm({ partition }, { SelectTypeParameters: "CR_CPU_MEMORY" }), "gpu");
  expect(found.filter(({ state }) => state === "note").map(({ text }) => text)).toEqual([
    expect.stringMatching(/Set DefMemPerCPU/),
  ]);
});

test("a controller whose clock is far off is noted", async () => {
  const found = await aboutSlurm(slurm({ time: async () => Date.now() - 3_600_000 }), "gpu");
  expect(found.filter(({ state }) => state === "note")).toEqual([
    { what: "clock", state: "note", text: expect.stringMatching(/clock of Slurm .* by 3600 s/) },
  ]);
});

test("native preemption elsewhere does no harm", async () => {
  expect(await bad({}, { PreemptType: "preempt/qos" })).toEqual([]);
});
