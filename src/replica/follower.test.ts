// What a follower's memory stands at.

import { expect, onTestFinished, test } from "vitest";
import { createFakeClock } from "../../test/simulation/rig.ts";
import type { PoolName } from "../engine/index.ts";
import { createEventStream } from "../leader/index.ts";
import { openMemoryStore } from "../store/index.ts";
import { startFollower } from "./follower.ts";
import { startReplica } from "./index.ts";

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

test("a snapshot beyond the head that was read before it is no reason to fold events twice", async () => {
  const [store, clock] = [await openMemoryStore(), createFakeClock()];
  const leader = await startReplica({
    ...{ store, clock, version: "1", url: () => null, onFatal: () => undefined },
    settings: { holder: "a", snapshotEveryEvents: 1 },
  });
  onTestFinished(() => leader.close());
  const createPool = (name: string) =>
    leader.perform(
      { kind: "createPool", name: name as PoolName, capacity: { gpu: 1 }, settings: {} },
      { actor: "ann" },
    );
  await createPool("p");
  const late = await store.head();
  await createPool("q");
  await clock.advance(60_000);
  expect((await store.latestSnapshot())?.seq).toBeGreaterThan(late.seq);

  const answers = [late]; // The first answer was long on its way.
  const slow = { ...store, head: async () => answers.pop() ?? store.head() };
  const stream = createEventStream(slow, quiet, 0);
  const follower = await startFollower({ store: slow, clock }, stream, async () => undefined);
  expect(follower.recovered.memory.state.seq).toBe(follower.head.seq);
  await createPool("r");
  await follower.catchUp();
  expect(follower.recovered.memory.state.seq).toBe((await store.head()).seq);
});
