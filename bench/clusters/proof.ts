// What the proofs of all adapters have in common: stories that are played, a judge that holds everything against what was
// written down, and canaries, which are the same stories with a mistake in the adapter.

import { spawn } from "node:child_process";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { StoreKind } from "../agents/servers.ts";
import { type Fault, tell } from "../proving/canaries.ts";
import { seededRandom } from "../proving/random.ts";
import { bundle } from "../proving/start.ts";
import {
  aboveCapacity,
  doubledStarts,
  endedTooSoon,
  grantsOnDrained,
  isAlive,
  lostExits,
  readLives,
  startsOnDrained,
} from "./judge.ts";
import { GPUS_PER_NODE, openWorld, type Site, until, type World } from "./world.ts";

export type Story = (world: World) => Promise<void>;
type Counts = Record<string, string[]>;

export interface Proof {
  readonly site: Site;
  /** Of `bench`, without its ending. */
  readonly adapter: string;
  /** What the cluster itself still shows of jobs of Berth that are not over, one line each. */
  alive(): Promise<readonly string[]>;
}

export interface Canary {
  readonly what: string;
  readonly faults: readonly Fault[];
  readonly story: Story;
}

/** All must have ended so long after the last fault; a job that a controller forgot is missed for a minute first. */
const END_MS_MAX = 300_000;
/** A canary's story is short. */
export const CANARY_END_MS_MAX = 40_000;

// Read first, so that a mistake in it shows before a cluster is started.
const { values, positionals } = parseArgs({
  options: { canaries: { type: "boolean" }, part: { type: "string" }, store: { type: "string" } },
  allowPositionals: true,
});

/** What is played: stories, then rounds in which something is killed; or the canaries. */
export interface Programme {
  readonly stories: Readonly<Record<string, Story>>;
  readonly victims: Parameters<typeof kills>[2];
  readonly canaries: readonly Canary[];
  cleanUp(): Promise<void>;
}

/** Ends the program where programs are missing. */
export function insistOnPrograms(missing: readonly string[]): void {
  if (missing.length === 0) return;
  for (const line of missing) console.error(line);
  console.error("Skipped is not passed.");
  process.exit(2);
}

/** As the command line says: `[ROUNDS] [SEED] [--part=TEXT] [--store=sqlite|postgres] [--canaries]`. */
export async function prove(proof: Proof, { stories, victims, canaries, cleanUp }: Programme): Promise<void> {
  const rounds = Number(positionals[0] ?? 24);
  const seed = Number(positionals[1] ?? Date.now() % 1_000_000);
  const isChosen = (what: string) => what.includes(values.part ?? "");
  const all = { ...stories, [`${rounds} kills (seed ${seed})`]: kills(seededRandom(seed), rounds, victims) };
  const chosen = Object.fromEntries(Object.entries(all).filter(([name]) => isChosen(name)));
  const isFine =
    values.canaries === true
      ? await proveCanaries(
          proof,
          canaries.filter(({ what }) => isChosen(what)),
          cleanUp,
        )
      : await proveSound(proof, chosen, (values.store ?? "postgres") as StoreKind);
  if (!isFine) process.exitCode = 1;
}

async function proveSound(
  proof: Proof,
  stories: Readonly<Record<string, Story>>,
  store: StoreKind,
): Promise<boolean> {
  const programs = { server: await bundle("agents/server"), adapter: await bundle(proof.adapter) };
  const world = await openWorld(proof.site, programs, "sound", store);
  try {
    for (const [what, story] of Object.entries(stories)) {
      const beganMs = performance.now();
      try {
        await story(world);
      } catch (error) {
        console.log(`${what}: ${(error as Error).message}`);
        await tellState(proof, world);
        return false;
      }
      console.log(`${what}: ${((performance.now() - beganMs) / 1000).toFixed(0)} s`);
    }
    const counts = await judge(proof, world, END_MS_MAX);
    for (const [what, found] of Object.entries(counts)) {
      console.log(`${what}: ${found.length}`);
      for (const line of found.slice(0, 10)) console.log(`  ${line}`);
    }
    console.log(`${world.expected.length} jobs, ${readLives(world.lives).length} starts`);
    return Object.values(counts).every((found) => found.length === 0);
  } finally {
    await world.close();
  }
}

/** To find the cause: what has not ended, and what the cluster shows. */
async function tellState({ alive }: Proof, world: World): Promise<void> {
  for (const { id } of world.expected) {
    if (world.endedAtMs.has(id)) continue;
    const { status, phase, where, attempts } = await world.job(id);
    console.log(`  ${id} ${status} ${phase} ${JSON.stringify(where)} ${JSON.stringify(attempts)}`);
  }
  for (const line of await alive()) console.log(`  alive: ${line}`);
}

/** Whether all were found. */
async function proveCanaries(
  proof: Proof,
  canaries: readonly Canary[],
  cleanUp: () => Promise<void>,
): Promise<boolean> {
  const server = await bundle("agents/server");
  let isAll = true;
  for (const [index, { what, faults, story }] of canaries.entries()) {
    const programs = { server, adapter: await bundle(proof.adapter, ...faults) };
    const world = await openWorld(proof.site, programs, `canary-${index}`, "sqlite");
    try {
      // A story that does not come to its end is judged all the same.
      await story(world).catch((error: Error) => console.log(`  ${error.message}`));
      const counts = await judge(proof, world, CANARY_END_MS_MAX);
      const found = Object.entries(counts).filter(([, list]) => list.length > 0);
      if (!tell(`${what} (${found.map(([name]) => name).join(", ")})`, found.length)) isAll = false;
    } finally {
      await world.close();
      await cleanUp();
    }
  }
  return isAll;
}

/** Waits until all has ended, and then holds everything against what was written down. */
async function judge({ alive }: Proof, world: World, endMsMax: number): Promise<Counts> {
  await until("all jobs have ended", world.note, endMsMax).catch(() => undefined);
  const told = await world.told();
  const ended = new Set([...told].filter(([, { status }]) => status !== "allocated").map(([id]) => id));
  // What Berth has let go must be gone from the cluster.
  const ofEnded = async () => (await alive()).filter((line) => [...ended].some((id) => line.includes(id)));
  await until("the cluster is empty", async () => (await ofEnded()).length === 0, CANARY_END_MS_MAX).catch(
    () => undefined,
  );
  const lives = readLives(world.lives);
  const orphans = [
    ...(await ofEnded()),
    ...lives
      .filter((life) => ended.has(life.request) && isAlive(life))
      .map(({ request }) => `a process of ${request}`),
  ];
  return {
    "doubled starts": doubledStarts(lives),
    orphans: [...orphans, ...endedTooSoon(lives, world.endedAtMs)],
    "exits lost": lostExits(world.expected, told),
    "units above capacity": aboveCapacity(lives, GPUS_PER_NODE),
    "starts on a drained node": [
      ...startsOnDrained(lives, world.drains),
      ...grantsOnDrained(told, world.drains),
    ],
  };
}

/** Of a second each: more than a machine that is busy with other things needs to submit what preempts it. */
const EPOCHS = 40;

/** Stories that are the same wherever jobs run. */
export const COMMON_STORIES = {
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
    for (const id of victims) if ((await world.job(id)).status !== "released") await world.cancel(id);
    await until("the others are cancelled", world.note);
  },
  async "arrays, two at once"(world) {
    const job = world.bodyOf({ seconds: 0.5 });
    const array = { job, indices: [0, 1, 2, 3, 4, 5], at_once: 2 };
    const { body } = await world.call("POST", "/v1/jobs/array", array, "array");
    for (const { id } of body.results) world.expected.push({ id, exitCode: 0, isFree: false });
    await until("the array has ended", world.note);
  },
  async "a job on two nodes"(world) {
    const id = await world.submit({ seconds: 1, nodes: 2, gpus: 2 });
    await until("it has ended", world.note);
    const nodes = new Set(
      readLives(world.lives)
        .filter(({ request }) => request === id)
        .map(({ node }) => node),
    );
    if (nodes.size !== 2) throw new Error(`A job on two nodes ran on ${[...nodes].join(", ") || "none"}.`);
  },
  /** As the README and the guides tell it: a job is preempted by a higher priority, saves, and goes on from there. */
  async "the commands of the guides"(world) {
    const berth = commandLine(world);
    const train = join(world.directory, "train.py");
    copyFileSync(fileURLToPath(new URL("../../examples/train.py", import.meta.url)), train);
    // The other two nodes are taken until the end: only a preemption makes room.
    const taken = { seconds: 3_600, gpus: 2, component: "urgent" };
    const others = await Promise.all([world.submit(taken, true), world.submit(taken, true)]);
    for (const id of others) await world.phase(id, "running");
    const settings = ["--cwd", "/", "--env", `EPOCHS=${EPOCHS}`];
    const trained = ["submit", "--gpu", "1", "--checkpoint", "auto", ...settings, "--", "python3", train];
    const number = (await berth("vision", ...trained)).trim().replace("#", "");
    const { body: request } = await world.call("GET", `/v1/resource-requests/${number}`);
    await until("it trains", async () => (await berth("vision", "logs", number)).includes("epoch 1"));
    const urgent = ["submit", "--gpu", "2", "--wait", "--cwd", "/", "--", "sleep", "1"];
    await berth("urgent", ...urgent);
    for (const id of others) await world.cancel(id);
    await until("it has ended", async () => (await world.job(request.id)).status === "released");
    const first = await berth("vision", "logs", "--attempt", "1", number);
    const second = await berth("vision", "logs", "--attempt", "2", number);
    const epochs = [...`${first}\n${second}`.matchAll(/epoch (\d+)/g)].map(([, epoch]) => Number(epoch));
    const isWhole = epochs.every((epoch, index) => epoch === index) && epochs.length === EPOCHS;
    const { attempts } = await world.job(request.id);
    if (!isWhole || attempts[0].outcome !== "preempted" || !second.includes(`epoch ${EPOCHS - 1}`))
      throw new Error(`It did not go on where it was: ${epochs.join(" ")}, ${attempts[0].outcome}.`);
  },
} satisfies Record<string, Story>;

/** The product's own command line, for a component. */
function commandLine(world: World): (component: string, ...words: string[]) => Promise<string> {
  const program = ["--import", "tsx", fileURLToPath(new URL("../../src/bin/berth.ts", import.meta.url))];
  return (component, ...words) =>
    new Promise((resolve, reject) => {
      const env = { BERTH_URL: world.url, BERTH_API_TOKEN: world.token, BERTH_COMPONENT: component };
      const child = spawn(process.execPath, [...program, ...words], {
        ...{ env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] },
      });
      let output = "";
      let errors = "";
      child.stdout.on("data", (data: Buffer) => {
        output += data.toString();
      });
      child.stderr.on("data", (data: Buffer) => {
        errors += data.toString();
      });
      child.once("close", (code) =>
        code === 0 ? resolve(output) : reject(new Error(`berth ${words.join(" ")}: ${code} ${errors}`)),
      );
    });
}

/** Something is killed at a random moment of starts, ends and cancellations, one thing after the other. */
function kills(
  random: () => number,
  rounds: number,
  victims: readonly ((world: World, pause: () => Promise<void>) => Promise<void>)[],
): Story {
  const between = (min: number, max: number) => min + random() * (max - min);
  const pause = (seconds: number) => new Promise<void>((resolve) => setTimeout(resolve, seconds * 1000));
  return async (world) => {
    for (let round = 0; round < rounds; round++) {
      const ids = [];
      for (let count = 0; count < 3; count++) {
        const exitCode = random() < 0.3 ? Math.floor(between(1, 250)) : 0;
        ids.push(await world.submit({ seconds: between(0.2, 4), exitCode }));
      }
      await pause(between(0, 2.5));
      if (random() < 0.5) await world.cancel(ids[Math.floor(random() * ids.length)] as string);
      await victims[round % victims.length]?.(world, () => pause(between(0, 2)));
      await world.note();
    }
  };
}

export const killAdapter = async (world: World, pause: () => Promise<void>) => {
  await world.killAdapter();
  await pause();
  await world.startAdapter();
};
export const replaceLeader = (world: World) => world.replaceLeader();
