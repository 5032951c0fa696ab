// The store in a real PostgreSQL: the contract, and what is true of a shared database only.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { crc32 } from "node:zlib";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { openPostgresStore, type PostgresOptions, type Store } from "../../src/store/index.ts";
import { startPostgres, type TestPostgres } from "../support/postgres.ts";
import { startTcpProxy } from "../support/proxy.ts";
import { auditEntry, event, expectCode, type StoreHarness, storeContract } from "./store.contract.ts";

let postgres: TestPostgres;

storeContract("postgres", {
  isDurable: true,
  start: async () => {
    postgres = await startPostgres({ fsync: "off" }); // Nobody cuts the power here.
  },
  stop: () => postgres.remove(),
  create: async () => {
    const schema = `test-${randomUUID()}`;
    const harness: StoreHarness = {
      open: () => openPostgresStore({ url: postgres.url, schema, acceptUnsafeDatabase: true }),
      tamper: async (sql) => {
        const client = new pg.Client({ connectionString: postgres.url, options: `-c search_path=${schema}` });
        await client.connect();
        await client.query(sql);
        await client.end();
      },
    };
    return harness;
  },
  destroy: async () => undefined, // It goes with the server.
});

describe("a shared database", () => {
  let shared: TestPostgres;
  beforeAll(async () => {
    shared = await startPostgres();
  });
  afterAll(() => shared.remove());

  async function open(options: Partial<PostgresOptions> & { schema: string }): Promise<Store> {
    const store = await openPostgresStore({ url: shared.url, ...options });
    onTestFinished(() => store.close());
    return store;
  }

  test("servers that start together agree on one cluster", async () => {
    const schema = randomUUID();
    const stores = await Promise.all([1, 2, 3].map(() => open({ schema })));
    expect(new Set(stores.map(({ meta }) => meta.clusterId)).size).toBe(1);
  });

  test("whoever led before writes nothing, however much it believes", async () => {
    const schema = randomUUID();
    const [first, second] = [await open({ schema }), await open({ schema })];
    const old = await first.takeOver({ holder: "first" });
    const mark = await first.commit({ epoch: old.epoch, expectedSeq: 0, atMs: 1, events: [event("a")] });
    const now = await second.takeOver({ holder: "second" });
    await expectCode(
      first.commit({
        epoch: old.epoch,
        expectedSeq: 1,
        atMs: 2,
        events: [event("b")],
        audit: [auditEntry("eve")],
      }),
      "fenced",
    );
    await expectCode(
      first.commit({ epoch: old.epoch, expectedSeq: 1, atMs: 2, audit: [auditEntry("eve")] }),
      "fenced",
    );
    expect(await second.head()).toEqual({ ...mark, epoch: now.epoch });
    const next = await second.commit({ epoch: now.epoch, expectedSeq: 1, atMs: 2, events: [event("c")] });
    expect(next.seq).toBe(2);
    expect((await second.verify()).damage).toEqual([]);
  });

  test("servers hear of each other's commits, also of those without events, until they stop listening", async () => {
    const schema = randomUUID();
    const [writer, listener] = [await open({ schema }), await open({ schema })];
    const { epoch } = await writer.takeOver({ holder: "writer" });
    let heard = 0;
    let heardOfLease = 0;
    const stop = listener.onNews?.((news) => (news === "lease" ? heardOfLease++ : heard++));
    let seq = 0;
    // Until the other connection listens, nobody hears.
    await vi.waitFor(
      async () => {
        seq = (await writer.commit({ epoch, expectedSeq: seq, atMs: 1, events: [event("a")] })).seq;
        expect(heard).toBeGreaterThan(0);
      },
      { timeout: 20_000 },
    );
    const before = heard;
    await writer.commit({ epoch, expectedSeq: seq, atMs: 1, audit: [auditEntry("ann")] });
    await vi.waitFor(() => expect(heard).toBeGreaterThan(before), { timeout: 20_000 });
    await writer.releaseLease(epoch); // A follower tries at once (C4).
    await vi.waitFor(() => expect(heardOfLease).toBe(1), { timeout: 20_000 });
    await writer.takeOver({ holder: "writer" });
    await vi.waitFor(() => expect(heardOfLease).toBe(2), { timeout: 20_000 });
    stop?.();
  });

  test("a direct connection has a lock as a hint, one through a pooler has none (C4)", async () => {
    const schema = randomUUID();
    const direct = await open({ schema });
    expect(await direct.hint?.acquire()).toBe(true);
    expect([direct.hint?.isHeld, direct.hint?.path]).toEqual([true, "direct"]);
    const { url } = await startProxy(shared.url, { isPooler: true });
    const pooled = await open({ schema, url });
    expect(await pooled.hint?.acquire()).toBe(false);
    expect([pooled.hint?.isHeld, pooled.hint?.path]).toEqual([false, "pooler"]);
  });

  test("a released lease can be offered to one server, and is renewed by nobody", async () => {
    const store = await open({ schema: randomUUID() });
    const { epoch } = await store.takeOver({ holder: "first" });
    await store.releaseLease(epoch, "second");
    expect(await store.lease()).toEqual({ epoch, holder: null, renewals: 0, offeredTo: "second" });
    expect(await store.renewLease(epoch)).toBe(false);
  });

  test("a server may use a store that was brought up to date by a later version, if that one says so (C12)", async () => {
    const schema = randomUUID();
    const store = await open({ schema });
    const { epoch } = await store.takeOver({ holder: "old" });
    const later = store.meta.schemaVersion + 1;
    const client = new pg.Client({ connectionString: shared.url, options: `-c search_path="${schema}"` });
    await client.connect();
    onTestFinished(() => client.end());
    // What the later version does: it adds something, and seals its version.
    await client.query("alter table members add column shoe_size bigint");
    const { clusterId, incarnation } = store.meta;
    const checksum = crc32([later, clusterId, incarnation].join(" "));
    await client.query("update meta set value = $1 where key = 'schema_version'", [later]);
    await client.query("update meta set value = $1 where key = 'checksum'", [checksum]);

    await store.commit({ epoch, expectedSeq: 0, atMs: 1, events: [event("a")] }); // One that runs already.
    const again = await open({ schema });
    expect(again.meta.schemaVersion).toBe(later);
    await again.beat({ id: "old", url: null, version: "1", eventForm: 1, seq: 1 });
    await client.query("update meta set value = $1 where key = 'usable_by'", [later]);
    await expectCode(openPostgresStore({ url: shared.url, schema }), "newer_version");
  });

  test("two writers of one epoch cannot both append", async () => {
    const schema = randomUUID();
    const [first, twin] = [await open({ schema }), await open({ schema })];
    const { epoch } = await first.takeOver({ holder: "first" });
    await first.commit({ epoch, expectedSeq: 0, atMs: 1, events: [event("a")] });
    await twin.commit({ epoch, expectedSeq: 1, atMs: 1, audit: [auditEntry("twin")] });
    await expectCode(first.commit({ epoch, expectedSeq: 1, atMs: 2, events: [event("b")] }), "fenced");
    expect((await twin.verify()).damage).toEqual([]);
  });

  const losses: Record<string, { lose: Loss; changes: object }> = {
    "the answer to a commit is lost: it was made, once": {
      lose: "answer",
      changes: { events: [event("a")] },
    },
    "the commit itself is lost: it is made, once": { lose: "question", changes: { events: [event("a")] } },
    "the answer to a commit without events is lost: it was made, once": {
      lose: "answer",
      changes: { audit: [auditEntry("ann")] },
    },
  };
  for (const [name, { lose, changes }] of Object.entries(losses)) {
    test(name, async () => {
      const proxy = await startProxy(shared.url);
      const store = await open({ url: proxy.url, schema: randomUUID() });
      const { epoch } = await store.takeOver({ holder: "first" });
      proxy.loseNext(lose);
      const head = await store.commit({ epoch, expectedSeq: 0, atMs: 1, ...changes });
      expect(proxy.lost()).toBe(1);
      expect(await store.head()).toEqual(head);
      const next = await store.commit({ epoch, expectedSeq: head.seq, atMs: 2, events: [event("b")] });
      expect(next.seq).toBe(head.seq + 1);
      expect((await store.verify()).damage).toEqual([]);
    });
  }

  for (const lose of ["answer", "question"] as const) {
    test(`the ${lose} of a commit is lost while the next one is on its way: both are made, once`, async () => {
      const proxy = await startProxy(shared.url);
      const store = await open({ url: proxy.url, schema: randomUUID() });
      const { epoch } = await store.takeOver({ holder: "first" });
      proxy.loseNext(lose);
      const heads = await Promise.all([
        store.commit({ epoch, expectedSeq: 0, atMs: 1, events: [event("a")] }),
        store.commit({ epoch, expectedSeq: 1, atMs: 1, events: [event("b")], audit: [auditEntry("ann")] }),
      ]);
      expect(proxy.lost()).toBe(1);
      expect(heads.map(({ seq }) => seq)).toEqual([1, 2]);
      expect(await store.head()).toEqual(heads[1]);
      const events = await store.readEvents(1, 10);
      expect(events.map((each) => each.event)).toEqual([event("a"), event("b")]);
      expect((await store.verify()).damage).toEqual([]);
    });
  }

  test("a commit that had to wait too long is made again, and the one on its way after it", async () => {
    const schema = randomUUID();
    const store = await open({ schema });
    const { epoch } = await store.takeOver({ holder: "first" });
    const holder = new pg.Client({ connectionString: shared.url });
    await holder.connect();
    onTestFinished(() => holder.end());
    await holder.query("begin");
    await holder.query(`select 1 from "${schema}".head for update`);
    const commits = [0, 1].map((expectedSeq) =>
      store.commit({ epoch, expectedSeq, atMs: 1, events: [event(String(expectedSeq))] }),
    );
    const untilWaiting = (count: number) =>
      vi.waitFor(
        async () => {
          const { rows } = await holder.query("select 1 from pg_locks where not granted");
          expect(rows).toHaveLength(count);
        },
        { timeout: 10_000, interval: 5 },
      );
    await untilWaiting(1);
    await untilWaiting(0); // The first one has given up.
    await holder.query("rollback");
    expect((await Promise.all(commits)).map(({ seq }) => seq)).toEqual([1, 2]);
    expect((await store.verify()).damage).toEqual([]);
  });

  test("the answer is lost and another server goes on: the commit was made, the next one is refused", async () => {
    const schema = randomUUID();
    const proxy = await startProxy(shared.url);
    const store = await open({ url: proxy.url, schema });
    const other = await open({ schema });
    const { epoch } = await store.takeOver({ holder: "first" });
    proxy.loseNext("answer", async () => {
      const now = await other.takeOver({ holder: "other" });
      await other.commit({ epoch: now.epoch, expectedSeq: 1, atMs: 1, events: [event("theirs")] });
    });
    const head = await store.commit({ epoch, expectedSeq: 0, atMs: 1, events: [event("ours")] });
    expect(head.seq).toBe(1);
    await expectCode(store.commit({ epoch, expectedSeq: 1, atMs: 1, events: [event("late")] }), "fenced");
    const events = await other.readEvents(1, 10);
    expect(events.map((each) => each.event)).toEqual([event("ours"), event("theirs")]);
  });

  test.each([
    ["the commit is", [0]],
    ["two commits are", [0, 1]],
  ])("%s lost and another server takes over: nothing of it is written", async (_, expectedSeqs) => {
    const schema = randomUUID();
    const proxy = await startProxy(shared.url);
    const store = await open({ url: proxy.url, schema });
    const other = await open({ schema });
    const { epoch } = await store.takeOver({ holder: "first" });
    proxy.loseNext("question", async () => {
      await other.takeOver({ holder: "other" });
    });
    const commits = expectedSeqs.map((expectedSeq) =>
      expectCode(store.commit({ epoch, expectedSeq, atMs: 1, events: [event("ours")] }), "fenced"),
    );
    await Promise.all(commits);
    expect((await other.head()).seq).toBe(0);
  });

  test("a crash of the database loses nothing, and the same writer goes on when it is back", async () => {
    const store = await open({ schema: randomUUID() });
    const { epoch } = await store.takeOver({ holder: "first" });
    await store.commit({ epoch, expectedSeq: 0, atMs: 1, events: [event("a")] });
    await shared.crash();
    const during = store.commit({ epoch, expectedSeq: 1, atMs: 2, events: [event("b")] });
    await shared.restart();
    expect((await during).seq).toBe(2);
    expect(await store.readEvents(1, 10)).toHaveLength(2);
  });

  test("a connection that is reset in the middle of a transaction is an error, not the end of the process", async () => {
    const proxy = await startTcpProxy();
    onTestFinished(() => proxy.close());
    proxy.aim(shared.port);
    const url = shared.url.replace(String(shared.port), String(proxy.port));
    const store = await open({ schema: randomUUID(), url });
    const member = { id: "a", url: null, version: "1", eventForm: 1, seq: 0 };
    await store.beat(member);
    proxy.silence("from");
    const held = proxy.untilHeld();
    const beat = expectCode(store.beat(member), "unavailable");
    await held;
    proxy.reset();
    await beat;
    proxy.heal();
    await store.beat(member);
  });

  test("a database that stays away is reported, not waited for without end", async () => {
    const store = await open({ schema: randomUUID(), patienceMs: 0 });
    const { epoch } = await store.takeOver({ holder: "first" });
    await shared.crash();
    await expectCode(store.commit({ epoch, expectedSeq: 0, atMs: 1, events: [event("a")] }), "unavailable");
    await expectCode(store.head(), "unavailable");
    await expectCode(openPostgresStore({ url: shared.url }), "unavailable");
    await shared.restart();
    expect((await store.commit({ epoch, expectedSeq: 0, atMs: 1, events: [event("a")] })).seq).toBe(1);
  });

  test("a database that is made forgetful while a server runs takes nothing until it is mended", async () => {
    const store = await open({ schema: randomUUID(), patienceMs: 0 });
    const { epoch } = await store.takeOver({ holder: "first" });
    await store.commit({ epoch, expectedSeq: 0, atMs: 1, events: [event("a")] });
    const admin = new pg.Client({ connectionString: shared.url });
    await admin.connect();
    onTestFinished(() => admin.end());
    const [{ name }] = (await admin.query("select quote_ident(current_database()) as name")).rows;
    const set = async (setting: string) => {
      await admin.query(
        `alter database ${name} ${setting} synchronous_commit${setting === "set" ? " = off" : ""}`,
      );
      await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'berth' and datname = current_database()`);
    };
    onTestFinished(() => set("reset"));
    const next = () => store.commit({ epoch, expectedSeq: 1, atMs: 2, events: [event("b")] });

    await set("set");
    await vi.waitFor(() => expect(next()).rejects.toThrow("synchronous_commit off"), { timeout: 10_000 });
    await set("reset");
    await vi.waitFor(async () => expect((await next()).seq).toBe(2), { timeout: 10_000 });
  });

  test("a database that may forget is refused unless that is accepted", async () => {
    const unsafe = `${shared.url}?options=${encodeURIComponent("-c synchronous_commit=off")}`;
    const schema = randomUUID();
    await expect(open({ url: unsafe, schema })).rejects.toThrow("synchronous_commit off");
    await open({ url: unsafe, schema, acceptUnsafeDatabase: true });
  });
});

type Loss = "question" | "answer";

/** Stands between store and database, and can lose the next commit or the answer to it. */
async function startProxy(databaseUrl: string, { isPooler = false } = {}) {
  const database = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let next: { lose: Loss; meanwhile: () => Promise<void> } | undefined;
  let lost = 0;

  const server = createServer((client) => {
    const upstream = connect(Number(database.port), database.hostname);
    let losing: typeof next;
    const cut = async () => {
      lost++;
      await losing?.meanwhile();
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        client.destroy();
        upstream.destroy();
      });
    }
    client.on("data", (data) => {
      if (next !== undefined && data.includes("commit_batch")) {
        losing = next;
        next = undefined;
        if (losing.lose === "question") return void cut();
      }
      upstream.write(data);
    });
    upstream.on("data", (data) => {
      if (isPooler) withOwnKey(data);
      if (losing === undefined) client.write(data);
      else void cut();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  const { port } = server.address() as AddressInfo;
  return {
    url: databaseUrl.replace(database.host, `127.0.0.1:${port}`),
    loseNext: (lose: Loss, meanwhile: () => Promise<void> = async () => undefined) => {
      next = { lose, meanwhile };
    },
    lost: () => lost,
  };
}

/** A pooler names itself where a server names the process that answers (the message BackendKeyData). */
function withOwnKey(data: Buffer): void {
  const at = data.indexOf(Buffer.from([0x4b, 0, 0, 0, 12]));
  if (at >= 0) data.writeInt32BE(1, at + 5);
}
