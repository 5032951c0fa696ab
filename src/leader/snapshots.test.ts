import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { gunzipSync, gzipSync } from "node:zlib";
import { expect, test, vi } from "vitest";
import { seededRandom } from "../../test/simulation/engine/random.ts";
import {
  createPool as createPoolOf,
  createRig,
  pool,
  request,
  spec,
  submit,
} from "../../test/simulation/rig.ts";
import { type Command, decide, type RequestSpec, snapshotOf } from "../engine/index.ts";
import { openMemoryStore, type Snapshot, type Store } from "../store/index.ts";
import { createMemory, type Memory, note } from "./memory.ts";
import { recover } from "./recovery.ts";
import { createSnapshots, isHashOf, loadSnapshot, stateHash } from "./snapshots.ts";

const noBreath = async () => undefined;

function perform(memory: Memory, command: Command, nowMs: number): void {
  const decision = decide(memory.state, command, nowMs);
  if (decision.outcome === "refused") throw new Error(decision.refusal.message);
  const firstSeq = memory.state.seq - decision.events.length + 1;
  for (const [index, event] of decision.events.entries())
    note(memory, event, { seq: firstSeq + index, atMs: nowMs });
}

/** Runs, waiters, ended requests with attempts behind them: enough for several lines. */
function someMemory(requests: number, changes: Partial<RequestSpec> = {}): Memory {
  const memory = createMemory();
  perform(memory, { kind: "createPool", name: pool("main"), capacity: { gpu: 300 } }, 1);
  perform(memory, { kind: "attachPolicy", policy: { pool: pool("main"), component: "team" as never } }, 2);
  for (let i = 0; i < requests; i++) {
    perform(
      memory,
      submit(`r${i}`, { ...changes, ...(i % 3 === 0 && { labels: { i: String(i) }, walltimeMs: 60_000 }) }),
      3,
    );
  }
  for (let i = 0; i < 40; i++) {
    const requestId = request(`r${i}`);
    const token = memory.open.get(requestId)?.token as number;
    perform(memory, { kind: "reportEnd", requestId, token, outcome: "succeeded" }, 4);
  }
  return memory;
}

/** The store never looks at the journal for a snapshot that is no further than its head. */
async function storeFor(memory: Memory): Promise<Store> {
  const store = await openMemoryStore();
  const { epoch } = await store.takeOver({ holder: "test" });
  const events = Array.from({ length: memory.state.seq }, () => ({ kind: "x" }));
  await store.commit({ epoch, expectedSeq: 0, atMs: 5, events });
  return store;
}

async function bytesOf({ pieces }: Snapshot): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

async function linesOf(snapshot: Snapshot): Promise<readonly string[]> {
  return gunzipSync(await bytesOf(snapshot))
    .toString()
    .trimEnd()
    .split("\n");
}

function contentsOf({ state, submitted, numbers, ids, attempts, open }: Memory) {
  return { hash: stateHash(state), submitted, numbers, ids, attempts, open };
}

test("what is loaded is what was saved, with everything beside the engine's state", async () => {
  const memory = someMemory(1_000);
  const store = await storeFor(memory);
  await createSnapshots(memory).save(store, { atMs: 5, breathe: noBreath });
  const snapshot = (await store.latestSnapshot()) as Snapshot;
  expect(snapshot.stateHash).toBe(stateHash(memory.state));
  expect(contentsOf(await loadSnapshot(snapshot))).toEqual(contentsOf(memory));
});

test("a snapshot is the state at its beginning, whatever happens while it is written", async () => {
  const memory = someMemory(1_000);
  const store = await storeFor(memory);
  const before = structuredClone(contentsOf(memory));

  let step = 0;
  const breathe = async () => {
    step++;
    // One that was written already, one that was not; one that ends, one that goes, one that is new.
    perform(memory, { kind: "cancelRequest", requestId: request(`r${400 + step}`) }, 5 + step);
    perform(memory, { kind: "cancelRequest", requestId: request(`r${900 - step}`) }, 5 + step);
    perform(memory, { kind: "deleteRequest", requestId: request(`r${40 - step}`) }, 5 + step);
    perform(memory, { kind: "deleteRequest", requestId: request(`r${900 - step}`) }, 5 + step);
    perform(memory, submit(`new${step}`), 5 + step);
    const requestId = request(`r${200 + step}`);
    const token = memory.open.get(requestId)?.token as number;
    perform(memory, { kind: "reportEnd", requestId, token, outcome: "failed" }, 5 + step);
  };
  await createSnapshots(memory).save(store, { atMs: 5, breathe });

  expect(step).toBeGreaterThan(4);
  expect(stateHash(memory.state)).not.toBe(before.hash);
  expect(contentsOf(await loadSnapshot((await store.latestSnapshot()) as Snapshot))).toEqual(before);
});

/** Snapshots of a memory that goes on, each against what is loaded from it. The slices of the one before are used again. */
async function saveOften(memory: Memory): Promise<void> {
  const store = await storeFor(memory);
  const { epoch } = await store.head();
  const snapshots = createSnapshots(memory);
  const random = seededRandom(5);
  let nowMs = 10;
  const change = (from: number) => {
    const live = [...memory.state.requests.values()];
    // Somewhere in a part of the order, so that the slices of others stay.
    const { spec, progress } = live[Math.min(from + random.int(0, 99), live.length - 1)] as (typeof live)[0];
    const requestId = spec.id;
    const token = memory.open.get(requestId)?.token;
    nowMs++;
    if (progress.endedAtMs !== null) return perform(memory, { kind: "deleteRequest", requestId }, nowMs);
    if (token === undefined) return perform(memory, { kind: "cancelRequest", requestId }, nowMs);
    const outcome = random.pick(["succeeded", "failed", "failed"] as const);
    perform(memory, { kind: "reportEnd", requestId, token, outcome }, nowMs);
  };
  for (let round = 0; round < 8; round++) {
    const from = random.int(0, memory.state.requests.size - 1);
    for (let i = 0; i < random.pick([0, 30, 300]); i++) change(from);
    if (random.chance(50)) perform(memory, submit(`late${round}`), nowMs++);
    const { seq } = await store.head();
    const events = Array.from({ length: memory.state.seq - seq }, () => ({ kind: "x" }));
    if (events.length > 0) await store.commit({ epoch, expectedSeq: seq, atMs: nowMs, events });

    const now = structuredClone(contentsOf(memory));
    await snapshots.save(store, { atMs: nowMs, breathe: async () => change(from) });
    const snapshot = (await store.latestSnapshot()) as Snapshot;
    expect(snapshot.stateHash, `round ${round}`).toBe(now.hash);
    expect(contentsOf(await loadSnapshot(snapshot)), `round ${round}`).toEqual(now);
  }
}

test("one snapshot after the other says what one made from nothing says", async () => {
  await saveOften(someMemory(3_000, { retriesMax: 3 }));
});

test("it would be noticed if a slice were used again in which something has changed", async () => {
  const memory = someMemory(3_000);
  memory.state.undo.watch = () => () => undefined;
  await expect(saveOften(memory)).rejects.toThrow(/round/);
});

test("a slice that has not changed is stored with the same bytes, and read back all the same", async () => {
  const memory = someMemory(3_000);
  const sound = await storeFor(memory);
  let isDamaged = false;
  const damaged: Store = {
    ...sound,
    async latestSnapshot() {
      const snapshot = (await sound.latestSnapshot()) as Snapshot;
      const whole = await bytesOf(snapshot);
      if (isDamaged) whole[whole.length >> 1]! ^= 1;
      return { ...snapshot, pieces: Readable.from([whole]) };
    },
  };
  const bytes = async () => bytesOf((await sound.latestSnapshot()) as Snapshot);
  const snapshots = createSnapshots(memory);
  await snapshots.save(damaged, { atMs: 5, breathe: noBreath });
  const first = await bytes();
  await snapshots.save(damaged, { atMs: 5, breathe: noBreath });
  expect(await bytes()).toEqual(first);
  isDamaged = true;
  await expect(snapshots.save(damaged, { atMs: 5, breathe: noBreath })).rejects.toThrow();
});

test("a snapshot that servers of the first form of events can read says so, and has the hash that they know (C12)", async () => {
  const memory = someMemory(450);
  const store = await storeFor(memory);
  const snapshots = createSnapshots(memory);
  const { requests, ...frame } = snapshotOf(memory.state);
  for (const [eventForm, form] of [
    [1, 2],
    [2, 3],
  ] as const) {
    await snapshots.save(store, { atMs: 5, breathe: noBreath, eventForm });
    const snapshot = (await store.latestSnapshot()) as Snapshot;
    const [header, ...lines] = await linesOf((await store.latestSnapshot()) as Snapshot);
    expect(JSON.parse(header as string).v).toBe(form);
    const said = [JSON.stringify(frame), ...lines.filter((_, i) => i % 2 === 0)].map((line) => `${line}\n`);
    const hash = createHash("sha256").update(said.join("")).digest("hex");
    if (form === 2) expect(snapshot.stateHash).toBe(hash);
    else expect(snapshot.stateHash).toBe(stateHash(memory.state));
    if (form === 2) expect(said).toHaveLength(1 + Math.ceil(requests.length / 200));
    expect(isHashOf(snapshot.stateHash, memory.state)).toBe(true);
    expect(contentsOf(await loadSnapshot(snapshot))).toEqual(contentsOf(memory));
  }
  expect(isHashOf(stateHash(createMemory().state), memory.state)).toBe(false);
});

test("an empty list of reasons is not the absence of one", async () => {
  const memory = someMemory(50);
  const progress = memory.state.requests.get(request("r45"))?.progress;
  Object.assign(progress as object, { rejection: [] });
  const store = await storeFor(memory);
  await createSnapshots(memory).save(store, { atMs: 5, breathe: noBreath });
  const { state } = await loadSnapshot((await store.latestSnapshot()) as Snapshot);
  expect(state.requests.get(request("r45"))?.progress.rejection).toEqual([]);
});

test("a field that blank records do not know is kept", async () => {
  const memory = someMemory(50);
  const record = memory.state.requests.get(request("r45"));
  Object.assign(record?.spec as object, { fresh: "spec" });
  Object.assign(record?.progress as object, { fresh: "progress" });
  const store = await storeFor(memory);
  await createSnapshots(memory).save(store, { atMs: 5, breathe: noBreath });
  const { state } = await loadSnapshot((await store.latestSnapshot()) as Snapshot);
  const { spec, progress } = state.requests.get(request("r45")) ?? {};
  expect({ spec, progress }).toMatchObject({ spec: { fresh: "spec" }, progress: { fresh: "progress" } });
});

test("the first form, one object without lines, is still read", async () => {
  const memory = someMemory(300);
  const engine = snapshotOf(memory.state);
  const text = JSON.stringify({
    ...{ v: 1, engine, submitted: memory.submitted, attempts: [...memory.attempts] },
    numbers: engine.requests.map(({ spec }) => memory.numbers.get(spec.id)),
  });
  const pieces = (async function* () {
    yield gzipSync(text);
  })();
  const loaded = await loadSnapshot({ seq: memory.state.seq, pieces });
  expect(contentsOf(loaded)).toEqual(contentsOf(memory));
});

test("a form that this version does not know is named", async () => {
  const pieces = (async function* () {
    yield gzipSync('{"v":4}\n');
  })();
  await expect(loadSnapshot({ seq: 1, pieces })).rejects.toMatchObject({
    code: "newer_version",
  });
});

test("a snapshot that cannot be read gives way to the one before it, and to the journal", async () => {
  const rig = await createRig();
  await createPoolOf(rig);
  await rig.do(submit("a"));
  const { seq } = await rig.store.head();
  const unreadable = async (at: number) =>
    rig.store.saveSnapshot({
      ...{ seq: at, atMs: 1, stateHash: () => "h" },
      pieces: (async function* () {
        yield gzipSync('{"v":2,');
      })(),
    });
  await unreadable(seq);
  const { memory, snapshotSeq } = await recover(rig.store, await rig.store.head());
  expect(snapshotSeq).toBe(0);
  expect(stateHash(memory.state)).toBe(await rig.leader.read(({ state }) => stateHash(state)));
});

test("a snapshot that is not there when it is read back is reported", async () => {
  const memory = someMemory(50);
  const sound = await storeFor(memory);
  const store: Store = { ...sound, latestSnapshot: async () => undefined };
  await expect(createSnapshots(memory).save(store, { atMs: 5, breathe: noBreath })).rejects.toMatchObject({
    code: "corrupt",
  });
});

test("a snapshot is taken when the newest one is old, though little has happened since", async () => {
  const rig = await createRig({ settings: { snapshotEveryMs: 60_000 } });
  await rig.do(submit("a", spec("a")));
  await rig.clock.advance(50_000);
  expect(rig.leader.status().snapshotSeq).toBe(0);
  await rig.clock.advance(20_000);
  await vi.waitFor(() => expect(rig.leader.status().snapshotSeq).toBe(rig.leader.seq()), { interval: 1 });
});

test("after a long replay a snapshot is taken at once, so that the next start is short", async () => {
  const settings = { snapshotEveryEvents: 50, snapshotEveryMs: 3_600_000 };
  const first = await createRig({ settings: { ...settings, snapshotEveryEvents: 1_000 } });
  await createPoolOf(first);
  for (let i = 0; i < 200; i++) await first.do(submit(`r${i}`));
  const { seq } = await first.store.head();

  const second = await createRig({ store: first.store, settings });
  expect(second.leader.status().recovery.events).toBe(seq);
  await second.clock.advance(6_000);
  await vi.waitFor(() => expect(second.leader.status().snapshotSeq).toBe(seq), { interval: 1 });
});

test("the more requests are live, the rarer the snapshots: not before as many events as there are requests", async () => {
  const rig = await createRig({ settings: { snapshotEveryEvents: 10, snapshotEveryMs: 3_600_000 } });
  await createPoolOf(rig, { gpu: 1 });
  const saved = new Map([[0, 0]]); // Position in the journal, and how many requests there were.
  for (let i = 1; i <= 400; i++) {
    await rig.do(submit(`r${i}`)); // One event each; all but the first one wait.
    const { snapshotSeq } = rig.leader.status();
    if (!saved.has(snapshotSeq)) saved.set(snapshotSeq, snapshotSeq - (rig.leader.seq() - i));
  }
  const seqs = [...saved.keys()];
  await vi.waitFor(() => expect(rig.leader.status().snapshotSeq).toBeGreaterThan(0), { timeout: 60_000 });
  for (const [i, seq] of seqs.slice(1).entries()) {
    expect(seq - (seqs[i] as number)).toBeGreaterThanOrEqual(Math.max(10, saved.get(seq) as number));
  }
});
