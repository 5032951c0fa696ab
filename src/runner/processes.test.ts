import { spawn } from "node:child_process";
import { expect, test } from "vitest";
import { descendants, identify, isRunning, type ProcessRow, parseStat } from "./processes.ts";

test("a name with blanks and parentheses does not shift the fields", () => {
  const stat = "77 (a) S 1 (b) R 5 6 7 34816 8 4194304 0 0 0 0 0 0 0 0 20 0 1 0 161196 0 0";
  expect(parseStat(stat)).toEqual({
    pid: 77,
    state: "R",
    parentPid: 5,
    groupId: 6,
    sessionId: 7,
    foregroundGroupId: 8,
    startTime: "161196",
  });
});

test("descendants are found at any depth, in any order, without the roots", () => {
  const rows = [row(5, 4), row(4, 2), row(3, 1), row(2, 1), row(9, 8), row(1, 0)];
  const pids = (roots: number[]) => descendants(rows, roots).map(({ pid }) => pid);
  expect(pids([2]).sort()).toEqual([4, 5]);
  expect(pids([1]).sort()).toEqual([2, 3, 4, 5]);
  expect(pids([7])).toEqual([]);
});

test("a process is itself, and nobody else after its end", async () => {
  const own = identify(process.pid);
  expect(own && isRunning(own)).toBe(true);
  expect(own && isRunning({ ...own, bootId: "another boot" })).toBe(false);

  const child = spawn("sleep", ["60"]);
  const identity = identify(child.pid ?? 0);
  expect(identity && isRunning(identity)).toBe(true);
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("exit", resolve));
  expect(identity && isRunning(identity)).toBe(false);
  expect(identify(child.pid ?? 0)).toBeUndefined();
});

function row(pid: number, parentPid: number): ProcessRow {
  return { pid, parentPid, groupId: 0, sessionId: 0, foregroundGroupId: -1, state: "S", startTime: "1" };
}
