// The judge of the proofs on clusters: a process that is left of a job is found, and not taken for another.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { isAlive } from "../bench/clusters/judge.ts";

test.runIf(process.platform === "linux")(
  "a survivor is known by its request, not by its number alone",
  async () => {
    const child = spawn("sleep", ["600"], { env: { PATH: process.env.PATH, BERTH_REQUEST: "a" } });
    const pid = child.pid as number;
    await expect.poll(() => isAlive({ pid, request: "a" })).toBe(true);
    expect(isAlive({ pid, request: "b" })).toBe(false);
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(isAlive({ pid, request: "a" })).toBe(false);
  },
);
