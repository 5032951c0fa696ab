import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { signalAll } from "./enclosure.ts";
import { type ProcessRow, readProcess } from "./processes.ts";

test("a signal reaches the process that was seen, and not another one that has got its pid since", async () => {
  const child = spawn("sleep", ["1000"]);
  const row = readProcess(child.pid ?? -1) as ProcessRow;
  signalAll([{ ...row, startTime: "1" }], "SIGKILL");
  signalAll([row], "SIGTERM");
  expect(await once(child, "exit")).toEqual([null, "SIGTERM"]);
});
