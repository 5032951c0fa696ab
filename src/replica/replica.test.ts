// Several servers of one store in one process, with a clock that only moves when the test moves it.

import { afterEach, expect, test, vi } from "vitest";
import { createFakeClock, type FakeClock } from "../../test/simulation/rig.ts";
import {
  type ComponentName,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
  type RequestSpec,
} from "../engine/index.ts";
import { type LeaderSettings, NEWEST_FORM } from "../leader/index.ts";
import { type News, openMemoryStore, type Store, StoreError } from "../store/index.ts";
import { type Replica, startReplica } from "./index.ts";
import { createMembership } from "./members.ts";

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

interface Server {
  readonly replica: Replica;
  readonly fatal: unknown[];
  /** Its way to the database is cut, or falls silent, and is mended. */
  cut(isCut: boolean | "silent"): void;
}

const open: Replica[] = [];
afterEach(async () => {
  await Promise.allSettled(open.splice(0).map((replica) => replica.close()));
});

async function serve(
  store: Store,
  clock: FakeClock,
  id: string,
  settings: Partial<LeaderSettings> = {},
): Promise<Server> {
  let isCut: boolean | "silent" = false;
  const fatal: unknown[] = [];
  const reached = new Proxy(store, {
    get(target, name, receiver) {
      const value = Reflect.get(target, name, receiver) as unknown;
      if (typeof value !== "function" || name === "hasRoom") return value;
      return (...args: unknown[]) => {
        if (isCut === "silent") return new Promise(() => undefined);
        return isCut
          ? Promise.reject(new StoreError("unavailable", "cut off"))
          : (value as (...given: unknown[]) => unknown).apply(target, args);
      };
    },
  });
  const replica = await startReplica({
    ...{ store: reached, clock, version: "1", url: () => `http://${id}` },
    settings: { holder: id, ...settings },
    onFatal: (error) => fatal.push(error),
  });
  open.push(replica);
  return {
    ...{ replica, fatal },
    cut(next) {
      isCut = next;
    },
  };
}

const createPool = (replica: Replica, name: string) =>
  replica.perform(
    { kind: "createPool", name: name as PoolName, capacity: { gpu: 1 }, settings: {} },
    { actor: "ann" },
  );
const pools = (replica: Replica) => replica.read(({ state }) => [...state.pools.keys()]);

test("the first one leads; a later one follows and reads what is committed", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const [a, b] = [await serve(store, clock, "a"), await serve(store, clock, "b")];
  expect([a.replica.role(), b.replica.role()]).toEqual(["leader", "follower"]);
  await createPool(a.replica, "p");
  await clock.advance(200);
  expect(await pools(b.replica)).toEqual(["p"]);
  await expect(createPool(b.replica, "q")).rejects.toMatchObject({ code: "not_leader" });
  expect(b.replica.leaderUrl()).toBe("http://a");
  await clock.advance(30_000);
  expect([a.replica.role(), b.replica.role()]).toEqual(["leader", "follower"]);
});

test("a leader that is cut off steps down after 5 s and another leads after 8 s; then it follows", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const [a, b] = [await serve(store, clock, "a"), await serve(store, clock, "b")];
  await createPool(a.replica, "p");
  await clock.advance(1_000);
  a.cut(true);
  await clock.advance(4_500);
  expect(b.replica.role()).toBe("follower");
  await clock.advance(1_000);
  expect(a.replica.role()).toBe("follower"); // It knows that it cannot know.
  await clock.advance(4_000);
  expect(b.replica.role()).toBe("leader");
  await createPool(b.replica, "q");
  a.cut(false);
  await clock.advance(2_000);
  expect([a.replica.role(), await pools(a.replica)]).toEqual(["follower", ["p", "q"]]);
  expect(a.replica.leaderUrl()).toBe("http://b");
  expect([...a.fatal, ...b.fatal]).toEqual([]);
});

test("the database is away for a minute: nobody is elected, and the same server goes on", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const [a, b] = [await serve(store, clock, "a"), await serve(store, clock, "b")];
  const epoch = a.replica.epoch();
  for (const server of [a, b]) server.cut(true);
  await clock.advance(60_000);
  expect([a.replica.role(), b.replica.role()]).toEqual(["follower", "follower"]);
  expect(b.replica.status().condition).toBe("read_only"); // Over 10 s behind (C8).
  expect(b.replica.behindMs()).toBeGreaterThan(59_000);
  for (const server of [a, b]) server.cut(false);
  await clock.advance(2_000);
  expect([a.replica.role(), b.replica.role()].toSorted()).toEqual(["follower", "leader"]);
  expect(a.replica.epoch()).toBe(epoch + 1);
  expect(b.replica.status().condition).not.toBe("read_only");
});

test("a read that waits for a commit on its way to a silent database is answered or refused in time (C14)", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const a = await serve(store, clock, "a");
  await createPool(a.replica, "p");
  a.cut("silent");
  createPool(a.replica, "q").catch(() => undefined);
  await clock.advance(100);
  let isOver = false;
  void pools(a.replica)
    .catch(() => undefined)
    .then(() => {
      isOver = true;
    });
  await clock.advance(6_500);
  expect(isOver).toBe(true);
  a.cut(false);
});

test("answers of a leader wait while it is not sure, and are not given once it has stepped down", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const [a] = [await serve(store, clock, "a"), await serve(store, clock, "b")];
  await createPool(a.replica, "p");
  a.cut(true);
  await clock.advance(2_000);
  expect(a.replica.status().condition).toBe("read_only");
  let shown: unknown;
  void a.replica.untilSure().then(
    () => (shown = "sure"),
    (error: { code: string }) => (shown = error.code),
  );
  await clock.advance(1_000);
  expect(shown).toBeUndefined();
  await clock.advance(4_000);
  expect(shown).toBe("not_leader");
});

test("a frozen leader says nothing when it thaws, before any of its timers", async () => {
  const store = await openMemoryStore();
  const [hers, ours] = [createFakeClock(), createFakeClock()];
  const [a, b] = [await serve(store, hers, "a"), await serve(store, ours, "b")];
  await createPool(a.replica, "p");
  await ours.advance(10_000); // Hers stands: it is frozen.
  expect(b.replica.role()).toBe("leader");
  await createPool(b.replica, "q");
  hers.freeze(10_000);
  let shown: unknown = "nothing";
  void pools(a.replica).then((names) => (shown = names));
  await new Promise((resolve) => setImmediate(resolve));
  expect(shown).toBe("nothing");
  await hers.advance(1_000);
  expect(shown).toEqual(["p", "q"]); // As a follower.
});

test("a planned handover goes to the server that was chosen", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const [a, b, c] = [
    await serve(store, clock, "a"),
    await serve(store, clock, "b"),
    await serve(store, clock, "c"),
  ];
  await a.replica.handOver("c");
  await clock.advance(500);
  expect([a, b, c].map(({ replica }) => replica.role())).toEqual(["follower", "follower", "leader"]);
});

test("a server that handed over a moment ago leads again when the next one hands over (C4)", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const [a, b] = [await serve(store, clock, "a"), await serve(store, clock, "b")];
  await a.replica.handOver();
  await clock.advance(500);
  await b.replica.handOver();
  await clock.advance(500);
  expect([a, b].map(({ replica }) => replica.role())).toEqual(["leader", "follower"]);
});

test("a lease that is released is tried as soon as that is heard of (C4)", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const listeners = new Set<(news: News) => void>();
  const withNews: Store = {
    ...store,
    onNews(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const [a, b] = [await serve(withNews, clock, "a"), await serve(withNews, clock, "b")];
  await clock.advance(1_000);
  await a.replica.handOver();
  for (const hear of listeners) hear("lease");
  await clock.advance(0);
  expect(b.replica.role()).toBe("leader");
});

test("a handover to a server that has died: another one leads when the time is over", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const [a, b] = [await serve(store, clock, "a"), await serve(store, clock, "b")];
  await a.replica.handOver("c");
  await clock.advance(7_000);
  expect([a, b].map(({ replica }) => replica.role())).toEqual(["follower", "follower"]);
  await clock.advance(3_000);
  expect([a, b].map(({ replica }) => replica.role()).toSorted()).toEqual(["follower", "leader"]);
});

test("a server that ends in order is no member any more, and the next one leads at once", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const [a, b] = [await serve(store, clock, "a"), await serve(store, clock, "b")];
  await a.replica.close();
  await clock.advance(500);
  expect(b.replica.role()).toBe("leader");
  expect((await b.replica.cluster()).members.map(({ id }) => id)).toEqual(["b"]);
  expect(b.replica.leaderChanges()).toBe(1);
});

test("a lease is given back when leading could not begin: nobody keeps it without leading", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const a = await serve(store, clock, "a");
  const b = await serve(store, clock, "b");
  await a.replica.close();
  // Its way is cut between taking over and the first commit.
  const takeOver = store.takeOver;
  store.takeOver = async (wanted) => {
    const head = await takeOver(wanted);
    b.cut(true);
    return head;
  };
  await clock.advance(500);
  store.takeOver = takeOver;
  expect(b.replica.role()).toBe("follower");
  const { renewals } = await store.lease();
  b.cut(false);
  await clock.advance(150);
  expect((await store.lease()).renewals - renewals).toBeLessThanOrEqual(0);
  await clock.advance(5_000);
  expect(b.replica.role()).toBe("leader");
  await b.replica.perform(
    { kind: "createPool", name: "p" as PoolName, capacity: { gpu: 1 }, settings: {} },
    { actor: "ann" },
  );
  expect(await b.replica.read(({ state }) => state.components.get("x" as ComponentName))).toBeUndefined();
});

test("a follower whose state is not that of the leader's snapshots ends with an alert (C7)", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const settings = { snapshotEveryEvents: 2 };
  const [a, b] = [await serve(store, clock, "a", settings), await serve(store, clock, "b", settings)];
  for (const name of ["p", "q", "r"]) await createPool(a.replica, name);
  await vi.waitFor(async () => expect(await store.latestSnapshot()).toBeDefined(), { timeout: 30_000 });
  for (let times = 0; times < 5; times++) await clock.advance(31_000);
  expect(b.fatal).toEqual([]);
  await b.replica.read(({ state }) => {
    Object.assign(state.pools.get("q" as PoolName)?.record ?? {}, { description: "changed in memory" });
  });
  for (const name of ["s", "t"]) await createPool(a.replica, name);
  await vi.waitFor(
    async () => {
      await clock.advance(31_000);
      expect(b.fatal).toContainEqual(expect.objectContaining({ code: "corrupt" }));
    },
    { timeout: 30_000 },
  );
  expect(a.fatal).toEqual([]);
});

test("while an older server is part of the cluster nothing is written that it cannot read (C12)", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const old = { id: "old", url: null, version: "0", eventForm: 1, seq: 0 };
  await store.beat(old);
  const a = await serve(store, clock, "a");
  await createPool(a.replica, "p");
  const component = "team" as ComponentName;
  const policy = { pool: "p" as PoolName, component };
  await a.replica.perform({ kind: "attachPolicy", policy }, { actor: "ann" });
  const submit = (id: string, more: Partial<RequestSpec>) =>
    a.replica.perform(
      {
        kind: "submitRequest",
        spec: { ...PLAIN_REQUEST, id: id as RequestId, component, resources: { gpu: 1 }, ...more },
      },
      { actor: "ann", idempotency: { scope: "ann", key: id, bodyHash: id } },
    );
  const first = { requestId: "first" as RequestId, when: "any" } as const;
  const news: Record<string, Partial<RequestSpec>> = {
    job: { isJob: true },
    dependent: { after: [first] },
    member: { array: { index: 0, atOnce: null }, operation: "o" },
  };
  expect(await submit("first", {})).toMatchObject({ outcome: "accepted" });
  for (const [id, more] of Object.entries(news))
    expect(await submit(id, more)).toMatchObject({ refusal: { code: "mixed_versions" } });
  const forms = async () =>
    (await store.readEvents(1, 100)).map(({ event }) => (event as { readonly v?: number }).v);
  expect(new Set(await forms())).toEqual(new Set([1]));

  await store.beat({ ...old, eventForm: NEWEST_FORM }); // As if it had been away for a minute.
  await clock.advance(2_000);
  for (const [id, more] of Object.entries(news))
    expect(await submit(id, more)).toMatchObject({ outcome: "accepted" }); // The refusal was not kept with the key.
  expect((await forms()).at(-1)).toBe(2);
  expect(a.fatal).toEqual([]);
});

test("a new form of events is written only when all servers of the last minute can read it (C12)", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const forms: number[] = [];
  const membership = createMembership(
    {
      ...{ id: "new", clock, store, log: quiet, stream: { seq: 0 } },
    } as unknown as Parameters<typeof createMembership>[0],
    { url: () => null, version: "2", seq: () => 0 },
  );
  const note = async () => {
    await membership.beat();
    forms.push(membership.eventForm());
  };
  const old = { id: "old", url: null, version: "1", eventForm: NEWEST_FORM - 1, seq: 0 };
  await store.beat(old);
  await note();
  await store.leave("old"); // It may come back: the upgrade can still be taken back.
  await note();
  expect((await membership.list()).map(({ id }) => id)).toEqual(["new"]);
  await store.beat({ ...old, eventForm: NEWEST_FORM }); // As if a minute had passed.
  await note();
  await store.beat(old); // Too late: what was written it cannot read.
  await note();
  expect(forms).toEqual([1, 1, NEWEST_FORM, NEWEST_FORM]);
});
