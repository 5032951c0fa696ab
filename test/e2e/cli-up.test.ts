// `berth up` on a machine with GPUs, which are stand-ins: it is a node, every command and every job has devices of its own, and jobs
// outlive the server.

import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, expect, test } from "vitest";
import { buildBerth } from "./run-support.ts";
import { temporaryDirectory } from "./runner-support.ts";

let berth = "";
beforeAll(async () => {
  berth = await buildBerth();
});

const WAIT_MS_MAX = 120_000;
const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

interface Typed {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A person at a machine whose nvidia-smi shows these GPUs, and who uses them. */
function createPerson(gpus: readonly number[]) {
  const home = temporaryDirectory();
  const bin = join(home, "bin");
  mkdirSync(bin);
  const strangers = join(home, "strangers");
  const rows = gpus.map((index) => `${index}, GPU-${index}, Stand-in`).join("\\n");
  writeFileSync(strangers, "");
  writeFileSync(
    join(bin, "nvidia-smi"),
    `#!/bin/sh\ncase "$*" in\n*query-gpu*) printf '${rows}\\n';;\n*compute-apps*) cat '${strangers}';;\nesac\n`,
  );
  chmodSync(join(bin, "nvidia-smi"), 0o755);
  const env = {
    ...{ PATH: `${bin}:${process.env.PATH}`, HOME: home, USER: "alice" },
    BERTH_LISTEN: "127.0.0.1:0",
  };
  const start = (args: readonly string[]) =>
    spawn(process.execPath, [berth, ...args], { cwd: home, env, stdio: ["ignore", "pipe", "pipe"] });

  const type = (...args: string[]): Promise<Typed> =>
    new Promise((resolve) => {
      const child = start(args);
      let [stdout, stderr] = ["", ""];
      child.stdout.on("data", (data: Buffer) => {
        stdout += data;
      });
      child.stderr.on("data", (data: Buffer) => {
        stderr += data;
      });
      child.once("close", (exitCode) => resolve({ exitCode, stdout, stderr }));
    });

  /** Resolves with what it says when it is ready. */
  const up = (...args: string[]): Promise<{ text: string; stop: () => Promise<void> }> =>
    new Promise((resolve, reject) => {
      const child = start(["up", ...args]);
      const closed = new Promise<void>((settle) => child.once("close", () => settle()));
      const stop = () => stopped(child, closed);
      ends.push(stop);
      let text = "";
      for (const stream of [child.stdout, child.stderr])
        stream.on("data", (data: Buffer) => {
          text += data;
          if (text.includes("Next:")) resolve({ text, stop });
        });
      void closed.then(() => reject(new Error(`berth up ended: ${text}`)));
    });

  const until = async (isSo: (said: Typed) => boolean, ...args: string[]): Promise<Typed> => {
    for (const endMs = performance.now() + WAIT_MS_MAX; ; ) {
      const said = await type(...args);
      if (isSo(said)) return said;
      if (performance.now() > endMs) throw new Error(`In vain: ${JSON.stringify(said)}`);
    }
  };
  return { home, type, up, until, useGpu: (lines: string) => writeFileSync(strangers, lines) };
}

async function stopped(child: ChildProcess, closed: Promise<void>): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
  await closed;
}

const SEEN = ["sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES/$ROCR_VISIBLE_DEVICES/$NVIDIA_VISIBLE_DEVICES"'];

test("N1, N2: the GPUs that were found are given out by the indices that the machine has, gaps and all", {
  timeout: 300_000,
}, async () => {
  const { type, up, until } = createPerson([0, 2, 5]);
  const { text } = await up();
  expect(text).toMatch(/✓ pool +local +gpu 3, mcpu \d+, memory_mb \d+\n {2}GPU 0 +Stand-in\n {2}GPU 2/);
  expect((await type("run", "--gpu", "3", "--", ...SEEN)).stdout).toBe("0,2,5/0,2,5/0,2,5\n");
  // A command that asks for none sees none.
  expect((await type("run", "--cpu", "1", "--", ...SEEN)).stdout).toBe("//void\n");

  // A job that runs keeps its index; the next one has the next.
  const first = await type("submit", "--gpu", "1", "--", "sleep", "600");
  expect(first).toMatchObject({ exitCode: 0, stdout: "#3\n" });
  const waited = await type("submit", "--gpu", "1", "--wait", "--", ...SEEN);
  expect(waited).toMatchObject({ exitCode: 0, stdout: "#4\n" });
  expect((await type("logs", "4")).stdout).toBe("2/2/2\n");
  const node = await type("node", "show", hostname());
  expect(node.stdout).toMatch(/^GPU 5 +Stand-in$/m);
  expect(node.stdout).toMatch(/^running +#3 on GPU 0$/m);
  expect((await type("cancel", "3", "-y")).exitCode).toBe(0);
  await until(({ stdout }) => stdout.includes("canceled") || stdout.includes("cancelled"), "show", "3");
});

test("--capacity pretends, and still gives every job an index of its own; E5: jobs outlive the server", {
  timeout: 300_000,
}, async () => {
  const { type, up, until } = createPerson([]);
  const first = await up("--capacity", "gpu=2");
  expect(first.text).toMatch(/✓ pool +local +gpu 2\n✓ context/);
  const line =
    'echo "first $CUDA_VISIBLE_DEVICES"; while [ ! -e "$BERTH_CHECKPOINT_DIR/go" ]; do sleep 0.1; done';
  const job = `${line}; echo last`;
  expect((await type("submit", "--gpu", "1", "--", "sh", "-c", job)).stdout).toBe("#1\n");
  await until(({ stdout }) => stdout === "first 0\n", "logs", "1");
  expect((await type("run", "--gpu", "1", "--", ...SEEN)).stdout).toBe("1/1/1\n");

  // Another server on the same data finds the job again, and what was pretended.
  await first.stop();
  const second = await up();
  expect(second.text).toMatch(/✓ pool +local +gpu 2\n✓ context/);
  expect((await type("run", "--gpu", "1", "--", ...SEEN)).stdout).toBe("1/1/1\n");
  const shown = await type("job", "show", "1", "-o", "json");
  const { attempt, status } = JSON.parse(shown.stdout) as { attempt: number; status: string };
  expect({ attempt, status }).toEqual({ attempt: 1, status: "allocated" });
  await type("job", "signal", "1", "TERM");
  await until(({ stdout }) => /^status +failed/m.test(stdout), "show", "1");
});

test("processes that Berth did not start are shown by doctor, and their GPU is left alone where the pool says so", {
  timeout: 300_000,
}, async () => {
  const { type, up, useGpu } = createPerson([0, 1]);
  useGpu("GPU-0, 1\n"); // Process 1 is not one of ours.
  const { stop } = await up();
  const doctor = await type("doctor");
  expect(doctor.stdout).toMatch(/· gpu +0 \(Stand-in\): 1 process that Berth did not start/);
  expect((await type("run", "--gpu", "1", "--", ...SEEN)).stdout).toBe("0/0/0\n");

  expect((await type("pool", "update", "local", "--set", "avoid_busy_devices=true")).exitCode).toBe(0);
  await stop(); // The next agent looks at once.
  await up();
  expect((await type("run", "--gpu", "1", "--", ...SEEN)).stdout).toBe("1/1/1\n");
  const node = await type("node", "show", hostname());
  expect(node.stdout).toMatch(/^GPU 0 +Stand-in · 1 process that Berth did not start · kept out of use$/m);
});
