// The two terminals of the README, with real keyboards. `script` brings the terminals.

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  buildBerth,
  environmentOf,
  eventually,
  named,
  openWorld,
  type World,
  written,
} from "./run-support.ts";
import { readOrEmpty, temporaryDirectory } from "./runner-support.ts";

let berth = "";
let world: World;
beforeAll(async () => {
  [berth, world] = await Promise.all([buildBerth(), openWorld({ data: "memory" })]);
});
afterAll(() => world.close());

/** A terminal of 200 columns in which `berth run` was typed; the words must not need quotes. */
function terminal(words: string, env: Record<string, string> = {}) {
  const command = `stty cols 200; exec '${process.execPath}' '${berth}' run ${words}`;
  const child = spawn("script", ["--quiet", "--return", "--flush", "--command", command, "/dev/null"], {
    stdio: ["pipe", "pipe", "ignore"],
    env: { ...environmentOf(world), SHELL: "/bin/sh", ...env },
  });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => {
    output += chunk;
  });
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  return { type: (keys: string) => child.stdin.write(keys), exited, output: () => output };
}

const CLEAR = "\r\u001b[2K";

test("the second waits in one line that is replaced, then starts", async () => {
  const gate = join(temporaryDirectory(), "gate");
  const first = terminal(`--gpu 2 --name train -- sh -c 'until [ -e ${gate} ]; do sleep 0.05; done'`);
  const { number } = await named(world, "train", "allocated");
  const second = terminal("--gpu 1 -- echo evaluated");
  const waiting = `waiting  #${number + 1} · needs gpu 1, free 0 · held by #${number} train (you) · first in line`;
  await eventually("it says why", () => second.output().includes(waiting));
  writeFileSync(gate, "");
  expect(await first.exited).toBe(0);
  expect(await second.exited).toBe(0);
  expect(first.output()).toMatch(new RegExp(`^granted {2}#${number} train · gpu 2 · waited \\d+ s\r\n$`));
  expect(second.output()).toMatch(/ · first in line/);
  const after = second.output().slice(second.output().lastIndexOf(CLEAR) + CLEAR.length);
  expect(after).toMatch(
    new RegExp(`^granted {2}#${number + 1} · gpu 1 · waited \\d+ s\\r\\nevaluated\\r\\n$`),
  );
  expect(second.output().slice(0, second.output().lastIndexOf(CLEAR))).not.toContain("\n");
});

test("Ctrl-C cancels who waits, and reaches a command that runs exactly once", async () => {
  const log = join(temporaryDirectory(), "log");
  const script = `trap "echo INT >> ${log}" INT; echo ready >> ${log}; until [ -e ${log}.end ]; do sleep 0.05; done; exit 5`;
  const running = terminal(`--gpu 2 --name keyboard -- sh -c '${script}'`);
  await written(log, "ready");
  const waiting = terminal("--gpu 1 --name other -- true");
  await eventually("it waits", () => waiting.output().includes("first in line"));
  waiting.type("\x03");
  expect(await waiting.exited).toBe(71);
  expect((await named(world, "other")).status).toBe("cancelled");

  running.type("\x03");
  await written(log, "INT");
  running.type("\x03");
  await written(log, "INT\nINT");
  writeFileSync(`${log}.end`, "");
  expect(await running.exited).toBe(5);
  expect(readOrEmpty(log)).toBe("ready\nINT\nINT\n");
});
