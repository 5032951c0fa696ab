import { expect, test } from "vitest";
import type { Enclosure } from "./enclosure.ts";
import { type Clock, prepareEnding } from "./ending.ts";

test("without grace everything is killed at once, unannounced", async () => {
  const world = simulate({ diesOf: "SIGKILL" });
  expect(await world.ending.stop(0)).toEqual({ kind: "gone" });
  expect(world.log).toEqual(["0 kill", "dispose"]);
});

test("whoever heeds SIGTERM is not killed", async () => {
  const world = simulate({ diesOf: "SIGTERM" });
  expect(await world.ending.stop(30_000)).toEqual({ kind: "gone" });
  expect(world.log).toEqual(["0 SIGTERM", "0 SIGCONT", "0 thaw", "dispose"]);
});

test("whoever ignores SIGTERM is killed when the grace is over, and not before", async () => {
  const world = simulate({ diesOf: "SIGKILL" });
  expect(await world.ending.stop(30_000)).toEqual({ kind: "gone" });
  expect(world.log).toEqual(["0 SIGTERM", "0 SIGCONT", "0 thaw", "30000 kill", "dispose"]);
});

test("a second, shorter grace counts; a longer one does not, and SIGTERM is sent once", async () => {
  const world = simulate({ diesOf: "SIGKILL" });
  const first = world.ending.stop(30_000);
  const shorter = world.ending.stop(5_000);
  const longer = world.ending.stop(60_000);
  expect(await Promise.all([first, shorter, longer])).toEqual(Array(3).fill({ kind: "gone" }));
  expect(world.log).toEqual(["0 SIGTERM", "0 SIGCONT", "0 thaw", "5000 kill", "dispose"]);
});

test("what cannot be killed is reported as stuck, is tried again, and is gone only when it is gone", async () => {
  const world = simulate({ diesOf: "nothing" });
  let isGone = false;
  void world.ending.gone.then(() => {
    isGone = true;
  });
  expect(await world.ending.stop(0)).toEqual({ kind: "stuck", pids: [42] });
  expect(Math.floor(world.nowMs() / 1_000)).toBe(10);
  expect(isGone).toBe(false);
  expect(world.log.filter((entry) => entry.endsWith("kill")).length).toBeGreaterThan(10);

  world.release();
  await world.ending.gone;
  expect(world.log.at(-1)).toBe("dispose");
  expect(await world.ending.stop(0)).toEqual({ kind: "gone" });
});

test("an enclosure that cannot be read counts as inhabited", async () => {
  const world = simulate({ diesOf: "nothing", isUnreadable: true });
  expect(await world.ending.stop(0)).toEqual({ kind: "stuck", pids: [] });
  world.release();
  await world.ending.gone;
});

test("an empty enclosure is gone as soon as anyone asks", async () => {
  const world = simulate({ diesOf: "SIGTERM" });
  world.release();
  expect(await world.ending.stop(30_000)).toEqual({ kind: "gone" });
  expect(world.nowMs()).toBe(0);
});

/** One process and a clock that jumps to the next turn. */
function simulate({ diesOf, isUnreadable = false }: { diesOf: string; isUnreadable?: boolean }) {
  let nowMs = 0;
  let isAlive = true;
  const log: string[] = [];
  const note = (event: string) => {
    log.push(`${nowMs} ${event}`);
    if (event === diesOf || (event === "kill" && diesOf === "SIGKILL")) isAlive = false;
  };
  const orThrow = <T>(value: T): T => {
    if (isUnreadable && isAlive) throw new Error("EMFILE");
    return value;
  };
  const enclosure: Enclosure = {
    isEmpty: () => orThrow(!isAlive),
    members: () => orThrow([42]),
    signal: note,
    kill: () => note("kill"),
    freeze: () => Promise.resolve(true),
    thaw: () => note("thaw"),
    dispose: () => void log.push("dispose"),
  };
  const clock: Clock = {
    nowMs: () => nowMs,
    // A turn of the real event loop, so that a test can act in between; the time is ours.
    wait: async (ms, wake) => {
      await new Promise((resolve) => setImmediate(resolve));
      if (!wake.aborted) nowMs += ms;
    },
  };
  const ending = prepareEnding(enclosure, 10_000, clock);
  return {
    ending,
    log,
    nowMs: () => nowMs,
    release: () => {
      isAlive = false;
    },
  };
}
