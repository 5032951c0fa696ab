// What every store must do, whatever keeps its bytes. Each store runs the whole suite.

import { Readable } from "node:stream";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  type Attachment,
  type AuditEntry,
  type Commit,
  type DecisionRecord,
  type Head,
  type HistoryQuery,
  type HistoryRecord,
  isStoreError,
  type RequestQuery,
  type RequestRecord,
  type Retention,
  type Snapshot,
  type SnapshotDraft,
  type Store,
  type StoreErrorCode,
  type TokenRecord,
} from "../../src/store/index.ts";

export type StoreHarness = {
  /** Opens the store of the running test, again if it was closed. */
  open(): Promise<Store>;
  /** Changes it behind its back. */
  tamper(sql: string): Promise<void>;
};

export type ContractSubject = {
  /** A store that forgets when it is closed can be neither opened again nor damaged in between. */
  readonly isDurable: boolean;
  /** Whatever takes long and can serve all tests. */
  start?(): Promise<void>;
  stop?(): Promise<void>;
  /** An empty store, for one test. */
  create(): Promise<StoreHarness>;
  destroy(harness: StoreHarness): Promise<void>;
};

export function storeContract(name: string, subject: ContractSubject): void {
  describe(`the ${name} store`, () => {
    let harness: StoreHarness;
    let store: Store;

    beforeAll(() => subject.start?.());
    afterAll(() => subject.stop?.());
    beforeEach(async () => {
      harness = await subject.create();
      store = await harness.open();
    });
    afterEach(async () => {
      await store.close();
      await subject.destroy(harness);
    });

    const lead = () => store.takeOver({ holder: "server-1" });

    /** Commits after `head`, one second later. */
    const commitAfter = (head: Head, changes: Partial<Commit>) =>
      store.commit({ epoch: head.epoch, expectedSeq: head.seq, atMs: head.atMs + 1_000, ...changes });

    describe("journal", () => {
      test("a new store is empty, and belongs to a cluster of its own", async () => {
        expect(await store.head()).toMatchObject({ epoch: 0, seq: 0, atMs: 0, auditId: 0 });
        expect(await store.readEvents(1, 10)).toEqual([]);
        expect(await store.latestSnapshot()).toBeUndefined();
        expect(store.meta.clusterId).toMatch(/^[0-9a-f-]{36}$/);
        expect(store.meta.schemaVersion).toBe(store.meta.kind === "postgres" ? 7 : 6);
      });

      test("a commit appends its events in order and moves the head", async () => {
        const head = await commitAfter(await lead(), { events: [event("a"), event("b")] });
        expect(head).toMatchObject({ epoch: 1, seq: 2, atMs: 1_000 });
        expect(await store.head()).toEqual(head);
        expect(await store.readEvents(1, 10)).toEqual([
          { seq: 1, epoch: 1, atMs: 1_000, event: event("a") },
          { seq: 2, epoch: 1, atMs: 1_000, event: event("b") },
        ]);
      });

      test("the same commits give the same hashes in every store", async () => {
        // Computed by another program from the description of the chain.
        let head = await commitAfter(await lead(), { events: [event("a"), event("b")] });
        head = await commitAfter(head, { events: [event("ç")], audit: [auditEntry("ann")] });
        expect(head.hash).toBe("1607ca65629beac3b983b4e7700153c4e1427e595edb2e425e945faae4e5fb0a");
        expect(head.auditHash).toBe("5ce0c5452115b289a4ec7c67b60f6e70c1be0db6df7bae0a4652e59845525c46");
      });

      const ranges: Record<string, { fromSeq: number; limit: number; want: number[] }> = {
        "from the start": { fromSeq: 1, limit: 2, want: [1, 2] },
        "from the middle of a commit": { fromSeq: 2, limit: 1, want: [2] },
        "across commits": { fromSeq: 3, limit: 4, want: [3, 4, 5, 6] },
        "up to the end": { fromSeq: 5, limit: 100, want: [5, 6, 7] },
        "past the end": { fromSeq: 8, limit: 100, want: [] },
      };
      for (const [range, { fromSeq, limit, want }] of Object.entries(ranges)) {
        test(`events are read ${range}`, async () => {
          let head = await lead();
          for (const count of [3, 1, 3]) {
            head = await commitAfter(head, { events: Array.from({ length: count }, () => event("x")) });
          }
          const events = await store.readEvents(fromSeq, limit);
          expect(events.map(({ seq }) => seq)).toEqual(want);
        });
      }

      test("a reader goes on from where it stands, a few commits at a time", async () => {
        let head = await lead();
        const start = head;
        for (const count of [3, 1, 3]) {
          head = await commitAfter(head, { events: Array.from({ length: count }, () => event("x")) });
        }
        const first = await store.readAfter(start, 2);
        expect(first.events.map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
        expect(first.head).toEqual(head);
        const rest = await store.readAfter(first.reached, 2);
        expect(rest.events.map(({ seq }) => seq)).toEqual([5, 6, 7]);
        expect(rest.reached).toMatchObject({ seq: 7, hash: head.hash });
        expect(await store.readAfter(rest.reached, 2)).toEqual({ head, events: [], reached: rest.reached });
      });

      test("a reader learns that the journal does not contain any more what it has read (C14)", async () => {
        const head = await commitAfter(await lead(), { events: [event("a"), event("b")] });
        await expectCode(store.readAfter({ ...head, seq: 3 }, 10), "history_lost");
        await expectCode(store.readAfter({ ...head, hash: "0".repeat(64) }, 10), "history_lost");
        const next = await commitAfter(head, { events: [event("c")] });
        await expectCode(store.readAfter({ ...head, hash: "0".repeat(64) }, 10), "history_lost");
        expect((await store.readAfter(head, 10)).head).toEqual(next);
      });

      test("a commit without events leaves the journal where it is", async () => {
        const before = await commitAfter(await lead(), { events: [event("a")] });
        const after = await commitAfter(before, { audit: [auditEntry("ann")] });
        expect(after).toMatchObject({ seq: 1, hash: before.hash, auditId: 1, atMs: 2_000 });
        expect((await commitAfter(after, { events: [event("b")] })).seq).toBe(2);
      });

      test("a commit that goes back in time is refused", async () => {
        const head = await commitAfter(await lead(), { events: [event("a")] });
        await expect(commitAfter(head, { atMs: 999, events: [event("b")] })).rejects.toThrow(RangeError);
        expect(await store.head()).toEqual(head);
      });
    });

    describe("fencing", () => {
      test("an old epoch writes nothing at all", async () => {
        const old = await commitAfter(await lead(), { events: [event("a")] });
        const now = await store.takeOver({ holder: "server-2" });
        expect(now).toEqual({ ...old, epoch: 2 });
        await expectCode(commitAfter(old, everything()), "fenced");
        await expectNothingOf(store, now);
      });

      test("a wrong sequence number writes nothing at all", async () => {
        const head = await commitAfter(await lead(), { events: [event("a")] });
        await expectCode(commitAfter({ ...head, seq: 0 }, everything()), "fenced");
        await expectCode(commitAfter({ ...head, seq: 2 }, everything()), "fenced");
        await expectNothingOf(store, head);
      });

      test("of two commits after the same head one is made", async () => {
        const head = await lead();
        const outcomes = await Promise.allSettled([
          commitAfter(head, { events: [event("a")] }),
          commitAfter(head, { events: [event("b")] }),
        ]);
        expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
        expect(await store.readEvents(1, 10)).toHaveLength(1);
      });

      test("commits that follow on each other are made in order, though nobody waits for them", async () => {
        const head = await lead();
        const heads = await Promise.all(
          ["a", "b", "c"].map((name, index) =>
            commitAfter({ ...head, seq: index }, { events: [event(name)], audit: [auditEntry(name)] }),
          ),
        );
        expect(heads.map(({ seq, auditId }) => [seq, auditId])).toEqual([
          [1, 1],
          [2, 2],
          [3, 3],
        ]);
        const events = await store.readEvents(1, 10);
        expect(events.map((each) => each.event)).toEqual(["a", "b", "c"].map(event));
        expect(await store.head()).toEqual(heads.at(-1));
        expect((await store.verify()).damage).toEqual([]);
      });

      test("what follows on a commit that fails, fails, and the writer goes on", async () => {
        const old = await lead();
        const now = await store.takeOver({ holder: "server-2" });
        const outcomes = await Promise.allSettled([
          commitAfter(old, { events: [event("a")] }),
          commitAfter({ ...old, seq: 1 }, { events: [event("b")] }),
        ]);
        expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
        expect(await store.readEvents(1, 10)).toEqual([]);
        expect((await commitAfter(now, { events: [event("c")] })).seq).toBe(1);
      });

      test("the writer goes on after a refused commit", async () => {
        const head = await lead();
        await expectCode(commitAfter({ ...head, epoch: 7 }, { events: [event("a")] }), "fenced");
        expect((await commitAfter(head, { events: [event("b")] })).seq).toBe(1);
      });

      test("the new epoch is above any that was reported", async () => {
        expect((await store.takeOver({ holder: "server-1", epochFloor: 41 })).epoch).toBe(42);
      });

      test("nobody takes over from a leader that renews", async () => {
        const { epoch } = await lead();
        const observed = await store.lease();
        expect(observed).toEqual({ epoch: 1, holder: "server-1", renewals: 0 });
        expect(await store.renewLease(epoch)).toBe(true);
        await expectCode(store.takeOver({ holder: "server-2", observed }), "fenced");
        expect(await store.lease()).toEqual({ epoch: 1, holder: "server-1", renewals: 1 });
        expect((await store.head()).epoch).toBe(1);

        const silent = await store.lease();
        expect((await store.takeOver({ holder: "server-2", observed: silent })).epoch).toBe(2);
        expect(await store.renewLease(epoch)).toBe(false);
      });

      test("a released lease has no holder, and releasing it late changes nothing", async () => {
        const { epoch } = await lead();
        await store.releaseLease(epoch);
        expect(await store.lease()).toMatchObject({ epoch: 1, holder: null });
        expect(await store.renewLease(epoch)).toBe(false);
        await store.takeOver({ holder: "server-2" });
        await store.releaseLease(epoch);
        expect(await store.lease()).toMatchObject({ epoch: 2, holder: "server-2" });
      });
    });

    describe("records", () => {
      test("a form of events is written when all servers read it, and stays (C12)", async () => {
        const [member, minute] = [{ url: null, version: "1", seq: 0 }, 60_000];
        await store.beat({ ...member, id: "old", eventForm: 1 });
        await store.beat({ ...member, id: "new", eventForm: 3 });
        expect(await store.raiseEventForm(3, minute)).toBe(1);
        await store.beat({ ...member, id: "old", eventForm: 2 });
        expect(await store.raiseEventForm(2, minute)).toBe(2);
        expect(await store.raiseEventForm(3, minute)).toBe(2);
        await store.beat({ ...member, id: "old", eventForm: 10 });
        expect(await store.raiseEventForm(10, -minute)).toBe(10); // Nobody was alive in the future.
        await store.beat({ ...member, id: "old", eventForm: 1 });
        expect(await store.raiseEventForm(3, minute)).toBe(10);
      });

      test("a request is found by id and by number, as it was written last", async () => {
        const head = await commitAfter(await lead(), { requests: [request(1), request(2)] });
        const ended = { ...request(1), status: "released", endedAtMs: 9, body: { exit_code: 0 } };
        await commitAfter(head, { requests: [ended] });
        expect(await store.getRequest("id-1")).toEqual(ended);
        expect(await store.getRequestByNumber(2)).toEqual(request(2));
        expect(await store.getRequest("id-3")).toBeUndefined();
        expect(await store.getRequestByNumber(3)).toBeUndefined();
      });

      test("written twice in one commit, the last one counts", async () => {
        await commitAfter(await lead(), {
          requests: [request(1), { ...request(1), status: "cancelled" }],
          decisions: [decision("id-1", 4), { ...decision("id-1", 4), body: "second" }],
        });
        expect(await store.getRequest("id-1")).toMatchObject({ status: "cancelled" });
        expect(await store.listDecisions("id-1")).toMatchObject([{ body: "second" }]);
      });

      const lists: Record<string, { query: Partial<RequestQuery>; want: number[] }> = {
        "all, newest first": { query: {}, want: [5, 4, 3, 2, 1] },
        "of a status": { query: { status: ["queued"] }, want: [5, 1] },
        "of several statuses": { query: { status: ["released", "failed"] }, want: [4, 3, 2] },
        "of no status": { query: { status: [] }, want: [] },
        "of a pool": { query: { pool: "gpus" }, want: [4, 3] },
        "of a component": { query: { component: "eval" }, want: [5, 2] },
        "of an operation": { query: { operation: "run-7" }, want: [4] },
        "with a label": { query: { label: { key: "team", value: "vision" } }, want: [3, 1] },
        "with a label whose key is hostile": {
          query: { label: { key: "$.a\"'?@[0]", value: "%_" } },
          want: [2],
        },
        "with a label that only looks alike": {
          query: { label: { key: "team", value: "Vision" } },
          want: [],
        },
        "by the start of an id": { query: { idPrefix: "ID-b" }, want: [5, 4] },
        "that have ended": { query: { ended: true }, want: [4, 3, 2] },
        "that have ended since a moment": { query: { endedSinceMs: 6 }, want: [4, 3] },
        "that live": { query: { ended: false }, want: [5, 1] },
        "by everything at once": {
          query: { status: ["released"], pool: "gpus", component: "train", ended: true, operation: "run-7" },
          want: [4],
        },
      };
      for (const [which, { query, want }] of Object.entries(lists)) {
        test(`requests are listed: ${which}`, async () => {
          await commitAfter(await lead(), {
            requests: [
              request(1, { id: "ID-a1", labels: { team: "vision" } }),
              request(2, {
                id: "id-b2",
                status: "failed",
                component: "eval",
                endedAtMs: 5,
                labels: { "$.a\"'?@[0]": "%_" },
              }),
              request(3, {
                id: "ID-a3",
                status: "released",
                pool: "gpus",
                endedAtMs: 6,
                labels: { x: "y", team: "vision" },
              }),
              request(4, { id: "ID-b4", status: "released", pool: "gpus", operation: "run-7", endedAtMs: 7 }),
              request(5, { id: "ID-bé5", component: "eval", labels: { vision: "team" } }),
            ],
          });
          const page = await store.listRequests({ limit: 100, ...query });
          expect(page.items.map(({ number }) => number)).toEqual(want);
          expect(page.nextCursor).toBeNull();
        });
      }

      test("requests that have ended lately are read page by page, the latest end first", async () => {
        const ends = [50, 20, 40, 40, 10];
        await commitAfter(await lead(), {
          requests: ends.map((endedAtMs, index) => request(index + 1, { status: "released", endedAtMs })),
        });
        const numbers: number[] = [];
        for (let cursor: string | null = null; ; ) {
          const query = { endedSinceMs: 20, limit: 1, ...(cursor !== null && { cursor }) };
          const page: Awaited<ReturnType<Store["listRequests"]>> = await store.listRequests(query);
          numbers.push(...page.items.map(({ number }) => number));
          cursor = page.nextCursor;
          if (cursor === null) break;
        }
        expect(numbers).toEqual([1, 4, 3, 2]);
      });

      test("a request that is written again has its new labels, and is found by them (Q9)", async () => {
        const head = await commitAfter(await lead(), {
          requests: [request(1, { labels: { team: "vision" } })],
        });
        const changed = request(1, { labels: { team: "speech", run: "7" } });
        await commitAfter(head, { requests: [changed] });
        expect(await store.getRequest(changed.id)).toEqual(changed);
        const found = await store.listRequests({ limit: 10, label: { key: "team", value: "speech" } });
        expect(found.items).toEqual([changed]);
      });

      test("a request that asks for more is written with its new time of submission (Q9)", async () => {
        const head = await commitAfter(await lead(), { requests: [request(1, { submittedAtMs: 10 })] });
        const changed = request(1, { submittedAtMs: 20, body: { resources: { gpu: 2 } } });
        await commitAfter(head, { requests: [changed] });
        expect(await store.getRequest(changed.id)).toEqual(changed);
        expect((await store.listRequests({ limit: 10 })).items).toEqual([changed]);
      });

      test("requests are listed page by page, whatever is added meanwhile", async () => {
        let head = await commitAfter(await lead(), { requests: [1, 2, 3, 4, 5].map((n) => request(n)) });
        const first = await store.listRequests({ limit: 2 });
        expect(first.items.map(({ number }) => number)).toEqual([5, 4]);
        head = await commitAfter(head, { requests: [request(6)] });
        const second = await store.listRequests({ limit: 2, cursor: first.nextCursor! });
        expect(second.items.map(({ number }) => number)).toEqual([3, 2]);
        const third = await store.listRequests({ limit: 2, cursor: second.nextCursor! });
        expect(third.items.map(({ number }) => number)).toEqual([1]);
        expect(third.nextCursor).toBeNull();
      });

      test.each(["", "x", "-1", "1.5", "1e99", "NaN", "9".repeat(40)])(
        "no page follows the cursor %j",
        async (cursor) => {
          await commitAfter(await lead(), { requests: [request(1)], audit: [auditEntry("ann")] });
          expect(await store.listRequests({ limit: 2, cursor })).toEqual({ items: [], nextCursor: null });
          expect(await store.listAudit({ limit: 2, cursor })).toEqual({ items: [], nextCursor: null });
        },
      );

      test.each([0, -1, 1.5, 1e99, Number.NaN])("no request has the number %d", async (number) => {
        await commitAfter(await lead(), { requests: [request(1)] });
        expect(await store.getRequestByNumber(number)).toBeUndefined();
      });

      test("decisions are listed by request, oldest first", async () => {
        const decisions = [decision("id-1", 10), decision("id-2", 3), decision("id-1", 9)];
        await commitAfter(await lead(), { decisions });
        expect(await store.listDecisions("id-1")).toEqual([decisions[2], decisions[0]]);
        expect(await store.listDecisions("id-3")).toEqual([]);
      });

      test("an attachment is kept as it is, and replaced by its name (J2)", async () => {
        const body = { command: ["sh", "-c", "echo '\u001f\"\\'"], environment: { KEY: "ä 🦊" } };
        const head = await commitAfter(await lead(), {
          attachments: [
            attachment("id-1", "run", body),
            attachment("id-1", "log 7"),
            attachment("id-2", "run"),
          ],
        });
        expect(await store.getAttachment("id-1", "run")).toEqual(attachment("id-1", "run", body));
        expect(await store.getAttachment("id-1", "log 8")).toBeUndefined();
        await commitAfter(head, { attachments: [attachment("id-1", "log 7", "later")] });
        expect(await store.getAttachment("id-1", "log 7")).toEqual(attachment("id-1", "log 7", "later"));
        expect(await store.getAttachment("id-2", "run")).toEqual(attachment("id-2", "run"));
      });

      test("a deleted request is forgotten with its decisions and attachments (Q6)", async () => {
        const head = await commitAfter(await lead(), {
          requests: [request(1), request(2)],
          attachments: [attachment("id-1", "run"), attachment("id-2", "run")],
          decisions: [decision("id-1", 1), decision("id-2", 2)],
        });
        await commitAfter(head, { deletedRequestIds: ["id-1", "never-seen"] });
        expect(await store.getRequest("id-1")).toBeUndefined();
        expect(await store.listDecisions("id-1")).toEqual([]);
        expect(await store.getAttachment("id-1", "run")).toBeUndefined();
        expect(await store.getAttachment("id-2", "run")).toBeDefined();
        expect(await store.getRequest("id-2")).toEqual(request(2));
        expect(await store.listDecisions("id-2")).toHaveLength(1);
      });

      test("the audit is listed newest first, with the place of each entry in the journal", async () => {
        let head = await commitAfter(await lead(), {
          events: [event("a")],
          audit: [auditEntry("ann"), auditEntry("bob")],
        });
        head = await commitAfter(head, { audit: [auditEntry("eve")] });
        const first = await store.listAudit({ limit: 2 });
        expect(first.items).toEqual([
          { ...auditEntry("eve"), id: 3, seq: 1, atMs: 2_000, hash: head.auditHash },
          { ...auditEntry("bob"), id: 2, seq: 1, atMs: 1_000, hash: expect.any(String) },
        ]);
        const second = await store.listAudit({ limit: 2, cursor: first.nextCursor! });
        expect(second.items.map(({ actor }) => actor)).toEqual(["ann"]);
        expect(second.nextCursor).toBeNull();
      });

      test("answers are found by scope and key, in the order asked", async () => {
        const answer = { scope: "token-1", key: "k", atMs: 1, bodyHash: "abc", answer: { id: "id-1" } };
        const other = { ...answer, scope: "token-2", answer: [1, null, "x"] };
        await commitAfter(await lead(), { idempotency: [answer, other] });
        const found = await store.findAnswers([
          { scope: "token-2", key: "k" },
          { scope: "token-1", key: "unknown" },
          { scope: "token-1", key: "k" },
          { scope: "token-1", key: "k" },
        ]);
        expect(found).toEqual([other, undefined, answer, answer]);
        expect(await store.findAnswers([])).toEqual([]);
      });

      test("tokens are listed by age, revoked by writing them again, and deleted", async () => {
        const admin = token("t-1", { createdAtMs: 2 });
        const scoped = token("t-2", { createdAtMs: 1, components: ["train"], pools: [], expiresAtMs: 5 });
        let head = await commitAfter(await lead(), { tokens: [admin, scoped] });
        expect(await store.listTokens()).toEqual([scoped, admin]);
        const revoked = { ...admin, revokedAtMs: 77 };
        head = await commitAfter(head, { tokens: [revoked], deletedTokenIds: ["t-2"] });
        expect(await store.listTokens()).toEqual([revoked]);
      });

      test("targets are listed by name, written again, and deleted", async () => {
        const target = (name: string, seq = 0) => ({ name, body: { seq } });
        let head = await commitAfter(await lead(), { targets: [target("slack"), target("hook")] });
        expect(await store.listTargets()).toEqual([target("hook"), target("slack")]);
        head = await commitAfter(head, { targets: [target("slack", 7)], deletedTargets: ["hook", "none"] });
        expect(await store.listTargets()).toEqual([target("slack", 7)]);
      });

      test("any text is kept, but for what no database can hold", async () => {
        const text = "quote \" ' backslash \\ newline \n tab \t brace {}, null NULL, é, 🚢, \u2028";
        const impossible = "nul \0 half \ud83d";
        const head = await commitAfter(await lead(), {
          events: [{ ...event("a"), text, impossible } as ReturnType<typeof event>],
          requests: [request(1, { component: text, pool: impossible, body: { text, impossible } })],
          idempotency: [{ scope: impossible, key: text, atMs: 1, bodyHash: "h", answer: impossible }],
          audit: [{ ...auditEntry(impossible), target: text, body: { impossible } }],
          tokens: [token("t-1", { name: text })],
        });
        expect((await store.readEvents(1, 1))[0]?.event).toEqual({ ...event("a"), text, impossible });
        expect(await store.getRequest("id-1")).toMatchObject({
          component: text,
          pool: "nul \ufffd half \ufffd",
          body: { text, impossible },
        });
        expect(await store.findAnswers([{ scope: impossible, key: text }])).toMatchObject([
          { answer: impossible },
        ]);
        expect((await store.listAudit({ limit: 1 })).items).toMatchObject([
          { target: text, body: { impossible } },
        ]);
        expect((await store.listTokens())[0]?.name).toBe(text);
        expect(await store.verify()).toMatchObject({ events: head.seq, damage: [] });
      });

      test("a large batch is one commit", async () => {
        const numbers = Array.from({ length: 1_000 }, (_, index) => index + 1);
        await commitAfter(await lead(), {
          events: numbers.map((n) => event(`e${n}`)),
          requests: numbers.map((n) => request(n)),
        });
        expect(await store.readEvents(1, 5_000)).toHaveLength(1_000);
        expect((await store.sizes()).requests).toBe(1_000);
      });
    });

    describe("snapshots and retention", () => {
      test("the newest snapshot is returned as it was saved", async () => {
        await commitAfter(await lead(), { events: [event("a"), event("b")] });
        await store.saveSnapshot(draft({ seq: 2, atMs: 20, stateHash: "h2" }, "two"));
        await store.saveSnapshot(draft({ seq: 1, atMs: 10, stateHash: "h1" }, "one"));
        await store.saveSnapshot(draft({ seq: 2, atMs: 21, stateHash: "h3" }, "two ", "again"));
        const latest = await store.latestSnapshot();
        expect(latest).toMatchObject({ seq: 2, atMs: 21, stateHash: "h3" });
        expect(await textOf(latest)).toBe("two again");
        expect(await textOf(await store.latestSnapshot(2))).toBe("one");
      });

      test("commits pass between the pieces of a snapshot, and one that is interrupted leaves nothing", async () => {
        const head = await commitAfter(await lead(), { events: [event("a")] });
        await store.saveSnapshot(draft({ seq: 1 }, "whole"));
        async function* interrupted() {
          yield new TextEncoder().encode("half");
          await commitAfter(head, { events: [event("b")] });
          throw new Error("the process ended");
        }
        const saving = store.saveSnapshot({ ...draft({ seq: 1 }), pieces: interrupted() });
        await expect(saving).rejects.toThrow("the process ended");
        expect((await store.head()).seq).toBe(2);
        expect(await store.latestSnapshot()).toBeUndefined(); // The journal is whole, and says it all.

        await store.saveSnapshot(draft({ seq: 1 }, "new"));
        expect(await textOf(await store.latestSnapshot())).toBe("new");
        expect((await store.verify()).damage).toEqual([]);
      });

      test("a snapshot cannot be ahead of the journal", async () => {
        await lead();
        await expect(store.saveSnapshot(draft({ seq: 1 }))).rejects.toThrow(RangeError);
      });

      const DAY_MS = 86_400_000;
      const retention: Retention = {
        journalMs: 30 * DAY_MS,
        endedRequestsMs: 90 * DAY_MS,
        idempotencyMs: DAY_MS,
        auditMs: 365 * DAY_MS,
        samplesMs: 14 * DAY_MS,
        daysMs: 730 * DAY_MS,
      };

      /** One event and one audit entry a day, for ten days; requests 1 to 10 end on these days, 11 lives on. */
      async function tenDays(): Promise<Head> {
        let head = await lead();
        for (let day = 1; day <= 10; day++) {
          head = await commitAfter(head, {
            atMs: day * DAY_MS,
            events: [event(`day-${day}`)],
            audit: [auditEntry(`day-${day}`)],
            requests: [request(day, { status: "released", endedAtMs: day * DAY_MS })],
            decisions: [decision(`id-${day}`, day)],
            attachments: [attachment(`id-${day}`, "run")],
            idempotency: [{ scope: "s", key: `day-${day}`, atMs: day * DAY_MS, bodyHash: "h", answer: day }],
          });
        }
        return commitAfter(head, { requests: [request(11)], decisions: [decision("id-11", 1)] });
      }

      test("history is read in order, replaced by its key, and goes by its kind", async () => {
        const at = (kind: "day" | "sample", day: number, pool: string, part = "") => ({
          ...{ kind, atMs: day * DAY_MS, pool, part, body: { day } },
        });
        const days = [1, 2, 3].flatMap((day) => [
          at("day", day, "a", "x"),
          at("day", day, "a", "y"),
          at("day", day, "b", "x"),
        ]);
        const head = await commitAfter(await lead(), { history: [...days, at("sample", 2, "a")] });
        const read = async (query: Omit<HistoryQuery, "fromMs" | "toMs"> & Partial<HistoryQuery>) => {
          const found: HistoryRecord[] = [];
          const all = { fromMs: 0, toMs: 99 * DAY_MS, ...query };
          for await (const records of store.listHistory(all)) found.push(...records);
          return found;
        };
        expect(await read({ kind: "day" })).toEqual(days);
        expect(await read({ kind: "day", pool: "a", fromMs: 2 * DAY_MS, toMs: 3 * DAY_MS })).toEqual([
          days[3],
          days[4],
        ]);
        expect(await read({ kind: "sample" })).toEqual([at("sample", 2, "a")]);
        expect(await store.sizes()).toMatchObject({ history: 10 });

        const changed = { ...days[0]!, body: { changed: true } };
        await commitAfter(head, { history: [changed, { ...changed, body: { changed: "twice" } }] });
        expect((await read({ kind: "day" }))[0]).toMatchObject({ body: { changed: "twice" } });

        expect((await store.prune(retention, 17 * DAY_MS)).history).toBe(1); // The sample.
        expect((await store.prune(retention, 732 * DAY_MS)).history).toBe(3); // The first day.
        expect(await read({ kind: "day" })).toHaveLength(6);
      });

      test("a long history is read page by page", async () => {
        const many = Array.from({ length: 1_201 }, (_, i) => ({
          ...{ kind: "sample" as const, atMs: i, pool: "p", part: "", body: i },
        }));
        await commitAfter(await lead(), { history: many });
        const pages: number[] = [];
        for await (const records of store.listHistory({ kind: "sample", pool: "p", fromMs: 0, toMs: 9_999 }))
          pages.push(records.length);
        expect(pages).toEqual([500, 500, 201]);
      });

      const snapshotAt = (seq: number) => store.saveSnapshot(draft({ seq }, "state"));

      test("the journal goes up to the older of two snapshots, and not before its time", async () => {
        const head = await tenDays();
        await snapshotAt(6);
        await snapshotAt(9);
        const tooEarly = await store.prune(retention, 31 * DAY_MS);
        expect(tooEarly.events).toBe(0);

        expect((await store.prune(retention, 34 * DAY_MS + 1)).events).toBe(4); // Of days 1 to 4.
        expect((await store.prune(retention, 99 * DAY_MS)).events).toBe(2); // Days 5 and 6; the rest is not covered.
        await expectCode(store.readEvents(6, 10), "pruned");
        await expectCode(store.readAfter({ seq: 5, hash: "", epoch: 0, atMs: 0 }, 10), "pruned");
        expect((await store.readEvents(7, 10)).map(({ seq }) => seq)).toEqual([7, 8, 9, 10]);
        expect(await store.sizes()).toMatchObject({ events: 4, firstSeq: 7 });
        expect(await store.verify()).toMatchObject({ events: 4, damage: [] });
        expect((await commitAfter(head, { events: [event("next")] })).seq).toBe(11);
      });

      test("the journal stays whole while there is one snapshot only", async () => {
        await tenDays();
        await snapshotAt(9);
        expect((await store.prune(retention, 999 * DAY_MS)).events).toBe(0);
        expect(await store.readEvents(1, 100)).toHaveLength(10);
      });

      test("old snapshots go, the two newest stay", async () => {
        await tenDays();
        for (const seq of [1, 2, 3, 4]) await snapshotAt(seq);
        expect((await store.prune(retention, 0)).snapshots).toBe(2);
        expect(await store.latestSnapshot()).toMatchObject({ seq: 4 });
        expect(await store.sizes()).toMatchObject({ snapshots: 2 });
      });

      test("ended requests go with their decisions, live ones stay for ever", async () => {
        await tenDays();
        const pruned = await store.prune(retention, 93 * DAY_MS + 1);
        expect(pruned).toMatchObject({ requests: 3, decisions: 3 });
        expect(await store.getRequest("id-3")).toBeUndefined();
        expect(await store.listDecisions("id-3")).toEqual([]);
        expect(await store.getAttachment("id-3", "run")).toBeUndefined();
        expect(await store.getAttachment("id-4", "run")).toBeDefined();
        expect(await store.getRequest("id-4")).toBeDefined();
        await store.prune(retention, 9_999 * DAY_MS);
        expect((await store.listRequests({ limit: 10 })).items.map(({ id }) => id)).toEqual(["id-11"]);
        expect(await store.listDecisions("id-11")).toHaveLength(1);
      });

      test("idempotency keys and audit entries go when their time is over", async () => {
        const head = await tenDays();
        expect((await store.prune(retention, 10 * DAY_MS)).idempotency).toBe(8); // Day 9 is exactly a day ago.
        expect(await store.findAnswers([{ scope: "s", key: "day-9" }])).toMatchObject([{ answer: 9 }]);
        expect((await store.prune(retention, 370 * DAY_MS + 1)).audit).toBe(5);
        expect((await store.listAudit({ limit: 100 })).items.map(({ id }) => id)).toEqual([10, 9, 8, 7, 6]);
        expect(await store.verify()).toMatchObject({ auditEntries: 5, damage: [] });
        expect(await store.compareWithNoted({ ...head, auditId: 4 })).toEqual({
          journal: "contained",
          audit: "forgotten",
        });
        expect((await commitAfter(head, { audit: [auditEntry("next")] })).auditId).toBe(11);
      });

      test("everything can go in steps smaller than all of it", async () => {
        const head = await lead();
        const numbers = Array.from({ length: 1_200 }, (_, index) => index + 1);
        await commitAfter(head, {
          requests: numbers.map((n) => request(n, { endedAtMs: 1 })),
          audit: numbers.map((n) => auditEntry(`a${n}`)),
          idempotency: numbers.map((n) => ({ scope: "s", key: `${n}`, atMs: 1, bodyHash: "h", answer: n })),
        });
        const pruned = await store.prune(retention, 9_999 * DAY_MS);
        expect(pruned).toMatchObject({ requests: 1_200, audit: 1_200, idempotency: 1_200 });
        expect((await store.verify()).damage).toEqual([]);
      });
    });

    test("sizes count what is there", async () => {
      await commitAfter(await lead(), everything());
      expect(await store.sizes()).toEqual({
        bytes: expect.any(Number),
        events: 1,
        firstSeq: 1,
        snapshots: 0,
        requests: 1,
        decisions: 1,
        idempotency: 1,
        audit: 1,
        tokens: 1,
        targets: 1,
        history: 1,
      });
    });

    test("verification reads everything and finds nothing", async () => {
      let head = await commitAfter(await lead(), everything());
      head = await commitAfter(head, { events: [event("b"), event("c")] });
      await store.saveSnapshot(draft({ seq: head.seq }, "state"));
      expect(await store.verify()).toEqual({
        events: 3,
        commits: 2,
        auditEntries: 1,
        snapshots: 1,
        records: 7,
        damage: [],
      });
    });

    test("a head that was noted is found again, and another one is not", async () => {
      const start = await lead();
      const noted = await commitAfter(start, {
        events: [event("a"), event("b")],
        audit: [auditEntry("ann")],
      });
      const head = await commitAfter(noted, { events: [event("c")], audit: [auditEntry("bob")] });
      for (const known of [start, noted, head]) {
        expect(await store.compareWithNoted(known)).toEqual({ journal: "contained", audit: "contained" });
      }
      expect(await store.compareWithNoted({ ...noted, hash: head.hash })).toMatchObject({
        journal: "changed",
      });
      expect(await store.compareWithNoted({ ...noted, seq: 1 })).toMatchObject({ journal: "changed" }); // Within a commit.
      expect(await store.compareWithNoted({ ...head, auditId: 3 })).toEqual({
        journal: "contained",
        audit: "changed", // It was cut.
      });
    });

    if (!subject.isDurable) return;

    describe("damage", () => {
      /** Three commits of two events and an audit entry each, a snapshot, and one record of each kind. */
      async function someHistory(): Promise<void> {
        let head = await commitAfter(await lead(), everything());
        for (let count = 0; count < 3; count++) {
          head = await commitAfter(head, { events: [event("x"), event("y")], audit: [auditEntry("ann")] });
        }
        await store.saveSnapshot(draft({ seq: 5 }, "some ", "state"));
      }

      const damages: Record<string, { sql: string; where: string; isInJournal?: boolean }> = {
        "an event that was changed": {
          sql: "update journal set events = replace(events, '\"x\"', '\"z\"') where last_seq = 5",
          where: "journal, events 4 to 5",
          isInJournal: true,
        },
        "an epoch that was changed": {
          sql: "update journal set epoch = 9 where last_seq = 3",
          where: "journal, events 2 to 3",
          isInJournal: true,
        },
        "a time that was changed": {
          sql: "update journal set at_ms = at_ms + 1 where last_seq = 3",
          where: "journal, events 2 to 3",
          isInJournal: true,
        },
        "a commit that is missing": {
          sql: "delete from journal where last_seq = 3",
          where: "journal, events 4 to 5",
          isInJournal: true,
        },
        "a last commit that is missing": {
          sql: "delete from journal where last_seq = 7",
          where: "journal, after event 5",
          isInJournal: true,
        },
        "an attachment that was changed": {
          sql: "update attachments set part = 'walk' where part = 'run'",
          where: "attachments",
        },
        "an audit entry that was changed": {
          sql: "update audit set outcome = 'allowed' where id = 2",
          where: "audit, entry 2",
        },
        "an audit entry that is missing": { sql: "delete from audit where id = 2", where: "audit, entry 3" },
        "a last audit entry that is missing": {
          sql: "delete from audit where id = 4",
          where: "audit, after entry 3",
        },
        "a snapshot that was changed": {
          sql: "update snapshots set state_hash = 'x'",
          where: "snapshot, after event 5",
        },
        "a request that was changed": { sql: "update requests set status = 'failed'", where: "requests" },
        "a decision that was changed": { sql: "update decisions set seq = 99", where: "decisions" },
        "an answer that was changed": { sql: "update idempotency set body_hash = 'x'", where: "idempotency" },
        "history that was changed": { sql: "update history set at_ms = 5", where: "history" },
        "a target that was changed": { sql: "update targets set name = 'x'", where: "targets" },
        "a token that was changed": { sql: "update tokens set role = 'admin'", where: "tokens" },
      };

      for (const [what, { sql, where, isInJournal }] of Object.entries(damages)) {
        test(`${what} is found, and named`, async () => {
          await someHistory();
          await harness.tamper(sql);
          const { damage } = await store.verify();
          expect(damage.map((found) => found.where)).toEqual([where]);
          const reading = store.readEvents(1, 100);
          if (isInJournal) await expectCode(reading, "corrupt");
          else expect(await reading).toHaveLength(7);
        });
      }

      const headDamages = ["hash = 'x'", "last_seq = 6", "at_ms = 0", "audit_id = 9", "commit_id = 'x'"];
      test.each(headDamages)("a head that was changed is not trusted: %s", async (change) => {
        await someHistory();
        await harness.tamper(`update head set ${change}`);
        await expectCode(store.head(), "corrupt");
        await expectCode(store.verify(), "corrupt");
      });

      test("a changed record is not handed out", async () => {
        await someHistory();
        await harness.tamper("update requests set status = 'failed'");
        await harness.tamper("update tokens set role = 'admin'");
        await expectCode(store.getRequest("id-1"), "corrupt");
        await expectCode(store.listTokens(), "corrupt");
      });

      test("a damaged snapshot gives way to the one before it", async () => {
        await someHistory();
        await store.saveSnapshot(draft({ seq: 6 }, "later ", "state"));
        await harness.tamper("update snapshots set checksum = 'x' where seq = 6");
        expect(await store.latestSnapshot()).toMatchObject({ seq: 5 });
        await harness.tamper("delete from snapshot_pieces where seq = 5 and piece = 2");
        expect(await store.latestSnapshot()).toBeUndefined(); // The whole journal is still there.
      });
    });

    describe("opened again", () => {
      test("a durable store has everything it had, and the next leader goes on", async () => {
        const { meta } = store;
        const head = await commitAfter(await lead(), everything());
        await store.close();
        store = await harness.open();
        expect(store.meta).toEqual(meta);
        expect(await store.head()).toEqual(head);
        expect(await store.sizes()).toMatchObject({
          events: 1,
          requests: 1,
          decisions: 1,
          idempotency: 1,
          audit: 1,
          tokens: 1,
          targets: 1,
        });
        const next = await lead();
        expect(next.epoch).toBe(head.epoch + 1);
        expect((await commitAfter(next, { events: [event("b")] })).seq).toBe(2);
        expect((await store.verify()).damage).toEqual([]);
      });

      test("a store of a newer version is refused, and left as it is", async () => {
        const version = store.meta.schemaVersion;
        await harness.tamper("update meta set value = '99' where key = 'schema_version'");
        await harness.tamper("update meta set value = '98' where key = 'usable_by'");
        await store.close();
        await expectCode(harness.open(), "newer_version");
        await harness.tamper(`update meta set value = '${version}' where key = 'schema_version'`);
        store = await harness.open();
      });

      test("a store that took another identity is refused", async () => {
        await harness.tamper("update meta set value = 'other' where key = 'cluster_id'");
        await store.close();
        await expectCode(harness.open(), "corrupt");
        await harness.tamper(`update meta set value = '${store.meta.clusterId}' where key = 'cluster_id'`);
        store = await harness.open();
      });
    });
  });
}

export async function expectCode(promise: Promise<unknown>, code: StoreErrorCode): Promise<void> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(isStoreError(error) ? error.code : error).toBe(code);
}

export const event = (name: string) => ({ kind: "somethingHappened", name });

export function auditEntry(actor: string): AuditEntry {
  return {
    actor,
    action: "request.cancel",
    target: "id-1",
    outcome: "denied",
    body: { address: "127.0.0.1" },
  };
}

export function request(number: number, changes: Partial<RequestRecord> = {}): RequestRecord {
  return {
    id: `id-${number}`,
    number,
    status: "queued",
    component: "train",
    pool: null,
    operation: null,
    submittedAtMs: number,
    endedAtMs: null,
    labels: {},
    body: { resources: { gpu: number } },
    ...changes,
  };
}

function attachment(requestId: string, part: string, body: unknown = { part }): Attachment {
  return { requestId, part, body };
}

function decision(requestId: string, seq: number): DecisionRecord {
  return { requestId, seq, atMs: seq * 10, body: { rule: "G2" } };
}

function draft(head: { seq: number; atMs?: number; stateHash?: string }, ...texts: string[]): SnapshotDraft {
  const { seq, atMs = 1, stateHash = "h" } = head;
  const pieces = Readable.from(texts.map((text) => new TextEncoder().encode(text)));
  return { seq, atMs, stateHash: () => stateHash, pieces };
}

async function textOf(snapshot: Snapshot | undefined): Promise<string> {
  let text = "";
  for await (const piece of snapshot?.pieces ?? []) text += new TextDecoder().decode(piece);
  return text;
}

function token(id: string, changes: Partial<TokenRecord> = {}): TokenRecord {
  return {
    id,
    name: `token ${id}`,
    hash: `hash-of-${id}`,
    role: "user",
    components: null,
    pools: null,
    permissions: ["sensitive"],
    createdAtMs: 1,
    expiresAtMs: null,
    revokedAtMs: null,
    ...changes,
  };
}

/** One of each thing that a commit can write. */
function everything(): Partial<Commit> {
  return {
    events: [event("all")],
    audit: [auditEntry("ann")],
    requests: [request(1)],
    decisions: [decision("id-1", 1)],
    attachments: [attachment("id-1", "run")],
    idempotency: [{ scope: "s", key: "k", atMs: 1, bodyHash: "h", answer: null }],
    history: [{ kind: "day", atMs: 0, pool: "p", part: "c", body: { k: [] } }],
    tokens: [token("t-1")],
    targets: [{ name: "slack", body: { seq: 1 } }],
  };
}

/** Nothing of `everything` was written: the store is as it was at `head`. */
async function expectNothingOf(store: Store, head: Head): Promise<void> {
  expect(await store.head()).toEqual(head);
  expect(await store.sizes()).toMatchObject({
    requests: 0,
    decisions: 0,
    idempotency: 0,
    audit: 0,
    tokens: 0,
    targets: 0,
    history: 0,
  });
  expect((await store.listAudit({ limit: 10 })).items).toEqual([]);
  expect(await store.getAttachment("id-1", "run")).toBeUndefined();
  expect((await store.verify()).damage).toEqual([]);
}
