// What the proofs of all adapters have in common: stories that are played, a judge that holds everything against what was
// written down, and canaries, which are the same stories with a mistake in the adapter.

import { join } from "node:path";
import { parseArgs } from "node:util";
import type { StoreKind } from "../agents/servers.ts";
import { type Fault, tell } from "../proving/canaries.ts";
import { seededRandom } from "../proving/random.ts";
import { bundle } from "../proving/start.ts";
import { type Guide, playGuide } from "./guide.ts";
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
  /** To find the cause of a finding: what the cluster has written down about a request, beside the notes of the adapter. */
  about?(id: string, notes: string): Promise<readonly string[]>;
}

export interface Canary {
  readonly what: string;
  readonly faults: readonly Fault[];
  readonly story: Story;
}

/** All must have ended so long after the last fault; a job that a controller forgot is missed for a minute first. */
const END_MS_MAX = 300_000;
/** After a failure it is told what was seen, and all is closed, within this time. */
const CLOSE_MS_MAX = 60_000;
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
        setTimeout(() => process.exit(1), CLOSE_MS_MAX).unref(); // Whatever does not answer then.
        await tellState(proof, world);
        return false;
      }
      console.log(`${what}: ${((performance.now() - beganMs) / 1000).toFixed(0)} s`);
    }
    const counts = await judge(proof, world, END_MS_MAX);
    for (const [what, found] of Object.entries(counts)) {
      console.log(`${what}: ${found.length}`);
      for (const line of found.slice(0, 10)) await tellFinding(proof, world, line);
    }
    console.log(`${world.expected.length} jobs, ${readLives(world.lives).length} starts`);
    return Object.values(counts).every((found) => found.length === 0);
  } finally {
    await world.close();
  }
}

async function tellFinding({ about }: Proof, world: World, finding: string): Promise<void> {
  console.log(`  ${finding}`);
  const { id = "" } = world.expected.find((one) => finding.includes(one.id)) ?? {};
  const notes = id === "" ? [] : world.notesAbout(id);
  const more = id === "" ? [] : await about?.(id, notes.join()).catch((error: Error) => [error.message]);
  for (const line of [...notes, ...(more ?? [])]) console.log(`    ${line}`);
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
} satisfies Record<string, Story>;

/** On an installation of its own: the adapter of this one is away meanwhile, or would take what it does not know for orphans. */
export function guideStory(guide: Guide): Story {
  return async (world) => {
    await world.killAdapter();
    const count = await playGuide(guide, join(world.directory, "guide"));
    console.log(`  ${count} commands of docs/guide/${guide.file}`);
    await world.startAdapter();
  };
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
