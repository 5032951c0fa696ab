// The same commands at the same times give the same state on every store: live, replayed from the first event, and from
// snapshots. Random worlds of every discipline are played once, and then again on the other stores.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import type { Command } from "../../src/engine/index.ts";
import { type Clock, type Leader, startLeader, stateHash } from "../../src/leader/index.ts";
import { openMemoryStore, openPostgresStore, openSqliteStore, type Store } from "../../src/store/index.ts";
import { someCommand, someWorld } from "../simulation/engine/commands.ts";
import { seededRandom } from "../simulation/engine/random.ts";
import { startPostgres, type TestPostgres } from "../support/postgres.ts";

const STEPS = 100;
/** Hundreds of commits that are waited for, on a disk that may be slow. */
const TIMEOUT_MS = 300_000;

interface Step {
  readonly atMs: number;
  readonly command: Command;
}

let postgres: TestPostgres;
let directory: string;
beforeAll(async () => {
  postgres = await startPostgres({ fsync: "off" }); // Nobody cuts the power here.
  directory = mkdtempSync(join(tmpdir(), "berth-hash-"));
});
afterAll(async () => {
  await postgres.remove();
  rmSync(directory, { recursive: true, force: true });
});

const OTHER_STORES: Record<string, (name: string) => Promise<Store>> = {
  sqlite: (name) => openSqliteStore({ path: join(directory, `${name}.db`) }),
  postgres: (name) => openPostgresStore({ url: postgres.url, schema: name, acceptUnsafeDatabase: true }),
};

const worlds = (["priority", "class", "fair_share"] as const).flatMap((discipline) =>
  [false, true].map((onNodes) => ({ discipline, onNodes, where: onNodes ? "on nodes" : "on units" })),
);

test.each(worlds)(
  "$discipline $where: one state on all stores, live, replayed and from snapshots",
  async ({ discipline, onNodes }) => {
    const script: Step[] = [];
    const random = seededRandom(7);
    const opening = someWorld(random, discipline, onNodes);
    let atMs = 0;
    const invent = async (leader: Leader, index: number): Promise<Step> => {
      atMs += random.pick([0, 1, 7, 30, 120]) * 1000;
      const command = opening[index] ?? (await leader.read(({ state }) => someCommand(random, state, index)));
      script.push({ atMs, command });
      return { atMs, command };
    };
    const expected = await play(await openMemoryStore(), invent);
    expect(expected.seq).toBeGreaterThan(STEPS);

    for (const [name, open] of Object.entries(OTHER_STORES)) {
      const store = await open(`${discipline}_${onNodes}`);
      const found = await play(store, async (_leader, index) => script[index] as Step);
      expect(found, name).toEqual(expected);
    }
  },
  TIMEOUT_MS,
);

interface Played {
  readonly seq: number;
  /** Of the journal, with every event and its time. */
  readonly chain: string;
  readonly hash: string;
}

/** Plays the steps, with a restart from a snapshot in the middle, and checks that every way leads to the same state. */
async function play(store: Store, next: (leader: Leader, index: number) => Promise<Step>): Promise<Played> {
  onTestFinished(() => store.close());
  let nowMs = 0;
  // Time passes between the steps only, so that no timer depends on how fast a store is.
  const clock: Clock = {
    monotonicMs: () => nowMs,
    wallMs: () => nowMs,
    after: () => () => undefined,
    soon: (run) => void setImmediate(run),
  };
  const lead = (from: Store) =>
    startLeader({
      store: from,
      clock,
      settings: { endedInMemoryMs: 60_000, snapshotEveryMs: Number.POSITIVE_INFINITY },
      onFatal: (error) => {
        throw error;
      },
    });

  let leader = await lead(store);
  for (let index = 0; index < STEPS; index++) {
    if (index === STEPS / 2) {
      await leader.close(); // Saves a snapshot.
      leader = await lead(store);
    }
    const { atMs, command } = await next(leader, index);
    nowMs = atMs;
    await leader.perform(command, { actor: "test" });
  }
  const live = await hashOf(leader);
  const { seq, hash: chain } = await store.head();

  const replayed = await lead({ ...store, latestSnapshot: async () => undefined });
  expect(replayed.status().recovery.events).toBe(seq);
  expect(await hashOf(replayed)).toBe(live);

  const continued = await lead(store);
  expect(continued.status().snapshotSeq).toBeGreaterThan(0);
  expect(continued.status().recovery.events).toBeGreaterThan(0);
  expect(await hashOf(continued)).toBe(live);

  await continued.close();
  const restored = await lead(store);
  expect(restored.status()).toMatchObject({ snapshotSeq: seq, recovery: { events: 0 } });
  expect(await hashOf(restored)).toBe(live);
  return { seq, chain, hash: live };
}

const hashOf = (leader: Leader): Promise<string> => leader.read(({ state }) => stateHash(state));
