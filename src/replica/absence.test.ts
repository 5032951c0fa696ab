// A commit whose outcome is unknown because the database went away: it is read from the journal, never guessed.

import { expect, test } from "vitest";
import { createFakeClock } from "../../test/simulation/rig.ts";
import type { PoolName } from "../engine/index.ts";
import { openMemoryStore, type Store, StoreError } from "../store/index.ts";
import { startReplica } from "./index.ts";

test("a database that was away is asked what it has before the server leads again (C5, Q4)", async () => {
  const [sound, clock] = [await openMemoryStore(), createFakeClock()];
  let breaks: "after the commit" | "before it" | undefined;
  const store: Store = {
    ...sound,
    async commit(commit) {
      const when = breaks;
      breaks = undefined;
      if (when === "before it") throw new StoreError("unavailable", "The connection broke.");
      const head = await sound.commit(commit);
      if (when === "after the commit") throw new StoreError("unavailable", "The connection broke.");
      return head;
    },
  };
  const fatal: unknown[] = [];
  const replica = await startReplica({
    ...{ store, clock, version: "1", url: () => null, settings: { holder: "a" } },
    onFatal: (error) => fatal.push(error),
  });
  const published: number[] = [];
  replica.onCommit(({ events }) => published.push(...events.map(({ seq }) => seq)));
  const createPool = (name: string) =>
    replica.perform(
      { kind: "createPool", name: name as PoolName, capacity: { gpu: 1 }, settings: {} },
      { actor: "ann", idempotency: { scope: "ann", key: name, bodyHash: "h" } },
    );
  const firstSeq = replica.seq() + 1;

  breaks = "after the commit"; // It was written; only the news of it is lost.
  await expect(createPool("a")).rejects.toMatchObject({ code: "unavailable" });
  await clock.advance(3_000);
  expect(replica.role()).toBe("leader");
  expect(await createPool("a")).toMatchObject({ outcome: "accepted", replayed: true });

  breaks = "before it";
  await expect(createPool("b")).rejects.toMatchObject({ code: "unavailable" });
  await clock.advance(3_000);
  expect(await createPool("b")).toMatchObject({ outcome: "accepted", replayed: false });

  expect(published).toEqual(Array.from({ length: replica.seq() - firstSeq + 1 }, (_, i) => firstSeq + i));
  expect(fatal).toEqual([]);
  await replica.close();
});
