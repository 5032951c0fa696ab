// `berth run` against a real server: grants, waiting, exit codes, signals, what the command gets to see.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildBerth, eventually, named, openWorld, startBerth, type World, written } from "./run-support.ts";
import { processesNaming, temporaryDirectory, uniqueSeconds } from "./runner-support.ts";

let berth = "";
let world: World;

beforeAll(async () => {
  [berth, world] = await Promise.all([buildBerth(), openWorld()]);
});
afterAll(() => world.close());

const start = (args: readonly string[], env: Record<string, string> = {}) =>
  startBerth(berth, world, ["run", ...args], { env });

describe("the exit code", () => {
  const cases: Record<string, { args: string[]; code: number; says?: RegExp }> = {
    "is the command's own": { args: ["--gpu", "1", "--", "sh", "-c", "exit 7"], code: 7 },
    "is 128 and more after a signal": { args: ["--", "sh", "-c", "kill -KILL $$"], code: 137 },
    "is 0 after success, and stdout is the command's": {
      args: ["--gpu", "1", "--", "echo", "hello"],
      code: 0,
      says: /^granted {2}#\d+ · gpu 1 · waited 0 s\n$/,
    },
    "is 2 without a command": { args: ["--gpu", "1"], code: 2, says: /no command to run.*\[usage\]/ },
    "is 2 for memory without a unit": {
      args: ["--memory", "16", "--", "true"],
      code: 2,
      says: /16GiB|16MB[\s\S]*\[invalid_amount\]|no unit/,
    },
    "is 2 for a time without a unit": {
      args: ["--walltime", "10", "--", "true"],
      code: 2,
      says: /Write 10s/,
    },
    "is 2 for a policy of loss that does not exist": {
      args: ["--on-lost", "panic", "--", "true"],
      code: 2,
      says: /suspend, run-on, kill/,
    },
    "is 2 for an unknown option": { args: ["--gpus", "1", "--", "true"], code: 2, says: /--gpu/ },
    "is 69 for what can never be granted": {
      args: ["--gpu", "9", "--", "true"],
      code: 69,
      says: /over_capacity in pool "lab": 9 gpu asked, 2 allowed/,
    },
    "is 69 for a key that no pool has": {
      args: ["-r", "licence=1", "--", "true"],
      code: 69,
      says: /unknown_key/,
    },
    "is 69 for a component without a policy": {
      args: ["--component", "nobody", "--gpu", "1", "--", "true"],
      code: 69,
      says: /no_policy/,
    },
    "is 69 for work that must not be stopped and fits no reserve": {
      args: ["--no-preempt", "--gpu", "1", "--", "true"],
      code: 69,
      says: /over_reserved/,
    },
    "is 126 for what cannot be executed": {
      args: ["--", "/etc/passwd"],
      code: 126,
      says: /cannot be executed/,
    },
    "is 127 for what is not there": { args: ["--", "no-such-command"], code: 127, says: /was not found/ },
  };
  for (const [name, { args, code, says = /^/ }] of Object.entries(cases)) {
    test(name, async () => {
      const run = start(args);
      expect(await run.exited).toEqual({ code, signal: null });
      expect(run.stderr()).toMatch(says);
      expect(run.stdout()).toBe(args.includes("hello") ? "hello\n" : "");
    });
  }

  test("of what cannot be started comes before anything is asked for", async () => {
    for (const [file, code] of [
      ["/etc/passwd", 126],
      ["no-such-command", 127],
    ] as const) {
      const run = start(["--gpu", "1", "--name", "unstartable", "--", file]);
      expect((await run.exited).code).toBe(code);
    }
    const { items } = await world.client.requests.list({ limit: 100 });
    expect(items.filter(({ name }) => name === "unstartable")).toEqual([]);
  });

  test("of what cannot be started any more when it is granted comes with its units given back", async () => {
    const directory = temporaryDirectory();
    const [gate, script] = [join(directory, "gate"), join(directory, "script")];
    writeFileSync(script, "#!/bin/sh\n", { mode: 0o755 });
    const holder = start(["--gpu", "2", "--", "sh", "-c", `until [ -e ${gate} ]; do sleep 0.05; done`]);
    await eventually("both are held", () => holder.stderr().includes("granted"));
    const run = start(["--gpu", "1", "--name", "too late", "--", script]);
    await named(world, "too late", "queued");
    rmSync(script);
    writeFileSync(gate, "");
    expect((await run.exited).code).toBe(127);
    await named(world, "too late", "cancelled"); // Which it is only when its units are free.
    expect((await holder.exited).code).toBe(0);
  });

  test("is 4 with a token that nobody knows", async () => {
    const run = start(["--gpu", "1", "--", "true"], { BERTH_API_TOKEN: "berth_wrong" });
    expect((await run.exited).code).toBe(4);
    expect(run.stderr()).toContain("[unauthenticated]");
  });

  test("is 2 when no server is known", async () => {
    const run = start(["--gpu", "1", "--", "true"], { BERTH_URL: "" });
    expect((await run.exited).code).toBe(2);
    expect(run.stderr()).toContain("berth login");
  });

  test("is 73 after its walltime, and the units are free then", async () => {
    const report = join(temporaryDirectory(), "report.json");
    const run = start([
      "--gpu",
      "2",
      "--name",
      "long",
      "--walltime",
      "1s",
      "--report",
      report,
      "--",
      "sleep",
      "999",
    ]);
    expect((await run.exited).code).toBe(73);
    expect((await named(world, "long")).status).toBe("failed");
    expect(JSON.parse(readFileSync(report, "utf8"))).toMatchObject({
      verdict: "walltime_over",
      exit_code: 73,
      command: { exit_code: 143, signal: "SIGTERM" },
      request: { name: "long", status: "failed", attempts: [{ outcome: "walltime" }] },
    });
    expect((await world.client.pools.get("lab")).usage.gpu ?? 0).toBe(0);
  });

  test("is 71 when somebody cancels it, and 124 when it was not granted in time", async () => {
    const holder = start(["--gpu", "2", "--name", "cancelled", "--", "sleep", "999"]);
    const { id } = await named(world, "cancelled", "allocated");
    const waiter = start(["--gpu", "1", "--wait-timeout", "1s", "--name", "late", "--", "true"]);
    expect((await waiter.exited).code).toBe(124);
    expect((await named(world, "late")).status).toBe("expired");
    await world.client.requests.cancel(id);
    expect((await holder.exited).code).toBe(71);
    expect((await named(world, "cancelled")).status).toBe("cancelled");
  });
});

describe("the command", () => {
  test("gets its environment, and never the API token", async () => {
    const run = start(["--gpu", "1", "--name", "env", "--", "env"], {
      SECRET_OF_MINE: "kept",
      CUDA_VISIBLE_DEVICES: "7",
    });
    expect((await run.exited).code).toBe(0);
    const env = new Map(
      run
        .stdout()
        .split("\n")
        .map((line) => line.split(/=(.*)/s) as [string, string]),
    );
    const request = await named(world, "env");
    expect(Object.fromEntries(env)).toMatchObject({
      BERTH_REQUEST: request.id,
      BERTH_POOL: "lab",
      BERTH_ATTEMPT: "1",
      BERTH_RESUME: "0",
      SECRET_OF_MINE: "kept",
    });
    expect(env.get("BERTH_GRANT")).toMatch(/^\d+\./);
    for (const name of ["BERTH_PREEMPT_FILE", "BERTH_CHECKPOINT_DIR", "BERTH_SOCKET"]) {
      expect(env.get(name)).toMatch(/^\//);
    }
    expect(env.has("BERTH_API_TOKEN")).toBe(false);
    expect(run.stdout()).not.toContain(world.token);
  });

  test("may have options of its own, with and without --", async () => {
    for (const between of [["--"], []]) {
      const run = start(["--gpu", "1", ...between, "sh", "-c", 'echo "$@"', "sh", "--gpu", "--", "-x"]);
      expect((await run.exited).code).toBe(0);
      expect(run.stdout()).toBe("--gpu -- -x\n");
    }
  });

  test("that fails is tried again, as often as it may", async () => {
    const counter = join(temporaryDirectory(), "counter");
    const script = `echo "$BERTH_ATTEMPT" >> ${counter}; [ "$BERTH_ATTEMPT" = 3 ] || exit 5`;
    const run = start(["--gpu", "1", "--retries", "4", "--", "sh", "-c", script]);
    expect((await run.exited).code).toBe(0);
    expect(readFileSync(counter, "utf8")).toBe("1\n2\n3\n");
    const hopeless = start(["--gpu", "1", "--retries", "1", "--", "sh", "-c", "exit 6"]);
    expect((await hopeless.exited).code).toBe(6);
    expect(hopeless.stderr().match(/granted/g)).toHaveLength(2);
  });

  test("takes its background processes with it before its units are free", async () => {
    const seconds = uniqueSeconds();
    const run = start([
      "--gpu",
      "1",
      "--name",
      "litter",
      "--",
      "sh",
      "-c",
      `setsid sleep ${seconds} & (sleep ${seconds} &) ; exit 0`,
    ]);
    expect((await run.exited).code).toBe(0);
    expect(processesNaming(seconds)).toEqual([]);
    expect((await named(world, "litter")).status).toBe("released");
  });
});

describe("Ctrl-C", () => {
  test("cancels a request that waits", async () => {
    const holder = start(["--gpu", "2", "--name", "in the way", "--", "sleep", "999"]);
    await named(world, "in the way", "allocated");
    const waiter = start(["--gpu", "1", "--name", "impatient", "--", "true"]);
    await named(world, "impatient", "queued");
    waiter.kill("SIGINT");
    expect((await waiter.exited).code).toBe(71);
    expect((await named(world, "impatient")).status).toBe("cancelled");
    holder.kill("SIGTERM");
    expect((await holder.exited).code).toBe(143);
    expect((await named(world, "in the way")).status).toBe("failed");
  });

  test("is forwarded to a command that runs, whose own code counts", async () => {
    const file = join(temporaryDirectory(), "ready");
    const script = `trap 'echo caught; exit 9' INT; echo ready > ${file}; while :; do sleep 0.05; done`;
    const run = start(["--gpu", "1", "--retries", "3", "--name", "trapper", "--", "sh", "-c", script]);
    await written(file, "ready");
    run.kill("SIGINT");
    expect((await run.exited).code).toBe(9);
    expect(run.stdout()).toContain("caught\n");
    // Although it might have been tried again: a person who presses Ctrl-C does not want that.
    expect((await named(world, "trapper")).status).toBe("cancelled");
  });
});

test("those who wait are served in turn, and told why and for whom they wait", async () => {
  const gate = join(temporaryDirectory(), "gate");
  const wait = `until [ -e ${gate} ]; do sleep 0.05; done`;
  const first = start(["--gpu", "2", "--name", "first", "--", "sh", "-c", wait]);
  await named(world, "first", "allocated");
  const second = start(["--gpu", "1", "--name", "second", "--", "true"]);
  await eventually("the second says why", () => second.stderr().includes("held by"));
  const third = start(["--gpu", "2", "--name", "third", "--", "true"]);
  await eventually("the third says where it is", () => third.stderr().includes("place 2 in line"));
  expect(second.stderr()).toMatch(
    /waiting {2}#\d+ second · needs gpu 1, free 0 · held by #\d+ first \(you\) · first in line\n/,
  );
  writeFileSync(gate, "");
  expect((await first.exited).code).toBe(0);
  expect((await second.exited).code).toBe(0);
  expect((await third.exited).code).toBe(0);
  expect(second.stderr()).toMatch(/granted {2}#\d+ second · gpu 1 · waited \d+ s\n/);
});
