import { describe, expect, test, vi } from "vitest";
import {
  createFakeClock,
  createPool,
  createRig,
  pool,
  type Rig,
  request,
  START_MS,
  settle,
  submit,
} from "../../test/simulation/rig.ts";
import { type EngineState, type RequestStatus, requestOf } from "../engine/index.ts";
import { type Commit, openMemoryStore, type Store, StoreError } from "../store/index.ts";
import type { CallContext, RequestBody, StreamMessage } from "./interface.ts";
import { recover } from "./recovery.ts";
import { stateHash } from "./snapshots.ts";

const statusOf = (rig: Rig, id: string) =>
  rig.leader.read(({ state }) => requestOf(state, request(id))?.progress.status as RequestStatus);

const tokenOf = (rig: Rig, id: string) =>
  rig.leader.read(({ state }) => requestOf(state, request(id))?.progress.allocation?.token as number);

/** Makes the state throw inside the next decision that looks at it, as a mistake of ours would. */
function poison(state: EngineState, error: Error): () => void {
  const { get } = state.requests;
  state.requests.get = () => {
    throw error;
  };
  return () => {
    state.requests.get = get;
  };
}

/** A store that writes elsewhere, so that two commits may be under way. Each is made, or fails, when the test says so. */
async function createSlowStore() {
  const store = await openMemoryStore();
  const commits: { readonly commit: Commit; make(): Promise<unknown>; fail(error: Error): void }[] = [];
  let isSlow = false;
  const slow: Store = {
    ...store,
    commitsAtOnce: 2,
    commit(commit) {
      if (!isSlow) return store.commit(commit);
      return new Promise((resolve, reject) => {
        const make = () => store.commit(commit).then(resolve, reject).then(settle);
        commits.push({ commit, make, fail: reject });
      });
    },
  };
  const beSlow = (value: boolean) => {
    isSlow = value;
  };
  return { store: slow, commits, beSlow };
}

/** A store whose commits can be watched, held back and made to fail. */
async function createWatchedStore() {
  const store = await openMemoryStore();
  const commits: Commit[] = [];
  const failures: unknown[] = [];
  let gate: Promise<void> = Promise.resolve();
  const watched: Store = {
    ...store,
    async commit(commit) {
      commits.push(commit);
      await gate;
      const failure = failures.shift();
      if (failure !== undefined) throw failure;
      return store.commit(commit);
    },
  };
  const hold = () => {
    let release = () => {};
    gate = new Promise((resolve) => {
      release = resolve;
    });
    return release;
  };
  return { store: watched, commits, failures, hold };
}

describe("batches", () => {
  test("calls that arrive together share one commit, and each gets its own answer", async () => {
    const { store, commits } = await createWatchedStore();
    const rig = await createRig({ store });
    await createPool(rig);
    const before = commits.length;

    const calls = Array.from({ length: 100 }, (_, i) => rig.do(submit(`r${i}`)));
    const answers = await Promise.all(calls);

    expect(commits.length - before).toBe(1);
    const seqs = answers.map((answer) => (answer.outcome === "accepted" ? answer.seq : 0));
    expect(seqs).toEqual([...seqs].sort((a, b) => a - b));
    expect(new Set(seqs).size).toBe(100);
    expect(rig.leader.seq()).toBe(seqs.at(-1));
  });

  test("calls that arrive during a commit wait for the next one", async () => {
    const { store, commits, hold } = await createWatchedStore();
    const rig = await createRig({ store });
    await createPool(rig);
    const before = commits.length;

    const release = hold();
    const first = rig.do(submit("first"));
    await settle();
    const rest = Array.from({ length: 20 }, (_, i) => rig.do(submit(`r${i}`)));
    await settle();
    release();
    await Promise.all([first, ...rest]);

    expect(commits.length - before).toBe(2);
  });

  test("what came during a commit is on its way to the store before anything else has its turn", async () => {
    const { store, commits, hold } = await createWatchedStore();
    const rig = await createRig({ store });
    await createPool(rig);
    const release = hold();
    const first = rig.do(submit("first"));
    await settle();
    const second = rig.do(submit("second"));
    await settle();
    const before = commits.length;

    release();
    const commitsByThen = new Promise((resolve) => rig.clock.soon(() => resolve(commits.length)));
    expect(await commitsByThen).toBe(before + 1);
    await Promise.all([first, second]);
  });

  test("many calls at once stand for themselves", async () => {
    const rig = await createRig();
    await createPool(rig);
    const context = { actor: "ann" };

    const answers = await rig.leader.performMany([
      { command: submit("a"), context },
      { command: submit("a"), context },
      { command: submit("b"), context },
    ]);

    expect(answers.map(({ outcome }) => outcome)).toEqual(["accepted", "refused", "accepted"]);
  });

  test("work that gives way goes on after the answers to all that has arrived, and at once if nothing has", async () => {
    const rig = await createRig();
    await createPool(rig);
    const order: string[] = [];
    const note = (what: string) => () => void order.push(what);

    const all = [
      rig.do(submit("a")).then(note("first")),
      rig.leader.giveWay().then(note("work")),
      rig.do(submit("b")).then(note("second")),
    ];
    await Promise.all(all);
    expect(order).toEqual(["first", "second", "work"]);

    const soon = new Promise((resolve) => rig.clock.soon(() => resolve("later")));
    expect(await Promise.race([soon, rig.leader.giveWay().then(() => "at once")])).toBe("at once");
  });

  test("a bulk that takes long is decided in several batches, in its order, and answered as a whole", async () => {
    const { store, commits } = await createWatchedStore();
    const clock = createFakeClock();
    const rig = await createRig({ store, clock, observer: { decided: () => clock.freeze(8) } });
    await createPool(rig);
    const before = commits.length;

    const calls = Array.from({ length: 10 }, (_, i) => ({
      command: submit(`r${i}`),
      context: { actor: "a" },
    }));
    const answers = await rig.leader.performMany(calls);

    const seqs = answers.map((answer) => (answer.outcome === "accepted" ? answer.seq : 0));
    expect(seqs).toEqual([...seqs].sort((a, b) => a - b));
    expect(new Set(seqs).size).toBe(10);
    expect(commits.length - before).toBe(4);
  });

  test("a long fixed point is decided in slices, with other calls between them, and a restart goes on", async () => {
    const rig = await createRig({ clock: createFakeClock(0.1) });
    await createPool(rig, { gpu: 1 });
    const ids = Array.from({ length: 1_000 }, (_, i) => `r${i}`);
    const calls = ids.map((id) => ({ command: submit(id), context: { actor: "ann" } }));
    await rig.leader.performMany(calls);
    const running = (leader: Rig["leader"]) =>
      leader.read(
        ({ state }) => ids.filter((id) => requestOf(state, request(id))?.progress.allocation != null).length,
      );

    await rig.do({ kind: "updatePool", name: pool("main"), capacity: { gpu: 2_000 } });
    const atFirst = await running(rig.leader);
    expect(atFirst).toBeGreaterThan(1);
    expect(await rig.do(submit("other"))).toMatchObject({ outcome: "accepted" });
    expect(await running(rig.leader)).toBeLessThan(1_000);

    const restarted = await createRig({ store: rig.store, clock: rig.clock });
    expect(await running(restarted.leader)).toBeGreaterThanOrEqual(atFirst);
    await rig.clock.advance(1_000);
    expect(await running(restarted.leader)).toBe(1_000);
    expect(await statusOf(restarted, "other")).toBe("allocated");
  });

  test("too many waiting calls are refused, and nothing happens to them", async () => {
    const rig = await createRig({ settings: { waitingCommandsMax: 2 } });
    const calls = ["a", "b", "c"].map((id) =>
      rig.do(submit(id)).then(
        () => "answered",
        (error) => error.code,
      ),
    );

    expect(await Promise.all(calls)).toEqual(["answered", "answered", "overloaded"]);
  });

  test("requests get small numbers in the order of submission", async () => {
    const rig = await createRig();
    await createPool(rig);
    for (const id of ["a", "b", "c"]) await rig.do(submit(id));

    expect(await rig.leader.read((view) => ["a", "b", "c"].map((id) => view.numberOf(request(id))))).toEqual([
      1, 2, 3,
    ]);
    expect(await rig.leader.read((view) => view.idOf(2))).toBe("b");
    expect((await rig.store.getRequestByNumber(3))?.id).toBe("c");
  });
});

describe("two batches under way", () => {
  async function createSlowRig() {
    const { store, commits, beSlow } = await createSlowStore();
    const rig = await createRig({ store });
    await createPool(rig);
    beSlow(true);
    const done: string[] = [];
    const call = (name: string, answer: Promise<unknown>) =>
      answer.then(
        () => done.push(name),
        (error: { code: string }) => done.push(`${name}: ${error.code}`),
      );
    /** Submits, and waits until it is decided if it can be. */
    const ask = async (id: string, context?: Partial<CallContext>) => {
      void call(id, rig.do(submit(id), context));
      await settle();
    };
    return { rig, commits, beSlow, done, call, ask };
  }

  test("the second is decided and sent while the first is written, and a third is not", async () => {
    const { rig, commits, done, ask } = await createSlowRig();
    await ask("a");
    await ask("b");
    await ask("c");
    expect(commits.map(({ commit }) => commit.requests?.map(({ id }) => id))).toEqual([["a"], ["b"]]);
    expect(commits[1]?.commit.expectedSeq).toBe(commits[0]!.commit.expectedSeq + 2);
    expect(rig.leader.seq()).toBe(commits[0]?.commit.expectedSeq);
    await commits[0]!.make();
    expect(done).toEqual(["a"]);
    expect(commits.map(({ commit }) => commit.requests?.map(({ id }) => id))).toEqual([["a"], ["b"], ["c"]]);
    await commits[1]!.make();
    await commits[2]!.make();
    expect(done).toEqual(["a", "b", "c"]);
    expect((await rig.store.verify()).damage).toEqual([]);
  });

  test("a few calls wait beside a large batch, lest commits become small", async () => {
    const { commits, ask, call, rig } = await createSlowRig();
    for (const id of ["a", "b", "c", "d"]) void call(id, rig.do(submit(id)));
    await settle();
    await ask("e");
    expect(commits).toHaveLength(1);
    await ask("f");
    expect(commits).toHaveLength(2);
  });

  test("a read that has seen the second batch is answered after it, and nothing is published before", async () => {
    const { rig, commits, done, call, ask } = await createSlowRig();
    const published: number[] = [];
    rig.leader.onCommit(({ events }) => published.push(events.length));
    await ask("a");
    void call(
      "first look",
      rig.leader.read(() => undefined),
    );
    await ask("b");
    void call(
      "second look",
      rig.leader.read(({ seq }) => seq),
    );
    await settle();
    expect(done).toEqual([]);
    await commits[0]!.make();
    expect(done.toSorted()).toEqual(["a", "first look"]);
    expect(published).toHaveLength(1);
    await commits[1]!.make();
    expect(done.toSorted()).toEqual(["a", "b", "first look", "second look"]);
    expect(published).toHaveLength(2);
  });

  test("a call that is sent again while its first answer is being written gets the same one", async () => {
    const { rig, commits, done, ask, call } = await createSlowRig();
    const idempotency = { scope: "ann", key: "k", bodyHash: "x" };
    await ask("a", { idempotency });
    const again = rig.do(submit("b"), { idempotency });
    void call("again", again);
    await settle();
    expect(commits).toHaveLength(1); // There is nothing to write.
    expect(done).toEqual([]);
    await commits[0]!.make();
    expect(done).toEqual(["a", "again"]);
    expect(await again).toMatchObject({ replayed: true });
  });

  test("when the first fails on a full disk, nothing of either is left, and what was seen of it is looked at again", async () => {
    const { rig, commits, beSlow, done, ask } = await createSlowRig();
    const before = rig.leader.seq();
    await ask("a");
    await ask("b");
    const looks: number[] = [];
    const reading = rig.leader.read(({ state }) => looks.push(state.requests.size));
    await ask("c");
    commits[0]!.fail(new StoreError("disk_full", "The disk is full."));
    await settle();
    expect(done).toEqual([]);
    commits[1]!.fail(new StoreError("fenced", "It follows on nothing."));
    await settle();
    expect(done).toEqual(["a: disk_full", "b: disk_full", "c: disk_full"]);
    await reading;
    expect(looks).toEqual([2, 0]);
    expect(rig.leader.seq()).toBe(before);
    beSlow(false);
    await rig.clock.advance(5_000);
    expect(rig.leader.status().condition).toBe("leading");
    await ask("d");
    expect(done).toContain("d");
    expect((await rig.store.verify()).damage).toEqual([]);
    expect(rig.fatal).toEqual([]);
  });

  test("what was looked up while a commit failed is not decided: its caller was told that it failed", async () => {
    const { rig, commits, beSlow, done, ask } = await createSlowRig();
    await ask("a");
    let found = () => {};
    const { findAnswers } = rig.store;
    rig.store.findAnswers = (keys) =>
      new Promise((resolve) => {
        found = () => resolve(findAnswers(keys));
      });
    await ask("b", { idempotency: { scope: "ann", key: "k", bodyHash: "x" } });
    commits[0]!.fail(new StoreError("disk_full", "The disk is full."));
    await settle();
    expect(done).toEqual(["a: disk_full", "b: disk_full"]);
    beSlow(false);
    await rig.clock.advance(5_000);
    found();
    await settle();
    expect(rig.leader.status().condition).toBe("leading");
    expect(await rig.leader.read(({ state }) => state.requests.size)).toBe(0);
    await ask("c");
    expect(done).toContain("c");
  });

  test("a snapshot is taken of what the disk has, however busy the server is", async () => {
    const { store, commits, beSlow } = await createSlowStore();
    const rig = await createRig({ store, settings: { snapshotEveryEvents: 4 } });
    await createPool(rig);
    beSlow(true);
    let asked = 0;
    const answers: Promise<unknown>[] = [];
    for (let round = 0; round < 6; round++) {
      for (let count = 0; count < 2; count++) {
        answers.push(rig.do(submit(`r${asked++}`)));
        await settle();
      }
      await commits.shift()?.make();
    }
    for (let next = commits.shift(); next !== undefined; next = commits.shift()) await next.make();
    await Promise.all(answers);
    await vi.waitFor(() => expect(rig.leader.status().snapshotSeq).toBeGreaterThan(0));
    expect(rig.leader.status().snapshotSeq).toBeLessThan(rig.leader.seq());
    const again = await createRig({ store: rig.store });
    expect(await again.leader.read(({ state }) => state.requests.size)).toBe(asked);
  });
});

describe("reads", () => {
  test("see committed state only, and one's own writes", async () => {
    const { store, hold } = await createWatchedStore();
    const rig = await createRig({ store });
    await createPool(rig);

    const release = hold();
    const answer = rig.do(submit("a"));
    await settle();
    let seen: RequestStatus | undefined;
    const reading = statusOf(rig, "a").then((status) => {
      seen = status;
    });
    await settle();
    expect(seen).toBeUndefined();

    release();
    await reading;
    expect(seen).toBe("allocated");
    expect(await answer).toMatchObject({ outcome: "accepted", seq: rig.leader.seq() });
  });

  test("the answer is presented from the state right after its own command", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 1 });
    const present = (id: string) => ({
      present: ({
        state,
        numberOf,
      }: Parameters<NonNullable<import("./interface.ts").CallContext["present"]>>[0]) => ({
        number: numberOf(request(id)),
        status: requestOf(state, request(id))?.progress.status,
      }),
    });

    const answers = await Promise.all([
      rig.do(submit("a"), present("a")),
      rig.do(submit("b"), present("b")),
      rig.do({ kind: "cancelRequest", requestId: request("b") }, present("b")),
    ]);

    expect(answers.map((answer) => answer.outcome === "accepted" && answer.body)).toEqual([
      { number: 1, status: "allocated" },
      { number: 2, status: "queued" },
      { number: 2, status: "cancelled" },
    ]);
  });
});

describe("idempotency (Q4, L4)", () => {
  const key = (bodyHash = "h1") => ({ idempotency: { scope: "ann", key: "k1", bodyHash } });
  const body = { present: () => ({ said: "first" }) };

  test("the same call gets the first answer again, in the same batch, later, and after a restart", async () => {
    const rig = await createRig();
    await createPool(rig);

    const [first, twin] = await Promise.all([
      rig.do(submit("a"), { ...key(), ...body }),
      rig.do(submit("a"), { ...key(), present: () => ({ said: "second" }) }),
    ]);
    const later = await rig.do(submit("a"), key());
    await rig.leader.close();
    const restarted = await createRig({ store: rig.store, clock: rig.clock });
    const afterwards = await restarted.do(submit("a"), key());

    expect(first).toMatchObject({ outcome: "accepted", body: { said: "first" }, replayed: false });
    for (const again of [twin, later, afterwards]) {
      expect(again).toEqual({ ...first, events: [], replayed: true });
    }
    expect(await restarted.leader.read(({ state }) => state.requests.size)).toBe(1);
  });

  test("another body under the same key is refused", async () => {
    const rig = await createRig();
    await createPool(rig);
    await rig.do(submit("a"), key());

    const answer = await rig.do(submit("b"), key("h2"));

    expect(answer).toMatchObject({ outcome: "refused", refusal: { code: "idempotency_conflict" } });
    expect(await statusOf(rig, "b")).toBeUndefined();
  });

  test("a refusal is an answer too", async () => {
    const rig = await createRig();
    const cancel = { kind: "cancelRequest", requestId: request("a") } as const;
    await rig.do(cancel, key());
    await createPool(rig);
    await rig.do(submit("a"));

    expect(await rig.do(cancel, key())).toMatchObject({
      outcome: "refused",
      refusal: { code: "not_found" },
      replayed: true,
    });
    expect(await statusOf(rig, "a")).toBe("allocated");
  });

  test("scopes do not see each other's keys", async () => {
    const rig = await createRig();
    await createPool(rig);
    await rig.do(submit("a"), key());

    const other = await rig.do(submit("b"), { idempotency: { scope: "bob", key: "k1", bodyHash: "h2" } });

    expect(other).toMatchObject({ outcome: "accepted", replayed: false });
  });
});

describe("what is written", () => {
  test("every change and every refusal is in the audit log", async () => {
    const rig = await createRig();
    await createPool(rig);
    await rig.do(submit("a"), {
      actor: "bob",
      audit: { action: "submit", target: "a", detail: { from: "here" } },
    });
    await rig.do({ kind: "cancelRequest", requestId: request("x") }, { actor: "eve" });
    const denial = { actor: "mallory", action: "cancel", target: "a", outcome: "forbidden", body: null };
    await rig.leader.audit(denial);

    const { items } = await rig.store.listAudit({ limit: 3 });
    expect(items.map(({ actor, action, target, outcome }) => [actor, action, target, outcome])).toEqual([
      ["mallory", "cancel", "a", "forbidden"],
      ["eve", "cancelRequest", "x", "not_found"],
      ["bob", "submit", "a", "accepted"],
    ]);
    expect(items[2]?.body).toEqual({ from: "here" });
  });

  test("ended requests stay in memory for a while, and in a crowd for less", async () => {
    const rig = await createRig({ settings: { endedInMemoryMs: 30_000, endedInMemoryMax: 2 } });
    await createPool(rig, { gpu: 1 });
    const endOf = async (id: string) => {
      await rig.do(submit(id));
      const token = await tokenOf(rig, id);
      await rig.do({ kind: "reportEnd", requestId: request(id), token, outcome: "succeeded" });
    };
    await endOf("a");
    await endOf("b");
    await rig.clock.advance(10_000);
    expect(await statusOf(rig, "a")).toBe("released");

    await endOf("c");
    await rig.clock.advance(1_000);
    expect(await statusOf(rig, "a")).toBeUndefined();
    expect(await statusOf(rig, "c")).toBe("released");
    expect(await rig.store.getRequest("a")).toMatchObject({ status: "released" });
  });

  test("a request's record tells its whole life, and outlives its place in memory", async () => {
    const rig = await createRig({ settings: { endedInMemoryMs: 10_000 } });
    await createPool(rig, { gpu: 1, components: ["team", "urgent"] });
    await rig.do({
      kind: "updatePolicy",
      policy: { pool: pool("main"), component: "urgent" as never, priority: 9 },
    });
    await rig.do(submit("a", { labels: { run: "7" } }));
    await rig.do(submit("b", { component: "urgent" as never }));
    const token = await tokenOf(rig, "a");
    await rig.do({ kind: "reportEnd", requestId: request("a"), token, outcome: "stopped" });
    await rig.do({ kind: "cancelRequest", requestId: request("a") });
    await rig.clock.advance(20_000);

    expect(await statusOf(rig, "a")).toBeUndefined();
    const record = await rig.store.getRequest("a");
    expect(record).toMatchObject({ number: 1, status: "cancelled", pool: "main", labels: { run: "7" } });
    const body = record?.body as RequestBody | undefined;
    expect(body?.progress.preemptedCount).toBe(1);
    expect(body?.attempts).toMatchObject([
      { attempt: 1, pool: "main", token, outcome: "preempted", preemptedFor: "b" },
    ]);
    expect((await rig.store.listDecisions("a")).map(({ body }) => body)).toMatchObject([
      { role: "victim", rules: 1, decision: { waiter: "b" } },
    ]);
    expect(await rig.store.listDecisions("b")).toMatchObject([{ body: { role: "waiter" } }]);
  });

  test("the record of an ended request can be deleted, in memory or not (Q6)", async () => {
    const rig = await createRig({ settings: { endedInMemoryMs: 10_000 } });
    await createPool(rig);
    for (const id of ["old", "new"]) {
      await rig.do(submit(id));
      await rig.do({ kind: "cancelRequest", requestId: request(id) });
      const token = await tokenOf(rig, id);
      await rig.do({ kind: "reportEnd", requestId: request(id), token, outcome: "stopped" });
      if (id === "old") await rig.clock.advance(20_000);
    }
    expect(await statusOf(rig, "old")).toBeUndefined();

    for (const id of ["old", "new"]) {
      expect(await rig.do({ kind: "deleteRequest", requestId: request(id) })).toMatchObject({
        outcome: "accepted",
      });
      expect(await rig.store.getRequest(id)).toBeUndefined();
    }
    const unknown = await rig.do({ kind: "deleteRequest", requestId: request("never") });
    expect(unknown).toMatchObject({ outcome: "refused", refusal: { code: "not_found" } });
  });

  test("tokens are written, changed and deleted with an audit entry", async () => {
    const rig = await createRig();
    const token = {
      ...{ id: "t1", name: "ci", hash: "ab", role: "user", components: null, pools: null, permissions: [] },
      ...{ createdAtMs: 1, expiresAtMs: null, revokedAtMs: null },
    };
    await rig.leader.perform({ kind: "putToken", token }, { actor: "root" });
    await rig.leader.perform({ kind: "putToken", token: { ...token, revokedAtMs: 5 } }, { actor: "root" });
    expect(await rig.store.listTokens()).toMatchObject([{ hash: "ab", revokedAtMs: 5 }]);
    await rig.leader.perform({ kind: "deleteToken", tokenId: "t1" }, { actor: "root" });
    expect(await rig.store.listTokens()).toEqual([]);
    expect((await rig.store.listAudit({ limit: 9 })).items).toMatchObject([
      { action: "deleteToken", target: "t1" },
      { action: "putToken" },
      { action: "putToken" },
    ]);
  });

  test("a precondition is judged in the batch, against the state before the command", async () => {
    const rig = await createRig();
    await createPool(rig);
    const precondition = ({ state }: { state: EngineState }) =>
      state.requests.size === 0
        ? undefined
        : ({
            code: "precondition_failed",
            message: "Another change was faster.",
            hint: "Look again.",
          } as const);

    const answers = await Promise.all([
      rig.do(submit("a"), { precondition }),
      rig.do(submit("b"), { precondition }),
    ]);

    expect(answers.map(({ outcome }) => outcome)).toEqual(["accepted", "refused"]);
  });
});

describe("time", () => {
  test("a timer fires at its moment without any call", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 1 });
    await rig.do(submit("a"));
    await rig.do(submit("b", { waitTimeoutMs: 60_000 }));

    await rig.clock.advance(59_999);
    expect(await statusOf(rig, "b")).toBe("queued");
    await rig.clock.advance(1);
    expect(await statusOf(rig, "b")).toBe("expired");
  });

  test("never runs backwards, whatever the wall clock does, and not over a restart either", async () => {
    const clock = createFakeClock();
    const rig = await createRig({ clock });
    await createPool(rig, { gpu: 1 });
    clock.jumpWall(-86_400_000);
    await clock.advance(1_000);
    expect(rig.leader.nowMs()).toBe(START_MS + 1_000);
    await rig.do(submit("a", { walltimeMs: 3_600_000 }));
    clock.jumpWall(3 * 86_400_000);
    await clock.advance(1_000);
    expect(await statusOf(rig, "a")).toBe("allocated");

    await rig.leader.close();
    clock.jumpWall(-10 * 86_400_000);
    const restarted = await createRig({ store: rig.store, clock });
    expect(restarted.leader.nowMs()).toBeGreaterThanOrEqual(START_MS + 1_000);
    expect(await statusOf(restarted, "a")).toBe("allocated");
  });

  const DAY_MS = 86_400_000;
  const stopped = async (idleMs = 0) => {
    const rig = await createRig();
    await createPool(rig);
    rig.clock.freeze(idleMs);
    await rig.leader.close();
    return rig;
  };

  test("a clock that is far ahead of the journal is refused, and nothing is written", async () => {
    const { store, clock } = await stopped();
    const before = await store.head();
    clock.jumpWall(8 * DAY_MS);
    const start = createRig({ store, clock });
    await expect(start).rejects.toMatchObject({
      code: "wrong_clock",
      message:
        "The clock of this machine says 2023-11-22T22:13:20.000Z, but the last change is from 2023-11-14T22:13:20.000Z.",
      hint: expect.stringContaining("--accept-clock"),
    });
    expect(await store.head()).toEqual(before);
    const accepted = await createRig({ store, clock, acceptClock: true });
    expect(accepted.leader.nowMs()).toBe(START_MS + 8 * DAY_MS);
  });

  test("a stop of a week is nothing unusual, and neither is a server with nothing to do", async () => {
    const { store, clock } = await stopped(30 * DAY_MS);
    clock.jumpWall(7 * DAY_MS);
    const { leader } = await createRig({ store, clock });
    expect(leader.nowMs()).toBe(START_MS + 37 * DAY_MS);
  });

  test("a database whose clock agrees needs no person to say so", async () => {
    const { store, clock } = await stopped();
    clock.jumpWall(80 * DAY_MS);
    const clockMs = async () => START_MS + 79 * DAY_MS;
    await createRig({ store: { ...store, clockMs }, clock });
  });

  test("a cluster whose time is ahead of the machine's says so at the start", async () => {
    const { store, clock } = await stopped();
    clock.jumpWall(-DAY_MS);
    const { logged } = await createRig({ store, clock });
    expect(logged).toEqual(["the time of the cluster is ahead of the clock of this machine"]);
  });
});

describe("recovery", () => {
  test("the state after a restart is the state before it: replayed, and from a snapshot", async () => {
    const rig = await createRig({ settings: { endedInMemoryMs: 1_000 } });
    await createPool(rig, { gpu: 3, components: ["team", "urgent"] });
    await rig.do({
      kind: "updatePolicy",
      policy: { pool: pool("main"), component: "urgent" as never, priority: 9 },
    });
    for (let i = 0; i < 12; i++) {
      await rig.do(
        submit(`r${i}`, {
          component: (i % 3 === 0 ? "urgent" : "team") as never,
          walltimeMs: 60_000 * (1 + i),
        }),
      );
      if (i % 4 === 3) await rig.do({ kind: "cancelRequest", requestId: request(`r${i - 1}`) });
      await rig.clock.advance(7_000);
    }
    const live = await rig.leader.read((view) => ({
      hash: stateHash(view.state),
      numbers: [...view.state.requests.keys()].map((id) => [id, view.numberOf(id), view.attemptsOf(id)]),
    }));
    const seen = async (each: Rig) =>
      each.leader.read((view) => ({
        hash: stateHash(view.state),
        numbers: [...view.state.requests.keys()].map((id) => [id, view.numberOf(id), view.attemptsOf(id)]),
      }));

    // Crashed: the store has no snapshot yet.
    const replayed = await createRig({ store: rig.store, clock: createFakeClock() });
    expect(replayed.leader.status()).toMatchObject({
      snapshotSeq: 0,
      recovery: { events: rig.leader.seq() },
    });
    expect(await seen(replayed)).toEqual(live);

    await replayed.leader.close();
    const restored = await createRig({ store: rig.store, clock: createFakeClock() });
    expect(restored.leader.status()).toMatchObject({
      snapshotSeq: rig.leader.seq(),
      recovery: { events: 0 },
    });
    expect(await seen(restored)).toEqual(live);
    expect((await rig.store.latestSnapshot())?.stateHash).toBe(live.hash);

    const answer = await restored.do(submit("next"));
    expect(answer.outcome).toBe("accepted");
    expect(await restored.leader.read((view) => view.numberOf(request("next")))).toBe(13);
  });

  test("snapshots are taken as events pile up, and the rest of the journal follows", async () => {
    const memoryStore = await openMemoryStore();
    let saved = () => {};
    const saving = new Promise<void>((resolve) => {
      saved = resolve;
    });
    const store: Store = {
      ...memoryStore,
      saveSnapshot: (snapshot) => memoryStore.saveSnapshot(snapshot).then(saved),
    };
    const rig = await createRig({ store, settings: { snapshotEveryEvents: 10 } });
    await createPool(rig, { gpu: 1 });
    for (let i = 0; i < 20; i++) await rig.do(submit(`r${i}`));
    await saving;
    await rig.do(submit("last"));

    const { memory, snapshotSeq } = await recover(rig.store, await rig.store.head());
    expect(snapshotSeq).toBeGreaterThan(0);
    expect(snapshotSeq).toBeLessThan(rig.leader.seq());
    expect(stateHash(memory.state)).toBe(await rig.leader.read(({ state }) => stateHash(state)));
  });

  test("the key of grants is made once per incarnation of a store; what it signs grows with each (L1)", async () => {
    const rig = await createRig();
    await rig.do(submit("a"));
    expect(rig.leader.grantKeys).toMatchObject([{ fromSeq: 1, offset: 0 }]);
    await rig.leader.close();
    const restarted = await createRig({ store: rig.store });
    expect(restarted.leader.grantKeys).toEqual(rig.leader.grantKeys);
    await restarted.leader.close();

    const { seq } = await rig.store.head();
    const meta = { ...rig.store.meta, incarnation: "another" };
    const restored = await createRig({ store: { ...rig.store, meta } });
    const [first, second] = restored.leader.grantKeys;
    expect(first).toEqual(rig.leader.grantKeys[0]);
    expect(second).toMatchObject({ fromSeq: seq + 1 });
    expect(second?.offset).toBeGreaterThan(seq);
    expect(second?.secret).not.toBe(first?.secret);
  });
});

describe("when something breaks", () => {
  test("a command on which the engine throws is refused and recorded, and the server lives on", async () => {
    const rig = await createRig();
    await createPool(rig);
    await rig.do(submit("a"));
    const before = await rig.leader.read(({ state }) => stateHash(state));
    const heal = await rig.leader.read(({ state }) => poison(state, new Error("a mistake of ours")));

    const answer = rig.do({ kind: "cancelRequest", requestId: request("a") }, { actor: "bob" });
    await answer.finally(heal);

    expect(await answer).toMatchObject({ outcome: "refused", refusal: { code: "engine_error" } });
    expect(await rig.leader.read(({ state }) => stateHash(state))).toBe(before);
    expect((await rig.store.listAudit({ limit: 2 })).items).toMatchObject([
      { actor: "bob", action: "cancelRequest", outcome: "engine_error" },
      { actor: "bob", action: "engine_error", body: { error: "Error: a mistake of ours" } },
    ]);
    expect(rig.leader.status()).toMatchObject({ condition: "leading", engineErrors: 1 });
    expect(rig.fatal).toEqual([]);
    expect(await rig.do(submit("b"))).toMatchObject({ outcome: "accepted" });
  });

  test("an engine error is not kept as the answer to its key", async () => {
    const rig = await createRig();
    await createPool(rig);
    await rig.do(submit("a"));
    const heal = await rig.leader.read(({ state }) => poison(state, new Error("a mistake of ours")));
    const cancel = { kind: "cancelRequest", requestId: request("a") } as const;
    const key = { idempotency: { scope: "ann", key: "k", bodyHash: "h" } };

    await rig.do(cancel, key).finally(heal);

    expect(await rig.do(cancel, key)).toMatchObject({ outcome: "accepted", replayed: false });
  });

  test("a timer on which the engine throws does not turn the loop without end", async () => {
    const { store, commits } = await createWatchedStore();
    const rig = await createRig({ store });
    await createPool(rig, { gpu: 1 });
    await rig.do(submit("a", { walltimeMs: 10_000 }));
    const { progress } = await rig.leader.read(
      ({ state }) => state.requests.get(request("a")) as never as { progress: { delayed: boolean } },
    );
    const delayed = progress.delayed;
    Object.defineProperty(progress, "delayed", {
      configurable: true,
      get: () => {
        throw new Error("a mistake of ours");
      },
    });
    const before = commits.length;

    await rig.clock.advance(30_000);

    expect(commits.length - before).toBe(1);
    expect(rig.leader.status().engineErrors).toBe(1);
    Object.defineProperty(progress, "delayed", { value: delayed, writable: true });
    await rig.clock.advance(60_000);
    expect(
      await rig.leader.read(({ state }) => requestOf(state, request("a"))?.progress.allocation?.stop?.cause),
    ).toBe("walltime");
  });

  test("a failed commit ends the leader: nobody is answered, nothing is published", async () => {
    const { store, failures } = await createWatchedStore();
    const rig = await createRig({ store });
    await createPool(rig);
    const published: unknown[] = [];
    rig.leader.onCommit((batch) => published.push(batch));
    failures.push(new StoreError("unavailable", "The disk does not answer."));

    await expect(rig.do(submit("a"))).rejects.toMatchObject({ code: "unavailable" });

    expect(rig.fatal).toMatchObject([{ code: "unavailable" }]);
    expect(published).toEqual([]);
    await expect(rig.do(submit("b"))).rejects.toMatchObject({ code: "stopped" });
    await expect(statusOf(rig, "a")).rejects.toMatchObject({ code: "stopped" });
    expect(rig.leader.status().condition).toBe("stopped");
  });

  test("a deposed leader ends", async () => {
    const rig = await createRig();
    await createPool(rig);
    await createRig({ store: rig.store });

    await expect(rig.do(submit("a"))).rejects.toMatchObject({ code: "not_leader" });

    expect(rig.fatal).toMatchObject([{ code: "fenced" }]);
    expect(await rig.store.getRequest("a")).toBeUndefined();
  });

  test("with a full disk nothing is acknowledged and nothing is lost, and it goes on when there is room", async () => {
    const { store, failures } = await createWatchedStore();
    const rig = await createRig({ store });
    await createPool(rig, { gpu: 1 });
    await rig.do(submit("a"));
    const before = await rig.leader.read(({ state }) => stateHash(state));
    const full = () => new StoreError("disk_full", "The disk is full.");
    failures.push(full(), full(), full());

    await expect(rig.do(submit("b"))).rejects.toMatchObject({ code: "disk_full" });
    expect(rig.leader.status()).toMatchObject({ condition: "read_only", trouble: "The disk is full." });
    expect(await rig.leader.read(({ state }) => stateHash(state))).toBe(before);
    await expect(rig.do(submit("c"))).rejects.toMatchObject({ code: "disk_full" });

    await rig.clock.advance(10_000);
    expect(rig.leader.status()).toMatchObject({ condition: "leading", trouble: null });
    expect(await rig.do(submit("b"))).toMatchObject({ outcome: "accepted" });
    expect(await rig.leader.read((view) => view.numberOf(request("b")))).toBe(2);
    expect(rig.fatal).toEqual([]);
  });

  test("on the reserve of a full disk work is ended and administered, but nothing new is taken", async () => {
    const { store } = await createWatchedStore();
    let hasRoom = true;
    const rig = await createRig({ store: { ...store, hasRoom: () => hasRoom } });
    await createPool(rig);
    await rig.do(submit("a"));

    hasRoom = false;
    await expect(rig.do(submit("b"))).rejects.toMatchObject({ code: "disk_full" });
    expect(rig.leader.status()).toMatchObject({
      condition: "leading",
      trouble: expect.stringContaining("full"),
    });
    expect(await rig.do({ kind: "cancelRequest", requestId: request("a") })).toMatchObject({
      outcome: "accepted",
    });

    hasRoom = true;
    expect(await rig.do(submit("b"))).toMatchObject({ outcome: "accepted" });
    expect(rig.leader.status()).toMatchObject({ condition: "leading", trouble: null });
  });

  test("a component that fills the queue waits until there is room; its key is not used up, and others go on", async () => {
    const rig = await createRig({ settings: { waitingRequestsPerComponentMax: 2 } });
    await createPool(rig, { gpu: 1, components: ["team", "calm"] });
    const key = { idempotency: { scope: "ann", key: "k", bodyHash: "h" } };
    for (const id of ["a", "b", "c"]) await rig.do(submit(id));

    await expect(rig.do(submit("d"), key)).rejects.toMatchObject({ code: "queue_full" });
    expect(await rig.do(submit("e", { component: "calm" as never }))).toMatchObject({ outcome: "accepted" });
    await rig.do({ kind: "cancelRequest", requestId: request("b") });
    expect(await rig.do(submit("d"), key)).toMatchObject({ outcome: "accepted", replayed: false });
  });
});

describe("events", () => {
  async function take(stream: AsyncIterable<StreamMessage>, enough: (seen: StreamMessage[]) => boolean) {
    const seen: StreamMessage[] = [];
    for await (const message of stream) {
      seen.push(message);
      if (enough(seen)) break;
    }
    return seen;
  }
  const seqsOf = (messages: readonly StreamMessage[]) =>
    messages.flatMap((message) => (message.kind === "events" ? message.events.map(({ seq }) => seq) : []));

  test("a stream goes from the store over to what happens now, without gap or repetition", async () => {
    const before = await createRig();
    await createPool(before);
    await before.do(submit("a"));
    await before.leader.close();
    const rig = await createRig({ store: before.store });
    const untilSeq = rig.leader.seq() + 4;

    const reading = take(rig.leader.events(1), (seen) => seqsOf(seen).includes(untilSeq));
    await settle();
    await rig.do(submit("b"));
    await rig.do(submit("c"));
    await rig.do(submit("d"));

    const messages = await reading;
    expect(seqsOf(messages)).toEqual(Array.from({ length: rig.leader.seq() }, (_, i) => i + 1));
    const [first] = messages;
    expect(first?.kind === "events" && first.events[0]?.event).not.toHaveProperty("v");
  });

  test("a position that the journal has never reached, or no longer has, is answered with a reset", async () => {
    const rig = await createRig();
    await createPool(rig);
    const future = await take(rig.leader.events(1_000), (seen) => seen.length === 1);
    expect(future).toEqual([{ kind: "reset", seq: rig.leader.seq() }]);

    const gone: Store = {
      ...rig.store,
      readEvents: async (fromSeq, limit) => {
        if (fromSeq < 3) throw new StoreError("pruned", "gone");
        return rig.store.readEvents(fromSeq, limit);
      },
    };
    await rig.leader.close();
    const restarted = await createRig({ store: gone });
    const past = await take(restarted.leader.events(1), (seen) => seen.length === 1);
    expect(past).toEqual([{ kind: "reset", seq: restarted.leader.seq() }]);
  });

  test("a stream ends when its reader leaves, and when the leader closes", async () => {
    const rig = await createRig();
    const leaving = new AbortController();
    const readings = [
      take(rig.leader.events(1, leaving.signal), () => false),
      take(rig.leader.events(1), () => false),
    ];
    await settle();
    leaving.abort();
    expect(await readings[0]).toEqual([]);
    await rig.leader.close();
    expect(await readings[1]).toEqual([]);
  });
});

describe("closing", () => {
  test("finishes what waits, saves a snapshot, and takes nothing new", async () => {
    const rig = await createRig();
    await createPool(rig);
    const waiting = rig.do(submit("a"));
    const closing = rig.leader.close();

    await expect(rig.do(submit("b"))).rejects.toMatchObject({ code: "stopped" });
    expect(await waiting).toMatchObject({ outcome: "accepted" });
    await closing;
    expect((await rig.store.latestSnapshot())?.seq).toBe(rig.leader.seq());
    expect(await rig.store.lease()).toMatchObject({ holder: null });
  });
});

describe("leases", () => {
  const LEASE_MS = 60_000;
  const settings = { leaseMs: LEASE_MS };

  test("a holder that renews keeps its allocation; a silent one is lost after one and a half leases (L2)", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 2, settings });
    await rig.do(submit("loud", { requeue: "never" }));
    await rig.do(submit("silent", { requeue: "never" }));
    await rig.do(submit("next"));
    const token = await tokenOf(rig, "loud");
    await rig.leader.renew(request("silent"), await tokenOf(rig, "silent"));

    for (let i = 0; i < 4; i++) {
      await rig.clock.advance(20_000);
      expect(await rig.leader.renew(request("loud"), token)).toMatchObject({
        standing: "holding",
        instruction: { do: "carry_on" },
        expiresAtMs: rig.leader.nowMs() + LEASE_MS,
        leaseMs: LEASE_MS,
        renewAfterMs: 20_000,
      });
    }
    await rig.clock.advance(9_999);
    expect(await statusOf(rig, "silent")).toBe("allocated");
    await rig.clock.advance(1);
    expect(await statusOf(rig, "silent")).toBe("expired");
    expect(await statusOf(rig, "loud")).toBe("allocated");
    expect(await statusOf(rig, "next")).toBe("allocated");
  });

  test("a lease that is shorter than the usual renewal is renewed three times as often", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 1, settings: { leaseMs: 6_000 } });
    await rig.do(submit("a"));
    expect(await rig.leader.renew(request("a"), await tokenOf(rig, "a"))).toMatchObject({
      leaseMs: 6_000,
      renewAfterMs: 2_000,
    });
  });

  test("a renewal is answered with what to do, a stale one with its end (L1)", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 1, components: ["team", "urgent"], settings });
    const policy = { pool: pool("main"), component: "urgent" as never, priority: 9 };
    await rig.do({ kind: "updatePolicy", policy });
    await rig.do(submit("a", { checkpoint: "auto", requeue: "never" }));
    const token = await tokenOf(rig, "a");
    await rig.do(submit("b", { component: "urgent" as never }));

    expect(await rig.leader.renew(request("a"), token)).toMatchObject({
      standing: "holding",
      status: "preempting",
      instruction: {
        do: "checkpoint",
        deadlineMs: rig.leader.nowMs() + 600_000,
        stop: { reason: "priority", forRequest: "b" },
      },
    });
    await rig.do({
      kind: "reportCheckpoint",
      requestId: request("a"),
      token,
      checkpoint: { report: "done" },
    });
    expect(await rig.leader.renew(request("a"), token)).toMatchObject({ instruction: { do: "stop" } });
    await rig.do({ kind: "reportEnd", requestId: request("a"), token, outcome: "stopped" });
    expect(await rig.leader.renew(request("a"), token)).toEqual({ standing: "stale", status: "preempted" });
    expect(await rig.leader.renew(request("x"), token)).toEqual({ standing: "unknown" });
    expect(await rig.leader.renew(request("b"), token)).toEqual({ standing: "stale", status: "allocated" });
  });

  test("a report with the token is a sign of life", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 1, settings });
    await rig.do(submit("a", { checkpoint: "auto" }));
    const token = await tokenOf(rig, "a");
    await rig.leader.renew(request("a"), token);
    await rig.clock.advance(80_000);
    const checkpoint = { report: "done" } as const;
    await rig.do({ kind: "reportCheckpoint", requestId: request("a"), token, checkpoint });
    await rig.clock.advance(80_000);

    expect(await tokenOf(rig, "a")).toBe(token);
  });

  test("a holder whose report is in the same batch as the end of its patience is not lost (L2)", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 1, settings });
    await rig.do(submit("a"));
    const token = await tokenOf(rig, "a");
    await rig.leader.renew(request("a"), token);
    await rig.clock.advance(1.5 * LEASE_MS - 1);
    rig.clock.freeze(1);
    // Its patience is over now, but what it has to say comes first.
    const answer = await rig.do({ kind: "reportEnd", requestId: request("a"), token, outcome: "succeeded" });
    expect(answer).toMatchObject({ outcome: "accepted" });
    expect(await statusOf(rig, "a")).toBe("released");
  });

  test("an attended request that waits expires when its client is silent for a lease (L2)", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 1, settings });
    await rig.do(submit("a"));
    await rig.do(submit("attended", { attended: true }));
    await rig.do(submit("unattended"));
    const token = await tokenOf(rig, "a");

    for (let i = 0; i < 3; i++) {
      await rig.clock.advance(40_000);
      await rig.leader.renew(request("a"), token);
      expect(await rig.leader.renew(request("attended"), null)).toMatchObject({ standing: "waiting" });
    }
    await rig.clock.advance(LEASE_MS - 1);
    expect(await statusOf(rig, "attended")).toBe("queued");
    await rig.clock.advance(1);
    expect(await statusOf(rig, "attended")).toBe("expired");
    expect(await statusOf(rig, "unattended")).toBe("queued");
  });

  test("after a restart all leases start afresh (L3)", async () => {
    const clock = createFakeClock();
    const rig = await createRig({ clock });
    await createPool(rig, { gpu: 1, settings });
    await rig.do(submit("a", { requeue: "never" }));
    await clock.advance(50_000);
    await rig.leader.close();
    clock.freeze(3_600_000);

    const restarted = await createRig({ store: rig.store, clock });
    await clock.advance(89_999);
    expect(await statusOf(restarted, "a")).toBe("allocated");
    await clock.advance(1);
    expect(await statusOf(restarted, "a")).toBe("expired");
  });

  test("a server that was frozen does not take its own deafness for silence (L3)", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 1, settings });
    await rig.do(submit("a", { requeue: "never" }));
    await rig.leader.renew(request("a"), await tokenOf(rig, "a"));
    rig.clock.freeze(3_600_000);
    await rig.clock.advance(60_000);

    expect(await statusOf(rig, "a")).toBe("allocated");
  });

  test("when many holders fall silent at once expiry pauses, with an alert (L3)", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 10, settings });
    for (let i = 0; i < 10; i++) await rig.do(submit(`r${i}`, { requeue: "never" }));
    const tokens = await Promise.all(Array.from({ length: 10 }, (_, i) => tokenOf(rig, `r${i}`)));
    const renew = async (from: number) => {
      for (let i = from; i < 10; i++)
        await rig.leader.renew(request(`r${i}`), tokens[i] as number, `client ${i}`);
    };
    const statuses = () => Promise.all(Array.from({ length: 10 }, (_, i) => statusOf(rig, `r${i}`)));

    await renew(0);
    for (let i = 0; i < 6; i++) {
      await rig.clock.advance(20_000);
      await renew(5); // Half of them are silent from now on.
    }
    expect(new Set(await statuses())).toEqual(new Set(["allocated"]));
    expect(rig.leader.status().brakes).toMatchObject([{ group: "main", silent: 5, clients: 10 }]);
    expect((await rig.store.listAudit({ limit: 1 })).items).toMatchObject([
      { action: "pause_expiry", target: "main", outcome: "alert" },
    ]);

    await rig.leader.renew(request("r0"), tokens[0] as number); // Four silent ones are no mass any more.
    await rig.clock.advance(20_000);
    await renew(5);
    expect(await statuses()).toEqual([
      "allocated",
      ...["expired", "expired", "expired", "expired"],
      ...["allocated", "allocated", "allocated", "allocated", "allocated"],
    ]);
    expect(rig.leader.status().brakes).toEqual([]);
  });

  test("a grant that nobody takes up is expired after one lease, and not granted again (L2)", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 1, settings });
    await rig.do(submit("ghost"));
    await rig.do(submit("next"));
    await rig.clock.advance(LEASE_MS - 1);
    expect(await statusOf(rig, "ghost")).toBe("allocated");
    await rig.clock.advance(1);
    expect(await statusOf(rig, "ghost")).toBe("expired");
    expect(await statusOf(rig, "next")).toBe("allocated");
  });

  test("cancelling a grant that was never taken up frees it at once, also under an attended client that is silent", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 3, settings });
    await rig.do(submit("ghost"));
    await rig.do(submit("attended", { attended: true }));
    await rig.do(submit("held"));
    await rig.leader.renew(request("held"), await tokenOf(rig, "held"));
    const cancel = (id: string) => rig.do({ kind: "cancelRequest", requestId: request(id) });

    await cancel("ghost");
    expect(await statusOf(rig, "ghost")).toBe("cancelled");
    await cancel("attended");
    await cancel("held");
    expect(await statusOf(rig, "attended")).toBe("allocated"); // It may be starting at this moment.
    await rig.clock.advance(40_001);
    await cancel("attended");
    await cancel("held");
    expect(await statusOf(rig, "attended")).toBe("cancelled");
    expect(await statusOf(rig, "held")).toBe("allocated");
  });

  test("a deletion by force takes the record away with the end of the run (Q6)", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 1, settings });
    await rig.do(submit("a"));
    const token = await tokenOf(rig, "a");
    await rig.leader.renew(request("a"), token);
    for (let i = 0; i < 2; i++) await rig.do({ kind: "deleteRequest", requestId: request("a"), force: true });
    expect(await statusOf(rig, "a")).toBe("allocated");
    await rig.do({ kind: "reportEnd", requestId: request("a"), token, outcome: "stopped" });
    expect(await statusOf(rig, "a")).toBeUndefined();
    expect(await rig.store.getRequest("a")).toBeUndefined();
  });

  test("an operator ends a pause of expiry, which is in the audit log (L3)", async () => {
    const rig = await createRig();
    await createPool(rig, { gpu: 5, settings });
    for (let i = 0; i < 5; i++) {
      await rig.do(submit(`r${i}`, { requeue: "never" }));
      await rig.leader.renew(request(`r${i}`), await tokenOf(rig, `r${i}`), `client ${i}`);
    }
    const resume = () => rig.leader.perform({ kind: "resumeExpiry", name: pool("main") }, { actor: "ann" });
    await rig.clock.advance(90_000);
    expect(rig.leader.status().brakes).toHaveLength(1);
    expect(await resume()).toMatchObject({ outcome: "accepted" });
    expect(rig.leader.status().brakes).toEqual([]);
    expect(await statusOf(rig, "r0")).toBe("expired");
    expect((await rig.store.listAudit({ limit: 1 })).items).toMatchObject([
      { action: "resumeExpiry", target: "main", outcome: "accepted" },
    ]);
  });
});
