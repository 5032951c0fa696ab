// Servers of two versions on one database: upgraded one after the other under load, taken back, and upgraded again until
// the new form of events is written (C12).

import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import type { Fault } from "../proving/canaries.ts";
import type { Replica } from "./cluster.ts";
import { type Outcome, type Scene, sound } from "./faults.ts";

export interface Builds {
  readonly old: string;
  readonly next: string;
  readonly databaseUrl: string;
}

/** The next version: it brings a form of events that this one cannot read. The judge knows it, too. */
export const NEXT_VERSION: Fault = {
  what: "a later version",
  file: "src/leader/event-forms.ts",
  text: "[{ write: (event) => event, read: (stored) => stored as Event }]",
  instead: `[
    { write: (event) => event, read: (stored) => stored as Event },
    { write: (event) => ({ kind: "wrapped", inner: event }), read: (stored) => stored.inner as Event },
  ]`,
};

/** Old and new servers together for so long. */
const MIXED_MS = 5_000;
/** A new form is written when all servers of the last minute can read it. */
const MINUTE_MS = 60_000;
const PATIENCE_MS = 60_000;

/** Followers first, then the leader; and back, as long as nothing is written that the old version cannot read. */
export async function upAndBack(scene: Scene, builds: Builds): Promise<Outcome> {
  const fromMs = performance.now();
  await replaceAll(scene, builds.next);
  await delay(MIXED_MS);
  await replaceAll(scene, builds.old);
  await sound(scene);
  const written = await newForms(builds.databaseUrl);
  return {
    recoveredMs: longestGapMs(scene, fromMs),
    problems: written === 0 ? [] : [`${written} events had the new form while old servers might come back`],
  };
}

/** Upgraded for good: the new form is written, and the old version does not begin. */
export async function up(scene: Scene, builds: Builds): Promise<Outcome> {
  const fromMs = performance.now();
  await replaceAll(scene, builds.next);
  await delay(MINUTE_MS);
  const untilMs = performance.now() + PATIENCE_MS;
  while (performance.now() < untilMs && (await newForms(builds.databaseUrl)) === 0) await delay(500);
  const problems = (await newForms(builds.databaseUrl)) > 0 ? [] : ["the new form was never written"];
  const gapMs = longestGapMs(scene, fromMs);
  const follower = (await inOrder(scene))[0]!;
  await follower.end("SIGTERM");
  const hasBegun = await follower.start(builds.old).then(
    () => true,
    () => false, // It says what it cannot read, and ends.
  );
  if (hasBegun) problems.push("the old version begins on events that it cannot read");
  await follower.end("SIGKILL");
  await follower.start(builds.next);
  await sound(scene);
  return { recoveredMs: gapMs, problems };
}

async function replaceAll(scene: Scene, program: string): Promise<void> {
  for (const replica of await inOrder(scene)) {
    await sound(scene);
    await replica.end("SIGTERM");
    await replica.start(program);
    await delay(MIXED_MS / 2);
  }
}

/** The leader last. */
async function inOrder(scene: Scene): Promise<Replica[]> {
  const { leader } = await sound(scene);
  return [...scene.cluster.replicas.filter((replica) => replica !== leader), leader];
}

/** The longest time without an acknowledged write. */
function longestGapMs({ load }: Scene, fromMs: number): number {
  const acknowledgedMs = load.history.submissions
    .flatMap(({ told }) => (told !== undefined && told.receivedMs >= fromMs ? [told.receivedMs] : []))
    .toSorted((a, b) => a - b);
  return Math.max(...acknowledgedMs.map((atMs, index) => atMs - (acknowledgedMs[index - 1] ?? fromMs)));
}

async function newForms(databaseUrl: string): Promise<number> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query(
      `select count(*)::int as written from berth.journal where events like '%"v":2%'`,
    );
    return rows[0].written;
  } finally {
    await client.end();
  }
}
