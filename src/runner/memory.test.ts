import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { EnclosurePlan } from "./enclosure.ts";
import { watchMemory } from "./memory.ts";

const directory = mkdtempSync(join(tmpdir(), "berth-memory-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const machine = join(directory, "vmstat");
const count = (file: string, kills: number) =>
  writeFileSync(file, `nr_free_pages 12\noom_kill ${kills}\noom_group_kill 9\n`);

const killed = { code: null, signal: "SIGKILL" } as const;
const group: EnclosurePlan = { level: "cgroup", directory };
const none: EnclosurePlan = { level: "namespace", init: { bootId: "b", pid: 1, startTime: "1" } };

interface Case {
  readonly plan: EnclosurePlan;
  readonly exit: Parameters<ReturnType<typeof watchMemory>>[0];
  /** Of the machine, while it runs. */
  readonly machine?: number;
  readonly group?: number;
  readonly want: boolean;
}

const cases: Record<string, Case> = {
  "killed, and the machine has killed": { plan: none, exit: killed, machine: 4, want: true },
  "a shell says so by its code": { plan: none, exit: { code: 137, signal: null }, machine: 4, want: true },
  "killed by another": { plan: none, exit: killed, machine: 3, want: false },
  "failed by itself while the machine killed": {
    plan: none,
    exit: { code: 1, signal: null },
    machine: 4,
    want: false,
  },
  "of its group one was killed, and it failed": {
    plan: group,
    exit: { code: 1, signal: null },
    group: 1,
    want: true,
  },
  "of its group one was killed, and it ended well": {
    plan: group,
    exit: { code: 0, signal: null },
    group: 1,
    want: false,
  },
  "the machine has killed, but not in its group": {
    plan: group,
    exit: killed,
    machine: 4,
    group: 0,
    want: false,
  },
  "a group that does not count, on a machine that has killed": {
    plan: group,
    exit: killed,
    machine: 4,
    want: true,
  },
};

for (const [what, { plan, exit, machine: later = 3, group: ofGroup, want }] of Object.entries(cases)) {
  test(what, () => {
    rmSync(join(directory, "memory.events"), { force: true });
    count(machine, 3);
    if (ofGroup !== undefined) count(join(directory, "memory.events"), ofGroup);
    const isOutOfMemory = watchMemory(plan, machine);
    count(machine, later);
    expect(isOutOfMemory(exit)).toBe(want);
  });
}
