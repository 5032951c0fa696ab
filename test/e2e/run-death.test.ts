// `berth run` dies without a word, with children that fork and leave its session. Nothing survives it, and its
// units come free at once rather than after a lease.

import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildBerth, eventually, named, openWorld, startBerth, type World, written } from "./run-support.ts";
import { escapingFamily, familyOf, sleepersOf, temporaryDirectory, uniqueSeconds } from "./runner-support.ts";

const RUNS = 50;

let berth = "";
let world: World;
beforeAll(async () => {
  [berth, world] = await Promise.all([buildBerth(), openWorld({ gpu: RUNS, data: "memory" })]);
});
afterAll(() => world.close());

describe("kill -9 of the wrapper", () => {
  const turns = Array.from({ length: RUNS }, (_, index) => index);
  test.concurrent.each(turns)(
    "run %i leaves no survivor, and the guardian gives its units back",
    async (turn) => {
      const seconds = uniqueSeconds();
      const name = `family ${turn}`;
      const args = ["run", "--gpu", "1", "--name", name, "--", ...escapingFamily(seconds)];
      const run = startBerth(berth, world, args);
      await familyOf(seconds);
      run.kill("SIGKILL");
      const ended = await named(world, name, "failed");
      expect(sleepersOf(seconds)).toEqual([]);
      expect(ended).toMatchObject({ attempt: 1, attempts: [{ outcome: "failed", cause: "wrapper_killed" }] });
    },
  );
});

test("there is no further attempt, although there might have been: nobody would start it", async () => {
  const file = join(temporaryDirectory(), "ready");
  const script = `echo ready > ${file}; while :; do sleep 0.05; done`;
  const args = ["run", "--gpu", "1", "--retries", "3", "--name", "orphan", "--", "sh", "-c", script];
  const run = startBerth(berth, world, args);
  await written(file, "ready");
  run.kill("SIGKILL");
  expect(await named(world, "orphan", "cancelled")).toMatchObject({ attempt: 1 });
});

test("a wrapper that dies while it waits is forgotten after a lease", async () => {
  const small = await openWorld({
    gpu: 1,
    data: "memory",
    settings: { lease_seconds: 10, renewal_seconds: 0.5 },
  });
  const { client } = small;
  const holder = await client.requests.submit({ component: "urgent", resources: { gpu: 1 } });
  expect(holder.status).toBe("allocated");
  // Meanwhile nothing comes free for it, however long a start takes.
  const renew = () => client.requests.renew(holder.id, { token: holder.token ?? "" });
  const renewing = setInterval(() => void renew().catch(() => undefined), 200);
  const run = startBerth(berth, small, ["run", "--gpu", "1", "--name", "waiter", "--", "true"]);
  await named(small, "waiter", "queued");
  run.kill("SIGKILL");
  await eventually("it has expired", async () => {
    const { items } = await client.requests.list({ status: "expired" });
    return items.some((item) => item.name === "waiter");
  });
  clearInterval(renewing);
  await small.close();
});
