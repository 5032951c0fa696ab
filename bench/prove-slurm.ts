// Slurm runs the jobs of a pool (21), on a real Slurm that this program starts itself: jobs start, save, stop, are requeued
// and cancelled with Slurm's commands, come in arrays and on two nodes, meet a drained node; then controller, adapter and Berth's leader are killed at any
// moment. No grant is started twice, nothing runs that Berth does not know, no exit is lost, and no node has more in use than it has.
// Usage: npm run prove:slurm -- [ROUNDS] [SEED] [--part=TEXT] [--store=sqlite|postgres] [--canaries]. --part: only stories or
// canaries with this text in their name. Exit code 2: something is missing on this machine.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  CANARY_END_MS_MAX,
  type Canary,
  COMMON_STORIES,
  guideStory,
  insistOnPrograms,
  killAdapter,
  type Proof,
  prove,
  replaceLeader,
  type Story,
} from "./clusters/proof.ts";
import { GPUS_PER_NODE, until, type World } from "./clusters/world.ts";
import type { Fault } from "./proving/canaries.ts";
import { missingPrograms, openSlurmCluster } from "./slurm/cluster.ts";
import { siteOf, USER, writePolicy } from "./slurm/site.ts";

insistOnPrograms(missingPrograms());
const cluster = await openSlurmCluster({ gpusPerNode: GPUS_PER_NODE });
const { run } = cluster;

/** The operator leaves the nodes alone. */
let isDrained = false;

const STORIES: Record<string, Story> = {
  ...COMMON_STORIES,
  "the commands of the guide": guideStory({
    file: "slurm.md",
    env: cluster.env,
    home: (own) => own,
    adapterOptions: (own) => ["--policy", writePolicy(own, own), "--state-dir", join(own, "adapter")],
    replaced: (own) => ({ "/shared/berth": join(own, "work") }),
  }),
  async "requeued and cancelled in Slurm"(world) {
    const requeued = await world.submit({ seconds: 12 });
    const cancelled = await world.submit({ seconds: 30 }, true);
    for (const id of [requeued, cancelled]) await world.phase(id, "running");
    const numberOf = async (id: string) =>
      (await run("squeue", "-h", "-o", "%i %j"))
        .split("\n")
        .find((line) => line.includes(id))
        ?.split(" ")[0] as string;
    const number = await numberOf(requeued);
    await run("scontrol", "update", `JobId=${number}`, "Requeue=1");
    await run("scontrol", "requeue", number);
    await run("scancel", await numberOf(cancelled));
    await until("both have ended", world.note);
  },
  async "what does not heed SIGTERM is cancelled after the grace"(world) {
    const id = await world.submit({ seconds: 600, isStubborn: true }, true);
    await world.phase(id, "running");
    await world.cancel(id);
    await until("it is gone", world.note);
  },
  async "a node is drained"(world) {
    isDrained = true;
    await run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=proof");
    const isNoted = async () => ["draining", "drained"].includes(await world.nodeState("n1"));
    await until("Berth has taken note", isNoted, CANARY_END_MS_MAX).catch(() => undefined);
    const sinceMs = Date.now();
    for (let count = 0; count < 6; count++) await world.submit({ seconds: 1 });
    await until("those have ended", world.note, CANARY_END_MS_MAX).catch(() => undefined);
    world.drains.push({ node: "n1", sinceMs, untilMs: Date.now() });
    await run("scontrol", "update", "NodeName=n1", "State=RESUME");
    isDrained = false;
    const isReady = async () => (await world.nodeState("n1")) === "ready";
    await until("it is ready again", isReady, CANARY_END_MS_MAX).catch(() => undefined);
  },
};

// --- Canaries: the same judge on an adapter with a mistake

const fault = (file: string, text: string, instead: string): Fault => ({
  ...{ what: text.slice(0, 40), file: `src/executors/slurm/${file}.ts`, text, instead },
});

const restarted: Story = async (world) => {
  const id = await world.submit({ seconds: 6 });
  await world.phase(id, "running");
  await world.killAdapter();
  await world.startAdapter();
};
const cancelled: Story = async (world) => {
  const id = await world.submit({ seconds: 20 }, true);
  await world.phase(id, "running");
  await world.cancel(id);
};

const CANARIES: readonly Canary[] = [
  {
    what: "an adapter that forgets what it has submitted, and does not look for the name",
    faults: [
      fault("attempt", `super(entry, "slurm.json", {})`, `super(entry, \`of-\${process.pid}.json\`, {})`),
      fault("steps", "if (found !== undefined) return", "if (found === null) return"),
      // The script would refuse to run twice.
      fault("script", "(exitFile))} 2>/dev/null || exit", "(exitFile))} 2>/dev/null || true exit"),
    ],
    story: restarted,
  },
  {
    what: "an adapter that reports an end when it asks for one, and leaves behind what it no longer knows",
    faults: [
      fault(
        "steps",
        `if (wish.isOverdue) return [{ kind: "cancel", id }];`,
        `if (id !== "") return [{ kind: "end", end: { outcome: "stopped" } }];`,
      ),
      fault("slurm", "for (const { id } of orphans)", "for (const { id } of orphans.slice(orphans.length))"),
    ],
    story: cancelled,
  },
  {
    what: "an adapter that takes every end for a success",
    faults: [
      fault(
        "states",
        "return { outcome: outcomeOf({ exitCode: exit.exit_code, signal: null }, circumstances), ...exit };",
        `return { outcome: outcomeOf({ exitCode: 0, signal: null }, circumstances), exit_code: 0 };`,
      ),
    ],
    story: async (world) => void (await world.submit({ seconds: 0.5, exitCode: 3 })),
  },
  {
    what: "an adapter that believes Slurm's own exit codes",
    faults: [
      fault(
        "states",
        "if (exit !== undefined) return { exit_code: exit.code };",
        "if (exit === null) return { exit_code: exitCode };",
      ),
    ],
    story: async (world) => void (await world.submit({ seconds: 0.5, exitCode: 137 })),
  },
  {
    what: "an adapter that tells Slurm nothing of GPUs, and Berth of twice as many",
    faults: [
      fault("options", "...(gpu > 0 ? [", "...(gpu < 0 ? ["),
      fault("nodes", "const amounts = { ...gres,", "const amounts = { gpu: (gres.gpu ?? 0) * 2,"),
    ],
    story: async (world) => {
      for (let count = 0; count < 10; count++) await world.submit({ seconds: 6 });
    },
  },
  {
    what: "an adapter that takes a drained node for a ready one",
    faults: [fault("nodes", `? "draining" : "ready"`, `? "ready" : "ready"`)],
    story: STORIES["a node is drained"] as Story,
  },
  {
    what: "an adapter that does not cancel",
    faults: [fault("slurm", "return slurm.cancel(move.id);", "return Promise.resolve();")],
    story: async (world) => {
      const id = await world.submit({ seconds: 60, isStubborn: true }, true);
      await world.phase(id, "running");
      await world.cancel(id);
    },
  },
];

/** What a canary has left behind. */
async function cleanUp(): Promise<void> {
  await run("scancel", "-u", USER);
  await until("Slurm is empty", async () => (await run("squeue", "-h")).trim() === "");
  await run("scontrol", "update", "NodeName=n1", "State=RESUME").catch(() => undefined);
}

// --- An operator: a controller that is killed forgets that a node was resumed, and drains one that refuses a number given out twice

let resumed = 0;
async function resumeNodes(): Promise<void> {
  const reasons = await run("sinfo", "-h", "-N", "-t", "drain", "-o", "%N %E");
  for (const line of isDrained ? [] : new Set(reasons.split("\n"))) {
    const [node, ...reason] = line.split(" ");
    if (!["proof", "Duplicate jobid"].includes(reason.join(" "))) continue;
    await run("scontrol", "update", `NodeName=${node}`, "State=RESUME");
    resumed++;
  }
}
const operator = setInterval(() => void resumeNodes().catch(() => undefined), 5_000); // While the controller is away nobody answers.

// --- At last, because everything above must be there

const proof: Proof = {
  site: siteOf(cluster),
  adapter: "slurm/adapter",
  alive: async () => {
    const queue = await run("squeue", "-h", "-a", "-o", "%T %j");
    return queue.split("\n").filter((line) => /^(RUNNING|PENDING|SUSPENDED)/.test(line));
  },
  async about(id, notes) {
    const numbers = [...notes.matchAll(/"jobId":"(\d+)"/g)].map(([, number]) => `${number}|`);
    const fields = "JobIDRaw,State,ExitCode,Submit,Start,End,JobName";
    const accounts = await run("sacct", "-a", "-D", "-X", "-P", "-n", "-S", "now-1days", "-o", fields);
    const controller = readFileSync(join(cluster.directory, "slurmctld.log"), "utf8");
    return [
      ...accounts
        .split("\n")
        .filter((line) => line.includes(id) || numbers.some((number) => line.startsWith(number))),
      ...controller
        .split("\n")
        .filter((line) => numbers.some((number) => line.includes(`JobId=${number.slice(0, -1)} `))),
    ];
  },
};
try {
  const killController = async (_: World, pause: () => Promise<void>) => {
    await cluster.killController();
    await pause();
    await cluster.startController();
  };
  const victims = [killController, killAdapter, replaceLeader];
  await prove(proof, { stories: STORIES, victims, canaries: CANARIES, cleanUp });
  console.log(`nodes resumed by the operator: ${resumed}`);
} finally {
  clearInterval(operator);
  await cluster.close();
}
process.exit(); // Else node may wait for ever for handles of children that have ended.
