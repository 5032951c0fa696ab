import { expect, test } from "vitest";
import { createFakeClock, settle } from "../../test/simulation/rig.ts";
import type { Store } from "../store/index.ts";
import { createLeaseKeeper } from "./keeper.ts";

const TIMES = { renewEveryMs: 400, sureMs: 1_000, freshMs: 5_000 };
const log = { info: () => undefined, warn: () => undefined, error: () => undefined };

type Answer = "renewed" | "taken" | "failed" | "silent";

/** A keeper whose store answers as the test says. */
function keep() {
  const clock = createFakeClock();
  const lost: string[] = [];
  let renewed = 0;
  let answer: Answer = "renewed";
  const store = {
    async renewLease() {
      if (answer === "silent") return new Promise<boolean>(() => undefined);
      if (answer === "failed") throw new Error("no way to the database");
      return answer === "renewed";
    },
  } as unknown as Store;
  const keeper = createLeaseKeeper(
    { store, clock, log },
    { epoch: 1, times: TIMES, onRenewed: () => renewed++, onLost: (why) => lost.push(why) },
  );
  return {
    ...{ keeper, clock, lost },
    renewals: () => renewed,
    answerWith: (next: Answer) => {
      answer = next;
    },
  };
}

test("the lease is renewed every 0.4 s, and kept", async () => {
  const { keeper, clock, lost, renewals } = keep();
  await settle();
  await clock.advance(4_000);
  expect(renewals()).toBe(11);
  expect([keeper.isSure, lost]).toEqual([true, []]);
});

test("a renewal that fails is tried again; after 1 s answers wait, after 5 s the lease is lost", async () => {
  const { keeper, clock, lost, answerWith } = keep();
  await clock.advance(100);
  answerWith("failed");
  await clock.advance(850);
  expect(keeper.isSure).toBe(true);
  await clock.advance(100);
  expect([keeper.isSure, lost]).toEqual([false, []]);
  await clock.advance(4_500);
  expect(lost).toEqual(["the lease could not be renewed in time"]);
});

test("who waits to be sure goes on with the next renewal", async () => {
  const { keeper, clock, lost, answerWith } = keep();
  await clock.advance(100);
  answerWith("failed");
  await clock.advance(2_000);
  let outcome: boolean | undefined;
  void keeper.sure().then((isSure) => {
    outcome = isSure;
  });
  await clock.advance(300);
  expect(outcome).toBeUndefined();
  answerWith("renewed");
  await clock.advance(400);
  expect([outcome, keeper.isSure, lost]).toEqual([true, true, []]);
});

test("a caller that waits to be sure gets an answer when the lease is lost", async () => {
  const { keeper, clock, lost, answerWith } = keep();
  await clock.advance(100);
  answerWith("failed");
  await clock.advance(2_000);
  const sure = keeper.sure();
  await clock.advance(4_000);
  expect([await sure, lost.length]).toEqual([false, 1]);
});

test("another server has taken over: lost at once, and only once", async () => {
  const { keeper, clock, lost, answerWith } = keep();
  await clock.advance(100);
  answerWith("taken");
  await clock.advance(400);
  expect([keeper.isSure, lost]).toEqual([false, ["another server has taken over"]]);
  await clock.advance(20_000);
  expect(lost).toHaveLength(1);
});

test("a database that says nothing at all: the same, though no renewal ever fails", async () => {
  const { clock, lost, answerWith } = keep();
  await clock.advance(100);
  answerWith("silent");
  await clock.advance(6_000);
  expect(lost).toEqual(["the lease could not be renewed in time"]);
});

test("a process that was frozen knows at once, when it thaws, that others may lead", async () => {
  const { keeper, clock, lost } = keep();
  await clock.advance(1_000);
  expect(keeper.isSure).toBe(true);
  clock.freeze(6_000);
  // Before any timer has fired.
  expect(keeper.isSure).toBe(false);
  await clock.advance(1);
  expect(lost).toHaveLength(1);
});

test("an answer that was under way while the process was frozen does not count from its arrival", async () => {
  const clock = createFakeClock();
  let arrive: (isOurs: boolean) => void = () => undefined;
  const store = {
    renewLease: () => new Promise<boolean>((resolve) => (arrive = resolve)),
  } as unknown as Store;
  const ignore = () => undefined;
  const keeper = createLeaseKeeper(
    { store, clock, log },
    { epoch: 1, times: TIMES, onRenewed: ignore, onLost: ignore },
  );
  clock.freeze(3_000);
  arrive(true); // Sent 3 s ago: another server may have taken over since.
  await settle();
  expect(keeper.isSure).toBe(false);
  keeper.stop();
});
