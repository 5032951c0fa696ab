// Slurm runs the jobs of a pool (21), on a real Slurm that this program starts itself: jobs start, save, stop, are requeued by
// somebody else, come in arrays, meet a drained node; then controller, adapter and server are killed at any moment. No grant is
// started twice, nothing runs that Berth does not know, no exit is lost, and no node has more in use than it has.
// Usage: npm run prove:slurm -- [ROUNDS] [SEED] [--part=TEXT] [--canaries]. --part: only stories or
// canaries with this text in their name. Exit code 2: something is missing on this machine.

import { parseArgs } from "node:util";
import { type Fault, tell } from "./proving/canaries.ts";
import { seededRandom } from "./proving/random.ts";
import { bundle } from "./proving/start.ts";
import { missingPrograms, openSlurmCluster, type SlurmCluster, until } from "./slurm/cluster.ts";
import {
  aboveCapacity,
  doubledStarts,
  endedTooSoon,
  isAlive,
  lostExits,
  readLives,
  startsOnDrained,
} from "./slurm/judge.ts";
import { GPUS_PER_NODE, openWorld, type World } from "./slurm/world.ts";

const { values: options, positionals: numbers } = parseArgs({
  options: { canaries: { type: "boolean" }, part: { type: "string" } },
  allowPositionals: true,
});
const ROUNDS = Number(numbers[0] ?? 24);
const SEED = Number(numbers[1] ?? Date.now() % 1_000_000);
const PART = options.part ?? "";
/** All must have ended so long after the last fault; a job that a controller forgot is missed for a minute first. */
const END_MS_MAX = 300_000;
/** A canary's story is short. */
const CANARY_END_MS_MAX = 40_000;

const missing = missingPrograms();
if (missing.length > 0) {
  for (const line of missing) console.error(line);
  console.error("Skipped is not passed.");
  process.exit(2);
}

type Story = (world: World, cluster: SlurmCluster) => Promise<void>;
type Counts = Record<string, string[]>;

async function proveSound(server: string): Promise<void> {
  const programs = { server, adapter: await bundle("slurm/adapter") };
  const world = await openWorld(cluster, programs, "sound");
  const random = seededRandom(SEED);
  const stories = { ...STORIES, [`${ROUNDS} kills (seed ${SEED})`]: kills(random, ROUNDS) };
  for (const [what, story] of Object.entries(stories).filter(([name]) => name.includes(PART))) {
    const beganMs = performance.now();
    await story(world, cluster);
    console.log(`${what}: ${((performance.now() - beganMs) / 1000).toFixed(0)} s`);
  }
  const counts = await judge(world, END_MS_MAX);
  for (const [what, found] of Object.entries(counts)) {
    console.log(`${what}: ${found.length}`);
    for (const line of found.slice(0, 10)) console.log(`  ${line}`);
  }
  console.log(`${world.expected.length} jobs, ${readLives(world.lives).length} starts`);
  if (Object.values(counts).some((found) => found.length > 0)) process.exitCode = 1;
  await world.close();
}

/** Waits until all has ended, and then holds everything against what was written down. */
async function judge(world: World, endMsMax: number): Promise<Counts> {
  await until("all jobs have ended", world.note, endMsMax).catch(() => undefined);
  const told = await world.told();
  // What Berth has let go must be gone from Slurm.
  const queue = await cluster.run("squeue", "-h", "-a", "-o", "%T %j");
  const alive = queue.split("\n").filter((line) => /^(RUNNING|PENDING|SUSPENDED)/.test(line));
  const ended = new Set([...told].filter(([, { status }]) => status !== "allocated").map(([id]) => id));
  const lives = readLives(world.lives);
  const orphans = [
    ...alive.filter((line) => [...ended].some((id) => line.includes(id))),
    ...lives
      .filter((life) => ended.has(life.request) && isAlive(life))
      .map(({ request }) => `a process of ${request}`),
  ];
  return {
    "doubled starts": doubledStarts(lives),
    orphans: [...orphans, ...endedTooSoon(lives, world.endedAtMs)],
    "exits lost": lostExits(world.expected, told),
    "units above capacity": aboveCapacity(lives, GPUS_PER_NODE),
    "starts on a drained node": startsOnDrained(lives, world.drains),
  };
}

const STORIES: Record<string, Story> = {
  async "starts and exit codes"(world) {
    const ids = await Promise.all(
      [0, 0, 3, 137, 200].map((exitCode) => world.submit({ seconds: 1, exitCode })),
    );
    await until("they have ended", async () =>
      (await Promise.all(ids.map(world.job))).every(({ exit }) => exit !== null),
    );
  },
  async "checkpoint, stop, resume"(world) {
    const victims: string[] = [];
    for (let count = 0; count < 3; count++)
      victims.push(await world.submit({ seconds: 60, gpus: 2, saves: true }));
    for (const id of victims) await world.phase(id, "running");
    await world.submit({ seconds: 1, gpus: 2, component: "urgent" });
    await until("a victim has saved, stopped and resumed", async () => {
      const jobs = await Promise.all(victims.map(world.job));
      return jobs.some(
        ({ attempts, status }) =>
          attempts.length === 2 && attempts[0].outcome === "preempted" && status === "released",
      );
    });
    for (const id of victims) {
      if ((await world.job(id)).status === "released") continue;
      await world.free(id);
      await world.call("POST", `/v1/resource-requests/${id}/cancel`);
    }
    await until("the others are cancelled", world.note);
  },
  async "arrays, two at once"(world) {
    const job = world.bodyOf({ seconds: 0.5 });
    const { body } = await world.call(
      "POST",
      "/v1/jobs/array",
      { job, indices: [0, 1, 2, 3, 4, 5], at_once: 2 },
      "array",
    );
    for (const { id } of body.results) world.expected.push({ id, exitCode: 0, isFree: false });
    await until("the array has ended", world.note);
  },
  async "requeued and cancelled by somebody else"(world, { run }) {
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
  async "a node is drained"(world, { run }) {
    const stateOf = async () => (await world.call("GET", "/v1/nodes/n1")).body.state;
    await run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=proof");
    await until(
      "Berth has taken note",
      async () => ["draining", "drained"].includes(await stateOf()),
      CANARY_END_MS_MAX,
    ).catch(() => undefined);
    const sinceMs = Date.now();
    for (let count = 0; count < 6; count++) await world.submit({ seconds: 1 });
    await until("those have ended", world.note, CANARY_END_MS_MAX).catch(() => undefined);
    world.drains.push({ node: "n1", sinceMs, untilMs: Date.now() });
    await run("scontrol", "update", "NodeName=n1", "State=RESUME");
    await until("it is ready again", async () => (await stateOf()) === "ready", CANARY_END_MS_MAX).catch(
      () => undefined,
    );
  },
};

/** Controller, adapter or server, at a random moment of starts, ends and cancellations. */
function kills(random: () => number, rounds: number): Story {
  const between = (min: number, max: number) => min + random() * (max - min);
  const pause = (seconds: number) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  return async (world, { killController, startController }) => {
    for (let round = 0; round < rounds; round++) {
      const ids = [];
      for (let count = 0; count < 3; count++) {
        const wanted = {
          seconds: between(0.2, 4),
          exitCode: random() < 0.3 ? Math.floor(between(1, 250)) : 0,
        };
        ids.push(await world.submit(wanted));
      }
      await pause(between(0, 2.5));
      if (random() < 0.5) {
        const id = ids[Math.floor(random() * ids.length)] as string;
        await world.free(id);
        await world.call("POST", `/v1/resource-requests/${id}/cancel`);
      }
      const victim = ["controller", "adapter", "server"][round % 3];
      if (victim === "controller") {
        await killController();
        await pause(between(0, 2));
        await startController();
      } else {
        await world.kill(victim as string);
        await pause(between(0, 2));
        await (victim === "adapter" ? world.startAdapter() : world.startServer());
      }
      await world.note();
    }
  };
}

// --- Canaries: the same judge on an adapter with a mistake

interface Canary {
  readonly what: string;
  readonly faults: readonly Fault[];
  readonly story: Story;
}

const fault = (file: string, text: string, instead: string): Fault => ({
  ...{ what: text.slice(0, 40), file: `src/executors/slurm/${file}.ts`, text, instead },
});

const restarted: Story = async (world) => {
  const id = await world.submit({ seconds: 6 });
  await world.phase(id, "running");
  await world.kill("adapter");
  await world.startAdapter();
};
const cancelled: Story = async (world) => {
  const id = await world.submit({ seconds: 20 }, true);
  await world.phase(id, "running");
  await world.call("POST", `/v1/resource-requests/${id}/cancel`);
};

const CANARIES: readonly Canary[] = [
  {
    what: "an adapter that forgets what it has submitted, and does not look for the name",
    faults: [
      fault("attempt", `super(entry, "slurm.json", {})`, `super(entry, \`of-\${process.pid}.json\`, {})`),
      fault("steps", "if (found !== undefined) return", "if (found === null) return"),
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
      fault("slurm", "for (const { id } of nobodys)", "for (const { id } of nobodys.slice(nobodys.length))"),
    ],
    story: cancelled,
  },
  {
    what: "an adapter that takes every end for a success",
    faults: [
      fault(
        "states",
        `    case "FAILED":\n`,
        `    case "FAILED":\n      if (state !== "") return { outcome: "succeeded", exit_code: 0 };\n`,
      ),
    ],
    story: async (world) => void (await world.submit({ seconds: 0.5, exitCode: 3 })),
  },
  {
    what: "an adapter that believes Slurm's own exit codes",
    faults: [
      fault(
        "attempt",
        "return isOfCommand ? { exit_code: own } : {};",
        "return isOfCommand && own < 0 ? { exit_code: own } : {};",
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
      await world.call("POST", `/v1/resource-requests/${id}/cancel`);
    },
  },
];

async function proveCanaries(server: string): Promise<void> {
  let missed = 0;
  const chosen = CANARIES.filter(({ what }) => what.includes(PART));
  for (const [index, { what, faults, story }] of chosen.entries()) {
    const world = await openWorld(
      cluster,
      { server, adapter: await bundle("slurm/adapter", ...faults) },
      `canary-${index}`,
    );
    try {
      await story(world, cluster);
      const counts = await judge(world, CANARY_END_MS_MAX);
      const found = Object.entries(counts).filter(([, list]) => list.length > 0);
      if (!tell(`${what} (${found.map(([name]) => name).join(", ")})`, found.length)) missed++;
    } finally {
      await world.close();
      await cluster.run("scancel", "-u", "nobody");
      await until("Slurm is empty", async () => (await cluster.run("squeue", "-h")).trim() === "");
      await cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME").catch(() => undefined);
    }
  }
  if (missed > 0) process.exitCode = 1;
}

// --- At last, because everything above must be there

const cluster = await openSlurmCluster({ gpusPerNode: GPUS_PER_NODE });
try {
  const server = await bundle("slurm/server");
  if (options.canaries === true) await proveCanaries(server);
  else await proveSound(server);
} finally {
  await cluster.close();
}
