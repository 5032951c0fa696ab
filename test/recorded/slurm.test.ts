// What real Slurms answer, played through the adapter's own client (S1, S3). `record-slurm.ts` records them anew.

import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { createSlurm, reportedNodes, type Slurm, SlurmFailure } from "../../src/executors/index.ts";

interface Recorded {
  readonly program: string;
  readonly args: readonly string[];
  readonly output?: string;
  readonly failure?: string;
}

const directory = new URL("./", import.meta.url);
const versions = readdirSync(directory).flatMap((name) => /^slurm-([\d.]+)\.json$/.exec(name)?.[1] ?? []);

const recordingOf = (version: string) =>
  JSON.parse(readFileSync(new URL(`slurm-${version}.json`, directory), "utf8")) as Record<string, Recorded[]>;

test("both ends of the supported versions were recorded", () => {
  expect(versions).toEqual(expect.arrayContaining(["22.05", "24.11"]));
  expect(versions.filter((version) => recordingOf(version).time !== undefined)).toContain("22.05");
});

describe.each(versions)("Slurm %s", (version) => {
  const recorded = recordingOf(version);

  /** The client asks exactly what it asked when the answers were recorded. */
  async function play<T>(label: string, ask: (slurm: Slurm) => Promise<T>): Promise<T> {
    const left = [...(recorded[label] ?? [])];
    const slurm = createSlurm(async (program, args) => {
      const next = left.shift();
      expect({ program, args }).toEqual({ program: next?.program, args: next?.args });
      if (next?.output === undefined) throw new SlurmFailure(next?.failure);
      return next.output;
    });
    const answer = await ask(slurm);
    expect(left).toEqual([]);
    return answer;
  }
  const queue = (label: string) => play(label, (slurm) => slurm.queue("berth"));
  const accounts = (label: string, ...ids: string[]) =>
    play(label, (slurm) => slurm.accounts({ ids, names: [] }));
  const OPTIONS = [
    ...["--job-name=berth-a-1", "--comment=berth lab", "--export=NONE", "--output=/shared/out"],
    ...["--gres=gpu:1", "--nodes=1"],
  ];

  test("says which it is", async () => {
    expect(await play("version", (slurm) => slurm.version())).toMatch(new RegExp(`^${version}\\.`));
  });

  if (recorded.time !== undefined)
    test("the controller's clock, which it also shows in words", async () => {
      const words = /^sdiag output at (.*) \(/m.exec(recorded.time?.[0]?.output ?? "")?.[1];
      expect(await play("time", (slurm) => slurm.time())).toBe(Date.parse(`${words} UTC`));
    });

  test("S2: a job is submitted held, and released by its number", async () => {
    expect(await play("submit", (slurm) => slurm.submit(OPTIONS, "…"))).toBe("1");
    expect(await queue("queue held")).toEqual([
      { id: "1", name: "berth-a-1", state: "PENDING", reason: "JobHeldUser", comment: "berth lab" },
    ]);
    await play("release", (slurm) => slurm.release("1"));
    expect(await queue("queue running")).toMatchObject([{ id: "1", state: "RUNNING" }]);
    expect(await queue("queue over")).toMatchObject([{ id: "1", state: "FAILED" }]);
  });

  test("S3: how a job ended, by its number and by its name", async () => {
    const failed = [
      {
        id: "1",
        name: "berth-a-1",
        state: "FAILED",
        exitCode: 3,
        signal: 0,
        endedAt: expect.stringMatching(/Z$/),
      },
    ];
    expect(await accounts("accounts failed", "1")).toEqual(failed);
    expect(
      await play("accounts by name", (slurm) => slurm.accounts({ ids: [], names: ["berth-a-1"] })),
    ).toEqual(failed);
    expect(await accounts("accounts cancelled", "2")).toMatchObject([{ state: "CANCELLED" }]);
    expect(await accounts("accounts of none", "99")).toEqual([]);
  });

  test("S1: -D shows the requeued attempt, -r the tasks of an array, and a name may contain anything", async () => {
    expect((await accounts("accounts requeued", "3")).map(({ state }) => state)).toEqual([
      "REQUEUED",
      "PENDING",
    ]);
    expect((await queue("queue requeued")).find(({ id }) => id === "3")).toMatchObject({ state: "PENDING" });
    const tasks = (await queue("queue array")).filter(({ name }) => name === "others|job");
    expect(tasks.map(({ id }) => id).toSorted()).toEqual(["4_0", "4_1"]);
  });

  test("S4: signals and cancellations", async () => {
    await play("signal", (slurm) => slurm.signal("2", "USR1", "batch"));
    await play("cancel", (slurm) => slurm.cancel("2"));
  });

  test("what Slurm refuses is a failure with its words", async () => {
    await expect(play("no job", (slurm) => slurm.release("99"))).rejects.toThrow(/Invalid job id/);
  });

  test("nodes with what they have, drained and down", async () => {
    const capacity = { gpu: 2, mcpu: 4_000, memory_mb: 2_000 };
    const states = async (label: string) =>
      reportedNodes(await play(label, (slurm) => slurm.nodes()), "berth").map((node) => {
        expect(node.capacity).toEqual(capacity);
        return `${node.name} ${node.state}`;
      });
    expect(await states("nodes idle")).toEqual(["n1 ready", "n2 ready", "n3 ready"]);
    expect(await states("nodes at work")).toEqual(["n1 ready", "n2 ready", "n3 ready"]);
    expect(await states("nodes drained and down")).toEqual(["n1 draining", "n2 down", "n3 ready"]);
    expect(reportedNodes(await play("nodes idle", (slurm) => slurm.nodes()), "another")).toEqual([]);
  });

  test("settings of the controller and of a partition", async () => {
    expect(await play("setting", (slurm) => slurm.setting("PreemptType"))).toMatch(/preempt\/none|\(null\)/);
    expect(await play("partition", (slurm) => slurm.partition("berth"))).toMatchObject({
      ...{ PartitionName: "berth", PreemptMode: "OFF" },
    });
    expect(await play("no partition", (slurm) => slurm.partition("nowhere"))).toBeUndefined();
  });
});
