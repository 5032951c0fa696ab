import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { createRoom } from "./room.ts";

test("calls enter in their order, as many as there is room for", async () => {
  const room = createRoom({ bytesMax: 100, waitingBytesMax: 1_000 });
  const entered: number[] = [];
  const leaves: (() => void)[] = [];
  for (const [call, bytes] of [60, 40, 10, 90].entries()) {
    void room.enter(bytes).then((leave) => {
      entered.push(call);
      leaves[call] = leave;
    });
  }
  await setImmediate();
  expect(entered).toEqual([0, 1]);
  leaves[0]?.();
  await setImmediate();
  expect(entered).toEqual([0, 1, 2]); // The last one stands behind it, and does not fit.
  leaves[1]?.();
  await setImmediate();
  expect(entered).toEqual([0, 1, 2, 3]);
});

test("a call that is larger than all the room enters alone", async () => {
  const room = createRoom({ bytesMax: 100, waitingBytesMax: 1_000 });
  const leave = await room.enter(1);
  let hasEntered = false;
  void room.enter(500).then(() => {
    hasEntered = true;
  });
  await setImmediate();
  expect(hasEntered).toBe(false);
  leave();
  await setImmediate();
  expect(hasEntered).toBe(true);
});

test("where too much waits, a call is refused", async () => {
  const room = createRoom({ bytesMax: 100, waitingBytesMax: 150 });
  await room.enter(100);
  void room.enter(100);
  await expect(room.enter(100)).rejects.toThrow("Too many bulk calls wait already.");
  void room.enter(50);
});
