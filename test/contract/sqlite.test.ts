// The embedded store: the contract, and what is true of a file only.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  backupSqlite,
  type Head,
  isStoreError,
  openSqliteStore,
  restoreSqlite,
  type Store,
} from "../../src/store/index.ts";
import { loadSqlite } from "../../src/store/sqlite/library.ts";
import {
  auditEntry,
  event,
  expectCode,
  request,
  type StoreHarness,
  storeContract,
} from "./store.contract.ts";

const { DatabaseSync } = await loadSqlite();
const directories = new Map<StoreHarness, string>();

storeContract("sqlite", {
  isDurable: true,
  create: async () => {
    const directory = mkdtempSync(join(tmpdir(), "berth-sqlite-"));
    const path = join(directory, "berth.db");
    const harness: StoreHarness = {
      open: () => openSqliteStore({ path }),
      tamper: async (sql) => {
        const database = new DatabaseSync(path);
        database.exec(sql);
        database.close();
      },
    };
    directories.set(harness, directory);
    return harness;
  },
  destroy: async (harness) => {
    rmSync(directories.get(harness) ?? "", { recursive: true, force: true });
  },
});

describe("a file", () => {
  function newPath(): string {
    const directory = mkdtempSync(join(tmpdir(), "berth-sqlite-"));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    return join(directory, "data", "berth.db");
  }

  async function open(path: string): Promise<Store> {
    const store = await openSqliteStore({ path });
    onTestFinished(() => store.close().catch(() => undefined)); // Some tests close it themselves.
    return store;
  }

  /** A store with some of everything that can be damaged. */
  async function openWithHistory(path: string): Promise<{ store: Store; head: Head }> {
    const store = await open(path);
    let head = await store.takeOver({ holder: "server-1" });
    for (let day = 1; day <= 40; day++) {
      head = await store.commit({
        epoch: head.epoch,
        expectedSeq: head.seq,
        atMs: day,
        events: [event("a".repeat(100)), event("b")],
        audit: [auditEntry("ann")],
        requests: [request(day)],
      });
    }
    return { store, head };
  }

  test("is readable by its owner only", async () => {
    const path = newPath();
    await open(path);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(`${path}-wal`).mode & 0o777).toBe(0o600);
  });

  test("is opened once: a second time is refused, and works when the first has closed", async () => {
    const path = newPath();
    const first = await open(path);
    await expect(openSqliteStore({ path })).rejects.toThrow(
      `The store ${path} is in use by another process.`,
    );
    await expectCode(openSqliteStore({ path }), "locked");
    await first.close();
    await open(path);
  });

  test("is not opened by a second name of its file, whose lock would be another", async () => {
    const path = newPath();
    const first = await open(path);
    const twin = newPath();
    mkdirSync(dirname(twin), { recursive: true });
    linkSync(path, twin);
    await expect(openSqliteStore({ path: twin })).rejects.toThrow("has 2 names");
    await first.close();
  });

  test("belongs to one process, until that process is killed, and keeps what it acknowledged", async () => {
    const path = newPath();
    const flags = ["--expose-gc", "--import", "tsx", "--input-type=module"];
    const child = spawn(process.execPath, [...flags, "-e", holder], {
      env: { ...process.env, STORE_PATH: path },
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(child.stdout, "data"); // It has committed.
    await expectCode(openSqliteStore({ path }), "locked");
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
    const store = await open(path);
    expect(await store.readEvents(1, 10)).toHaveLength(1);
    expect((await store.verify()).damage).toEqual([]);
  });

  const holder = `
    import { openSqliteStore } from ${JSON.stringify(new URL("../../src/store/index.ts", import.meta.url).href)};
    const store = await openSqliteStore({ path: process.env.STORE_PATH });
    const { epoch } = await store.takeOver({ holder: "child" });
    await store.commit({ epoch, expectedSeq: 0, atMs: 1, events: [{ kind: "acknowledged" }] });
    setInterval(() => {}, 1_000_000);
    setImmediate(() => {
      global.gc(); // Nothing refers to the store any more, and yet it is open.
      setImmediate(() => console.log("committed"));
    });
  `;

  test("of somebody else is not touched", async () => {
    const path = newPath();
    await (await open(path)).close();
    rmSync(path);
    const foreign = new DatabaseSync(path);
    foreign.exec("create table theirs (x)");
    foreign.close();
    await expect(openSqliteStore({ path })).rejects.toThrow("not one of Berth");
  });

  test("is backed up while a server writes to it, and the copy is complete", async () => {
    const path = newPath();
    const { store, head } = await openWithHistory(path);
    const backup = `${path}.backup`;
    await backupSqlite({ from: path, to: backup });
    await store.commit({ epoch: head.epoch, expectedSeq: head.seq, atMs: 100, events: [event("later")] });
    expect(statSync(backup).mode & 0o777).toBe(0o600);
    await expect(backupSqlite({ from: path, to: backup })).rejects.toThrow("exists and is not overwritten");

    const restored = newPath();
    await (await open(restored)).close();
    rmSync(restored); // What may lie beside it does not matter, as long as it is empty.
    await restoreSqlite({ from: backup, to: restored });
    const copy = await open(restored);
    expect(await copy.head()).toEqual({ ...head, epoch: head.epoch + 1_000 });
    expect(await copy.lease()).toMatchObject({ holder: null });
    expect(copy.meta.clusterId).toBe(store.meta.clusterId);
    expect(copy.meta.incarnation).not.toBe(store.meta.incarnation);
    expect(await copy.verify()).toMatchObject({ events: 80, auditEntries: 40, records: 40, damage: [] });
    const next = await copy.takeOver({ holder: "server-1" });
    expect(next.epoch).toBe(head.epoch + 1_001);
  });

  test("is never restored over another, nor from a damaged backup", async () => {
    const path = newPath();
    const { store } = await openWithHistory(path);
    const backup = `${path}.backup`;
    await backupSqlite({ from: path, to: backup });
    await store.close();
    await expect(restoreSqlite({ from: backup, to: path })).rejects.toThrow("exists and is not overwritten");

    flipByte(backup, readFileSync(backup).lastIndexOf("aaaa")); // The first may be a remnant in unused space.
    await expect(restoreSqlite({ from: backup, to: `${path}.new` })).rejects.toThrow(
      /^The backup .*berth\.db\.backup is damaged: journal, events \d+ to \d+: the hash does not match/,
    );
    expect(readdirSync(dirname(path)).filter((name) => name.startsWith("berth.db.new"))).toEqual([]);
    await expectCode(backupSqlite({ from: `${path}.missing`, to: `${path}.other` }), "unavailable");
  });

  test("with a flipped byte says so, unless the byte meant nothing", async () => {
    const path = newPath();
    const { store } = await openWithHistory(path);
    const content = await contentOf(store);
    await store.close();
    const size = statSync(path).size;
    const verdicts = new Set<string>();
    for (let flip = 0; flip < 100; flip++) {
      const position = Math.floor((size * (flip + 0.5)) / 100);
      flipByte(path, position);
      const verdict = await judge(path, content);
      expect(verdict, `byte ${position}`).not.toBe("unnoticed");
      verdicts.add(verdict);
      flipByte(path, position);
    }
    expect(verdicts).toContain("named");
    expect(await judge(path, content)).toBe("harmless");
  });

  describe("with a mark of its end", () => {
    const marked = (path: string, acceptLoss = false) => openSqliteStore({ path, mark: { acceptLoss } });

    /** As a killed server leaves it. */
    async function killed(commits: number): Promise<string> {
      const path = newPath();
      const store = await marked(path);
      onTestFinished(() => store.close());
      let head = await store.takeOver({ holder: "server-1" });
      for (let count = 0; count < commits; count++)
        head = await store.commit({
          epoch: head.epoch,
          expectedSeq: head.seq,
          atMs: 1,
          events: [event("a")],
        });
      const copy = newPath();
      mkdirSync(dirname(copy));
      for (const suffix of ["", "-wal", "-mark"]) copyFileSync(path + suffix, copy + suffix);
      return copy;
    }

    test("starts after a kill, and again after an orderly end without any log", async () => {
      const path = await killed(3);
      expect(statSync(`${path}-mark`).mode & 0o777).toBe(0o600);
      for (let start = 0; start < 2; start++) {
        const store = await marked(path);
        expect((await store.head()).seq).toBe(3);
        await store.close();
        rmSync(`${path}-wal`, { force: true });
      }
    });

    test("is refused when its last commit is damaged, unless the loss is accepted, and then once", async () => {
      const path = await killed(3);
      truncateSync(`${path}-wal`, statSync(`${path}-wal`).size - 100);
      await expect(marked(path)).rejects.toThrow("it ends at event 2, but event 3 was acknowledged");
      await expectCode(marked(path), "corrupt");
      await (await marked(path, true)).close();
      await (await marked(path)).close();
    });

    test("is refused without its log after a kill, even where the journal is as long as its mark", async () => {
      const path = await killed(2);
      const moved = new DatabaseSync(path);
      moved.exec("pragma wal_checkpoint(truncate)");
      moved.close();
      rmSync(`${path}-wal`, { force: true });
      await expect(marked(path)).rejects.toThrow("not stopped in order, and its log (-wal) is missing");
    });

    test("does not hold a restored backup to the mark of the history that it replaces", async () => {
      const path = await killed(3);
      const backup = `${path}.backup`;
      const early = await killed(1);
      await backupSqlite({ from: early, to: backup });
      const to = newPath();
      mkdirSync(dirname(to));
      copyFileSync(`${path}-mark`, `${to}-mark`);
      await restoreSqlite({ from: backup, to });
      await (await marked(to)).close();
    });
  });

  test("with a log that was damaged in the middle is refused, not shortened", async () => {
    const path = newPath();
    await openWithHistory(path);
    const copy = newPath();
    mkdirSync(dirname(copy));
    for (const suffix of ["", "-wal"]) copyFileSync(path + suffix, copy + suffix); // As after a kill.
    const log = statSync(`${copy}-wal`).size;
    for (const position of [20, 100, Math.floor(log / 2)]) {
      flipByte(`${copy}-wal`, position);
      await expectCode(openSqliteStore({ path: copy }), "corrupt");
      flipByte(`${copy}-wal`, position);
    }
    // The last commit may be one that a crash has cut short, and no client has an answer to it.
    truncateSync(`${copy}-wal`, log - 100);
    const cut = await open(copy);
    expect((await cut.head()).seq).toBe(78);
    expect((await cut.verify()).damage).toEqual([]);
  });
});

function flipByte(path: string, position: number): void {
  const file = openSync(path, "r+");
  const byte = Buffer.alloc(1);
  readSync(file, byte, 0, 1, position);
  byte[0] = (byte[0] ?? 0) ^ 0xff;
  writeSync(file, byte, 0, 1, position);
  closeSync(file);
}

/** All that a reader can see. */
async function contentOf(store: Store): Promise<unknown> {
  const { epoch: _, ...head } = await store.head();
  return [
    store.meta,
    head,
    await store.readEvents(1, 1_000),
    await store.listAudit({ limit: 1_000 }),
    await store.listRequests({ limit: 1_000 }),
  ];
}

async function judge(path: string, content: unknown): Promise<"named" | "harmless" | "unnoticed"> {
  try {
    const store = await openSqliteStore({ path });
    try {
      if ((await store.verify()).damage.length > 0) return "named";
      return isDeepStrictEqual(await contentOf(store), content) ? "harmless" : "unnoticed";
    } finally {
      await store.close();
    }
  } catch (error) {
    if (isStoreError(error, "corrupt")) return "named";
    throw error;
  }
}
