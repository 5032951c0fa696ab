// A file of its own for every test; /dev/full is a disk without room.

import { existsSync, mkdtempSync, rmSync, statSync, symlinkSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { keepReserve } from "./reserve.ts";

const BYTES = 3 << 20;
let path: string;
let timeMs: number;
const world = { nowMs: () => timeMs, disk: () => ({ totalBytes: 100 * BYTES, freeBytes: 50 * BYTES }) };

beforeEach(() => {
  const directory = mkdtempSync(join(tmpdir(), "berth-reserve-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  path = join(directory, "reserve");
  timeMs = 0;
});

test("it exists from the start, and only its owner can read it", () => {
  expect(keepReserve(path, BYTES).isHeld()).toBe(true);
  expect(statSync(path).size).toBe(BYTES);
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test("one that was cut short is made anew", () => {
  keepReserve(path, BYTES);
  truncateSync(path, 10);
  expect(keepReserve(path, BYTES).isHeld()).toBe(true);
  expect(statSync(path).size).toBe(BYTES);
});

test("it makes room once, and is taken back after a while", () => {
  const reserve = keepReserve(path, BYTES, world);
  expect([reserve.giveUp(), existsSync(path), reserve.isHeld()]).toEqual([true, false, false]);
  expect(reserve.giveUp()).toBe(false);

  timeMs += 1_000;
  expect([reserve.isHeld(), existsSync(path)]).toEqual([true, true]);
});

test("it is not held while the disk is full, and leaves nothing half made", () => {
  symlinkSync("/dev/full", path);
  const reserve = keepReserve(path, BYTES, world);
  expect([reserve.isHeld(), existsSync(path)]).toEqual([false, false]);
});

test("it is not taken where hardly anything would be left beside it", () => {
  const disk = () => ({ totalBytes: 100 * BYTES, freeBytes: 2 * BYTES - 1 });
  const reserve = keepReserve(path, BYTES, { ...world, disk });
  expect([reserve.isHeld(), existsSync(path)]).toEqual([false, false]);
});

test("of a small disk it takes a quarter", () => {
  const disk = () => ({ totalBytes: 2 * BYTES, freeBytes: 2 * BYTES });
  expect(keepReserve(path, BYTES, { ...world, disk }).isHeld()).toBe(true);
  expect(statSync(path).size).toBe(BYTES / 2);
});
