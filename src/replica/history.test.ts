// A database that has lost its end: real stores, one of them the older copy of the other.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { createFakeClock } from "../../test/simulation/rig.ts";
import type { PoolName } from "../engine/index.ts";
import { backupSqlite, openSqliteStore, type Store } from "../store/index.ts";
import { type Replica, startReplica } from "./index.ts";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close().catch(() => undefined);
});

/** Servers on a store that can be exchanged for an older copy under their hands. */
async function rig() {
  const directory = await mkdtemp(join(tmpdir(), "berth-history-"));
  closing.push(() => rm(directory, { recursive: true, force: true }));
  const file = join(directory, "a.db");
  let current = await openSqliteStore({ path: file });
  let origin = "1/1";
  let beforeHistory: Promise<void> = Promise.resolve();
  const opened = [current];
  closing.push(() => Promise.all(opened.map((store) => store.close())));
  const store = new Proxy({} as Store, {
    get(_, name) {
      if (name === "origin") return async () => ({ ...(await current.origin()), now: origin });
      if (name === "beginHistory") return () => beforeHistory.then(() => current.beginHistory());
      return Reflect.get(current, name) as unknown;
    },
  });
  const clock = createFakeClock();
  return {
    clock,
    store,
    async serve(id: string): Promise<Replica> {
      const replica = await startReplica({
        ...{ store, clock, version: "1", url: () => null, settings: { holder: id } },
        onFatal: (error) => expect(error).toBeUndefined(),
      });
      closing.push(() => replica.close());
      return replica;
    },
    async copy() {
      await backupSqlite({ from: file, to: join(directory, "b.db") });
    },
    async promoteCopy() {
      current = await openSqliteStore({ path: join(directory, "b.db") });
      opened.push(current);
      origin = "1/2";
    },
    promoteWhole() {
      origin = "1/2";
    },
    /** No other history begins until the function that it returns is called. */
    holdHistory(): () => void {
      let letGo = () => {};
      beforeHistory = new Promise((resolve) => {
        letGo = resolve;
      });
      return letGo;
    },
  };
}

const createPool = (replica: Replica, name: string) =>
  replica.perform(
    { kind: "createPool", name: name as PoolName, capacity: { gpu: 1 }, settings: {} },
    { actor: "ann" },
  );
const pools = (replica: Replica) => replica.read(({ state }) => [...state.pools.keys()]);

/** What a reader gets that has seen everything so far. */
function readFrom(replica: Replica): string[] {
  const over = new AbortController();
  const seen: string[] = [];
  const read = async () => {
    for await (const message of replica.events(replica.seq() + 1, over.signal)) {
      if (message.kind === "reset") seen.push(`reset to ${message.seq}`);
      else for (const { seq, event } of message.events) seen.push(`${event.kind} at ${seq}`);
    }
  };
  closing.push(async () => over.abort());
  void read();
  return seen;
}

async function alertsOf(store: Store): Promise<unknown[]> {
  const { items } = await store.listAudit({ limit: 50 });
  return items.filter(({ action }) => action === "history_lost").map(({ body }) => body);
}

test("a database that has lost its end: reported exactly, in a new history above every known epoch", async () => {
  const { clock, store, serve, copy, promoteCopy } = await rig();
  const [a, b] = [await serve("a"), await serve("b")];
  await createPool(a, "p");
  await copy();
  await createPool(a, "q");
  await createPool(a, "r");
  await clock.advance(1_000);
  const [epoch, incarnation, keys] = [a.epoch(), store.meta.incarnation, a.grantKeys.length];
  const begun: string[] = [];
  for (const replica of [a, b]) replica.onHistory(() => begun.push(replica.id));
  const readings = [a, b].map(readFrom);

  await promoteCopy();
  await clock.advance(15_000);
  expect([a.role(), b.role()].toSorted()).toEqual(["follower", "leader"]);
  for (const replica of [a, b]) expect(await pools(replica)).toEqual(["p"]);
  expect(await alertsOf(store)).toEqual([{ lost_from: 2, lost_to: 3, epoch, why: expect.any(String) }]);
  expect(a.epoch()).toBeGreaterThan(epoch);
  expect(store.meta.incarnation).not.toBe(incarnation);
  expect(begun.toSorted()).toEqual(["a", "b"]);
  for (const replica of [a, b]) expect(replica.grantKeys).toHaveLength(keys + 1);
  expect(a.grantKeys.at(-1)).toMatchObject({ fromSeq: 2, isAfterLoss: true });
  const leader = a.role() === "leader" ? a : b;
  await createPool(leader, "s");
  await clock.advance(1_000);
  for (const replica of [a, b]) expect(await pools(replica)).toEqual(["p", "s"]);
  expect(a.historyLosses() + b.historyLosses()).toBe(1);
  for (const seen of readings) {
    expect(seen[0]).toBe("reset to 1");
    expect(seen.at(-1)).toBe("poolSet at 2");
    expect(seen.filter((what) => !what.startsWith("reset"))).toHaveLength(1);
  }
});

test("a follower that sees the new leader before another history begins hears of it all the same", async () => {
  const { clock, serve, promoteWhole, holdHistory } = await rig();
  const [a, b] = [await serve("a"), await serve("b")];
  await createPool(a, "p");
  await clock.advance(1_000);
  const seen = readFrom(a);
  const keys = a.grantKeys.length;
  promoteWhole();
  const letGo = holdHistory();
  await a.handOver();
  const epoch = a.epoch();
  await clock.advance(2_000);
  expect(a.epoch()).toBeGreaterThan(epoch); // It has seen that b has taken over.
  letGo();
  await clock.advance(2_000);
  expect(b.role()).toBe("leader");
  expect(a.grantKeys).toHaveLength(keys + 1);
  await createPool(b, "q");
  await clock.advance(1_000);
  expect(seen).toEqual(["reset to 1", "poolSet at 2"]);
});

test("a promotion that lost nothing is reported as well: nobody can know", async () => {
  const { clock, store, serve, promoteWhole } = await rig();
  const [a, b] = [await serve("a"), await serve("b")];
  await createPool(a, "p");
  promoteWhole();
  await a.handOver();
  await clock.advance(15_000);
  expect(b.role()).toBe("leader");
  expect(await alertsOf(store)).toEqual([
    { lost_from: 2, lost_to: 1, epoch: expect.any(Number), why: expect.stringContaining("promoted") },
  ]);
  await b.handOver(); // Once is enough.
  await clock.advance(15_000);
  expect(await alertsOf(store)).toHaveLength(1);
});

test("all servers were started anew, and only a client knows: the leader learns of it from the client", async () => {
  const { clock, store, serve, copy, promoteCopy } = await rig();
  const first = await serve("first");
  await createPool(first, "p");
  await copy();
  await createPool(first, "q");
  const known = { seq: first.seq(), epoch: first.epoch() + 7 };
  await first.close();
  await promoteCopy();
  const a = await serve("a");
  await clock.advance(10_000);
  const alerts = (await alertsOf(store)).length; // Of the other timeline.
  await a.loseHistory(known, "A client has seen event 2.");
  await clock.advance(5_000);
  expect(a.role()).toBe("leader");
  expect(a.epoch()).toBeGreaterThan(known.epoch);
  const [latest] = await alertsOf(store);
  expect(latest).toEqual({ lost_from: 2, lost_to: 2, epoch: known.epoch, why: "A client has seen event 2." });
  expect(await alertsOf(store)).toHaveLength(alerts + 1);
});
