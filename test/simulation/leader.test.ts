// The leader under faults, in virtual time: random commands, full disks, crashes before and after a commit, answers that get
// lost. Whatever happens, what was answered took effect once, and memory, journal, records and stream tell one
// story. With every second seed the store takes its time, so that one batch is decided while another is written.
// A failure names its seed; `SEED=17 npx vitest run test/simulation` repeats it.

import { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { seededRandom } from "../../bench/proving/random.ts";
import { type RequestId, requestOf } from "../../src/engine/index.ts";
import {
  type Answer,
  type CommittedEvent,
  type LeaderCommand,
  LeaderError,
  type RequestBody,
  stateHash,
} from "../../src/leader/index.ts";
import { openMemoryStore, type Snapshot, type Store, StoreError } from "../../src/store/index.ts";
import { createFakeClock, createPool, createRig, type Rig, request, submit } from "./rig.ts";

const SEEDS =
  process.env.SEED === undefined ? Array.from({ length: 40 }, (_, i) => i + 1) : [Number(process.env.SEED)];
const STEPS = 80;
const COMPONENTS = ["team", "urgent"];
const settings = { endedInMemoryMs: 20_000, snapshotEveryEvents: 60, pruneEveryMs: 3_600_000 };

describe("the leader under faults", () => {
  test.each(SEEDS)(
    "seed %i: nothing is lost, nothing happens twice, and all accounts agree",
    async (seed) => {
      const world = await createWorld(seed);
      for (let step = 0; step < STEPS; step++) await world.step();
      await world.check();
    },
  );
});

async function createWorld(seed: number) {
  const random = seededRandom(seed);
  const chance = (part: number) => random() < part;
  const pick = <T>(items: readonly T[]) => items[Math.floor(random() * items.length)] as T;

  const isSlow = seed % 2 === 0;
  const sound = await openMemoryStore();
  /** Commits are made in their order. */
  let lastCommit: Promise<unknown> = Promise.resolve();
  let most = 0;
  let underWay = 0;
  const clock = createFakeClock();
  /** The next commit meets this fault. */
  let fault: "none" | "full" | "crash before" | "crash after" = "none";
  const snapshots: (() => Snapshot)[] = [];
  const store: Store = {
    ...sound,
    // Nothing but memory: the virtual clock knows nothing of real time.
    async saveSnapshot({ seq, atMs, pieces, stateHash }) {
      const kept: Uint8Array[] = [];
      for await (const piece of pieces) kept.push(piece);
      snapshots.push(() => ({ seq, atMs, stateHash: stateHash(), pieces: Readable.from(kept) }));
    },
    latestSnapshot: async () => snapshots.at(-1)?.(),
    commitsAtOnce: isSlow ? 2 : 1,
    commit(commit) {
      const met = fault;
      fault = "none";
      most = Math.max(most, ++underWay);
      const made = lastCommit.then(() => commitWith(met, commit)).finally(() => underWay--);
      lastCommit = made.catch(() => undefined);
      return made;
    },
  };
  async function commitWith(met: typeof fault, commit: Parameters<Store["commit"]>[0]) {
    for (let turns = isSlow ? random() * 8 : 0; turns > 1; turns--) await setImmediate();
    if (met === "full") throw new StoreError("disk_full", "The disk is full.");
    if (met === "crash before") throw new Error("the process ended before the commit");
    const head = await sound.commit(commit);
    if (met === "crash after") throw new Error("the process ended after the commit");
    return head;
  }

  let rig: Rig = await createRig({ store, clock, settings });
  await createPool(rig, { gpu: 3, components: COMPONENTS });
  await rig.do({
    kind: "updatePolicy",
    policy: { pool: "main" as never, component: "urgent" as never, priority: 9 },
  });
  const answers = new Map<string, { command: LeaderCommand; answer: Answer }>();
  const submitted: RequestId[] = [];
  let calls = 0;

  /** Asks until there is an answer, whatever happens to the server meanwhile. */
  async function insist<T>(ask: (leader: Rig["leader"]) => Promise<T>): Promise<T> {
    for (let tries = 0; tries < 20; tries++) {
      try {
        return await ask(rig.leader);
      } catch (error) {
        if (!(error instanceof LeaderError)) throw error;
        if (error.code === "disk_full")
          await clock.advance(2_000); // Room again.
        else if (rig.leader.status().condition === "stopped") await restart();
      }
    }
    throw new Error("no answer");
  }

  function perform(key: string, command: LeaderCommand): Promise<Answer> {
    const idempotency = { scope: "client", key, bodyHash: JSON.stringify(command) };
    const present = () => ({ call: calls });
    return insist((leader) => leader.perform(command, { actor: "client", idempotency, present }));
  }

  let restarting: Promise<void> | undefined;
  /** Once, however many have seen it end. */
  function restart(): Promise<void> {
    restarting ??= begin().finally(() => {
      restarting = undefined;
    });
    return restarting;
  }
  async function begin(): Promise<void> {
    fault = "none";
    await lastCommit;
    rig = await createRig({ store, clock, settings });
  }

  /** What ran when it was looked; it may have ended since. */
  function lookAtRuns() {
    return insist((leader) =>
      leader.read(({ state }) =>
        submitted.flatMap((id) => {
          const allocation = requestOf(state, id)?.progress.allocation;
          return allocation ? [{ id, token: allocation.token, isStopping: allocation.stop !== null }] : [];
        }),
      ),
    );
  }

  function someCommand(running: Awaited<ReturnType<typeof lookAtRuns>>): LeaderCommand {
    if (running.length > 0 && chance(0.4)) {
      const { id: requestId, token, isStopping } = pick(running);
      const outcome = isStopping ? "stopped" : pick(["succeeded", "failed"] as const);
      return { kind: "reportEnd", requestId, token, outcome };
    }
    if (submitted.length > 0 && chance(0.2)) return { kind: "cancelRequest", requestId: pick(submitted) };
    const id = `r${submitted.length}`;
    submitted.push(request(id));
    return submit(id, {
      component: pick(COMPONENTS) as never,
      resources: { gpu: 1 + Math.floor(random() * 2) },
      checkpoint: pick(["none", "auto"]),
      walltimeMs: pick([null, 30_000]),
      waitTimeoutMs: pick([null, 60_000]),
      attended: chance(0.3),
    });
  }

  async function performSome(running: Awaited<ReturnType<typeof lookAtRuns>>): Promise<void> {
    for (let turns = isSlow ? random() * 8 : 0; turns > 1; turns--) await setImmediate();
    const command = someCommand(running);
    const key = `k${++calls}`;
    answers.set(key, { command, answer: await perform(key, command) });
  }

  return {
    async step(): Promise<void> {
      if (chance(0.3)) await clock.advance(Math.floor(random() * 20_000)).catch(() => undefined);
      if (rig.leader.status().condition === "stopped") await restart();
      const again = [...answers];
      if (again.length > 0 && chance(0.15)) {
        const [key, { command, answer }] = pick(again);
        expect(withoutEvents(await perform(key, command))).toEqual(withoutEvents(answer));
        return;
      }
      if (chance(0.25)) fault = pick(["full", "crash before", "crash after"]);
      const together = isSlow ? 1 + Math.floor(random() * 8) : 1;
      const running = await lookAtRuns();
      await Promise.all(Array.from({ length: together }, () => performSome(running)));
    },

    async check(): Promise<void> {
      expect(most).toBe(isSlow ? 2 : 1);
      fault = "none";
      if (rig.leader.status().condition === "stopped") await restart();
      await clock.advance(2_000);
      const live = await rig.leader.read(({ state }) => ({
        hash: stateHash(state),
        progress: [...state.requests.values()].map(({ spec, progress }) => ({ id: spec.id, progress })),
      }));

      const events = await allEvents(rig);
      expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
      const births = events.flatMap(({ event }) =>
        event.kind === "requestSubmitted" ? [event.spec.id] : [],
      );
      expect(new Set(births).size).toBe(births.length);
      for (const { command, answer } of answers.values()) {
        if (command.kind !== "submitRequest" || answer.outcome !== "accepted") continue;
        expect(births).toContain(command.spec.id);
        expect(await sound.getRequest(command.spec.id)).toMatchObject({
          number: births.indexOf(command.spec.id) + 1,
        });
      }
      for (const { id, progress } of live.progress) {
        const body = (await sound.getRequest(id))?.body as RequestBody | undefined;
        expect(body?.progress).toEqual(JSON.parse(JSON.stringify(progress)));
      }
      expect((await sound.verify()).damage).toEqual([]);

      await restart();
      expect(await rig.leader.read(({ state }) => stateHash(state))).toBe(live.hash);
    },
  };
}

function withoutEvents(answer: Answer): object {
  return answer.outcome === "accepted"
    ? { ...answer, events: [], replayed: true }
    : { ...answer, replayed: true };
}

async function allEvents(rig: Rig): Promise<CommittedEvent[]> {
  const events: CommittedEvent[] = [];
  for await (const message of rig.leader.events(1)) {
    if (message.kind === "reset") throw new Error("the stream was reset");
    events.push(...message.events);
    if (events.at(-1)?.seq === rig.leader.seq()) break;
  }
  return events;
}
